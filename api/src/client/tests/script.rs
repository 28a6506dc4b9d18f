//! A server that plays a script, one connection after the other.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::client::{Address, Client};

/// What is done with a connection.
pub(super) enum Act {
    /// The request is read, this is written, and the connection is closed.
    Say(String),
    /// The same, byte by byte.
    Drip(String),
    /// Nothing is read; the connection is closed.
    Close,
}

/// A request as it came.
pub(super) struct Asked {
    pub(super) head: String,
    pub(super) body: String,
}

impl Asked {
    /// The value of a header.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Method and target.
    pub(super) fn line(&self) -> &str {
        self.head.lines().next().unwrap_or_default().trim_end_matches(" HTTP/1.1")
    }
}

/// A server with its script.
pub(super) struct Script {
    pub(super) at: SocketAddr,
    asked: Receiver<Asked>,
    thread: JoinHandle<()>,
}

impl Script {
    /// Plays `acts` on a free port.
    pub(super) fn play(acts: Vec<Act>) -> Self {
        Self::play_at("127.0.0.1:0".parse().unwrap(), acts)
    }

    pub(super) fn play_at(at: SocketAddr, acts: Vec<Act>) -> Self {
        let listener = TcpListener::bind(at).unwrap();
        let at = listener.local_addr().unwrap();
        let (sender, asked) = channel();
        let thread = std::thread::spawn(move || {
            for act in acts {
                let (stream, _) = listener.accept().unwrap();
                if let Some(request) = act.on(stream) {
                    // A test that has what it wants may be over.
                    let _ = sender.send(request);
                }
            }
        });
        Self { at, asked, thread }
    }

    /// All requests, when the script is over.
    pub(super) async fn over(self) -> Vec<Asked> {
        let joined = tokio::task::spawn_blocking(|| self.thread.join());
        let joined = tokio::time::timeout(Duration::from_mins(1), joined).await;
        joined.expect("the script comes to its end").unwrap().unwrap();
        self.asked.into_iter().collect()
    }
}

impl Act {
    fn on(self, stream: TcpStream) -> Option<Asked> {
        let (text, is_slow) = match self {
            Self::Close => return None,
            Self::Say(text) => (text, false),
            Self::Drip(text) => (text, true),
        };
        let request = read(&stream);
        let mut stream = stream;
        stream.set_nodelay(true).unwrap();
        let pieces = if is_slow { 1 } else { text.len().max(1) };
        for piece in text.as_bytes().chunks(pieces) {
            stream.write_all(piece).unwrap();
        }
        Some(request)
    }
}

fn read(stream: &TcpStream) -> Asked {
    stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "a request ended early: {head}");
    }
    let mut asked = Asked { head, body: String::new() };
    let length = asked.header("content-length").map_or(0, |length| length.parse().unwrap());
    reader.take(length).read_to_string(&mut asked.body).unwrap();
    asked
}

/// An answer with JSON.
pub(super) fn answer(status: &str, more: &str, body: &str) -> Act {
    Act::Say(of("application/json", status, more, body))
}

/// An answer with problem details.
pub(super) fn problem(status: &str, more: &str, code: &str) -> Act {
    let body = format!(r#"{{"code": "{code}", "detail": "it is {code}", "more": 1}}"#);
    Act::Say(of("application/problem+json", status, more, &body))
}

/// An answer of some type. `more` is headers, each with its end.
pub(super) fn of(kind: &str, status: &str, more: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n{more}\
         connection: close\r\n\r\n{body}",
        body.len()
    )
}

/// What clients have said of being tried again, all tests together.
static NOTICES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// What was said of the server at an address.
pub(super) fn notices(at: SocketAddr) -> Vec<String> {
    let notices = NOTICES.lock().unwrap_or_else(PoisonError::into_inner);
    notices.iter().filter(|notice| notice.contains(&at.to_string())).cloned().collect()
}

fn note(notice: &str) {
    NOTICES.lock().unwrap_or_else(PoisonError::into_inner).push(notice.into());
}

/// A client of the server at an address.
pub(super) fn client(at: SocketAddr) -> Client {
    let address: Address = at.to_string().parse().unwrap();
    Client::new(address, "ada", note).unwrap()
}

/// An address where nobody listens: of a host of its own, so that no other test comes to it.
pub(super) fn nowhere() -> SocketAddr {
    static HOSTS: AtomicU8 = AtomicU8::new(2);
    let host = Ipv4Addr::new(127, 71, 17, HOSTS.fetch_add(1, Ordering::Relaxed));
    TcpListener::bind((host, 0)).unwrap().local_addr().unwrap()
}
