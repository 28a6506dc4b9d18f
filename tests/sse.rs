//! Streams of a real server: what happens is followed through kills and restarts, and by those who
//! hardly read.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use common::server::Server;
use common::{PATIENCE, Place};

/// A frame of a stream, as browsers hand it on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Frame {
    id: Option<String>,
    event: String,
    data: String,
}

impl Frame {
    fn json(&self) -> Value {
        serde_json::from_str(&self.data).expect("JSON")
    }
}

/// A connection on which a stream comes. By HTTP/1.0, so that nothing stands between its bytes.
struct Connection(BufReader<TcpStream>);

impl Connection {
    /// Asks for a stream; none while there is no server, or where it has nothing more to say.
    fn open(address: SocketAddr, path: &str, last: Option<&str>) -> Result<Self, Refused> {
        let mut stream = TcpStream::connect(address).map_err(|_| Refused::Away)?;
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit can be set");
        let last = last.map(|id| format!("last-event-id: {id}\r\n")).unwrap_or_default();
        let head = format!("GET {path} HTTP/1.0\r\naccept: text/event-stream\r\n{last}\r\n");
        stream.write_all(head.as_bytes()).map_err(|_| Refused::Away)?;
        let mut stream = Self(BufReader::new(stream));
        let line = stream.line().ok_or(Refused::Away)?;
        let status = line.split(' ').nth(1).map(str::to_owned).ok_or(Refused::Away)?;
        while !stream.line().ok_or(Refused::Away)?.is_empty() {}
        match status.as_str() {
            "200" => Ok(stream),
            "204" => Err(Refused::NothingMore),
            // It starts, or ends.
            "503" => Err(Refused::Away),
            other => panic!("{path} is answered with {other}"),
        }
    }

    /// A whole line.
    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.0.read_line(&mut line).ok()?;
        line.ends_with('\n').then(|| line.trim_end_matches(['\r', '\n']).to_owned())
    }

    /// The next whole frame; none where the stream was cut.
    fn next(&mut self) -> Option<Frame> {
        let mut frame = Frame { id: None, event: String::new(), data: String::new() };
        loop {
            let line = self.line()?;
            match line.split_once(": ") {
                Some(("id", id)) => frame.id = Some(id.to_owned()),
                Some(("event", event)) => event.clone_into(&mut frame.event),
                Some(("data", data)) => frame.data.push_str(data),
                _ if line.is_empty() && !frame.data.is_empty() => return Some(frame),
                _ => {}
            }
        }
    }
}

/// Why there is no stream.
#[derive(Debug, PartialEq, Eq)]
enum Refused {
    /// Nobody is there.
    Away,
    /// There is nothing more to come for.
    NothingMore,
}

/// Follows a path through all interruptions until a frame is the last one. Gives the frames, and
/// how often it had to come again.
fn follow(
    address: SocketAddr,
    path: String,
    is_last: impl Fn(&Frame) -> bool + Send + 'static,
) -> JoinHandle<(Vec<Frame>, usize)> {
    spawn(move || {
        let (mut frames, mut last, mut again) = (Vec::new(), None::<String>, 0);
        loop {
            match Connection::open(address, &path, last.as_deref()) {
                Ok(mut stream) => {
                    while let Some(frame) = stream.next() {
                        last = frame.id.clone().or(last);
                        frames.push(frame);
                        if frames.last().is_some_and(&is_last) {
                            return (frames, again);
                        }
                    }
                }
                Err(Refused::Away) => sleep(Duration::from_millis(10)),
                Err(Refused::NothingMore) => panic!("{path}: it has not seen the end"),
            }
            again += 1;
        }
    })
}

fn is_end(frame: &Frame) -> bool {
    frame.event == "end"
}

/// The numbers, types and hashes of events.
fn events(items: impl IntoIterator<Item = Value>) -> Vec<(u64, String, String)> {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let each = items.into_iter();
    each.map(|event| {
        (event["seq"].as_u64().expect("a number"), text(&event["type"]), text(&event["hash"]))
    })
    .collect()
}

/// All events of a path, page by page.
fn logged(server: &Server, path: &str) -> Vec<Value> {
    let (mut items, mut after) = (Vec::new(), "0".to_owned());
    loop {
        let page = server.get(&format!("{path}?limit=200&after={after}")).expect(200).json();
        items.extend(page["items"].as_array().expect("items").iter().cloned());
        match page["next_cursor"].as_str() {
            Some(next) => next.clone_into(&mut after),
            None => return items,
        }
    }
}

fn submit(server: &Server, tasks: &[Value]) -> String {
    let plan = json!({"name": "followed", "tasks": tasks});
    let job = server.post("/api/v1/jobs", &plan).expect(202).json();
    format!("/api/v1/jobs/{}", job["id"].as_str().expect("an id"))
}

/// A task that writes, waits for a file, and writes again.
fn waits(place: &Place, number: usize) -> Value {
    let file = place.path(&format!("go{number}")).display().to_string();
    let begun = place.path(&format!("begun{number}")).display().to_string();
    let script = format!(
        "echo begin {number}; touch '{begun}'; while [ ! -e '{file}' ]; do sleep 0.02; done; \
         echo end {number}"
    );
    json!({"id": format!("t{number}"), "kind": "shell", "input": {"script": script}})
}

const RESTARTS: usize = 10;

#[test]
fn each_event_comes_once_and_in_order_through_ten_restarts() {
    let place = Place::new();
    let mut server = Server::start(&place, &["--allow-shell"]);
    let address = server.address;
    let tasks: Vec<Value> = (0..=RESTARTS).map(|number| waits(&place, number)).collect();
    let job = submit(&server, &tasks);
    let events_path = format!("{job}/events");
    let followers: Vec<_> = (0..4).map(|_| follow(address, events_path.clone(), is_end)).collect();
    let is_over = |frame: &Frame| frame.event == "JobCompleted";
    let of_all: Vec<_> =
        (0..2).map(|_| follow(address, "/api/v1/events".into(), is_over)).collect();
    let last_log = format!("{job}/tasks/t{RESTARTS}/log");
    let of_log = follow(address, last_log.clone(), is_end);
    for number in 0..RESTARTS {
        place.wait_for(&format!("begun{number}"));
        // By turns: a kill while the task runs, and an orderly end in which it may end, too.
        if number % 2 == 0 {
            server.signal(Signal::KILL);
            server.wait();
            std::fs::remove_file(place.path(&format!("begun{number}"))).unwrap();
        } else {
            server.signal(Signal::TERM);
            place.write(&format!("go{number}"), "");
            server.wait().expect(0);
        }
        server = Server::start(&place, &["--allow-shell", "--listen", &address.to_string()]);
        place.write(&format!("go{number}"), "");
    }
    place.write(&format!("go{RESTARTS}"), "");
    let all = logged_to_the_end(&server, &job);
    for follower in followers {
        let (mut frames, again) = follower.join().expect("it followed to the end");
        let end = frames.pop().expect("the end").json();
        assert_eq!((&end["status"], &end["seq"]), (&json!("completed"), &json!(all.len())));
        let ids: Vec<String> = frames.iter().filter_map(|frame| frame.id.clone()).collect();
        assert_eq!(ids, (1..=all.len()).map(|seq| seq.to_string()).collect::<Vec<_>>());
        assert_eq!(events(frames.iter().map(Frame::json)), events(all.clone()));
        assert!(again >= RESTARTS, "it was interrupted {again} times");
    }
    let whole = logged(&server, "/api/v1/events");
    for follower in of_all {
        let (frames, _) = follower.join().expect("it followed to the end");
        let seen: Vec<Value> = frames.iter().map(Frame::json).collect();
        assert_eq!(seen, whole[..seen.len()]);
        assert!(whole[seen.len()..].is_empty(), "the end of the job is the last");
    }
    let (frames, _) = of_log.join().expect("it followed to the end");
    let (end, lines) = frames.split_last().expect("frames");
    let text: Vec<Value> = lines.iter().map(|line| line.json()["text"].clone()).collect();
    assert_eq!(text, [format!("begin {RESTARTS}"), format!("end {RESTARTS}")]);
    assert_eq!(end.json()["outcome"], "completed");
    let last = lines.last().and_then(|line| line.id.as_deref());
    let again = Connection::open(address, &last_log, last).err();
    assert_eq!(again, Some(Refused::NothingMore));
    server.end();
}

/// The events of a job once it has ended.
fn logged_to_the_end(server: &Server, job: &str) -> Vec<Value> {
    let ended = server.get(&format!("{job}?wait=1m")).expect(200).json();
    assert_eq!(ended["status"], "completed", "{ended}");
    logged(server, &format!("{job}/events"))
}

#[test]
fn those_who_hardly_read_slow_nobody_and_miss_nothing() {
    const SLOW: usize = 12;
    let place = Place::new();
    let server = Server::start(&place, &["--allow-shell"]);
    let address = server.address;
    // More than the sockets between them hold.
    let script = r#"{ printf '"'; head -c 400000 /dev/zero | tr '\0' x; printf '"'; } \
        > "$ANNALS_OUTPUT""#;
    let gate = waits(&place, 0);
    let mut tasks = vec![gate];
    tasks.extend((1..=30).map(|number| {
        json!({"id": format!("big{number}"), "kind": "shell", "input": {"script": script}})
    }));
    let job = submit(&server, &tasks);
    let path = format!("{job}/events");
    let mut slow: Vec<Connection> =
        (0..SLOW).map(|_| Connection::open(address, &path, None).expect("a stream")).collect();
    let began: Vec<Frame> = slow.iter_mut().map(|each| each.next().expect("a frame")).collect();
    let fast = follow(address, path.clone(), is_end);
    place.write("go0", "");
    // The job ends, another one follows to its end, and the server answers: nobody waits for those
    // who have read nothing since the beginning.
    let all = logged_to_the_end(&server, &job);
    let (fast, again) = fast.join().expect("it followed to the end");
    assert_eq!((fast.len() - 1, again), (all.len(), 0));
    let other = submit(&server, &[json!({"id": "n", "kind": "noop"})]);
    assert_eq!(logged_to_the_end(&server, &other).len(), 5);
    let all = Arc::new(events(all));
    let readers = slow.into_iter().zip(began).map(|(mut stream, first)| {
        let all = Arc::clone(&all);
        spawn(move || {
            let mut frames = vec![first];
            frames.extend(std::iter::from_fn(|| stream.next()));
            let end = frames.pop().expect("the end");
            assert_eq!(end.event, "end");
            assert!(events(frames.iter().map(Frame::json)) == *all, "{} frames", frames.len());
        })
    });
    for reader in readers.collect::<Vec<_>>() {
        reader.join().expect("it read all of it");
    }
    server.end();
}
