//! Bodies of requests, which must come in time, and of answers, whose end is noted.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use super::watch::Watch;
use crate::http::TooSlow;

/// Each so many bytes of a body give its sender a second more.
/// [`TooSlow`] says so.
const BYTES_PER_SECOND: u64 = 64 << 10;

/// The body of a request. The time that it may take begins when it is first waited for.
#[derive(Debug)]
pub(super) struct Timed<B> {
    body: B,
    watch: Arc<Watch>,
    limit: Duration,
    received: u64,
    waiting: Option<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    since: Instant,
    timer: Pin<Box<Sleep>>,
}

impl<B> Timed<B> {
    pub(super) fn new(body: B, watch: Arc<Watch>, limit: Duration) -> Self {
        Self { body, watch, limit, received: 0, waiting: None }
    }

    /// Waits for more; gives an error when that is over.
    fn poll_patience(&mut self, context: &mut Context<'_>) -> Poll<TooSlow> {
        let (limit, earned) = (self.limit, Duration::from_secs(self.received / BYTES_PER_SECOND));
        self.watch.need_body();
        let waiting = self.waiting.get_or_insert_with(|| {
            let since = Instant::now();
            Waiting { since, timer: Box::pin(tokio::time::sleep_until(since + limit)) }
        });
        let until = waiting.since + limit + earned;
        if waiting.timer.deadline() < until {
            waiting.timer.as_mut().reset(until);
        }
        ready!(waiting.timer.as_mut().poll(context));
        Poll::Ready(TooSlow { limit })
    }
}

impl<B> Body for Timed<B>
where
    B: Body<Data = bytes::Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Data = bytes::Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Pending => {
                let late = ready!(self.poll_patience(context));
                self.watch.have_body();
                Poll::Ready(Some(Err(late.into())))
            }
            Poll::Ready(frame) => {
                if self.waiting.is_some() {
                    self.watch.have_body();
                }
                if let Some(data) = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref())
                {
                    self.received += data.len() as u64;
                }
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for Timed<B> {
    fn drop(&mut self) {
        self.watch.have_body();
    }
}

/// The body of an answer.
#[derive(Debug)]
pub(super) struct Answered<B> {
    body: B,
    watch: Arc<Watch>,
}

impl<B> Answered<B> {
    pub(super) fn new(body: B, watch: Arc<Watch>) -> Self {
        Self { body, watch }
    }
}

impl<B: Body + Unpin> Body for Answered<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Whoever writes an answer lets go of its body when all of it is written or nothing more will be.
impl<B> Drop for Answered<B> {
    fn drop(&mut self) {
        self.watch.answered();
    }
}
