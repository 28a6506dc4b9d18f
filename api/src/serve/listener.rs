//! The listener: what connects is admitted and served.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::connection;
use super::peers::{Peers, Room, Seat};
use super::watch::{Patience, Watch};
use crate::settings::Settings;

/// After a failure such as a lack of file descriptors nothing is accepted for so long: the failure
/// would be there again at once.
const PAUSE: Duration = Duration::from_millis(100);
/// How often such a failure is told.
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// What a connection is told for which there is no room.
const NO_ROOM: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    content-type: application/problem+json\r\nretry-after: 1\r\nconnection: close\r\n\
    content-length: 123\r\n\r\n\
    {\"type\":\"about:blank\",\"title\":\"Too many connections\",\"status\":503,\
    \"code\":\"too_many_connections\",\"detail\":\"try again soon\"}\n";

/// A listener with all of its connections.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: TcpListener,
    peers: Arc<Peers>,
    patience: Patience,
}

/// Its connections, when it does not accept any more.
#[derive(Debug)]
pub(crate) struct Rest(Arc<Peers>);

impl Listener {
    /// Binds the address of the settings.
    pub(crate) async fn bind(settings: &Settings) -> io::Result<Self> {
        let socket = TcpListener::bind(settings.listen).await?;
        let room = Room { all: settings.max_connections, of_one: settings.connections_of_a_peer() };
        let patience = Patience {
            header: settings.header_timeout,
            body: settings.body_timeout,
            idle: settings.idle_timeout,
            write: settings.write_timeout,
        };
        Ok(Self { socket, peers: Arc::new(Peers::new(room)), patience })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// How many connections are open.
    pub(crate) fn open(&self) -> Arc<AtomicUsize> {
        Arc::clone(self.peers.open())
    }

    /// Serves what connects, until it is told to close.
    pub(crate) async fn serve(self, router: Router, close: CancellationToken) -> Rest {
        let mut told = None;
        loop {
            let accepted = tokio::select! {
                () = close.cancelled() => return Rest(self.peers),
                accepted = self.socket.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => self.take(stream, peer, &router),
                Err(error) if concerns_one_connection(&error) => {}
                Err(error) => {
                    tell(&mut told, &error);
                    self.peers.make_room();
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn take(&self, stream: TcpStream, peer: SocketAddr, router: &Router) {
        let watch = Arc::new(Watch::new());
        let Some(seat) = self.peers.admit(peer.ip(), &watch) else {
            tracing::debug!(%peer, "there is no room for another connection");
            // Whoever does not hear of it sees the connection end.
            let _ = stream.try_write(NO_ROOM);
            return;
        };
        prepare(&stream, self.patience.write);
        let (router, patience) = (router.clone(), self.patience);
        tokio::spawn(async move {
            let _seat: Seat = seat;
            connection::serve(stream, peer, router, watch, patience).await;
        });
    }
}

impl Rest {
    /// Has requests that are being worked on be answered, but waits no longer than this.
    pub(crate) async fn finish(self, patience: Duration) {
        self.0.finish();
        if tokio::time::timeout(patience, self.0.are_gone()).await.is_err() {
            let connections = self.0.open().load(Ordering::Relaxed);
            tracing::warn!(connections, "some connections did not end in time");
        }
    }
}

/// Sends small answers at once, and gives peers up that are gone without a word.
fn prepare(stream: &TcpStream, patience: Duration) {
    // A connection that is broken already is found out by whoever reads it.
    let _ = stream.set_nodelay(true);
    let millis = u32::try_from(patience.as_millis()).unwrap_or(u32::MAX);
    #[cfg(target_os = "linux")]
    let _ = rustix::net::sockopt::set_tcp_user_timeout(stream, millis);
    #[cfg(not(target_os = "linux"))]
    let _ = millis;
}

/// Whether a failure to accept says nothing of the next one.
fn concerns_one_connection(error: &io::Error) -> bool {
    use ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

fn tell(told: &mut Option<Instant>, error: &io::Error) {
    if told.is_none_or(|last| last.elapsed() >= TOLD_EVERY) {
        *told = Some(Instant::now());
        tracing::warn!(%error, "connections cannot be accepted now");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_for_want_of_room_is_sound() {
        let text = std::str::from_utf8(NO_ROOM).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{}", body.len());
        let problem: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(problem["status"], 503);
    }
}
