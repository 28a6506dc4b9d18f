//! A store that no engine runs on: what is asked of it is recorded, and carried out by the next
//! engine that does.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use annals_engine::job::{Command, Event, Job};
use annals_engine::log::JobRow;
use annals_engine::runtime::{Answer, Logged};
use annals_engine::{Ask, Engine, JobHandle};
use annals_tasks_sdk::{JobId, KindName};
use serde_json::value::RawValue;

use super::{Answered, Page, Settled};
use crate::cli::args::{Asked, ListArgs};
use crate::cli::error::CliError;
use crate::cli::store;
use crate::dto;

/// Events that are read at a time.
const EVENTS_PAGE: usize = 10_000;

/// A store that is held.
pub(in crate::cli) struct Held(Engine);

impl Held {
    pub(super) async fn open(dir: &Path) -> Result<Self, CliError> {
        store::hold(dir).await.map(Self)
    }

    pub(super) async fn find(&self, text: &str) -> Result<JobId, CliError> {
        Ok(store::find(&self.0, text).await?.id())
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.0
    }

    pub(super) async fn snapshot(&self, job: JobId) -> Result<String, CliError> {
        Ok(dto::Job::at(&self.0.job(job).snapshot().await?).to_json())
    }

    pub(super) async fn missing_kinds(&self, job: JobId) -> Result<Vec<KindName>, CliError> {
        Ok(self.0.job(job).missing_kinds().await?)
    }

    /// The jobs that were asked for. The status of a damaged one cannot be known, so it may be any
    /// that was asked for.
    pub(super) async fn list(&self, args: &ListArgs) -> Result<Page, CliError> {
        let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
        let (mut items, mut before) = (Vec::new(), args.cursor);
        let mut last = None;
        loop {
            let rows = self.0.jobs(before, store::PAGE).await?;
            let Some(oldest) = rows.last() else { return Ok(Page { items, next_cursor: None }) };
            before = Some(oldest.job);
            for row in rows {
                let is_damaged = store::is_damaged(&self.0, &row).await?;
                if !is_damaged && !args.status.is_empty() && !args.status.contains(&row.status) {
                    continue;
                }
                if items.len() == limit {
                    return Ok(Page { items, next_cursor: last });
                }
                last = Some(row.job.to_string());
                items.push(raw(item(&row, is_damaged)));
            }
        }
    }

    pub(super) async fn command(
        &self,
        job: JobId,
        command: Command,
        asked: &Asked,
    ) -> Result<Answered, CliError> {
        let ask = Ask {
            origin: store::origin(asked.reason.as_deref()),
            expected_seq: asked.expected_seq,
            dry_run: asked.dry_run,
            ..Ask::default()
        };
        let answer = self.0.job(job).command(command, ask).await?;
        let json = if asked.dry_run {
            dto::DryRun::of(&answer.events, &answer.snapshot).to_json()
        } else {
            dto::Job::at(&answer.snapshot).to_json()
        };
        Ok(Answered { json, is_news: !answer.events.is_empty(), settled: settled(&answer) })
    }

    pub(super) async fn events(&self, job: JobId, after: u64) -> Result<Pages, CliError> {
        let handle = self.0.job(job);
        let job = handle.snapshot().await?.job;
        Ok(Pages { handle, job, after, ready: VecDeque::new() })
    }

    pub(super) async fn close(self) -> Result<(), CliError> {
        Ok(self.0.shutdown().await?)
    }
}

fn item(row: &JobRow, is_damaged: bool) -> String {
    if is_damaged {
        // Nothing else of the row is sure to be true.
        return format!(r#"{{"id":"{}","damaged":true}}"#, row.job);
    }
    dto::Row::of(row).to_json()
}

/// JSON that was just written.
fn raw(json: String) -> Box<RawValue> {
    RawValue::from_string(json).unwrap_or_default()
}

/// Which tasks a skip or a removal has settled.
fn settled(answer: &Answer) -> Settled {
    let job = &answer.snapshot.job;
    let mut settled = Settled::default();
    for recorded in &answer.events {
        let (task, how) = match &recorded.event {
            Event::TaskSkipped { task, .. } => (task, "skipped"),
            Event::TaskRemoved { task } => (task, "removed"),
            _ => continue,
        };
        settled.how = how;
        settled.tasks.extend(job.task(*task).map(|task| task.spec.id.to_string()));
    }
    settled
}

/// The history of a job, read page by page.
pub(in crate::cli) struct Pages {
    handle: JobHandle,
    /// What its tasks are called.
    job: Arc<Job>,
    after: u64,
    ready: VecDeque<Logged>,
}

impl Pages {
    pub(super) async fn next(&mut self) -> Result<Option<String>, CliError> {
        if self.ready.is_empty() {
            self.ready = self.handle.history(self.after, EVENTS_PAGE).await?.into();
        }
        let Some(logged) = self.ready.pop_front() else { return Ok(None) };
        self.after = logged.recorded.seq;
        Ok(Some(event(&self.job, &logged)))
    }
}

/// A logged event as JSON.
pub(in crate::cli) fn event(job: &Job, logged: &Logged) -> String {
    dto::Event::of(job, &logged.recorded).at(logged.position, logged.hash).to_json()
}
