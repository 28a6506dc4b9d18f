//! Which skips and removals must be accepted, and which refused and why.

use annals_engine::job::{Command, Recorded, Rejection, TaskStatus};

use crate::oracle::Oracle;
use crate::plans::name;

/// A skip or removal of a named task, as far as it decides whether it must be accepted.
pub(crate) struct Edit {
    task: String,
    removes: bool,
    substituted: bool,
    cascade: bool,
}

impl Edit {
    pub(crate) fn of(command: &Command) -> Option<Self> {
        match command {
            Command::Skip { task: Some(task), output, cascade } => Some(Self {
                task: task.to_string(),
                removes: false,
                substituted: output.is_some(),
                cascade: *cascade,
            }),
            Command::Remove { task, cascade } => Some(Self {
                task: task.to_string(),
                removes: true,
                substituted: false,
                cascade: *cascade,
            }),
            _ => None,
        }
    }

    /// `oracle` is as it was before the command.
    pub(crate) fn check(&self, oracle: &Oracle, answer: &Result<Vec<Recorded>, Rejection>) {
        let code = answer.as_ref().err().map(|refusal| refusal.code);
        let Some(at) = (0..oracle.tasks.len()).find(|&at| oracle.name(at) == self.task) else {
            return assert_eq!(code, Some("no_such_task"));
        };
        if oracle.is_closed_to(oracle.part(at)) {
            return assert_eq!(code, Some("compensated"));
        }
        if oracle.ending.is_some() && oracle.part(at) != oracle.turn() {
            return assert_eq!(code, Some("not_in_this_status"), "the work is over");
        }
        let (known, settled) = (&oracle.tasks[at], oracle.settled());
        if oracle.is_passed_over(at) && (!self.removes || known.status == TaskStatus::Removed) {
            return assert!(matches!(code, None | Some("task_is_settled")), "{code:?}");
        }
        if known.being_skipped && !self.removes {
            return assert!(matches!(code, None | Some("task_is_settled")), "{code:?}");
        }
        if settled[at] {
            return assert_eq!(code, Some("task_is_settled"));
        }
        if self.removes && known.is_engaged() {
            return assert_eq!(code, Some("task_is_live"));
        }
        let takers = takers(oracle, at, &settled);
        if !takers.is_empty() && !self.cascade && !self.substituted {
            assert_eq!(code, Some("output_is_taken"));
            let listed = &answer.as_ref().unwrap_err().dependants;
            let listed: Vec<_> = listed.iter().map(|one| one.task.clone()).collect();
            assert_eq!(listed, takers, "each dependant is listed");
        } else if self.removes {
            let reasons = ["would_be_a_circle", "would_lose_order"];
            assert!(code.is_none_or(|code| reasons.contains(&code)), "{code:?}");
        } else {
            assert_eq!(code, None, "nothing speaks against the skip");
        }
    }
}

/// Who takes an output without a default, as the plan has it; `None` is the plan's own output.
fn takers(oracle: &Oracle, from: usize, settled: &[bool]) -> Vec<Option<String>> {
    let mut takers = Vec::new();
    for &at in oracle.order.iter().filter(|&&at| oracle.is_to_run(at, settled)) {
        let inputs = &oracle.draft.tasks[at].takes;
        takers.extend(inputs.iter().filter(|&&each| each == (from, false)).map(|_| Some(name(at))));
    }
    takers.extend((oracle.draft.output == Some((from, false))).then_some(None));
    takers
}
