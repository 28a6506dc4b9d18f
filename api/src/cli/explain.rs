//! Why a job does not move, in a store that no engine runs on.

use std::path::Path;

use annals_engine::job::{Intent, Job, JobStatus, TaskStatus, Waiting};
use annals_tasks_sdk::KindName;

use super::text::{brief, command, due, foreign};

/// Sentences that say why the job does not move and what makes it move. It does not where this
/// program lacks kinds that it needs.
pub(super) fn explain(job: &Job, missing: &[KindName], data: &Path) -> Vec<String> {
    let go_on = |does: &str| match missing {
        [] => format!("`{}` {does}", command(&format!("run --job {}", job.id()), data)),
        kinds => foreign(kinds),
    };
    match (job.status(), job.intent()) {
        (JobStatus::Completed, _) => Vec::new(),
        (JobStatus::Cancelled, _) => {
            vec![format!("it was cancelled; {}", go_on("runs what has not completed"))]
        }
        (JobStatus::Pending, _) => {
            vec![format!("it has not been started; {}", go_on("starts it"))]
        }
        (JobStatus::Failed, _) => vec![failure(job), go_on("runs what has not completed")],
        (JobStatus::Paused, _) => {
            let mut lines = waits(job);
            if let Some((_, number)) = job.error() {
                lines.insert(0, failure(job));
                lines.push(go_on("resumes it"));
                let task = number.and_then(|number| job.task(number));
                let id = task.map_or("", |task| task.spec.id.as_str());
                let skip = command(&format!("skip {} {id}", job.id()), data);
                lines.push(format!("`{skip}` goes on without that task"));
            } else {
                lines.insert(0, "it is held".into());
                lines.push(go_on("resumes it"));
            }
            lines
        }
        (JobStatus::Running, intent) => {
            let mut lines = waits(job);
            if let Some(intent) = intent {
                lines.push(format!("it is on its way to be {}", ended(intent)));
            }
            lines.push(format!("no engine runs on this store now; {}", go_on("goes on")));
            lines
        }
    }
}

fn ended(intent: Intent) -> &'static str {
    match intent {
        Intent::Pause => "paused",
        Intent::Cancel => "cancelled",
        Intent::Fail => "failed",
    }
}

fn failure(job: &Job) -> String {
    let Some((error, number)) = job.error() else { return "it has failed".into() };
    let point = brief(&error.message);
    match number.and_then(|number| job.task(number)) {
        Some(task) => format!("task {} failed: {point} [{}]", task.spec.id, error.code),
        None => format!("it failed: {point} [{}]", error.code),
    }
}

fn waits(job: &Job) -> Vec<String> {
    let cut_off = job
        .live()
        .map(|(_, task)| format!("task {} ran when its engine ended; it runs again", task.spec.id));
    let waiting = job.tasks().filter(|(_, task)| task.status() == TaskStatus::Waiting);
    let line = |task: &annals_engine::job::Task| {
        let (id, kind) = (&task.spec.id, &task.spec.kind);
        match task.waiting()? {
            Waiting::Retry { until } => {
                Some(format!("task {id} waits for its next attempt, at {}", due(until)))
            }
            Waiting::Timer { until } => Some(format!("task {id} waits until {}", due(until))),
            Waiting::Kind => Some(format!("task {id} waits for kind {kind:?}, which is not here")),
            _ => None,
        }
    };
    cut_off.chain(waiting.filter_map(|(_, task)| line(task))).collect()
}
