//! Why a job does not move, and what makes it move.

use annals_engine::job::{Intent, JobStatus};
use annals_tasks_sdk::KindName;

use super::place::Place;
use super::text::{brief, due, foreign, plain};
use super::view::{Job, Task, Waiting};

/// Sentences that say why the job does not move and what makes it move. It does not where this
/// program lacks kinds that it needs.
pub(super) fn explain(job: &Job, missing: &[KindName], place: &Place) -> Vec<String> {
    let go_on = |does: &str| match missing {
        [] => format!("`{}` {does}", place.go_on(job.id, job.status)),
        kinds => foreign(kinds),
    };
    match job.status {
        JobStatus::Completed => Vec::new(),
        JobStatus::Cancelled => {
            vec![format!("it was cancelled; {}", go_on("runs what has not completed"))]
        }
        JobStatus::Pending => vec![format!("it has not been started; {}", go_on("starts it"))],
        JobStatus::Failed => vec![failure(job), go_on("runs what has not completed")],
        JobStatus::Paused => {
            let mut lines = waits(job, place);
            if job.error.is_some() {
                lines.insert(0, failure(job));
                lines.push(go_on("resumes it"));
                let id = job.failed_task().map_or("", |task| &task.id);
                let skip = place.command(&format!("skip {} {id}", job.id));
                lines.push(format!("`{skip}` goes on without that task"));
            } else {
                lines.insert(0, "it is held".into());
                lines.push(go_on("resumes it"));
            }
            lines
        }
        JobStatus::Running => {
            let mut lines = waits(job, place);
            if let Some(intent) = job.intent {
                lines.push(format!("it is on its way to be {}", ended(intent)));
            }
            if place.runs_nothing() {
                lines.push(format!("no engine runs on this store now; {}", go_on("goes on")));
            }
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
    let Some(error) = &job.error else { return "it has failed".into() };
    let (point, code) = (brief(&error.message), plain(&error.code));
    match &error.task {
        Some(task) => format!("task {task} failed: {point} [{code}]"),
        None => format!("it failed: {point} [{code}]"),
    }
}

fn waits(job: &Job, place: &Place) -> Vec<String> {
    let cut_off = job.tasks.iter().filter(|task| task.live_attempt().is_some());
    let cut_off = cut_off.filter(|_| place.runs_nothing());
    let cut_off =
        cut_off.map(|task| format!("task {} ran when its engine ended; it runs again", task.id));
    cut_off.chain(job.tasks.iter().filter_map(wait)).collect()
}

fn wait(task: &Task) -> Option<String> {
    let id = &task.id;
    Some(match task.waiting_for.as_ref()? {
        Waiting::Retry(until) => {
            format!("task {id} waits for its next attempt, at {}", due(*until))
        }
        Waiting::Timer(until) => format!("task {id} waits until {}", due(*until)),
        Waiting::Kind(kind) => format!("task {id} waits for kind {kind:?}, which is not here"),
        Waiting::Other => return None,
    })
}
