//! The real server, and a client of HTTP that is no more than a socket.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

use rustix::process::Signal;
use serde_json::Value;

use super::{Answer, PATIENCE, Place, finish, signal};

/// A server that has said that it is ready. It is killed when it is dropped.
pub(crate) struct Server {
    child: Option<Child>,
    pub(crate) url: String,
    pub(crate) address: SocketAddr,
    /// Behind locks, so that many threads may share the server.
    stdout: Mutex<Receiver<String>>,
    stderr: Mutex<Receiver<String>>,
}

/// An answer over HTTP.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Their names are in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Server {
    /// Starts `annals serve` with these arguments, at a port that is free.
    pub(crate) fn start(place: &Place, args: &[&str]) -> Self {
        let mut args = args.to_vec();
        if !args.contains(&"--listen") {
            args.extend(["--listen", "127.0.0.1:0"]);
        }
        Self::of(place.command(&[&["serve", "--json"], args.as_slice()].concat()))
    }

    /// Starts a command that serves, and says so in JSON.
    #[track_caller]
    pub(crate) fn of(mut command: Command) -> Self {
        let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null());
        let mut child = piped.spawn().expect("the server starts");
        let stdout = lines::<ChildStdout>(child.stdout.take().expect("it is a pipe"));
        let stderr = lines::<ChildStderr>(child.stderr.take().expect("it is a pipe"));
        let Ok(line) = stdout.recv_timeout(PATIENCE) else {
            let ended = finish(child);
            panic!("it is not ready: {ended:?}, {:?}", stderr.try_iter().collect::<Vec<_>>());
        };
        let ready: Value = serde_json::from_str(&line).expect("it says in JSON that it is ready");
        let url = ready["url"].as_str().expect("it says where").to_owned();
        let address = url.strip_prefix("http://").expect("it is HTTP").parse();
        let address = address.expect("it is an address");
        let (stdout, stderr) = (Mutex::new(stdout), Mutex::new(stderr));
        Self { child: Some(child), url, address, stdout, stderr }
    }

    pub(crate) fn child(&self) -> &Child {
        self.child.as_ref().expect("it was not ended")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child().id()
    }

    pub(crate) fn signal(&self, which: Signal) {
        signal(self.child(), which);
    }

    /// Waits for its end. The answer has what it wrote after it was ready.
    #[track_caller]
    pub(crate) fn wait(mut self) -> Answer {
        let mut answer = finish(self.child.take().expect("it was not ended"));
        let text = |lines: &Mutex<Receiver<String>>| {
            let lines = lines.lock().expect("no reader panics");
            lines.iter().collect::<Vec<_>>().join("\n")
        };
        answer.stdout = text(&self.stdout);
        answer.stderr = text(&self.stderr);
        answer
    }

    /// Ends it in good order.
    #[track_caller]
    pub(crate) fn end(self) -> Answer {
        self.signal(Signal::TERM);
        self.wait().expect(0)
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("the server accepts");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit can be set");
        stream
    }

    /// Asks with no body.
    #[track_caller]
    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Reply {
        self.send(method, path, headers, "")
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, &[])
    }

    /// Posts JSON.
    #[track_caller]
    pub(crate) fn post(&self, path: &str, body: &Value) -> Reply {
        self.send("POST", path, &[("content-type", "application/json")], &body.to_string())
    }

    /// Posts JSON to a server that may be gone; none where it gives no answer.
    pub(crate) fn try_post(&self, path: &str, body: &Value) -> Option<Reply> {
        let headers = [("content-type", "application/json")];
        exchange(self.address, "POST", path, &headers, &body.to_string())
    }

    #[track_caller]
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Reply {
        self.send_part(method, path, headers, body, body.len())
    }

    /// Sends a part of a body that is said to have `length` bytes.
    #[track_caller]
    pub(crate) fn send_part(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        part: &str,
        length: usize,
    ) -> Reply {
        let reply = exchange_part(self.address, method, path, headers, part, length);
        reply.expect("the server answers")
    }

    /// Asks with no body, and leaves the answer on its way.
    pub(crate) fn begin(&self, method: &str, path: &str) -> TcpStream {
        let mut stream = self.connect();
        let head = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n\r\n", self.address);
        stream.write_all(head.as_bytes()).expect("the server reads");
        stream
    }
}

/// Asks whoever listens there; nothing where nobody does, or the answer is not whole.
pub(crate) fn exchange(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Option<Reply> {
    exchange_part(address, method, path, headers, body, body.len())
}

/// The same with a part of a body that is said to have `length` bytes.
fn exchange_part(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    part: &str,
    length: usize,
) -> Option<Reply> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let headers = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
    let headers = headers.collect::<String>();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-length: {length}\r\n{headers}\r\n"
    );
    // A server that has no room answers before it has read anything, and is gone then.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(part.as_bytes()));
    Reply::read(&mut BufReader::new(stream))
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Reply {
    /// Reads an answer with a length, or up to the end of the connection.
    pub(crate) fn read(reader: &mut impl BufRead) -> Option<Self> {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let status = line.split(' ').nth(1)?.parse().ok()?;
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        let mut reply = Self { status, headers, body: String::new() };
        if reply.header("transfer-encoding") == Some("chunked") {
            reply.body = String::from_utf8(chunks(reader)?).ok()?;
            return Some(reply);
        }
        let length = reply.header("content-length").and_then(|length| length.parse::<u64>().ok());
        // Without a length the body ends where the connection does.
        reader.take(length.unwrap_or(u64::MAX)).read_to_string(&mut reply.body).ok()?;
        let whole = length.is_none_or(|length| reply.body.len() as u64 == length);
        whole.then_some(())?;
        Some(reply)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Asserts the status, showing everything where it is another.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }
}

/// A body that comes in chunks; nothing where it is not whole.
fn chunks(reader: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut size = String::new();
        reader.read_line(&mut size).ok()?;
        let size = u64::from_str_radix(size.trim_end(), 16).ok()?;
        let read = reader.by_ref().take(size).read_to_end(&mut body).ok()?;
        let mut end = [0; 2];
        reader.read_exact(&mut end).ok()?;
        if read as u64 != size || end != *b"\r\n" {
            return None;
        }
        if size == 0 {
            return Some(body);
        }
    }
}

/// The lines of a pipe, which is read to its end whoever listens: a server must not be stopped by
/// its test.
fn lines<R: Read + Send + 'static>(pipe: R) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            // Nobody listens any more.
            let _ = sender.send(line);
        }
    });
    lines
}
