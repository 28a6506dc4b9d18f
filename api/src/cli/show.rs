//! `annals show`: a job as people read it.

use annals_engine::job::{AttemptOutcome, JobStatus, TaskStatus};
use clap::Args;

use super::backend::Backend;
use super::error::{CliError, Exit};
use super::past::WhenArgs;
use super::place::Place;
use super::text::{self, date, duration, job_status, plain};
use super::view::{self, Attempt, Job, Task};
use super::{Session, explain};
use crate::json::{compact, outline};

/// So many names of recorded steps are read at a glance.
const STEPS_SHOWN: usize = 8;

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// The job.
    pub(super) job: String,
    #[command(flatten)]
    pub(super) when: WhenArgs,
}

pub(super) async fn show(args: &ShowArgs, mut session: Session) -> Result<Exit, CliError> {
    let backend = Backend::open(&session).await?;
    let id = backend.find(&args.job).await?;
    let moment = args.when.moment();
    let json = backend.snapshot(id, moment).await?;
    if session.json {
        session.out.line(json);
    } else if moment.is_some() {
        let job: Job = view::parse(&json)?;
        session.out.lines(header(&job));
        session.out.line("");
        session.out.lines(job.tasks.iter().flat_map(|task| lines_of(&job, task, &session.place)));
    } else {
        let job: Job = view::parse(&json)?;
        session.out.lines(header(&job));
        session.out.line("");
        for task in &job.tasks {
            session.out.lines(lines_of(&job, task, &session.place));
        }
        session.out.line("");
        let missing = backend.missing_kinds(id).await?;
        if job.exclusive.is_some() && !job.status.is_ended() {
            let why = backend.explain(&id.to_string()).await?;
            session.out.lines(explain::key(&view::parse(&why)?));
        }
        session.out.lines(explain::explain(&job, &missing, &session.place));
        if let Some(lines) = output(&job) {
            session.out.line("output:");
            session.out.lines(lines.lines().map(|line| format!("  {}", plain(line))));
        }
    }
    backend.close().await?;
    Ok(Exit::Done)
}

/// The output of a completed job, laid out.
pub(super) fn output(job: &Job) -> Option<String> {
    let output = job.output.as_ref().filter(|_| job.status == JobStatus::Completed);
    output.map(|output| outline(output.get()))
}

fn header(job: &Job) -> Vec<String> {
    let mut lines = Vec::new();
    let mut add = |name: &str, value: String| lines.push(format!("{name:<10}{value}"));
    add("job", job.id.to_string());
    add("name", plain(&job.name).into_owned());
    let intent = job.intent.map_or_else(String::new, |intent| format!(" (to {intent})"));
    add("status", format!("{}{intent}", job_status(job.status)));
    if let Some(source) = &job.source {
        add("file", plain(source).into_owned());
    }
    if let Some(key) = &job.exclusive {
        add("exclusive", plain(key).into_owned());
    }
    if let Some(from) = job.forked_from {
        add("fork of", format!("{} (event {})", from.job, from.seq));
    }
    if let Some(parent) = &job.parent {
        add("child of", format!("{} (task {})", parent.job, parent.task));
    }
    for (label, value) in &job.labels {
        add("label", format!("{}: {}", plain(label), plain(value)));
    }
    add("created", date(job.created));
    if let Some(started) = job.started {
        add("started", date(started));
    }
    if let Some(deadline) = job.deadline {
        let passed = if explain::is_overdue(job) {
            "  has passed: the job fails as soon as an engine runs"
        } else {
            ""
        };
        add("deadline", format!("{}{passed}", date(deadline)));
    }
    if let Some(finished) = job.finished {
        let took = job.started.map(|started| duration(finished.since(started)));
        let took = took.map_or_else(String::new, |took| format!("  after {took}"));
        add("finished", format!("{}{took}", date(finished)));
    }
    let counts = job.progress;
    let skipped =
        if counts.skipped > 0 { format!(", {} skipped", counts.skipped) } else { String::new() };
    add("tasks", format!("{} of {} completed{skipped}", counts.completed, counts.total));
    add("seq", format!("{} (revision {})", job.seq, job.revision));
    if let Some(input) = &job.input {
        add("input", plain(&compact(input.get())).into_owned());
    }
    lines
}

fn lines_of(job: &Job, task: &Task, place: &Place) -> Vec<String> {
    let took = task.attempts.last().and_then(|last| Some(last.finished?.since(last.started)));
    let took = took.map(duration).unwrap_or_default();
    let attempts = match task.attempts.len() {
        0 | 1 => String::new(),
        count => format!("  {count} attempts"),
    };
    let title = task.title.as_deref().map(plain).unwrap_or_default();
    let (id, number, status) = (&task.id, task.number, text::task_status(task.status));
    let items = task.items.map_or_else(String::new, |items| format!("  {}", items.told()));
    let line = format!("{number:>4}  {id:<22} {status} {took:>7}{attempts}{items}  {title}");
    let mut lines = vec![line.trim_end().to_owned()];
    lines.extend(task.attempts.iter().flat_map(attempt_lines));
    lines.extend(instances_line(task));
    lines.extend(step_line(task));
    lines.extend(task.child.map(|child| format!("        child job: {child}")));
    let logged = task.attempts.iter().any(|attempt| attempt.log.bytes > 0);
    if logged && task.status == TaskStatus::Failed {
        let words = format!("logs {} {id}", job.id);
        lines.push(format!("        log: {}", place.command(&words)));
    }
    lines
}

/// Why a task has failed that has no attempts: it names instances.
fn instances_line(task: &Task) -> Option<String> {
    let error = task.error.as_ref().filter(|_| task.items.is_some())?;
    Some(format!("        {}", plain(error.message.lines().next().unwrap_or_default())))
}

/// What the next attempt will not do again.
fn step_line(task: &Task) -> Option<String> {
    let names = task.steps.iter().map(|step| step.name.as_str());
    let shown: Vec<&str> = names.take(STEPS_SHOWN).collect();
    let more = task.steps.len() - shown.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!shown.is_empty()).then(|| format!("        recorded steps: {}{more}", shown.join(", ")))
}

/// What became of an attempt that did not succeed.
fn attempt_lines(attempt: &Attempt) -> Vec<String> {
    let Some(message) = &attempt.message else { return Vec::new() };
    let outcome = attempt.outcome.map_or("running", AttemptOutcome::as_str);
    let mut message = message.lines();
    let first = plain(message.next().unwrap_or_default()).into_owned();
    let mut lines = vec![format!("        attempt {}: {outcome}: {first}", attempt.number)];
    lines.extend(message.map(|line| format!("          {}", plain(line))));
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(names: impl Iterator<Item = String>) -> Option<String> {
        let steps: Vec<_> = names.map(|name| json!({"name": name, "attempt": 1})).collect();
        let task = json!({
            "id": "a", "number": 1, "kind": "k", "status": "interrupted", "needs": [],
            "attempts": [], "steps": steps,
        });
        step_line(&view::parse(&task.to_string()).unwrap())
    }

    #[test]
    fn some_of_the_recorded_steps_are_named() {
        let names = |count: usize| (0..count).map(|at| format!("s{at}"));
        assert_eq!(line(names(0)), None);
        assert_eq!(line(names(2)).unwrap(), "        recorded steps: s0, s1");
        let all = line(names(8)).unwrap();
        assert!(all.ends_with(": s0, s1, s2, s3, s4, s5, s6, s7"), "{all}");
        let many = line(names(20)).unwrap();
        assert!(many.ends_with(", s7 and 12 more"), "{many}");
    }
}
