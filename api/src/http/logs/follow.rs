//! A log as it is written.

use std::io;
use std::time::Duration;

use annals_engine::job::{AttemptOutcome, TaskStatus};
use annals_engine::runtime::{JobError, Snapshot};
use annals_engine::steplog::{Entry, Filter, Follower, LogName, Part, StepLogs};
use annals_engine::{Engine, JobHandle};
use annals_tasks_sdk::{JobId, TaskId};
use axum::response::Response;
use futures_util::future::BoxFuture;
use futures_util::stream;
use tokio::task::spawn_blocking;

use super::{Subject, Wish, not_run, unreadable};
use crate::dto::{self, LogPlace};
use crate::http::jobs::find;
use crate::http::problem::{Code, Problem};
use crate::http::query::bad_query;
use crate::http::sse::{self, Frames, LastEventId};
use crate::http::state::AppState;
use crate::loss;

/// How much is sent at a time.
const BATCH: usize = 64 << 10;
/// What is written within this time comes together: one who follows a busy log looks at it so
/// often, not at every byte.
const GATHERING: Duration = Duration::from_millis(20);

pub(super) async fn answer(
    engine: Engine,
    job: JobId,
    task: TaskId,
    mut wish: Wish,
    last: &LastEventId,
    state: &AppState,
) -> Result<Response, Problem> {
    let place = last.read("an attempt and a place, as in 2.4096", LogPlace::read)?;
    if let Some(LogPlace { attempt, after }) = place {
        if wish.attempt.is_some_and(|wanted| wanted != attempt) {
            return Err(bad_query(format!(
                "`attempt` asks for another one than Last-Event-ID, which is of {attempt}"
            )));
        }
        wish = Wish { attempt: Some(attempt), after, tail: None, ..wish };
    }
    let job = engine.job(job);
    let snapshot = job.snapshot().await?;
    let outlook = Outlook::of(&snapshot, &task, wish.attempt)?;
    if let (Outlook::Never, Ok((_, state))) = (&outlook, find(&snapshot, &task))
        && (state.items().is_some() || loss::copied_from(&snapshot.job, state).is_some())
    {
        return Err(not_run(&snapshot, &task)?);
    }
    let watch = Watch::new(job, task, snapshot.job.seq());
    drop(snapshot);
    let logs = engine.step_logs().clone();
    if let Outlook::Attempt(subject) = &outlook
        && place.is_some()
        && subject.is_over()
        && has_all(logs.clone(), subject.clone(), wish).await?
    {
        return Ok(sse::nothing_more());
    }
    let (follower, damage) = (None, None);
    let reading = Reading { logs, wish, watch, outlook, follower, damage, is_over: false };
    let frames = stream::unfold(reading, |mut reading| async {
        Some((reading.next().await.ok().flatten()?, reading))
    });
    Ok(sse::answer(frames, state.ending()))
}

/// Whether there is nothing behind where the client is.
async fn has_all(logs: StepLogs, subject: Subject, wish: Wish) -> Result<bool, Problem> {
    let extent = spawn_blocking(move || {
        logs.extent(subject.name, wish.stream).map_err(|error| unreadable(&subject, &error))
    });
    let extent =
        extent.await.map_err(|_| Problem::new(Code::INTERNAL, "it could not be read"))??;
    Ok(extent.after <= wish.after)
}

/// What there is to follow.
enum Outlook {
    /// The log of an attempt.
    Attempt(Subject),
    /// Nothing yet: the task has not begun.
    Later,
    /// Nothing, as the job stands: it will go on without the task, or it has ended, or the task
    /// has become instances, each of which has a log.
    Never,
}

impl Outlook {
    fn of(snapshot: &Snapshot, id: &TaskId, attempt: Option<u32>) -> Result<Self, Problem> {
        if let Some(subject) = Subject::find(snapshot, id, attempt)? {
            return Ok(Self::Attempt(subject));
        }
        let (_, task) = find(snapshot, id)?;
        let gone = matches!(task.status(), TaskStatus::Removed | TaskStatus::Skipped);
        // What has become instances has no attempts.
        let never =
            gone || task.is_settled() || task.items().is_some() || snapshot.job.status().is_ended();
        Ok(if never { Self::Never } else { Self::Later })
    }
}

/// Waits for the events of a job.
struct Watch {
    job: JobHandle,
    task: TaskId,
    /// Kept while something else is waited for: to ask anew each time would cost the engine more.
    change: BoxFuture<'static, Result<Snapshot, JobError>>,
}

impl Watch {
    fn new(job: JobHandle, task: TaskId, seq: u64) -> Self {
        let change = change_of(job.clone(), seq);
        Self { job, task, change }
    }

    /// Waits for the next event, and looks at the job behind it. May be dropped and begun again.
    async fn next(&mut self, attempt: Option<u32>) -> io::Result<Outlook> {
        let snapshot = (&mut self.change).await.map_err(io::Error::other)?;
        self.change = change_of(self.job.clone(), snapshot.job.seq());
        let outlook = Outlook::of(&snapshot, &self.task, attempt);
        outlook.map_err(|problem| io::Error::other(problem.detail().to_owned()))
    }
}

fn change_of(job: JobHandle, seq: u64) -> BoxFuture<'static, Result<Snapshot, JobError>> {
    Box::pin(async move {
        job.changed(seq).await?;
        job.snapshot().await
    })
}

/// Who follows a log.
struct Reading {
    logs: StepLogs,
    wish: Wish,
    watch: Watch,
    outlook: Outlook,
    follower: Option<Follower>,
    /// Why it could not be read on.
    damage: Option<io::Error>,
    is_over: bool,
}

impl Reading {
    /// The next frames; none when the end was sent. That the job was purged meanwhile is an end,
    /// too.
    async fn next(&mut self) -> io::Result<Option<Frames>> {
        let error = match self.next_entries().await {
            Err(error) => error,
            other => return other,
        };
        match error.get_ref().and_then(|error| error.downcast_ref()) {
            Some(JobError::Purged { job, tombstone }) => {
                let purged = Some(dto::Tombstone::of(*job, tombstone));
                Ok(Some(self.end(&dto::LogEnd { purged, ..dto::LogEnd::default() })))
            }
            _ => Err(error),
        }
    }

    async fn next_entries(&mut self) -> io::Result<Option<Frames>> {
        while !self.is_over {
            let subject = match &self.outlook {
                Outlook::Attempt(subject) => subject.clone(),
                Outlook::Later => {
                    self.outlook = self.watch.next(None).await?;
                    continue;
                }
                Outlook::Never => return Ok(Some(self.end(&dto::LogEnd::default()))),
            };
            if self.damage.is_none() {
                let frames = self.read(subject.name).await?;
                if !frames.is_empty() {
                    return Ok(Some(frames));
                }
            }
            if self.damage.is_some() || subject.is_over() {
                let end = self.end_of(&subject);
                return Ok(Some(self.end(&end)));
            }
            self.wait_for_more(&subject).await?;
        }
        Ok(None)
    }

    fn end(&mut self, end: &dto::LogEnd<'_>) -> Frames {
        self.is_over = true;
        let mut frames = Frames::default();
        frames.notice("end", &end.to_json());
        frames
    }

    async fn wait_for_more(&mut self, subject: &Subject) -> io::Result<()> {
        let Some(follower) = &self.follower else { return Ok(()) };
        tokio::select! {
            () = follower.growth() => tokio::time::sleep(GATHERING).await,
            outlook = self.watch.next(Some(subject.name.attempt)) => self.outlook = outlook?,
        }
        Ok(())
    }

    /// Reads on where blocking is allowed.
    async fn read(&mut self, name: LogName) -> io::Result<Frames> {
        let logs = self.logs.clone();
        let filter = Filter { stream: self.wish.stream, after: self.wish.after };
        let follower = self.follower.take().unwrap_or_else(|| logs.follow(name, filter));
        let tail = self.wish.tail.take();
        let read = spawn_blocking(move || {
            let (mut batch, mut follower) = (Batch::default(), follower);
            let begun = match tail {
                Some(lines) => batch.last(&logs, name, filter, lines).map(|at| follower = at),
                None => Ok(()),
            };
            batch.damage = begun.and_then(|()| batch.fill(&mut follower)).err();
            (follower, batch)
        });
        let (follower, Batch { frames, damage }) = read.await.map_err(io::Error::other)?;
        (self.follower, self.damage) = (Some(follower), damage);
        Ok(frames)
    }

    fn end_of(&self, subject: &Subject) -> dto::LogEnd<'static> {
        let total = self.follower.as_ref().map_or(0, Follower::total);
        dto::LogEnd {
            attempt: Some(subject.name.attempt),
            outcome: subject.outcome.map(AttemptOutcome::as_str),
            missing_bytes: Some(subject.missing(total)).filter(|bytes| *bytes > 0),
            damage: self.damage.as_ref().map(ToString::to_string),
            purged: None,
        }
    }
}

/// Some frames of a log.
#[derive(Default)]
struct Batch {
    frames: Frames,
    /// Why it could not be read on.
    damage: Option<io::Error>,
}

impl Batch {
    /// Takes the last lines, and gives who follows from there.
    fn last(
        &mut self,
        logs: &StepLogs,
        name: LogName,
        filter: Filter,
        lines: usize,
    ) -> io::Result<Follower> {
        let end = logs.extent(name, filter.stream)?.after;
        let last = logs.tail(name, filter, lines)?;
        for entry in &last {
            self.push(name.attempt, entry);
        }
        let after = last.last().map_or(filter.after.max(end), |entry| entry.after);
        Ok(logs.follow(name, Filter { after, ..filter }))
    }

    /// Takes what there is, up to a limit.
    fn fill(&mut self, follower: &mut Follower) -> io::Result<()> {
        let attempt = follower.name().attempt;
        while self.frames.len() < BATCH {
            match follower.read() {
                Ok(Some(entry)) => self.push(attempt, &entry),
                Ok(None) => break,
                // Only what is still being written is written too fast.
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn push(&mut self, attempt: u32, entry: &Entry) {
        let name = if matches!(entry.part, Part::Gap { .. }) { "gap" } else { "line" };
        let place = LogPlace { attempt, after: entry.after };
        self.frames.event(place, name, &dto::LogEntry::of(entry).to_json());
    }
}
