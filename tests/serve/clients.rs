//! Clients that keep the server waiting, each in its own way, driven by one thread.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use crate::common::PATIENCE;
use crate::common::server::Server;

/// How often each client does what little it does.
const PACE: Duration = Duration::from_millis(50);

/// What a client does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Habit {
    /// Says nothing.
    Silent,
    /// Sends its first line a byte at a time.
    SlowLine,
    /// Sends its headers a byte at a time.
    SlowHeaders,
    /// Sends its body a byte at a time.
    SlowBody,
    /// Asks for a lot, and reads a byte at a time.
    SlowReader,
    /// Asks once, and keeps the connection.
    Idle,
    /// Asks for half a thing, and says that it will say no more.
    HalfClosed,
}

impl Habit {
    pub(crate) const ALL: [Self; 7] = [
        Self::Silent,
        Self::SlowLine,
        Self::SlowHeaders,
        Self::SlowBody,
        Self::SlowReader,
        Self::Idle,
        Self::HalfClosed,
    ];

    /// What it begins with.
    fn opening(self, large: &str) -> String {
        match self {
            Self::Silent => String::new(),
            Self::SlowLine => "GET /".into(),
            Self::SlowHeaders => "GET /livez HTTP/1.1\r\nhost: ".into(),
            Self::SlowBody => "POST /api/v1/jobs HTTP/1.1\r\nhost: x\r\n\
                content-type: application/json\r\ncontent-length: 100000\r\n\r\n{"
                .into(),
            // More than the buffers on the way hold.
            Self::SlowReader => format!("GET {large} HTTP/1.1\r\nhost: x\r\n\r\n").repeat(40),
            Self::Idle => "GET /livez HTTP/1.1\r\nhost: x\r\n\r\n".into(),
            Self::HalfClosed => "GET /livez HTTP/1.1\r\n".into(),
        }
    }

    fn drips(self) -> bool {
        matches!(self, Self::SlowLine | Self::SlowHeaders | Self::SlowBody)
    }
}

/// Clients that are still connected.
pub(crate) struct Crowd(Vec<(Habit, TcpStream)>);

impl Crowd {
    /// Connects `each` clients of every habit. `large` is the path of something large.
    pub(crate) fn gather(server: &Server, habits: &[Habit], each: usize, large: &str) -> Self {
        let mut clients = Vec::new();
        for _ in 0..each {
            for habit in habits {
                let mut stream = server.connect();
                // One that is shown the door at once is a client all the same.
                let _ = stream.write_all(habit.opening(large).as_bytes());
                if *habit == Habit::HalfClosed {
                    let _ = stream.shutdown(Shutdown::Write);
                }
                stream.set_nonblocking(true).expect("a socket need not block");
                clients.push((*habit, stream));
            }
        }
        Self(clients)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Lets each client do what it does once.
    pub(crate) fn act(&mut self) {
        self.0.retain_mut(|(habit, stream)| !is_over(*habit, stream));
        std::thread::sleep(PACE);
    }

    /// Goes on until the server has let go of all, doing something else in between.
    #[track_caller]
    pub(crate) fn outlast(mut self, mut meanwhile: impl FnMut()) {
        let begun = Instant::now();
        while !self.0.is_empty() {
            let habits = || self.0.iter().map(|(habit, _)| habit).collect::<Vec<_>>();
            assert!(begun.elapsed() < PATIENCE, "{} are still there: {:?}", self.len(), habits());
            self.act();
            meanwhile();
        }
    }
}

/// Whether the server has let go of a client, which does what it does once more.
fn is_over(habit: Habit, stream: &mut TcpStream) -> bool {
    if habit.drips() && is_gone(stream.write(b"a")) {
        return true;
    }
    // Whoever reads slowly has the rest in its buffers, and would take ages to see the end.
    if habit == Habit::SlowReader {
        let mut byte = [0];
        return is_gone(stream.read(&mut byte)) || is_gone(stream.write(b"\r\n"));
    }
    let mut bytes = [0; 4096];
    match stream.read(&mut bytes) {
        Ok(0) => true,
        read => is_gone(read),
    }
}

fn is_gone(done: std::io::Result<usize>) -> bool {
    done.is_err_and(|error| error.kind() != ErrorKind::WouldBlock)
}
