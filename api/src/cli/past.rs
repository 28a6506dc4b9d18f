//! The past of a job: `annals replay` and `annals diff`.

use std::path::PathBuf;

use annals_engine::runtime::Moment;
use annals_tasks_sdk::{JobId, Timestamp};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Session;
use super::backend::{Backend, Said};
use super::bundle;
use super::error::{CliError, Exit};
use super::events::line;
use super::text::plain;
use super::view::{self, Event};
use crate::json::{self, changes};

/// So many characters of a value are read at a glance.
const VALUE_SHOWN: usize = 100;

#[derive(Debug, Args)]
pub(super) struct ReplayArgs {
    /// The job.
    #[arg(required_unless_present = "bundle", value_name = "JOB")]
    job: Option<String>,
    /// Only events with a greater number.
    #[arg(long, default_value_t = 0, value_name = "SEQ", conflicts_with = "bundle")]
    after: u64,
    /// A file that `annals export` has made.
    #[arg(long, value_name = "FILE", conflicts_with = "job")]
    bundle: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct DiffArgs {
    /// The job.
    job: String,
    /// The number of one of its events, or another job.
    #[arg(value_name = "SEQ|JOB")]
    first: String,
    /// The number of another of its events; it as it is now where that is left out.
    #[arg(value_name = "SEQ")]
    second: Option<u64>,
}

/// When a job is to be shown.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(super) struct WhenArgs {
    /// As it was behind its event of this number.
    #[arg(long, value_name = "SEQ")]
    at: Option<u64>,
    /// As it was at this time (RFC 3339, such as 2026-03-01T12:00:00Z).
    #[arg(long, value_name = "TIME", value_parser = time)]
    at_time: Option<Timestamp>,
}

impl WhenArgs {
    pub(super) fn moment(&self) -> Option<Moment> {
        self.at.map(Moment::Seq).or(self.at_time.map(Moment::Time))
    }
}

fn time(text: &str) -> Result<Timestamp, String> {
    let time: jiff::Timestamp = text.parse().map_err(|error: jiff::Error| error.to_string())?;
    Ok(Timestamp::from_millis(time.as_millisecond()))
}

/// One place at which something else stands.
#[derive(Deserialize, Serialize)]
struct Change {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<Box<RawValue>>,
}

/// What an event has changed.
#[derive(Deserialize)]
struct Changed {
    changes: Vec<Change>,
}

pub(super) async fn replay(args: &ReplayArgs, mut session: Session) -> Result<Exit, CliError> {
    if let Some(file) = &args.bundle {
        return bundle::replay(file, session);
    }
    let backend = Backend::open(&session).await?;
    let job = backend.find(args.job.as_deref().unwrap_or_default()).await?;
    let mut steps = backend.replay(job, args.after).await?;
    while !session.out.is_closed() {
        let Said::Event(json) = steps.next().await? else { break };
        step(json, &mut session)?;
    }
    drop(steps);
    backend.close().await?;
    Ok(Exit::Done)
}

/// Prints one step.
pub(super) fn step(json: String, session: &mut Session) -> Result<(), CliError> {
    if session.json {
        session.out.line(json);
        return Ok(());
    }
    let event: Event = view::parse(&json)?;
    session.out.line(line(&event, &json));
    let Changed { changes } = view::parse(&json)?;
    if event.seq > 1 {
        session.out.lines(changes.iter().map(|change| format!("         {}", told(change))));
    }
    Ok(())
}

pub(super) async fn diff(args: &DiffArgs, mut session: Session) -> Result<Exit, CliError> {
    let backend = Backend::open(&session).await?;
    let job = backend.find(&args.job).await?;
    // No beginning of an id is taken for a number, and a number of an event for a job.
    let changes = match (args.first.parse::<u64>(), args.second) {
        (Ok(first), second) => {
            let before = backend.snapshot(job, Some(Moment::Seq(first))).await?;
            let after = backend.snapshot(job, second.map(Moment::Seq)).await?;
            between(&before, &after)?
        }
        (Err(_), None) => {
            let other = backend.find(&args.first).await?;
            let (one, other) = (state(&backend, job).await?, state(&backend, other).await?);
            let mut all = between(&one, &other)?;
            // Two jobs never have these in common.
            all.retain(|change| !is_their_own(&change.path));
            all
        }
        (Err(_), Some(_)) => {
            let message = format!(
                "{:?} is no number of an event: give two of those, or two jobs",
                args.first
            );
            return Err(CliError::usage(message));
        }
    };
    if session.json {
        session.out.line(serde_json::to_string(&changes).unwrap_or_default());
    } else if changes.is_empty() {
        session.out.line("no difference");
    } else {
        session.out.lines(changes.iter().map(told));
    }
    backend.close().await?;
    Ok(Exit::Done)
}

async fn state(backend: &Backend, job: JobId) -> Result<String, CliError> {
    backend.snapshot(job, None).await
}

/// The differences of two snapshots.
fn between(before: &str, after: &str) -> Result<Vec<Change>, CliError> {
    let unreadable = |error: serde_json::Error| CliError::unreachable(error.to_string());
    let raw = |text: Option<String>| text.map(RawValue::from_string).transpose();
    let made = |change: json::Change| {
        Ok(Change { path: change.path, from: raw(change.from)?, to: raw(change.to)? })
    };
    let all = changes(before, after).map_err(unreadable)?.into_iter();
    all.map(made).collect::<Result<_, _>>().map_err(unreadable)
}

/// Whether something of a job is no other job's: its id, and when things happened.
fn is_their_own(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let is_time = ["created_at", "started_at", "finished_at", "deadline_at"].contains(&name);
    let is_of_job = path.matches('/').count() == 1;
    (is_of_job && (name == "id" || is_time)) || (path.starts_with("/tasks/") && is_time)
}

fn told(change: &Change) -> String {
    let path = plain(change.path.trim_start_matches('/')).into_owned();
    let path = if path.is_empty() { "all".to_owned() } else { path };
    match (&change.from, &change.to) {
        (None, Some(to)) => format!("{path}: {}", short(to)),
        (Some(from), None) => format!("{path}: {} is gone", short(from)),
        (Some(from), Some(to)) => format!("{path}: {} -> {}", short(from), short(to)),
        (None, None) => path,
    }
}

/// A value, as far as it is read at a glance; words without their quotes.
fn short(value: &RawValue) -> String {
    let text = value.get();
    let bare = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    let is_word = |text: &&str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.:".contains(&b))
    };
    let text = plain(bare.filter(is_word).unwrap_or(text)).into_owned();
    match text.char_indices().nth(VALUE_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(from: Option<&str>, to: Option<&str>) -> String {
        let raw = |text: Option<&str>| text.map(|text| RawValue::from_string(text.into()).unwrap());
        told(&Change { path: "/tasks/a/status".into(), from: raw(from), to: raw(to) })
    }

    #[test]
    fn changes_are_told_in_one_line() {
        let both = change(Some(r#""pending""#), Some(r#""running""#));
        assert_eq!(both, "tasks/a/status: pending -> running");
        assert_eq!(change(None, Some(r#""two words""#)), r#"tasks/a/status: "two words""#);
        assert_eq!(change(Some("[1]"), None), "tasks/a/status: [1] is gone");
        let long = change(None, Some(&format!("{:?}", "ä".repeat(200))));
        assert_eq!(long.chars().count(), "tasks/a/status: ".len() + VALUE_SHOWN + 1);
    }

    #[test]
    fn two_jobs_are_not_told_apart_by_their_ids_and_times() {
        for own in ["/id", "/created_at", "/tasks/a/attempts/1/started_at"] {
            assert!(is_their_own(own), "{own}");
        }
        for other in ["/status", "/input/id", "/tasks/id/status", "/output/created_at", "/seq"] {
            assert!(!is_their_own(other), "{other}");
        }
    }
}
