//! One connection over memory, on a clock that stands still unless everybody waits.

use std::convert::Infallible;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::{get, post};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::connection;
use super::watch::{Order, Patience, Watch};
use crate::http::TooSlow;

const PATIENCE: Patience = Patience {
    header: Duration::from_secs(10),
    body: Duration::from_secs(20),
    idle: Duration::from_secs(30),
    write: Duration::from_secs(40),
};

/// What the client's end holds unread before the server is stuck.
const PIPE: usize = 8 << 10;

struct Client {
    stream: DuplexStream,
    /// Gives when the server let go.
    served: JoinHandle<Instant>,
    watch: Arc<Watch>,
    begun: Instant,
}

async fn read_body(body: Body) -> String {
    match axum::body::to_bytes(body, usize::MAX).await {
        Ok(bytes) => format!("{} bytes", bytes.len()),
        Err(error) => {
            let first: Option<&dyn std::error::Error> = Some(&error);
            let mut causes = std::iter::successors(first, |cause| cause.source());
            assert!(causes.any(<dyn std::error::Error>::is::<TooSlow>), "{error:?}");
            "too slow".to_owned()
        }
    }
}

async fn quiet_stream() -> Body {
    let first = futures_util::stream::iter([Ok::<_, Infallible>(Bytes::from("first\n"))]);
    Body::from_stream(first.chain(futures_util::stream::pending()))
}

fn router() -> Router {
    Router::new()
        .route("/", get(|| async { "hello" }))
        .route("/large", get(|| async { vec![b'x'; 64 * PIPE] }))
        .route("/never", get(pending::<()>))
        .route("/stream", get(quiet_stream))
        .route("/body", post(read_body))
        .route("/unread", post(|| async { "no need" }))
}

impl Client {
    fn connect() -> Self {
        let (stream, other_end) = duplex(PIPE);
        let watch = Arc::new(Watch::new());
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let served = connection::serve(other_end, peer, router(), Arc::clone(&watch), PATIENCE);
        let served = tokio::spawn(async move {
            served.await;
            Instant::now()
        });
        Self { stream, served, watch, begun: Instant::now() }
    }

    async fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.expect("the server reads");
    }

    async fn get(&mut self, path: &str) {
        self.send(&format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n")).await;
    }

    /// Reads until something has come.
    async fn hears(&mut self, words: &str) {
        let mut text = String::new();
        while !text.contains(words) {
            let mut bytes = [0; 512];
            let read = self.stream.read(&mut bytes).await.expect("the server writes");
            assert!(read > 0, "the connection ended behind {text:?}");
            text.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
    }

    /// Sends one byte each second, as long as the server takes them.
    async fn drip(&mut self, text: &str) {
        for byte in text.bytes().chain(std::iter::repeat(b'a')) {
            if self.served.is_finished() || self.stream.write_all(&[byte]).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// In which second the server let go.
    async fn ends(&mut self) -> u64 {
        let ended = (&mut self.served).await.expect("it does not panic");
        (ended - self.begun).as_secs()
    }
}

#[tokio::test(start_paused = true)]
async fn who_says_nothing_has_the_time_of_a_head() {
    assert_eq!(Client::connect().ends().await, 10);
}

/// A process that was stopped finds the time over, and has not seen yet what came in time.
#[tokio::test(start_paused = true)]
async fn who_is_late_is_listened_to_once_more() {
    let mut client = Client::connect();
    tokio::time::sleep(PATIENCE.header + Duration::from_millis(10)).await;
    client.get("/").await;
    client.hears("hello").await;
    assert_eq!(client.ends().await, 40);
}

#[tokio::test(start_paused = true)]
async fn a_first_line_and_headers_must_come_in_time() {
    for text in ["GET /aaaaaaaaaaaaaaaaaaaaaaaaaa", "GET / HTTP/1.1\r\nhost: aaaaaaaaaaaaaaaaa"] {
        let mut client = Client::connect();
        client.drip(text).await;
        assert_eq!(client.ends().await, 10, "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_idle_may_stay_for_longer_and_no_longer() {
    let mut client = Client::connect();
    client.get("/").await;
    client.hears("hello").await;
    tokio::time::sleep(Duration::from_secs(29)).await;
    client.get("/").await;
    client.hears("hello").await;
    assert_eq!(client.ends().await, 59);
}

#[tokio::test(start_paused = true)]
async fn the_next_head_has_its_own_time_wherever_the_idle_time_is() {
    let mut client = Client::connect();
    client.get("/").await;
    client.hears("hello").await;
    tokio::time::sleep(Duration::from_secs(29)).await;
    client.send("GET / HTT").await;
    assert_eq!(client.ends().await, 39);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_drips_is_refused_and_the_connection_ends() {
    let mut client = Client::connect();
    client.send("POST /body HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n").await;
    let (reader, mut writer) = tokio::io::split(client.stream);
    let dripping = tokio::spawn(async move {
        while writer.write_all(b"a").await.is_ok() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    let mut text = String::new();
    tokio::io::BufReader::new(reader).read_to_string(&mut text).await.unwrap();
    assert!(text.ends_with("too slow"), "{text}");
    let ended = client.served.await.unwrap();
    dripping.abort();
    // The answer could be read for some time more.
    assert_eq!((ended - client.begun).as_secs(), 20 + 2);
}

#[tokio::test(start_paused = true)]
async fn a_large_body_earns_its_time() {
    let mut client = Client::connect();
    let (piece, pieces) = (vec![b'a'; 64 << 10], 60);
    let head = "POST /body HTTP/1.1\r\nhost: x\r\ncontent-length:";
    client.send(&format!("{head} {}\r\n\r\n", piece.len() * pieces)).await;
    for _ in 0..pieces {
        client.stream.write_all(&piece).await.expect("the server reads on");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    client.hears("3932160 bytes").await;
    assert_eq!(client.begun.elapsed().as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn who_reads_nothing_is_given_up() {
    let mut client = Client::connect();
    client.get("/large").await;
    assert_eq!(client.ends().await, 40);
}

#[tokio::test(start_paused = true)]
async fn who_reads_slowly_is_not() {
    let mut client = Client::connect();
    client.get("/large").await;
    let mut read = 0;
    while read < 64 * PIPE {
        tokio::time::sleep(Duration::from_secs(20)).await;
        let mut bytes = [0; PIPE];
        read += client.stream.read(&mut bytes).await.expect("the server writes");
    }
    assert!(!client.served.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_waits_for_the_server_may_wait_for_ever() {
    for path in ["/never", "/stream"] {
        let mut client = Client::connect();
        client.get(path).await;
        tokio::time::sleep(Duration::from_hours(2)).await;
        assert!(!client.served.is_finished(), "{path}");
        assert!(client.watch.waiting_since().is_none(), "{path}");
        drop(client.stream);
        client.served.await.expect("its end is noticed");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_told_to_finish_answers_first() {
    let mut client = Client::connect();
    client.get("/").await;
    client.hears("hello").await;
    client.watch.tell(Order::Finish);
    let mut rest = Vec::new();
    client.stream.read_to_end(&mut rest).await.unwrap();
    assert!(rest.is_empty());
    drop(client.stream);
    client.served.await.unwrap();

    let mut client = Client::connect();
    let head = "POST /body HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\nab";
    client.send(head).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    client.watch.tell(Order::Finish);
    client.send("cd").await;
    client.hears("4 bytes").await;
}

#[tokio::test(start_paused = true)]
async fn what_is_told_to_leave_leaves() {
    let mut client = Client::connect();
    client.get("/stream").await;
    client.hears("first").await;
    client.watch.tell(Order::Leave);
    assert_eq!(client.ends().await, 0);
}

#[tokio::test(start_paused = true)]
async fn an_answer_reaches_a_peer_whose_body_nobody_reads() {
    let mut client = Client::connect();
    let head = format!("POST /unread HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", 9 * PIPE);
    client.send(&head).await;
    client.hears("no need").await;
    for _ in 0..9 {
        client.stream.write_all(&[b'a'; PIPE]).await.expect("the server still reads");
    }
    assert_eq!(client.ends().await, 2);
}
