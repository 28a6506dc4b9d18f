//! The whole log.

use std::collections::BTreeMap;

use annals_engine::Engine;
use annals_engine::log::Position;
use annals_engine::runtime::{EngineError, JobError, LogPage};
use annals_tasks_sdk::JobId;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use futures_util::{StreamExt, stream};
use serde::Serialize;
use serde_json::value::RawValue;

use super::{Range, STREAMED, last_number, page_of};
use crate::dto;
use crate::http::extract::Running;
use crate::http::problem::Problem;
use crate::http::query::Asked;
use crate::http::shared::{Key, View};
use crate::http::sse::{self, Frames, Wanted};
use crate::http::state::AppState;

/// The events of all jobs in the order of the log: a page of them, or all as they happen.
///
/// With `Accept: text/event-stream` each event comes as it becomes durable: its `position` is the
/// `id` of the frame, its type the `event`, and its JSON, with `job_id`, the `data`.
/// `Last-Event-ID` counts more than `after`. The stream ends when the server does.
///
/// What is damaged is passed over and told: in `damaged` of the page that goes on behind it, or in
/// a frame `damage` without an id.
#[utoipa::path(get, path = "/events", operation_id = "listEvents", tag = "events",
    params(
        ("after" = Option<u64>, Query, description = "Only events with a greater position"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000,
            description = "At most so many in a page; 100 where it is left out"),
        ("Last-Event-ID" = Option<u64>, Header, description = "The position of the last event of \
            a stream that was interrupted"),
    ),
    responses((status = 200, description = "A page, or a stream", content(
        (dto::EventList = "application/json"), (String = "text/event-stream")))))]
pub(super) async fn events(
    Asked(range): Asked<Range>,
    wanted: Wanted,
    Running(engine): Running,
    State(state): State<AppState>,
    uri: Uri,
) -> Result<Response, Problem> {
    match wanted {
        Wanted::Document => page(&engine, &range, &uri).await,
        Wanted::Stream(last) => {
            let after = Position(range.stream(last_number(&last)?)?);
            let (first, upto) = look(&engine, &state, after).await?;
            // Where it cannot be read on, the stream is interrupted: the client comes again, and
            // is told why by what the look above finds.
            let begin = (engine, state.clone(), upto);
            let more = stream::unfold(begin, |(engine, state, upto)| async move {
                let (frames, upto) = more(&engine, &state, upto).await.ok()?;
                Some((frames, (engine, state, upto)))
            });
            let first = stream::iter((!first.is_empty()).then_some(first));
            Ok(sse::answer(first.chain(more), state.ending()))
        }
    }
}

/// A page of events as JSON text: that of each was made while its job was at hand.
#[derive(Serialize)]
struct Texts<'a> {
    items: Vec<Box<RawValue>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    damaged: Vec<dto::LogDamage<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

async fn page(engine: &Engine, range: &Range, uri: &Uri) -> Result<Response, Problem> {
    let page = engine.events(Position(range.after), range.page()).await?;
    let is_last = page.upto.0.saturating_add(1) >= engine.reader().next_position().0;
    let next_cursor = (!is_last).then(|| page.upto.0.to_string());
    let texts = each(engine, &page, |_, event| event.to_json()).await?.into_iter();
    let items = texts.filter_map(|text| RawValue::from_string(text).ok()).collect();
    let damaged = page.damage.iter().map(dto::LogDamage::of).collect();
    let texts = Texts { items, damaged, next_cursor };
    // What was JSON is JSON.
    let text = serde_json::to_string(&texts).unwrap_or_default();
    Ok(page_of(text, texts.next_cursor.as_deref(), uri))
}

/// The next frames, and up to where they go.
async fn more(
    engine: &Engine,
    state: &AppState,
    mut after: Position,
) -> Result<(Frames, Position), EngineError> {
    loop {
        engine.appended(after).await?;
        let (frames, upto) = look(engine, state, after).await?;
        if !frames.is_empty() {
            return Ok((frames, upto));
        }
        after = upto;
    }
}

/// The frames that there are now, and up to where they go.
async fn look(
    engine: &Engine,
    state: &AppState,
    after: Position,
) -> Result<(Frames, Position), EngineError> {
    let streams = state.streams();
    let _turn = streams.turn().await;
    let page = engine.events(after, STREAMED).await?;
    let texts = each(engine, &page, |job, event| {
        let key = Key { job, seq: event.seq, view: View::Log };
        let position = event.position.unwrap_or_default();
        streams.texts.get(key, || sse::event(position, event.kind, &event.to_json()))
    });
    let mut frames = Frames::default();
    for damage in &page.damage {
        frames.notice("damage", &dto::LogDamage::of(damage).to_json());
    }
    texts.await?.into_iter().for_each(|text| frames.shared(text));
    Ok((frames, page.upto))
}

/// What is made of each event of a page. Jobs are taken one after the other, and each is let go of
/// before the next: while somebody holds a snapshot, a change copies the job.
async fn each<T: Clone + Default>(
    engine: &Engine,
    page: &LogPage,
    make: impl Fn(JobId, &dto::Event<'_>) -> T,
) -> Result<Vec<T>, EngineError> {
    let mut of_jobs: BTreeMap<JobId, Vec<usize>> = BTreeMap::new();
    for (index, (job, _)) in page.events.iter().enumerate() {
        of_jobs.entry(*job).or_default().push(index);
    }
    let mut all = vec![T::default(); page.events.len()];
    for (id, indexes) in of_jobs {
        let job = match engine.job(id).snapshot().await {
            Ok(snapshot) => Some(snapshot.job),
            Err(JobError::Engine(error)) => return Err(error),
            // One job that cannot be followed does not hide what happened to the others.
            Err(_) => None,
        };
        for index in indexes {
            let logged = &page.events[index].1;
            let event = match &job {
                Some(job) => dto::Event::of(job, &logged.recorded),
                None => dto::Event::of_unreadable(&logged.recorded),
            };
            all[index] = make(id, &event.at(logged.position, logged.hash).in_job(id));
        }
    }
    Ok(all)
}
