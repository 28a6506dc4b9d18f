//! `annals show`: a job as people read it.

use std::path::Path;

use annals_engine::job::{Attempt, AttemptOutcome, Job, Task, TaskNumber, TaskStatus};

use super::args::JobArgs;
use super::error::{CliError, Exit};
use super::text::{self, date, duration, job_status, plain};
use super::{Session, explain, store};
use crate::dto;
use crate::json::outline;

pub(super) async fn show(args: &JobArgs, mut session: Session) -> Result<Exit, CliError> {
    let (engine, handle, snapshot) = store::look(&session.data, &args.job).await?;
    let job = &snapshot.job;
    if session.json {
        session.out.line(dto::Job::at(&snapshot).to_json());
    } else {
        session.out.lines(header(job));
        session.out.line("");
        for (number, task) in job.tasks() {
            session.out.lines(lines_of(job, number, task, &session.data));
        }
        session.out.line("");
        let missing = handle.missing_kinds().await?;
        session.out.lines(explain::explain(job, &missing, &session.data));
        if let Some(lines) = output(job) {
            session.out.line("output:");
            session.out.lines(lines.lines().map(|line| format!("  {}", plain(line))));
        }
    }
    engine.shutdown().await?;
    Ok(Exit::Done)
}

/// The output of a completed job, laid out.
pub(super) fn output(job: &Job) -> Option<String> {
    let output = job.output().ok().flatten().filter(|output| !output.is_null());
    let completed = job.status() == annals_engine::job::JobStatus::Completed;
    output.filter(|_| completed).map(|output| outline(output.as_str()))
}

fn header(job: &Job) -> Vec<String> {
    let header = job.header();
    let mut lines = Vec::new();
    let mut add = |name: &str, value: String| lines.push(format!("{name:<10}{value}"));
    add("job", job.id().to_string());
    add("name", plain(&header.name).into_owned());
    let intent = job.intent().map_or_else(String::new, |intent| format!(" (to {intent})"));
    add("status", format!("{}{intent}", job_status(job.status())));
    if let Some(source) = &header.source {
        add("file", plain(source).into_owned());
    }
    for (label, value) in &header.labels {
        add("label", format!("{}: {}", plain(label), plain(value)));
    }
    add("created", date(job.created()));
    if let Some(started) = job.started() {
        add("started", date(started));
    }
    if let Some(finished) = job.finished() {
        let took = job.started().map(|started| duration(finished.since(started)));
        let took = took.map_or_else(String::new, |took| format!("  after {took}"));
        add("finished", format!("{}{took}", date(finished)));
    }
    let counts = job.counts();
    let skipped =
        if counts.skipped > 0 { format!(", {} skipped", counts.skipped) } else { String::new() };
    add("tasks", format!("{} of {} completed{skipped}", counts.completed, job.total_tasks()));
    add("seq", format!("{} (revision {})", job.seq(), job.revision()));
    if !header.input.is_null() {
        add("input", plain(&crate::json::compact(header.input.as_str())).into_owned());
    }
    lines
}

fn lines_of(job: &Job, number: TaskNumber, task: &Task, data: &Path) -> Vec<String> {
    let took = task.attempts().last().and_then(|last| Some(last.finished?.since(last.started)));
    let took = took.map(duration).unwrap_or_default();
    let attempts = match task.attempts().len() {
        0 | 1 => String::new(),
        count => format!("  {count} attempts"),
    };
    let title = task.spec.title.as_deref().map(plain).unwrap_or_default();
    let status = text::task_status(task.status());
    let (id, place) = (task.spec.id.as_str(), number.0);
    let mut lines = vec![
        format!("{place:>4}  {id:<22} {status} {took:>7}{attempts}  {title}").trim_end().to_owned(),
    ];
    let failed = |attempt: &&Attempt| attempt.end.is_some();
    let shown = task.attempts().iter().filter(failed);
    lines.extend(shown.flat_map(attempt_lines));
    let logged = task.attempts().iter().any(|attempt| attempt.log.bytes > 0);
    if logged && task.status() == TaskStatus::Failed {
        let words = format!("logs {} {id}", job.id());
        lines.push(format!("        log: {}", text::command(&words, data)));
    }
    lines
}

fn attempt_lines(attempt: &Attempt) -> Vec<String> {
    let Some(end) = attempt.end.as_deref() else { return Vec::new() };
    let outcome = attempt.outcome.map_or("running", AttemptOutcome::as_str);
    let mut message = end.error.message.lines();
    let first = plain(message.next().unwrap_or_default()).into_owned();
    let mut lines = vec![format!("        attempt {}: {outcome}: {first}", attempt.number)];
    lines.extend(message.map(|line| format!("          {}", plain(line))));
    lines
}
