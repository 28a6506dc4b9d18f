//! One connection, served until its peer ends it, keeps the server waiting too long, or it is
//! told to end.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Sleep, sleep_until};
use tower::Service;

use super::body::{Answered, Timed};
use super::guarded::Guarded;
use super::watch::{Look, Order, Patience, Watch};

/// The longest head of a request, in bytes; longer ones are answered 431.
const HEAD_MAX: usize = 64 << 10;

/// So long a peer that is late is listened to once more: where this process did not run for a
/// while, what the peer has sent in time was not seen yet.
const LAST_LOOK: Duration = Duration::from_millis(20);

/// When a connection is let go of.
#[derive(Default)]
struct LastLook {
    /// The time that its peer has missed, and the end of the last look at it.
    ends: Option<(Instant, Instant)>,
}

impl LastLook {
    /// When to let go of a peer that had to say something by then.
    fn end(&mut self, late: Instant, now: Instant) -> Instant {
        match self.ends {
            _ if now < late => late,
            Some((missed, end)) if missed == late => end,
            _ => self.ends.insert((late, now + LAST_LOOK)).1,
        }
    }
}

/// Serves one connection.
pub(super) async fn serve<S>(
    stream: S,
    peer: SocketAddr,
    router: Router,
    watch: Arc<Watch>,
    patience: Patience,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let io = TokioIo::new(Guarded::new(stream, Arc::clone(&watch)));
    let noted = Arc::clone(&watch);
    let service = service_fn(move |request| {
        answer(router.clone(), request, peer, Arc::clone(&noted), patience.body)
    });
    let mut builder = http1::Builder::new();
    // The watch knows more: also a connection that is idle, or read slowly, has its time.
    builder.header_read_timeout(None).max_buf_size(HEAD_MAX);
    let mut connection = pin!(builder.serve_connection(io, service));
    let mut timer = pin!(sleep_until(Instant::now() + patience.header));
    let mut last = LastLook::default();
    poll_fn(|context| {
        loop {
            if let Poll::Ready(ended) = connection.as_mut().poll(context) {
                if let Err(error) = ended {
                    tracing::debug!(%peer, %error, "a connection ended badly");
                }
                return Poll::Ready(());
            }
            match watched(&watch, &patience, timer.as_mut(), &mut last, context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Order::Leave) => return Poll::Ready(()),
                Poll::Ready(Order::Finish) => connection.as_mut().graceful_shutdown(),
            }
        }
    })
    .await;
}

/// Waits for an order, or until the peer has kept the server waiting too long.
///
/// Whatever changes what is waited for happens while the connection is polled, and this is polled
/// behind it: so a time that comes nearer is always seen. One that goes away is left to fire.
fn watched(
    watch: &Watch,
    patience: &Patience,
    mut timer: Pin<&mut Sleep>,
    last: &mut LastLook,
    context: &mut Context<'_>,
) -> Poll<Order> {
    loop {
        match watch.look(patience, context.waker()) {
            Look::Ordered(order) => return Poll::Ready(order),
            Look::Later => return Poll::Pending,
            Look::At(late) => {
                let now = Instant::now();
                let end = last.end(late, now);
                if now >= end {
                    return Poll::Ready(Order::Leave);
                }
                if timer.deadline() > end || timer.is_elapsed() {
                    timer.as_mut().reset(end);
                }
                if timer.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
            }
        }
    }
}

async fn answer(
    mut router: Router,
    request: Request<Incoming>,
    peer: SocketAddr,
    watch: Arc<Watch>,
    limit: Duration,
) -> Result<Response<Answered<Body>>, Infallible> {
    watch.begin();
    let timed = |body: Incoming| {
        let empty = body.is_end_stream();
        if empty { Body::empty() } else { Body::new(Timed::new(body, Arc::clone(&watch), limit)) }
    };
    let mut request = request.map(timed);
    request.extensions_mut().insert(ConnectInfo(peer));
    let response = router.call(request).await?;
    Ok(response.map(|body| Answered::new(body, watch)))
}
