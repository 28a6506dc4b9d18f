//! Conditions and the end of a run, as the oracle knows them.

use annals_engine::job::{Event, Intent, JobStatus, Part, TaskStatus};
use annals_tasks_sdk::Payload;
use annals_tasks_sdk::plan::{
    Condition, Decision, JobEnd, OnFailure, Reference, TaskEnd, TaskSpec, Test,
};
use fastrand::Rng;

use crate::dsl::id;
use crate::oracle::Oracle;
use crate::plans::name;

/// What a task looks at to know whether it runs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Looks {
    IsTrue(usize),
    Equals(usize, u8),
    Ended(usize, Vec<TaskEnd>),
    JobEnds(Vec<JobEnd>),
}

const WORK_ENDS: [TaskEnd; 4] =
    [TaskEnd::Completed, TaskEnd::Failed, TaskEnd::Skipped, TaskEnd::Removed];
const ENDS: [TaskEnd; 6] = [
    TaskEnd::Completed,
    TaskEnd::Failed,
    TaskEnd::Skipped,
    TaskEnd::Removed,
    TaskEnd::Pending,
    TaskEnd::Interrupted,
];
const JOB_ENDS: [JobEnd; 3] = [JobEnd::Completed, JobEnd::Failed, JobEnd::Cancelled];

impl Looks {
    /// One that looks at one of these tasks, if there are any; at any of its ends where `at_end`.
    pub(crate) fn any(rng: &mut Rng, tasks: &[usize], at_end: bool) -> Option<Self> {
        let some = |rng: &mut Rng, all: &[TaskEnd]| -> Vec<TaskEnd> {
            let first = all[rng.usize(..all.len())];
            let more = all.iter().copied().filter(|_| rng.bool());
            std::iter::once(first).chain(more).collect()
        };
        if at_end && rng.bool() {
            let first = JOB_ENDS[rng.usize(..3)];
            return Some(Self::JobEnds(vec![first, JOB_ENDS[rng.usize(..3)]]));
        }
        let at = *tasks.get(rng.usize(..tasks.len().max(1)))?;
        Some(match rng.u8(..4) {
            0 => Self::IsTrue(at),
            1 => Self::Equals(at, rng.u8(..3)),
            _ => Self::Ended(at, some(rng, if at_end { &ENDS } else { &WORK_ENDS })),
        })
    }

    pub(crate) fn of(condition: &Condition) -> Self {
        let index = |name: &str| name.strip_prefix('t').unwrap().parse::<usize>().unwrap();
        match condition {
            Condition::Value { reference: Reference::Output { task, .. }, test } => {
                let at = index(task.as_str());
                match test {
                    Test::Equals(value) => Self::Equals(at, value.as_str().parse().unwrap()),
                    _ => Self::IsTrue(at),
                }
            }
            Condition::Task { task, ends } => Self::Ended(index(task.as_str()), ends.to_vec()),
            Condition::Job { ends } => Self::JobEnds(ends.to_vec()),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn condition(&self) -> Condition {
        let value = |at: usize, test| {
            let reference =
                Reference::Output { task: id(&name(at)), pointer: "".into(), default: None };
            Condition::Value { reference, test }
        };
        match self {
            Self::IsTrue(at) => value(*at, Test::IsTrue),
            Self::Equals(at, wanted) => {
                value(*at, Test::Equals(Payload::trusted(&wanted.to_string())))
            }
            Self::Ended(at, ends) => {
                Condition::Task { task: id(&name(*at)), ends: ends.clone().into() }
            }
            Self::JobEnds(ends) => Condition::Job { ends: ends.clone().into() },
        }
    }

    /// The task that it looks at.
    pub(crate) fn at(&self) -> Option<usize> {
        match self {
            Self::IsTrue(at) | Self::Equals(at, _) | Self::Ended(at, _) => Some(*at),
            Self::JobEnds(_) => None,
        }
    }

    pub(crate) fn renamed(&mut self, new: impl Fn(usize) -> usize) {
        if let Self::IsTrue(at) | Self::Equals(at, _) | Self::Ended(at, _) = self {
            *at = new(*at);
        }
    }

    /// Whether a task of the work, or of `finally`, may look so.
    pub(crate) fn may_stand(&self, at_end: bool) -> bool {
        let open = |ends: &[TaskEnd]| ends.iter().any(|end| !WORK_ENDS.contains(end));
        match self {
            Self::JobEnds(_) => at_end,
            Self::Ended(_, ends) => at_end || !open(ends),
            Self::IsTrue(_) | Self::Equals(..) => true,
        }
    }
}

/// The condition of a task as the plan has it.
pub(crate) fn looks_of(spec: &TaskSpec) -> Option<Looks> {
    spec.when.as_deref().map(Looks::of)
}

impl Oracle {
    /// Whether a task whose turn has come runs.
    pub(crate) fn decides(&self, at: usize) -> Decision {
        let output = |at: usize| self.tasks[at].output.as_ref().map(Payload::as_str);
        let passes = match self.sketch(at).looks.as_ref() {
            None => true,
            Some(Looks::IsTrue(from)) => match output(*from) {
                Some("true") => true,
                None | Some("false" | "null") => false,
                Some(_) => return Decision::Bad,
            },
            Some(Looks::Equals(from, wanted)) => output(*from) == Some(&*wanted.to_string()),
            Some(Looks::Ended(from, ends)) => ends.contains(&match self.tasks[*from].status {
                TaskStatus::Completed => TaskEnd::Completed,
                TaskStatus::Failed => TaskEnd::Failed,
                TaskStatus::Skipped => TaskEnd::Skipped,
                TaskStatus::Removed => TaskEnd::Removed,
                TaskStatus::Interrupted => TaskEnd::Interrupted,
                _ => TaskEnd::Pending,
            }),
            Some(Looks::JobEnds(ends)) => self.ending.is_some_and(|end| ends.contains(&end)),
        };
        if passes { Decision::Run } else { Decision::Skip }
    }

    pub(crate) fn is_at_end(&self, at: usize) -> bool {
        self.sketch(at).at_end
    }

    /// Whether tasks of `finally` would run before the end.
    pub(crate) fn has_finally(&self) -> bool {
        let waits = |at: usize| {
            self.is_at_end(at) && !self.is_passed_over(at) && self.tasks[at].is_unsettled_at_end()
        };
        !self.cut && (0..self.tasks.len()).any(waits)
    }

    /// Whether the end has begun, and nothing more is to start before it.
    pub(crate) fn is_over(&self) -> bool {
        self.cut || (self.ending.is_none() && self.is_ending())
    }

    pub(crate) fn begins_to_end(&mut self, end: JobEnd) {
        assert!(self.is_quiet() && self.has_finally());
        assert!(!self.has_children(), "a child has not ended");
        self.is_held_no_more();
        if self.ends_undone() {
            self.may_end_undone(end);
        } else {
            assert!(self.ending.is_none());
            assert!(!self.undoes_before(end), "what is to be undone has had no turn");
            self.may_be_decided(end);
        }
        self.undoes_now = false;
        self.decides_end(end);
    }

    /// Whether this end is the one that has come.
    pub(crate) fn may_be_decided(&self, end: JobEnd) {
        let all_done = (0..self.tasks.len()).all(|at| self.is_at_end(at) || self.settled()[at]);
        match end {
            JobEnd::Completed => assert!(all_done && self.intent.is_none()),
            JobEnd::Cancelled => assert_eq!(self.intent, Some(Intent::Cancel)),
            JobEnd::Failed if self.intent == Some(Intent::Fail) => {}
            JobEnd::Failed => {
                assert!(self.intent.is_none() && !self.can_go_on() && !self.wants_operator());
            }
        }
    }

    pub(crate) fn decides_end(&mut self, end: JobEnd) {
        self.intent = Some(match end {
            JobEnd::Completed => Intent::Complete,
            JobEnd::Cancelled => Intent::Cancel,
            JobEnd::Failed => Intent::Fail,
        });
        (self.status, self.ending) = (JobStatus::Running, Some(end));
        (self.until, self.rest) = (None, None);
        self.interrupts_what_waits();
    }

    /// What an end needs that comes: its decision, or that there is nothing to do before it.
    pub(crate) fn may_end_so(&self, end: JobEnd) {
        if self.ending.is_some() {
            assert_eq!(self.ending, Some(end), "the end that was decided stands");
            assert!(self.cut || !self.can_go_on(), "what is done at the end could still run");
        } else {
            // Who stood in line for its key has nothing to end in order.
            let in_line = self.draft.exclusive && !self.begun && end != JobEnd::Completed;
            assert!(in_line || !self.has_finally(), "what is done at the end has had no turn");
            assert!(!self.undoes_before(end), "what is to be undone has had no turn");
        }
    }

    /// The first failure that fails the job ends it, where the plan says so.
    pub(crate) fn fails_fast(&mut self) {
        let fails = |at: usize| {
            self.tasks[at].status == TaskStatus::Failed
                && self.part(at) == Part::Tasks
                && self.sketch(at).on_failure == OnFailure::Fail
        };
        let open = self.status == JobStatus::Running && self.dispatches();
        if self.draft.fail_fast && self.ending.is_none() && open && (0..self.tasks.len()).any(fails)
        {
            (self.intent, self.until) = (Some(Intent::Fail), None);
            self.stop_all();
        }
    }

    /// What is done at the end is done once for each.
    pub(crate) fn renews_finally(&mut self) {
        for at in 0..self.tasks.len() {
            if !self.is_at_end(at) {
                continue;
            }
            let known = &mut self.tasks[at];
            known.done_at_end = false;
            known.steps.clear();
            let stays = known.status == TaskStatus::Removed
                || (known.status == TaskStatus::Skipped && !known.by_condition);
            if !stays {
                known.closes(TaskStatus::Pending, None);
                known.by_condition = false;
            }
        }
    }

    /// The part of the plan that an event puts a task into.
    pub(crate) fn is_put_at_end(event: &Event) -> bool {
        matches!(event, Event::TaskInserted { part: Part::Finally, .. })
    }
}
