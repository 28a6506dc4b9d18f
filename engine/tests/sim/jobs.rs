//! The jobs of a simulated world: plans of the machine's random walks, with tasks that do
//! something.

use std::time::Duration;

use annals_tasks_sdk::plan::{OnLost, Plan, Policy, PolicyFields, Retry, TaskSpec};
use annals_tasks_sdk::{KindName, Payload};
use fastrand::Rng;

use crate::plans::{Draft, Sketch, Sleeps, draft};
use crate::profile::Profile;
use crate::tasks::{KIND, LATE_KIND};
use crate::told::NAMES;

/// The longest wait of a task that only waits, in milliseconds.
const SLEEP_MAX: u64 = 20_000;

/// A plan, and what the oracle knows of it.
#[derive(Clone)]
pub(crate) struct Made {
    pub(crate) draft: Draft,
    pub(crate) plan: Plan,
}

/// Makes the plan of the next number. A share `late` of its tasks is of a kind that some engines
/// lack; some have children, whose plans are among those that were made before.
pub(crate) fn make(rng: &mut Rng, before: &[Made], late: u8) -> Made {
    let number = before.len();
    let mut draft = draft(rng);
    for sketch in draft.tasks.iter_mut().filter(|sketch| sketch.sleeps.is_some()) {
        sketch.takes.clear();
    }
    let mut plan = draft.plan();
    plan.name = format!("d{number}").into();
    // Some stand in each other's way; the choice leaves the random numbers to the rest.
    plan.exclusive = [Some("host"), None, Some("host"), None, None][number % 5].map(Into::into);
    draft.exclusive = plan.exclusive.is_some();
    let all = plan.tasks.iter_mut().chain(&mut plan.finally);
    for (spec, sketch) in all.zip(&mut draft.tasks) {
        if let Some(undo) = &mut spec.compensate {
            undo.kind = KindName::new(KIND).expect("a valid name");
        }
        if !before.is_empty() && rng.u8(..8) == 0 {
            has_child(spec, sketch, &before[rng.usize(..before.len())]);
            continue;
        }
        if let Some(sleeps) = sketch.sleeps {
            let millis = rng.u64(..SLEEP_MAX);
            let input = match sleeps {
                Sleeps::ForTime => format!(r#"{{"for": "{millis}ms"}}"#),
                // Nobody may come to tell it, and it must end.
                Sleeps::ForSignal => {
                    let name = NAMES[rng.usize(..NAMES.len())];
                    format!(r#"{{"signal": "{name}", "timeout": "{millis}ms"}}"#)
                }
            };
            spec.input = Payload::trusted(&input);
            let fields = PolicyFields { retry: Retry::default(), ..(*spec.policy).clone() };
            spec.policy = Policy::new(fields);
            continue;
        }
        let kind = if Profile::falls(late, rng) { LATE_KIND } else { KIND };
        spec.kind = KindName::new(kind).expect("a valid name");
        let mut fields: PolicyFields = (*spec.policy).clone();
        fields.timeout = (rng.u8(..4) == 0).then(|| Duration::from_millis(rng.u64(1..30_000)));
        let silence = (rng.u8(..4) == 0).then(|| Duration::from_millis(rng.u64(1..10_000)));
        fields.heartbeat_timeout = silence;
        fields.cancel_grace = (rng.u8(..4) == 0).then(|| Duration::from_millis(rng.u64(..5_000)));
        spec.policy = Policy::new(fields);
    }
    Made { draft, plan }
}

/// Nothing is said of its attempts: it makes none.
fn has_child(spec: &mut TaskSpec, sketch: &mut Sketch, child: &Made) {
    spec.kind = KindName::new(TaskSpec::JOB).expect("a valid name");
    spec.input = child.plan.to_json();
    let on_failure = spec.policy.on_failure;
    spec.policy = Policy::new(PolicyFields { on_failure, ..PolicyFields::default() });
    sketch.takes.clear();
    (sketch.sleeps, sketch.max_attempts, sketch.on_lost) = (None, 1, OnLost::Rerun);
}

/// The number of the plan that a job was made of.
pub(crate) fn number_of(name: &str) -> usize {
    name[1..].parse().expect("plans are named by their numbers")
}
