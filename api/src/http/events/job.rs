//! The history of a job.

use annals_engine::JobHandle;
use annals_engine::job::Job;
use annals_engine::runtime::{JobError, Logged};
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use futures_util::{StreamExt, stream};

use super::{Range, STREAMED, last_number, page_of};
use crate::dto;
use crate::http::extract::{JobPath, Running};
use crate::http::problem::Problem;
use crate::http::query::Asked;
use crate::http::shared::{Key, View};
use crate::http::sse::{self, Frames, LastEventId, Wanted};
use crate::http::state::AppState;

/// The events of a job: a page of them, or all as they happen.
///
/// With `Accept: text/event-stream` each event comes as it becomes durable: its `seq` is the `id`
/// of the frame, its type the `event`, and its JSON the `data`. `Last-Event-ID` counts more than
/// `after`. When the job has ended and all was sent, a frame `end` without an id says how
/// (`{"job_id", "status", "seq"}`), and the stream is over. A stream that ends without it was
/// interrupted. Where the job was purged meanwhile, `end` comes at once, with `purged`. A client
/// that comes again with the last event of an ended job is told by 204 that there is nothing more.
#[utoipa::path(get, path = "/jobs/{id}/events", operation_id = "listJobEvents", tag = "events",
    params(
        ("id" = Uuid, Path, description = "The job's id"),
        ("after" = Option<u64>, Query, description = "Only events with a greater seq"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000,
            description = "At most so many in a page; 100 where it is left out"),
        ("Last-Event-ID" = Option<u64>, Header, description = "The seq of the last event of a \
            stream that was interrupted"),
    ),
    responses(
        (status = 200, description = "A page, or a stream", content(
            (dto::EventList = "application/json"), (String = "text/event-stream"))),
        (status = 204, description = "The job has ended, and the client has its last event"),
    ))]
pub(super) async fn events(
    JobPath(job): JobPath,
    Asked(range): Asked<Range>,
    wanted: Wanted,
    engine: Running,
    State(state): State<AppState>,
    uri: Uri,
) -> Result<Response, Problem> {
    let job = engine.job(job);
    match wanted {
        Wanted::Document => page(&job, &range, &uri).await,
        Wanted::Stream(last) => follow(job, &range, &last, &state).await,
    }
}

async fn page(job: &JobHandle, range: &Range, uri: &Uri) -> Result<Response, Problem> {
    let events = job.page(range.after, range.page()).await?;
    // Taken afterwards, so that it knows every task that the events are about.
    let now = job.snapshot().await?.job;
    let upto = events.last().map(|logged| logged.recorded.seq);
    let next_cursor = upto.filter(|upto| *upto < now.seq()).map(|upto| upto.to_string());
    let items = events.iter().map(|logged| shape(&now, logged)).collect();
    let list = dto::EventList { items, damaged: Vec::new(), next_cursor };
    Ok(page_of(list.to_json(), list.next_cursor.as_deref(), uri))
}

fn shape<'a>(job: &'a Job, logged: &'a Logged) -> dto::Event<'a> {
    dto::Event::of(job, &logged.recorded).at(logged.position, logged.hash)
}

async fn follow(
    job: JobHandle,
    range: &Range,
    last: &LastEventId,
    state: &AppState,
) -> Result<Response, Problem> {
    let last = last_number(last)?;
    let after = range.stream(last)?;
    if let Some(last) = last
        && has_all(&job, last).await?
    {
        return Ok(sse::nothing_more());
    }
    let mut follower = Follower { job, state: state.clone(), after, seen: 0, is_over: false };
    let mut first = Frames::default();
    follower.look(&mut first).await?;
    // Where it cannot be read on, the stream is interrupted: the client comes again, and is told
    // why by what the look above finds.
    let more = stream::unfold(follower, |mut follower| async {
        Some((follower.next().await.ok().flatten()?, follower))
    });
    let first = stream::iter((!first.is_empty()).then_some(first));
    Ok(sse::answer(first.chain(more), state.ending()))
}

/// Whether the job has ended, and there is nothing behind its event `last`.
async fn has_all(job: &JobHandle, last: u64) -> Result<bool, JobError> {
    let now = job.snapshot().await?.job;
    Ok(last >= now.seq() && now.status().is_ended())
}

/// Who follows a job.
struct Follower {
    job: JobHandle,
    state: AppState,
    /// Up to and including this one it has the events.
    after: u64,
    /// Up to here it has looked.
    seen: u64,
    is_over: bool,
}

impl Follower {
    /// The next frames; none when the end was sent. That the job was purged meanwhile is an end,
    /// too.
    async fn next(&mut self) -> Result<Option<Frames>, JobError> {
        match self.next_events().await {
            Err(JobError::Purged { job, tombstone }) => {
                let end = dto::JobEnd::of_purged(dto::Tombstone::of(job, &tombstone));
                let mut frames = Frames::default();
                frames.notice("end", &end.to_json());
                self.is_over = true;
                Ok(Some(frames))
            }
            other => other,
        }
    }

    async fn next_events(&mut self) -> Result<Option<Frames>, JobError> {
        let mut frames = Frames::default();
        while frames.is_empty() {
            if self.is_over {
                return Ok(None);
            }
            if self.after >= self.seen {
                // Also where it asked for more than there is: the end may come before that.
                self.job.changed(self.seen).await?;
            }
            self.look(&mut frames).await?;
        }
        Ok(Some(frames))
    }

    async fn look(&mut self, frames: &mut Frames) -> Result<(), JobError> {
        let streams = self.state.streams();
        let _turn = streams.turn().await;
        let page = self.job.page(self.after, STREAMED).await?;
        // Held no longer than it takes: while somebody holds a snapshot, a change copies the job.
        let now = self.job.snapshot().await?.job;
        for logged in &page {
            let seq = logged.recorded.seq;
            let key = Key { job: self.job.id(), seq, view: View::Job };
            let make = || {
                let event = shape(&now, logged);
                sse::event(seq, event.kind, &event.to_json())
            };
            frames.shared(streams.texts.get(key, make));
        }
        self.after = page.last().map_or(self.after, |last| last.recorded.seq);
        self.seen = now.seq();
        if now.status().is_ended() && self.after >= self.seen {
            frames.notice("end", &dto::JobEnd::of(&now).to_json());
            self.is_over = true;
        }
        Ok(())
    }
}
