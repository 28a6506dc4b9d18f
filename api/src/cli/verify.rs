//! `annals verify`: the audit of a store.

use std::path::PathBuf;

use annals_engine::log::{self, EventLog, LogError, Options, RedbLog, Verified};
use annals_tasks_sdk::JobId;
use clap::Args;
use serde::{Deserialize, Serialize};

use super::Session;
use super::backend::Backend;
use super::bundle;
use super::error::{CliError, Exit};
use super::text::plain;
use super::view;

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

#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    /// One job alone, also on a server; else the whole store, which no server may hold.
    pub(super) job: Option<String>,
    /// A file that `annals export` has made.
    #[arg(long, value_name = "FILE", conflicts_with = "job")]
    pub(super) bundle: Option<PathBuf>,
}

/// Only the log is opened: an audit neither recovers jobs nor appends to them.
pub(super) async fn verify(args: &VerifyArgs, mut session: Session) -> Result<Exit, CliError> {
    if let Some(file) = &args.bundle {
        return bundle::verify(file, session);
    }
    if let Some(job) = &args.job {
        return verify_job(job, session).await;
    }
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

/// What the audit of a job found.
#[derive(Deserialize)]
struct OfJob {
    job_id: JobId,
    sound: bool,
    events: u64,
    #[serde(default)]
    unknown_events: u64,
    values: u64,
    head_seq: u64,
    head_hash: String,
    #[serde(default)]
    damage: Vec<Fault>,
}

#[derive(Deserialize)]
struct Fault {
    from: Option<u64>,
    detail: String,
}

async fn verify_job(job: &str, mut session: Session) -> Result<Exit, CliError> {
    let backend = Backend::open(&session).await?;
    let json = backend.verify(job).await?;
    let found: OfJob = view::parse(&json)?;
    if session.json {
        session.out.line(json);
    } else {
        session.out.lines(found.lines().iter().map(|line| plain(line)));
    }
    backend.close().await?;
    Ok(if found.sound { Exit::Done } else { Exit::Failed })
}

impl OfJob {
    fn lines(&self) -> Vec<String> {
        let told = |fault: &Fault| match fault.from {
            Some(position) => format!("position {position}: {}", fault.detail),
            None => fault.detail.clone(),
        };
        let mut lines: Vec<String> = self.damage.iter().map(told).collect();
        let Self { job_id, events, values, head_seq, head_hash, .. } = self;
        lines.push(if self.sound {
            format!(
                "sound: job {job_id}, {events} events, {values} values; the hash of event \
                 {head_seq} is {head_hash}"
            )
        } else {
            format!("DAMAGED: job {job_id}")
        });
        if self.unknown_events > 0 {
            let count = self.unknown_events;
            lines
                .push(format!("{count} events were written by a newer build, which can read them"));
        }
        lines
    }
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
