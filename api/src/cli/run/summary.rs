//! The first and the last words about a run.

use annals_engine::job::{Job, JobStatus, Task};
use annals_engine::log::JobRow;

use super::Run;
use crate::cli::error::Exit;
use crate::cli::show::output;
use crate::cli::text::{brief, command, duration, job_status, plain, tasks};

/// What a new job begins with.
pub(super) fn begins(job: &Job) -> String {
    format!("job {}: {}, {}", job.id(), plain(&job.header().name), tasks(job.total_tasks()))
}

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
    let go_on = command(&format!("run --job {}", other.job), &run.session.data);
    format!(
        "job {} of this file is {} and has another input; `{go_on}` goes on with it",
        other.job, other.status
    )
}

/// How a run ended, and what to do.
pub(super) fn ends(job: &Job, exit: Exit, run: &Run) -> Vec<String> {
    let counts = job.counts();
    let took = job.started().map(|started| job.time().since(started)).map(duration);
    let took = took.map_or_else(String::new, |took| format!(" in {took}"));
    let skipped =
        if counts.skipped > 0 { format!(", {} skipped", counts.skipped) } else { String::new() };
    let mut lines = vec![format!(
        "{}: {} of {}{skipped}{took}",
        job_status(job.status()),
        counts.completed,
        tasks(job.total_tasks())
    )];
    if matches!(job.status(), JobStatus::Failed | JobStatus::Paused) {
        lines.extend(failure(job, run));
    }
    if exit != Exit::Done {
        lines.push(format!("  go on:  {}", again(job, run)));
    }
    if let Some(text) = output(job) {
        lines.push("output:".into());
        lines.extend(text.lines().map(|line| format!("  {}", plain(line))));
    }
    lines
}

fn failure(job: &Job, run: &Run) -> Vec<String> {
    let Some((error, number)) = job.error() else { return Vec::new() };
    let point = brief(&error.message);
    let code = plain(&error.code);
    let Some(task) = number.and_then(|number| job.task(number)) else {
        return vec![format!("  error:  {point} [{code}]")];
    };
    let id = &task.spec.id;
    let mut lines = vec![format!("  error:  task {id}: {point} [{code}]")];
    if has_log(task) {
        let words = format!("logs {} {id}", job.id());
        lines.push(format!("  log:    {}", command(&words, &run.session.data)));
    }
    lines
}

fn has_log(task: &Task) -> bool {
    let last = task.attempts().last();
    last.is_some_and(|last| last.end.as_deref().map_or(last.log, |end| end.log).bytes > 0)
}

/// What to type to go on.
fn again(job: &Job, run: &Run) -> String {
    // Without what was set on the command line the file alone would name another job, and a
    // cancelled job is gone on with by name only.
    let words = match &run.again {
        Some(file) if job.status() != JobStatus::Cancelled => format!("run {file}"),
        _ => format!("run --job {}", job.id()),
    };
    command(&words, &run.session.data)
}
