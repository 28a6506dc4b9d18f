//! The first words about a job that goes on, and what to type to go on with it.

use annals_engine::job::{Job, JobStatus};
use annals_engine::log::JobRow;

use super::Run;
use crate::cli::text::{plain, tasks};
use crate::cli::view;

/// What a job that goes on begins with.
pub(super) fn goes_on(job: &Job) -> String {
    let (done, total) = (job.counts().completed, job.total_tasks());
    let (id, name) = (job.id(), plain(&job.header().name));
    let was = match job.status() {
        JobStatus::Completed => {
            return format!("job {id}: {name} is completed; nothing is left to run");
        }
        JobStatus::Pending => "had not started",
        JobStatus::Running => "was running",
        JobStatus::Paused => "was paused",
        JobStatus::Failed => "had failed",
        JobStatus::Cancelled => "was cancelled",
    };
    format!("job {id}: {name} {was}, goes on; {done} of {} completed", tasks(total))
}

/// That another job of the same file stays as it is.
pub(super) fn leaves_alone(other: &JobRow, run: &Run) -> String {
    let go_on = run.session.place.command(&format!("run --job {}", other.job));
    format!(
        "job {} of this file is {} and has another input; `{go_on}` goes on with it",
        other.job, other.status
    )
}

/// What to type to go on.
pub(super) fn again(job: &view::Job, run: &Run) -> String {
    // Without what was set on the command line the file alone would name another job, and a
    // cancelled job is gone on with by name only.
    let words = match &run.again {
        Some(file) if job.status != JobStatus::Cancelled => format!("run {file}"),
        _ => format!("run --job {}", job.id),
    };
    run.session.place.command(&words)
}
