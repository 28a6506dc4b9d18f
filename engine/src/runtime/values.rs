//! Values that attempts have kept beside the log: checkpoints, and the results of steps.

use std::sync::Arc;

use annals_tasks_sdk::{JobId, Payload, TaskError, TaskResult};

use super::act::{answer_or_drop, too_late};
use super::engine::Shared;
use super::executor::Entry;
use super::message::Reply;
use super::turn::Loop;
use crate::job::{Report, Task, TaskNumber, ValueDigest};
use crate::log::{ValueKey, digest};

/// The result of a step that an attempt has recorded.
pub(super) struct StepResult {
    pub(super) task: TaskNumber,
    pub(super) attempt: u32,
    pub(super) name: Box<str>,
    pub(super) value: Payload,
}

impl Loop {
    pub(super) fn on_checkpoint(
        &mut self,
        id: JobId,
        task: TaskNumber,
        attempt: u32,
        value: &Payload,
        reply: Reply<TaskResult<()>>,
    ) {
        let bytes: Arc<[u8]> = value.as_str().as_bytes().into();
        let report = Report::Checkpoint { task, attempt, value: digest(&bytes) };
        if self.report(id, report) == 0 {
            self.counters.late();
            return self.after_events_of(id, answer_or_drop(reply, too_late()));
        }
        if let Some(Entry::Loaded(executor)) = self.entries.get_mut(&id) {
            let key = ValueKey::Checkpoint { task: task.0 };
            executor.values.retain(|(of, _)| *of != key);
            executor.values.push((key, bytes));
        }
        self.after_events_of(id, answer_or_drop(reply, Ok(())));
    }

    pub(super) fn on_step(&mut self, id: JobId, step: StepResult, reply: Reply<TaskResult<()>>) {
        let StepResult { task, attempt, name, value } = step;
        let bytes: Arc<[u8]> = value.as_str().as_bytes().into();
        let value = digest(&bytes);
        let made = self.report(id, Report::Step { task, attempt, name: name.clone(), value });
        let mut answer = too_late();
        if let Some(Entry::Loaded(executor)) = self.entries.get_mut(&id)
            && let Some(at) = executor.job.task(task).filter(|task| runs(task, attempt))
            && let Some(recorded) = at.steps().get(&name)
        {
            // Where it was recorded before, the attempt may not have heard so.
            let same = (recorded.attempt, recorded.value) == (attempt, value);
            answer = if same { Ok(()) } else { Err(recorded_otherwise(at, &name)) };
            if made > 0 {
                executor.values.push((ValueKey::Step { seq: recorded.seq }, bytes));
            }
        }
        if made == 0 {
            self.counters.late();
        }
        self.after_events_of(id, answer_or_drop(reply, answer));
    }
}

fn runs(task: &Task, attempt: u32) -> bool {
    task.live_attempt().is_some_and(|live| live.number == attempt)
}

/// The context of an attempt keeps this from coming here.
fn recorded_otherwise(task: &Task, name: &str) -> TaskError {
    let message = format!("step {name:?} of task {} is recorded with another result", task.spec.id);
    TaskError::new("duplicate_step", message).give_up()
}

impl Shared {
    /// A value that is known to be durable, or why it cannot be had.
    pub(super) async fn read_value(
        &self,
        job: JobId,
        key: ValueKey,
        digest: ValueDigest,
    ) -> Result<Payload, String> {
        let reader = Arc::clone(&self.reader);
        let read = self.workers.blocking(move || reader.value(job, key, &digest)).await;
        let value = read.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        let value = value.ok_or("the log does not have it any more")?;
        let text = std::str::from_utf8(&value).map_err(|error| error.to_string())?;
        Ok(Payload::trusted(text))
    }
}
