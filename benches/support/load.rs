//! Load on a server from a process of its own, so that what it costs is not taken for the
//! server's. Each connection sends a request, waits for the whole answer, and sends the next: at
//! once, or when that is due.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The argument by which a bench knows that it is to be the load.
const ARGUMENT: &str = "load";

/// What is sent, to whom, and how often.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Load {
    pub(crate) address: SocketAddr,
    pub(crate) connections: usize,
    pub(crate) requests: usize,
    /// How many are due in a second; none where each is sent as soon as there is a connection.
    pub(crate) per_second: Option<u32>,
    /// Taken in turn, each as it goes over the connection.
    pub(crate) messages: Vec<String>,
}

/// What came of it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Loaded {
    pub(crate) seconds: f64,
    /// How many answers had which status.
    pub(crate) statuses: BTreeMap<u16, usize>,
    /// From when a request was sent, or was due where no connection was free then, to the last
    /// byte of its answer, ascending.
    pub(crate) micros: Vec<u32>,
}

impl Load {
    /// Has a second process send it. Every answer must have this status.
    pub(crate) fn send(&self, status: u16) -> Loaded {
        let program = std::env::current_exe().expect("a bench knows its program");
        let mut command = Command::new(program);
        command.arg(ARGUMENT).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a second process");
        serde_json::to_writer(child.stdin.take().expect("a pipe"), self).expect("it listens");
        let output = child.wait_with_output().expect("an end");
        assert!(output.status.success(), "the load failed: {}", output.status);
        let loaded: Loaded = serde_json::from_slice(&output.stdout).expect("what came of it");
        assert_eq!(loaded.statuses, BTreeMap::from([(status, self.requests)]), "other answers");
        loaded
    }
}

impl Loaded {
    pub(crate) fn per_second(&self) -> f64 {
        self.micros.len() as f64 / self.seconds
    }

    /// Within so many milliseconds this share was answered, in percent.
    pub(crate) fn millis(&self, percent: usize) -> f64 {
        percentile(&self.micros, percent)
    }
}

/// In milliseconds, the value of ascending microseconds below which this share lies, in percent.
pub(crate) fn percentile(micros: &[u32], percent: usize) -> f64 {
    let place = micros.len() * percent / 100;
    f64::from(micros[place.min(micros.len() - 1)]) / 1e3
}

/// Is the load, where the program was started as that.
pub(crate) fn is_load() -> bool {
    if std::env::args().nth(1).as_deref() != Some(ARGUMENT) {
        return false;
    }
    let load: Load = serde_json::from_reader(io::stdin()).expect("what to send");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let loaded = runtime.expect("a runtime").block_on(run(load)).expect("the server answers");
    serde_json::to_writer(io::stdout(), &loaded).expect("the bench listens");
    true
}

async fn run(load: Load) -> io::Result<Loaded> {
    let Load { address, connections, requests, per_second, messages } = load;
    let due = move |number: usize| {
        let rate = f64::from(per_second?);
        Some(Duration::from_secs_f64(number as f64 / rate))
    };
    let (messages, next) = (Arc::new(messages), Arc::new(AtomicUsize::new(0)));
    let mut streams = Vec::new();
    for _ in 0..connections {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        streams.push(stream);
    }
    let begun = Instant::now();
    let clients = streams.into_iter().map(|stream| {
        let (messages, next) = (Arc::clone(&messages), Arc::clone(&next));
        tokio::spawn(async move {
            let mut client = Client { stream, answer: Vec::with_capacity(16 << 10) };
            let mut answers = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= requests {
                    return io::Result::Ok(answers);
                }
                let mut from = Instant::now();
                if let Some(due) = due(number).map(|due| begun + due) {
                    if due > from {
                        // A timer goes off up to a millisecond late: that is not the server's.
                        tokio::time::sleep_until(due.into()).await;
                        from = Instant::now();
                    } else {
                        // It is late because all connections waited, and has waited, too.
                        from = due;
                    }
                }
                let status = client.ask(&messages[number % messages.len()]).await?;
                let micros = u32::try_from(from.elapsed().as_micros()).unwrap_or(u32::MAX);
                answers.push((status, micros));
            }
        })
    });
    let (mut statuses, mut micros) = (BTreeMap::new(), Vec::with_capacity(requests));
    for client in clients.collect::<Vec<_>>() {
        for (status, took) in client.await.expect("no client panics")? {
            *statuses.entry(status).or_default() += 1;
            micros.push(took);
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    micros.sort_unstable();
    Ok(Loaded { seconds, statuses, micros })
}

/// One connection.
struct Client {
    stream: TcpStream,
    answer: Vec<u8>,
}

impl Client {
    /// Sends a request, and gives the status of its answer when the whole of that is here.
    async fn ask(&mut self, message: &str) -> io::Result<u16> {
        self.stream.write_all(message.as_bytes()).await?;
        self.answer.clear();
        loop {
            if self.stream.read_buf(&mut self.answer).await? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            if let Some((status, length)) = whole(&self.answer)
                && self.answer.len() >= length
            {
                return Ok(status);
            }
        }
    }
}

/// The status of an answer, and how many bytes there are of it; none before its head is here.
fn whole(answer: &[u8]) -> Option<(u16, usize)> {
    let head = answer.windows(4).position(|end| end == b"\r\n\r\n")?;
    let text = std::str::from_utf8(&answer[..head]).ok()?;
    let status = text.get(9..12)?.parse().ok()?;
    let length = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    };
    let body: usize = text.lines().find_map(length)?;
    Some((status, head + 4 + body))
}
