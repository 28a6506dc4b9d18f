//! Decide: what a command or a report makes happen. A file per family; every arm answers.

mod again;
mod change;
mod conclude;
mod edit;
mod lifecycle;
mod report;
mod signal;
mod submit;

pub(crate) use change::invalid;
pub(super) use edit::{find, place, rejection};
pub(super) use lifecycle::cancel;
pub use submit::submit;

use annals_tasks_sdk::JobId;

use super::command::{Command, Context, Input};
use super::event::{Event, Origin, Recorded};
use super::evolve::Illegal;
use super::rejection::Rejection;
use super::state::Job;
use super::status::{Intent, JobStatus};

/// What a command or a report makes happen to a job; nothing is changed yet.
///
/// An empty list is an acceptance too: what was asked for already holds. A report is never
/// refused.
pub fn decide(job: &Job, input: impl Into<Input>, cx: &Context) -> Result<Vec<Event>, Rejection> {
    match input.into() {
        Input::Command(command) => obey(job, command, cx),
        Input::Report(_) if job.purged().is_some() => Ok(Vec::new()),
        Input::Report(report) => Ok(report::report(job, report, cx)),
    }
}

fn obey(job: &Job, command: Command, cx: &Context) -> Result<Vec<Event>, Rejection> {
    if let Some(tombstone) = job.purged() {
        let again = matches!(command, Command::Purge { .. });
        return if again { Ok(Vec::new()) } else { Err(job.is_purged(tombstone)) };
    }
    match command {
        Command::Execute { paused } => lifecycle::execute(job, paused),
        Command::Pause { mode } => lifecycle::pause(job, mode),
        Command::Resume => lifecycle::resume(job),
        Command::Cancel { mode } => lifecycle::cancel(job, mode),
        Command::Purge { head } => lifecycle::purge(job, head),
        Command::Retry { task } => again::retry(job, &task, cx.now),
        Command::Signal { name, payload } => signal::signal(job, name, payload, cx.key.as_deref()),
        edit => obey_edit(job, edit),
    }
}

/// What an edit makes happen to a fork that has not begun.
pub(super) fn obey_edit(job: &Job, edit: Command) -> Result<Vec<Event>, Rejection> {
    match edit {
        Command::Skip { task, output, cascade } => {
            edit::skip(job, task.as_ref(), output.as_ref(), cascade)
        }
        Command::Remove { task, cascade } => edit::remove(job, &task, cascade),
        Command::Insert { task, place, needed_by } => change::insert(job, task, &place, &needed_by),
        Command::Move { task, place } => change::shift(job, &task, &place),
        Command::Edit { task, patch, reset } => change::edit(job, &task, &patch, reset),
        _ => {
            let message = "a fork can be edited by insert, move, edit, remove and skip".into();
            Err(rejection(job, "not_an_edit", message))
        }
    }
}

/// Why a step could not be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// The command was refused.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The machine contradicts itself.
    #[error(transparent)]
    Illegal(#[from] Illegal),
}

/// Decides, evolves, and then draws the conclusions, such as that the job is over.
///
/// Gives the events in the order in which they were taken in. After an error other than a
/// rejection the job must not be used any more.
pub fn step(
    job: &mut Job,
    input: impl Into<Input>,
    cx: &Context,
) -> Result<Vec<Recorded>, StepError> {
    let mut recorded = Vec::new();
    step_into(job, input, cx, &mut recorded)?;
    Ok(recorded)
}

/// As [`step`], with the events behind others that were taken in before.
pub(crate) fn step_into(
    job: &mut Job,
    input: impl Into<Input>,
    cx: &Context,
    recorded: &mut Vec<Recorded>,
) -> Result<(), StepError> {
    let input = input.into();
    let reported = matches!(input, Input::Report(_));
    let events = decide(job, input, cx)?;
    if recorded.is_empty() {
        // Room for what most steps end with, such as the start of the next task.
        recorded.reserve_exact(events.len() + 1);
    }
    let before = recorded.len();
    for event in events {
        let leads = !reported && recorded.len() == before;
        take_in(job, event, cx.origin.clone(), leads, cx, recorded)?;
    }
    while let Some(event) = conclude::conclude(job, cx.now, cx.instances) {
        // A conclusion that is the direct answer to a command is that command's own.
        let leads = !reported && recorded.len() == before;
        let origin = if leads { cx.origin.clone() } else { Origin::ENGINE };
        take_in(job, event, origin, leads, cx, recorded)?;
    }
    Ok(())
}

/// Begins a job: its first events, and the state that they make.
pub fn begin(id: JobId, events: Vec<Event>, cx: &Context) -> Result<(Job, Vec<Recorded>), Illegal> {
    let mut events = events.into_iter();
    let first = events.next().ok_or_else(|| Illegal {
        job: id,
        seq: 1,
        event: "nothing",
        why: "a history begins with JobSubmitted".into(),
    })?;
    let origin = cx.origin.clone();
    let key = cx.key.clone();
    let first = Recorded { seq: 1, time: cx.now, origin, leads: true, key, event: first };
    let mut job = Job::begin(id, &first)?;
    let mut recorded = vec![first];
    // Of a fork whoever asked says that it is one, and edits it. One reason is enough for all.
    let asker = Origin { reason: None, ..cx.origin.clone() };
    for event in events {
        let of_engine = job.is_copied() || matches!(event, Event::JobStarted);
        let origin = if of_engine { Origin::ENGINE } else { asker.clone() };
        take_in(&mut job, event, origin, false, cx, &mut recorded)?;
    }
    while let Some(event) = conclude::conclude(&job, cx.now, cx.instances) {
        take_in(&mut job, event, Origin::ENGINE, false, cx, &mut recorded)?;
    }
    Ok((job, recorded))
}

fn take_in(
    job: &mut Job,
    event: Event,
    origin: Origin,
    leads: bool,
    cx: &Context,
    recorded: &mut Vec<Recorded>,
) -> Result<(), Illegal> {
    let time = cx.now.max(job.time);
    let key = if leads { cx.key.clone() } else { None };
    let next = Recorded { seq: job.seq + 1, time, origin, leads, key, event };
    job.evolve(&next)?;
    recorded.push(next);
    Ok(())
}

/// Refuses a command because of the job's status.
fn refuse(job: &Job, command: &str, advice: &str) -> Rejection {
    let state = match job.intent {
        Some(Intent::Pause) => "being paused",
        Some(Intent::Cancel) => "being cancelled",
        Some(Intent::Fail) => "failing",
        Some(Intent::Complete) => "completing",
        None => job.status.as_str(),
    };
    Rejection {
        code: "not_in_this_status",
        message: format!("cannot {command} a job that is {state}{advice}"),
        status: job.status,
        allowed: allowed(job),
        dependants: Vec::new(),
        errors: Vec::new(),
    }
}

/// The commands that the job's status would let through now.
fn allowed(job: &Job) -> Vec<&'static str> {
    const EDITS: [&str; 6] = ["skip", "remove", "insert", "move", "edit", "retry"];
    let (words, edits): (&[&str], &[&str]) = match (job.status, job.intent) {
        // Of what is done at the end tasks may be passed over.
        (_, Some(Intent::Cancel | Intent::Fail | Intent::Complete)) if !job.is_over() => {
            (&["cancel"], &EDITS[..1])
        }
        (_, Some(Intent::Cancel | Intent::Fail | Intent::Complete)) => (&["cancel"], &[]),
        // What never ran has nothing to try again.
        (JobStatus::Pending, None) => (&["execute", "pause", "resume", "cancel"], &EDITS[..5]),
        (JobStatus::Running, None) => (&["execute", "pause", "resume", "cancel"], &EDITS),
        (_, Some(Intent::Pause)) | (JobStatus::Paused, None) => {
            (&["pause", "resume", "cancel"], &EDITS)
        }
        (JobStatus::Completed, None) => (&["execute", "purge"], &[]),
        (JobStatus::Failed | JobStatus::Cancelled, None) if job.is_undone() => {
            (&["cancel", "purge"], &[])
        }
        (JobStatus::Failed | JobStatus::Cancelled, None) => {
            (&["execute", "cancel", "purge"], &EDITS)
        }
    };
    let signal: &[&str] = if job.takes_signals() { &["signal"] } else { &[] };
    [words, edits, signal].concat()
}
