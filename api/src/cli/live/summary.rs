//! The first and the last words about a job that was followed.

use annals_engine::job::JobStatus;
use annals_tasks_sdk::Timestamp;

use crate::cli::explain::again;
use crate::cli::place::Place;
use crate::cli::show::output;
use crate::cli::text::{brief, duration, job_status, plain, tasks};
use crate::cli::view::Job;

/// What a new job begins with.
pub(in crate::cli) fn begins(job: &Job) -> String {
    format!("job {}: {}, {}", job.id, plain(&job.name), tasks(job.progress.total))
}

/// Where a job stands that is no longer followed. `last` is when it last moved, where that was
/// seen, and `go_on` what to type so that it goes on.
pub(in crate::cli) fn ends(
    job: &Job,
    last: Option<Timestamp>,
    go_on: Option<String>,
    place: &Place,
) -> Vec<String> {
    let counts = job.progress;
    let last = job.finished.or(last);
    let took = job.started.and_then(|started| Some(duration(last?.since(started))));
    let took = took.map_or_else(String::new, |took| format!(" in {took}"));
    let skipped =
        if counts.skipped > 0 { format!(", {} skipped", counts.skipped) } else { String::new() };
    let (status, completed) = (job_status(job.status), counts.completed);
    let mut lines =
        vec![format!("{status}: {completed} of {}{skipped}{took}", tasks(counts.total))];
    if matches!(job.status, JobStatus::Failed | JobStatus::Paused) {
        lines.extend(failure(job, place));
    }
    match again(job, place) {
        Some(command) => lines.push(format!("  undone: {command} makes a new job of it")),
        None => lines.extend(go_on.map(|command| format!("  go on:  {command}"))),
    }
    if let Some(text) = output(job) {
        lines.push("output:".into());
        lines.extend(text.lines().map(|line| format!("  {}", plain(line))));
    }
    lines
}

fn failure(job: &Job, place: &Place) -> Vec<String> {
    let Some(error) = &job.error else { return Vec::new() };
    let (point, code) = (brief(&error.message), plain(&error.code));
    let Some(task) = job.failed_task() else {
        return vec![format!("  error:  {point} [{code}]")];
    };
    let id = &task.id;
    let mut lines = vec![format!("  error:  task {id}: {point} [{code}]")];
    if task.has_log() {
        let command = place.command(&format!("logs {} {id}", job.id));
        lines.push(format!("  log:    {command}"));
    }
    lines
}
