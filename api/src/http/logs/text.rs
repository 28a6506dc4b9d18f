//! A log as text.

use std::io::{self, Read};

use annals_engine::Engine;
use annals_engine::steplog::{Entry, Filter, Part, Raw, StepLogs};
use annals_tasks_sdk::{JobId, TaskId};
use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use tokio::task::spawn_blocking;

use super::{Subject, Wish, check, not_run, unreadable};
use crate::http::problem::{Code, Problem};
use crate::http::sse::VARIES;
use crate::loss::Loss;

const X_ANNALS_LOG_ATTEMPT: HeaderName = HeaderName::from_static("x-annals-log-attempt");
const X_ANNALS_LOG_NEXT: HeaderName = HeaderName::from_static("x-annals-log-next");
const X_ANNALS_LOG_COMPLETE: HeaderName = HeaderName::from_static("x-annals-log-complete");
const X_ANNALS_LOG_MISSING: HeaderName = HeaderName::from_static("x-annals-log-missing");

/// How much of a log is in memory at a time.
const CHUNK: usize = 64 << 10;

pub(super) async fn answer(
    engine: &Engine,
    job: JobId,
    task: &TaskId,
    wish: Wish,
) -> Result<Response, Problem> {
    let snapshot = engine.job(job).snapshot().await?;
    // Before the log is looked at: what is over then has written all of it.
    let Some(subject) = Subject::find(&snapshot, task, wish.attempt)? else {
        return Err(not_run(&snapshot, task)?);
    };
    drop(snapshot);
    let logs = engine.step_logs().clone();
    let opened =
        spawn_blocking(move || open(&logs, &subject, wish).map(|opened| (subject, opened)));
    let (subject, opened) = opened.await.map_err(gone)??;
    Ok(respond(&subject, opened))
}

/// The thread that was to read panicked, or the runtime ends.
fn gone(_: tokio::task::JoinError) -> Problem {
    Problem::new(Code::INTERNAL, "the log could not be looked at")
}

/// A log, ready to be sent.
struct Opened {
    body: Content,
    next: u64,
    lost: Option<Loss>,
}

enum Content {
    /// All of it, read while it is sent.
    Streamed(Raw),
    /// Its last lines.
    Lines(Vec<u8>),
}

fn open(logs: &StepLogs, subject: &Subject, wish: Wish) -> Result<Opened, Problem> {
    let cannot = |error: io::Error| unreadable(subject, &error);
    let extent = logs.extent(subject.name, wish.stream).map_err(cannot)?;
    check(subject, &extent)?;
    let lost = Loss::of(subject.written, &extent);
    let filter = Filter { stream: wish.stream, after: wish.after };
    let Some(lines) = wish.tail else {
        let raw = logs.read(subject.name, filter).map_err(cannot)?.upto(extent.after);
        let next = wish.after.max(extent.after);
        return Ok(Opened { body: Content::Streamed(raw), next, lost });
    };
    let tail = logs.tail(subject.name, filter, lines).map_err(cannot)?;
    let next = tail.last().map_or(wish.after.max(extent.after), |entry| entry.after);
    let body = Content::Lines(tail.into_iter().flat_map(bytes).collect());
    Ok(Opened { body, next, lost })
}

/// The bytes that stand for an entry.
fn bytes(entry: Entry) -> Vec<u8> {
    match entry.part {
        Part::Piece { bytes, .. } => bytes,
        Part::Line { mut bytes, .. } => {
            bytes.push(b'\n');
            bytes
        }
        Part::Gap { bytes } => format!("[{bytes} bytes were dropped here]\n").into_bytes(),
    }
}

fn respond(subject: &Subject, opened: Opened) -> Response {
    let Opened { body, next, lost } = opened;
    let is_over = HeaderValue::from_static(if subject.is_over() { "true" } else { "false" });
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8")),
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        VARIES,
        (X_ANNALS_LOG_ATTEMPT, HeaderValue::from(subject.name.attempt)),
        (X_ANNALS_LOG_NEXT, HeaderValue::from(next)),
        (X_ANNALS_LOG_COMPLETE, is_over),
    ];
    let note = Bytes::from(lost.as_ref().map(Loss::to_string).unwrap_or_default());
    let body = match body {
        Content::Lines(mut lines) => {
            lines.extend_from_slice(&note);
            Body::from(lines)
        }
        Content::Streamed(raw) => {
            let note = stream::iter((!note.is_empty()).then_some(Ok(note)));
            Body::from_stream(chunks(raw).chain(note))
        }
    };
    let mut response = (headers, body).into_response();
    if let Some(lost) = lost {
        let unknown = HeaderValue::from_static("unknown");
        let missing = lost.bytes.map_or(unknown, HeaderValue::from);
        response.headers_mut().insert(X_ANNALS_LOG_MISSING, missing);
    }
    response
}

/// Reads a log as fast as it is taken. Where it cannot be read to where it went when it was looked
/// at, the answer is broken off, so that nobody takes it for whole.
fn chunks(raw: Raw) -> impl futures_util::Stream<Item = io::Result<Bytes>> {
    stream::try_unfold(raw, |mut raw| async {
        let read = spawn_blocking(move || {
            let mut chunk = vec![0; CHUNK];
            let count = raw.read(&mut chunk)?;
            chunk.truncate(count);
            Ok::<_, io::Error>((chunk, raw))
        });
        let (chunk, raw) = read.await.map_err(io::Error::other)??;
        Ok((!chunk.is_empty()).then(|| (Bytes::from(chunk), raw)))
    })
}
