//! What an engine does not take in an edit of a plan, whatever the job would say to it: kinds that
//! it does not have, inputs that its kinds do not take, and what is beyond its limits.

use annals_tasks_sdk::plan::{Limits, PlanError, PlanErrors, TaskSpec};

use super::engine::Shared;
use crate::job::{Command, Job, Rejection, invalid};

impl Shared {
    /// Why a command that edits the plan is refused before the job is asked.
    pub(super) fn refuses(&self, job: &Job, command: &Command) -> Option<Rejection> {
        let limits = &self.settings.limits;
        let (spec, part, kind_is_new, grows) = match command {
            Command::Insert { task, place, .. } => {
                (TaskSpec::clone(task), job.part_at(place), true, true)
            }
            Command::Edit { task, patch, .. } => {
                let old = job.task(job.find(task.as_str())?)?;
                // What cannot be said of the task is for the job to refuse, and of an instance
                // nothing can.
                if old.is_instance() {
                    return None;
                }
                (patch.apply(&old.spec).ok()?, old.part(), patch.says_kind(), false)
            }
            _ => return None,
        };
        let is_there = grows && job.find(spec.id.as_str()).is_some();
        let mut errors = Vec::new();
        if grows && !is_there {
            errors.extend(beyond(job, &spec, limits));
        }
        let checked = part.check(&spec, &job.header().input, limits);
        errors.extend(checked.err().into_iter().flat_map(|e| e.0));
        // A task whose kind is not registered now can be edited all the same.
        let allow_unknown = self.settings.allow_unknown_kinds || !kind_is_new;
        errors.extend(self.registry.check_task(&spec, allow_unknown));
        (!errors.is_empty()).then(|| invalid(job, PlanErrors(errors)))
    }
}

/// Why the plan may not grow by a task.
fn beyond(job: &Job, spec: &TaskSpec, limits: &Limits) -> Option<PlanError> {
    let fault = |detail| Some(PlanError { pointer: String::new(), detail });
    let tasks = job.planned_tasks();
    if tasks >= limits.tasks {
        let limit = limits.tasks;
        return fault(format!("the plan has {tasks} tasks already; the limit `tasks` is {limit}"));
    }
    let inputs = job.tasks().map(|(_, task)| task.spec.input_bytes());
    let bytes = inputs.sum::<usize>() + spec.input_bytes();
    if bytes > limits.plan_bytes {
        let limit = limits.plan_bytes;
        return fault(format!(
            "the inputs of the plan would have {bytes} bytes; the limit `plan_bytes` is {limit}"
        ));
    }
    None
}
