//! `annals verify`: the audit of a store.

use annals_engine::log::{self, EventLog, LogError, Options, RedbLog, Verified};
use serde::Serialize;

use super::Session;
use super::error::{CliError, Exit};
use super::text::plain;

#[derive(Serialize)]
struct Report {
    sound: bool,
    rows: u64,
    events: u64,
    unknown_events: u64,
    jobs: u64,
    purged_jobs: u64,
    values: u64,
    free_positions: u64,
    damage: Vec<String>,
}

/// Only the log is opened: an audit neither recovers jobs nor appends to them.
pub(super) async fn verify(mut session: Session) -> Result<Exit, CliError> {
    let dir = session.place.store()?.to_owned();
    let audit = tokio::task::spawn_blocking(move || {
        let log = RedbLog::open(&dir, &Options { create: false, ..Options::default() })?;
        log::verify(&*log.reader())
    });
    let audit = audit.await.map_err(|error| CliError::unreachable(error.to_string()))?;
    let report = match audit {
        Ok(found) => Report::of(&found),
        // What is so damaged that it cannot be opened is a finding, too.
        Err(error @ LogError::Damaged(_)) => Report::unreadable(&error),
        Err(error) => return Err(error.into()),
    };
    if session.json {
        session.out.line(serde_json::to_string(&report).unwrap_or_default());
    } else {
        session.out.lines(report.lines().iter().map(|line| plain(line)));
    }
    Ok(if report.sound { Exit::Done } else { Exit::Failed })
}

impl Report {
    fn of(found: &Verified) -> Self {
        Self {
            sound: found.damage.is_empty(),
            rows: found.rows,
            events: found.events,
            unknown_events: found.unknown,
            jobs: found.jobs,
            purged_jobs: found.purged,
            values: found.values,
            free_positions: found.free,
            damage: found.damage.iter().map(ToString::to_string).collect(),
        }
    }

    fn unreadable(error: &LogError) -> Self {
        Self { sound: false, damage: vec![error.to_string()], ..Self::of(&Verified::default()) }
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = self.damage.clone();
        let verdict = if self.sound { "sound" } else { "DAMAGED" };
        lines.push(format!(
            "{verdict}: {} jobs, {} events in {} rows, {} values; every hash and chain was checked",
            self.jobs, self.events, self.rows, self.values
        ));
        if self.purged_jobs > 0 {
            lines.push(format!("{} of the jobs were purged", self.purged_jobs));
        }
        if self.unknown_events > 0 {
            let count = self.unknown_events;
            lines
                .push(format!("{count} events were written by a newer build, which can read them"));
        }
        lines
    }
}
