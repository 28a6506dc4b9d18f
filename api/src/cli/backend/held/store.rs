//! A store that no engine runs on: what is asked of it is recorded, and carried out by the next
//! engine that does.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::Arc;

use annals_engine::job::{Command, Event, Job};
use annals_engine::log::PageLimit;
use annals_engine::runtime::{Answer, Fork, ForkError, Forked, Logged, Moment, Replayed, Snapshot};
use annals_engine::{Ask, Builder, Engine, IdempotencyKey, JobHandle, Submission};
use annals_tasks_sdk::plan::Plan;
use annals_tasks_sdk::{JobId, KindName, Payload};
use serde_json::value::RawValue;

use crate::bundle::Export;
use crate::cli::args::Asked;
use crate::cli::backend::verb::Verb;
use crate::cli::backend::{
    Answered, Draft, ForAll, Forking, Listing, Order, Page, Settled, Submitted,
};
use crate::cli::error::{CliError, Exit};
use crate::cli::store;
use crate::dto;
use crate::json::{self, Level};
use crate::list::{self, Cursor, LIMIT_MAX};

/// Events that are read at a time.
const EVENTS_PAGE: usize = 10_000;

/// A store that is held.
pub(in crate::cli) struct Held(Engine);

impl Held {
    pub(in crate::cli::backend) async fn open(store: Builder) -> Result<Self, CliError> {
        Ok(Self(store.start().await?))
    }

    /// Records a job, which starts under the next engine that runs on the store.
    pub(in crate::cli::backend) async fn submit(
        &self,
        order: Order,
    ) -> Result<Submitted, CliError> {
        let body = order.draft.body();
        let key = order.key.map(|key| IdempotencyKey::new("", "/jobs", &key, body.as_bytes()));
        let origin = store::origin(None);
        let submission = match order.draft {
            Draft::Plan { json, source } => {
                let plan = Plan::from_json(&json, self.0.limits())?;
                Submission { source: Some(source.into()), key, ..Submission::new(plan, origin) }
            }
            Draft::Workflow { name, input } => {
                let plan = self.0.plan_of(&name, &input)?;
                Submission { workflow: Some(name.into()), key, ..Submission::new(plan, origin) }
            }
        };
        if order.dry_run {
            return self.would_become(submission);
        }
        let accepted = self.0.accept(submission).await?;
        let json = dto::Job::at(&accepted.snapshot).to_json();
        Ok(Submitted { json, is_known: accepted.replayed })
    }

    /// What a submission would become; it is not submitted.
    fn would_become(&self, submission: Submission) -> Result<Submitted, CliError> {
        // What is wrong with the plan is told with its place.
        self.0.check(&submission.plan)?;
        let (events, snapshot) = crate::http::preview(&self.0, submission)
            .map_err(|problem| CliError::unreachable(problem.detail()))?;
        let json = dto::DryRun::of(&events, &snapshot).to_json();
        Ok(Submitted { json, is_known: false })
    }

    pub(in crate::cli::backend) async fn find(&self, text: &str) -> Result<JobId, CliError> {
        Ok(store::find(&self.0, text).await?.id())
    }

    pub(in crate::cli::backend) fn engine(&self) -> &Engine {
        &self.0
    }

    pub(in crate::cli::backend) async fn snapshot(
        &self,
        job: JobId,
        moment: Option<Moment>,
    ) -> Result<String, CliError> {
        let job = self.0.job(job);
        let snapshot = match moment {
            None => job.snapshot().await?,
            Some(moment) => Snapshot::of(job.at(moment).await?),
        };
        Ok(dto::Job::at(&snapshot).to_json())
    }

    pub(in crate::cli::backend) async fn explain(&self, text: &str) -> Result<String, CliError> {
        let explanation = store::named(&self.0, text).await?.explain().await?;
        Ok(dto::Explanation::of(&explanation).to_json())
    }

    pub(in crate::cli::backend) async fn export(
        &self,
        job: JobId,
        out: &mut impl Write,
    ) -> Result<(), CliError> {
        Ok(Export::of(&self.0, &self.0.job(job)).await?.write(out)?)
    }

    pub(in crate::cli::backend) async fn verify(&self, text: &str) -> Result<String, CliError> {
        let job = store::named(&self.0, text).await?;
        Ok(dto::Audit::of(job.id(), &job.verify().await?).to_json())
    }

    pub(in crate::cli::backend) async fn missing_kinds(
        &self,
        job: JobId,
    ) -> Result<Vec<KindName>, CliError> {
        Ok(self.0.job(job).missing_kinds().await?)
    }

    /// Jobs, the newest first: page by page, until there are as many as were asked for.
    pub(in crate::cli::backend) async fn list(&self, wanted: Listing) -> Result<Page, CliError> {
        let Listing { filter, limit, cursor } = wanted;
        let cursor = cursor.map(|text| Cursor::read(&text, &filter)).transpose();
        let mut from = cursor.map_err(|bad| CliError::usage(bad.to_string()))?;
        let mut items = Vec::new();
        loop {
            let most = LIMIT_MAX.min(limit - items.len());
            let page = list::page(&self.0, &filter, from, most).await?;
            items.extend(page.jobs.iter().map(|found| raw(dto::Listed::of(found).to_json())));
            from = page.next;
            if from.is_none() || items.len() >= limit {
                let next_cursor = from.map(|cursor| cursor.to_text(&filter));
                return Ok(Page { items, next_cursor });
            }
        }
    }

    pub(in crate::cli::backend) async fn command(
        &self,
        job: JobId,
        verb: Verb,
        asked: &Asked,
    ) -> Result<Answered, CliError> {
        let purges = matches!(verb, Verb::Purge);
        let ask = Ask { key: verb.key(job), ..ask(asked) };
        let answer = self.0.job(job).command(verb.into(), ask).await?;
        if purges {
            return purged(job, &answer, asked);
        }
        let json = if asked.dry_run {
            dto::DryRun::of(&answer.events, &answer.snapshot).to_json()
        } else {
            dto::Job::at(&answer.snapshot).to_json()
        };
        Ok(Answered { json, is_news: !answer.events.is_empty(), settled: settled(&answer) })
    }

    /// Records a fork, which starts under the next engine that runs on the store.
    pub(in crate::cli::backend) async fn fork(
        &self,
        job: JobId,
        forking: Forking,
        asked: &Asked,
    ) -> Result<Submitted, CliError> {
        let edits = edits(forking.edits.as_deref())?;
        let bodies: Vec<&str> = edits.iter().map(crate::http::body_of_edit).collect();
        let fork = Fork { edits, ..Fork::new(forking.from) };
        let forked = self.0.job(job).fork(fork, ask(asked)).await;
        let forked = forked.map_err(|error| match error {
            ForkError::Command(error) => error.into(),
            ForkError::Edit { index, rejection } => {
                CliError::from(*rejection).of_edit(index, bodies.get(index).unwrap_or(&""))
            }
            other => CliError::new(Exit::Usage, "too_large", other.to_string()),
        })?;
        let json = match forked {
            Forked::Rehearsed { events, snapshot } => dto::DryRun::of(&events, &snapshot).to_json(),
            Forked::Accepted(accepted) => dto::Job::at(&accepted.snapshot).to_json(),
        };
        Ok(Submitted { json, is_known: false })
    }

    pub(in crate::cli::backend) async fn bulk(
        &self,
        wanted: ForAll<'_>,
    ) -> Result<String, CliError> {
        let ForAll { verb, filter, reason, dry_run } = wanted;
        let origin = store::origin(reason.as_deref());
        let ask = |_| Ask { origin: origin.clone(), dry_run, ..Ask::default() };
        let outcome = crate::bulk::carry_out(&self.0, filter, &verb.into(), ask).await?;
        Ok(dto::Bulk::of(&outcome).to_json())
    }

    pub(in crate::cli::backend) async fn events(
        &self,
        job: JobId,
        after: u64,
    ) -> Result<Pages, CliError> {
        let handle = self.0.job(job);
        let job = handle.snapshot().await?.job;
        Ok(Pages { handle, job, after, ready: VecDeque::new() })
    }

    pub(in crate::cli::backend) async fn replay(
        &self,
        job: JobId,
        after: u64,
    ) -> Result<Steps, CliError> {
        let handle = self.0.job(job);
        handle.snapshot().await?;
        Ok(Steps { handle, after, ready: VecDeque::new() })
    }

    pub(in crate::cli::backend) async fn close(self) -> Result<(), CliError> {
        Ok(self.0.shutdown().await?)
    }
}

/// Who asks, and under which conditions.
fn ask(asked: &Asked) -> Ask {
    Ask {
        origin: store::origin(asked.reason.as_deref()),
        expected_seq: asked.expected_seq,
        dry_run: asked.dry_run,
        ..Ask::default()
    }
}

/// What is left of a job that was purged.
fn purged(job: JobId, answer: &Answer, asked: &Asked) -> Result<Answered, CliError> {
    let left = crate::http::left_of(job, answer)?;
    let json = if asked.dry_run {
        dto::PurgeDryRun::of(job, &answer.events, left).to_json()
    } else {
        dto::Tombstone::of(job, left).to_json()
    };
    Ok(Answered { json, is_news: !answer.events.is_empty(), settled: Settled::default() })
}

/// The edits of a list of them.
fn edits(json: Option<&str>) -> Result<Vec<Command>, CliError> {
    let Some(json) = json else { return Ok(Vec::new()) };
    let payload = Payload::parse(json).map_err(|error| CliError::usage(error.to_string()))?;
    let Ok(Level::Array(edits)) = json::level(payload.as_str()) else {
        return Err(CliError::usage("the file of edits holds no list"));
    };
    let edits: Vec<Payload> = edits.into_iter().map(Payload::trusted).collect();
    crate::http::read_edits(&edits).map_err(CliError::of_edits)
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
    pub(in crate::cli::backend) async fn next(&mut self) -> Result<Option<String>, CliError> {
        if self.ready.is_empty() {
            self.ready = self.handle.history(self.after, EVENTS_PAGE).await?.into();
        }
        let Some(logged) = self.ready.pop_front() else { return Ok(None) };
        self.after = logged.recorded.seq;
        Ok(Some(event(&self.job, &logged)))
    }
}

/// The history of a job, replayed page by page.
pub(in crate::cli) struct Steps {
    handle: JobHandle,
    after: u64,
    /// Events with their numbers.
    ready: VecDeque<(u64, String)>,
}

impl Steps {
    pub(in crate::cli::backend) async fn next(&mut self) -> Result<Option<String>, CliError> {
        if self.ready.is_empty() {
            let limit = PageLimit::events(EVENTS_PAGE);
            let step =
                |step: Replayed<'_>| (step.after.seq(), dto::ReplayedEvent::of(&step).to_json());
            self.ready = self.handle.replay(self.after, limit, step).await?.into();
        }
        let Some((seq, json)) = self.ready.pop_front() else { return Ok(None) };
        self.after = seq;
        Ok(Some(json))
    }
}

/// A logged event as JSON.
pub(in crate::cli) fn event(job: &Job, logged: &Logged) -> String {
    dto::Event::of(job, &logged.recorded).at(logged.position, logged.hash).to_json()
}
