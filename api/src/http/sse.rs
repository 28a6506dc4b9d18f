//! Server-sent events: the one place where their frames are written.
//!
//! A stream is pulled: its source is asked for more when the client has taken what there was, so a
//! slow client costs what it has not taken yet and slows nobody. What is to come after an
//! interruption is told by the ids of frames alone. Frames that are no part of what is followed
//! (comments, the time to wait before another try, the end) therefore have no id.

use std::convert::Infallible;
use std::fmt::{Display, Write};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, VARY};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::sync::CancellationToken;

use super::problem::{Code, Problem};
use super::shared::LARGE;

/// The media type.
pub(super) const MEDIA_TYPE: &str = "text/event-stream";
/// After so much silence a comment says that the stream is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// What says so: clients pass over it.
const COMMENT: Bytes = Bytes::from_static(b":\n\n");
/// How much is handed on at a time, in bytes.
const PART: usize = 64 << 10;
/// How long a client waits before it comes again after an interruption.
const RETRY: Duration = Duration::from_secs(1);
/// What lies at one address comes in two ways.
pub(super) const VARIES: (HeaderName, HeaderValue) = (VARY, HeaderValue::from_static("accept"));
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Whether a request wants the frames of a stream, or a document.
pub(super) enum Wanted {
    /// A document that ends.
    Document,
    /// A stream, from where the client was interrupted.
    Stream(LastEventId),
}

/// The id of the last frame that the client has.
pub(super) struct LastEventId(Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for Wanted {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        if !accepts_stream(&parts.headers) {
            return Ok(Self::Document);
        }
        let id = parts.headers.get(LAST_EVENT_ID).map(HeaderValue::as_bytes);
        // Whoever had no frame with an id yet may send an empty one.
        let id = id.filter(|id| !id.is_empty()).map(|id| String::from_utf8_lossy(id).into_owned());
        Ok(Self::Stream(LastEventId(id)))
    }
}

impl LastEventId {
    /// Reads the id, if there is one; `rule` says what it must be.
    pub(super) fn read<T>(
        &self,
        rule: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        let Some(id) = &self.0 else { return Ok(None) };
        parse(id).map(Some).ok_or_else(|| {
            let shown: String = id.chars().take(64).collect();
            let detail = format!("Last-Event-ID must be {rule}, and {shown:?} is not");
            Problem::new(Code::BAD_HEADER, detail)
        })
    }
}

/// Whether the client names the media type. Whoever takes anything gets a document.
fn accepts_stream(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(ACCEPT).into_iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(MEDIA_TYPE));
        let refused = |part: &str| {
            let weight = part.strip_prefix("q=").or_else(|| part.strip_prefix("Q="));
            weight.is_some_and(|weight| weight.parse() == Ok(0.0_f32))
        };
        named && !parts.any(refused)
    })
}

/// Some whole frames.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// Those before `text`.
    chunks: Vec<Bytes>,
    text: String,
}

impl Frames {
    /// An event that has its place in what is followed: who has it goes on behind `id`.
    pub(super) fn event(&mut self, id: impl Display, name: &str, data: &str) {
        self.text.push_str(&event(id, name, data));
    }

    /// The text of an [`event`], which others may hold, too.
    pub(super) fn shared(&mut self, text: Bytes) {
        match std::str::from_utf8(&text) {
            Ok(small) if small.len() < LARGE => self.text.push_str(small),
            _ => {
                self.close();
                self.chunks.push(text);
            }
        }
    }

    /// An event about the stream itself.
    pub(super) fn notice(&mut self, name: &str, data: &str) {
        field(&mut self.text, "event", name);
        field(&mut self.text, "data", data);
        self.text.push('\n');
    }

    fn close(&mut self) {
        if !self.text.is_empty() {
            self.chunks.push(Bytes::from(std::mem::take(&mut self.text)));
        }
    }

    /// The same in parts that are small enough to be handed on one by one.
    fn parts(mut self) -> impl Iterator<Item = Bytes> {
        self.close();
        let chunks = self.chunks.into_iter();
        chunks.flat_map(|mut chunk| {
            std::iter::from_fn(move || {
                let part = chunk.split_to(chunk.len().min(PART));
                (!part.is_empty()).then_some(part)
            })
        })
    }

    /// How long the client waits before it comes again.
    fn retry(after: Duration) -> Self {
        let text = format!("retry: {}\n\n", after.as_millis());
        Self { chunks: Vec::new(), text }
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty() && self.text.is_empty()
    }

    /// How many bytes they have.
    pub(super) fn len(&self) -> usize {
        self.text.len() + self.chunks.iter().map(Bytes::len).sum::<usize>()
    }
}

/// The text of one event with its place in what is followed.
pub(super) fn event(id: impl Display, name: &str, data: &str) -> String {
    let mut text = String::with_capacity(data.len() + 64);
    field(&mut text, "id", &id.to_string());
    field(&mut text, "event", name);
    field(&mut text, "data", data);
    text.push('\n');
    text
}

/// A field, once for each of its lines: what ends a line for a client must not end the field.
fn field(text: &mut String, name: &str, value: &str) {
    let mut rest = value;
    loop {
        let end = rest.find(['\r', '\n']);
        let line = &rest[..end.unwrap_or(rest.len())];
        // Writing to memory does not fail.
        let _ = writeln!(text, "{name}: {line}");
        let Some(end) = end else { return };
        let feed = if rest[end..].starts_with("\r\n") { 2 } else { 1 };
        rest = &rest[end + feed..];
    }
}

/// An answer that streams what a source gives, until that gives nothing more or the server ends.
/// A client that was interrupted comes again; one that has seen the end is not to.
pub(super) fn answer(
    source: impl Stream<Item = Frames> + Send + 'static,
    ending: &CancellationToken,
) -> Response {
    let first = stream::once(async { Frames::retry(RETRY) });
    let parts = first.chain(source).flat_map(|frames| stream::iter(frames.parts()));
    let parts = parts.take_until(ending.clone().cancelled_owned());
    let body = Body::from_stream(KeptAlive::new(parts));
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE)),
        // Proxies neither keep, nor pack, nor hold back what passes.
        (CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform")),
        (X_ACCEL_BUFFERING, HeaderValue::from_static("no")),
        VARIES,
    ];
    (headers, body).into_response()
}

/// Tells a client that there is nothing more to come for: it stops coming again.
pub(super) fn nothing_more() -> Response {
    (StatusCode::NO_CONTENT, [VARIES]).into_response()
}

/// A stream with comments wherever it is silent for long.
struct KeptAlive<S> {
    parts: Pin<Box<S>>,
    silence: Pin<Box<Sleep>>,
}

impl<S> KeptAlive<S> {
    fn new(parts: S) -> Self {
        Self { parts: Box::pin(parts), silence: Box::pin(sleep(KEEP_ALIVE)) }
    }
}

impl<S: Stream<Item = Bytes>> Stream for KeptAlive<S> {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = match self.parts.as_mut().poll_next(cx) {
            Poll::Ready(next) => next,
            // Silence comes between frames alone: the parts of one are all there at once.
            Poll::Pending => match self.silence.as_mut().poll(cx) {
                Poll::Ready(()) => Some(COMMENT),
                Poll::Pending => return Poll::Pending,
            },
        };
        self.silence.as_mut().reset(Instant::now() + KEEP_ALIVE);
        Poll::Ready(next.map(Ok))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Frames)) -> String {
        let mut frames = Frames::default();
        write(&mut frames);
        let bytes: Vec<u8> = frames.parts().flatten().collect();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn whatever_the_data_is_it_stays_within_its_frame() {
        let table = [
            ("{}", "data: {}\n"),
            ("", "data: \n"),
            ("a\nb", "data: a\ndata: b\n"),
            ("a\r\nb\r", "data: a\ndata: b\ndata: \n"),
            ("\n\nid: 7\n", "data: \ndata: \ndata: id: 7\ndata: \n"),
            (" x: ü", "data:  x: ü\n"),
        ];
        for (data, lines) in table {
            let frame = written(|frames| frames.event(3, "Kind", data));
            assert_eq!(frame, format!("id: 3\nevent: Kind\n{lines}\n"), "{data:?}");
        }
        assert_eq!(written(|frames| frames.notice("end", "1")), "event: end\ndata: 1\n\n");
    }

    #[test]
    fn large_frames_come_in_small_parts_and_in_order() {
        let mut frames = Frames::default();
        let large = "x".repeat(3 * PART);
        frames.event(1, "a", "small");
        frames.shared(Bytes::from(event(2, "b", "small")));
        frames.shared(Bytes::from(event(3, "c", &large)));
        frames.notice("end", "{}");
        let expected = event(1, "a", "small") + &event(2, "b", "small") + &event(3, "c", &large);
        let expected = expected + "event: end\ndata: {}\n\n";
        assert_eq!(frames.len(), expected.len());
        let parts: Vec<Bytes> = frames.parts().collect();
        assert!(parts.iter().all(|part| (1..=PART).contains(&part.len())));
        assert_eq!(parts.concat(), expected.as_bytes());
    }

    #[test]
    fn a_stream_is_given_to_whoever_names_it() {
        let accepts = |lines: &[&str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(ACCEPT, line.parse().unwrap());
            }
            accepts_stream(&headers)
        };
        for lines in [
            &["text/event-stream"][..],
            &["Text/Event-Stream; q=0.5, */*"],
            &["application/json", "text/event-stream"],
        ] {
            assert!(accepts(lines), "{lines:?}");
        }
        for lines in [&[][..], &["*/*"], &["text/*"], &["text/event-stream;q=0"], &["text/html"]] {
            assert!(!accepts(lines), "{lines:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_broken_by_comments_until_the_end() {
        let begun = Instant::now();
        let source = stream::unfold(0, |number| async move {
            sleep(Duration::from_secs(20)).await;
            let part = Bytes::from(format!("data: {number}\n\n"));
            (number < 2).then_some((part, number + 1))
        });
        let seen: Vec<(u64, String)> = KeptAlive::new(source)
            .map(|bytes| {
                let text = String::from_utf8(bytes.unwrap().to_vec()).unwrap();
                (begun.elapsed().as_secs(), text.trim_end().into())
            })
            .collect()
            .await;
        let expected = [(15, ":"), (20, "data: 0"), (35, ":"), (40, "data: 1"), (55, ":")];
        assert_eq!(seen, expected.map(|(at, text)| (at, text.to_owned())));
    }
}
