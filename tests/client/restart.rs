//! Commands while the server is away, and answers that are lost on their way.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Child;

use serde_json::Value;

use crate::common::{Answer, Place, finish, until};
use crate::{Served, start_at};

const SMALL: &str = "name: small\ntasks: [{id: a, kind: noop}]\n";
const HELD: &str = "name: held\nstart: manual\ntasks: [{id: a, kind: noop}]\n";

/// Starts a command whose stderr can be read while it runs.
fn start(place: &Place, args: &[&str]) -> Child {
    let stderr = File::create(place.path("stderr")).unwrap();
    let stdout = File::create(place.path("stdout")).unwrap();
    place.command(args).stdout(stdout).stderr(stderr).spawn().unwrap()
}

fn end(place: &Place, child: Child) -> Answer {
    let code = finish(child).code;
    Answer { code, stdout: place.read("stdout"), stderr: place.read("stderr") }
}

fn jobs(served: &Served) -> Vec<Value> {
    served.place.json(&["list"])["items"].as_array().unwrap().clone()
}

#[test]
fn a_submission_during_a_restart_makes_one_job() {
    let mut served = Served::new();
    served.place.write("plan.yaml", SMALL);
    let url = served.server.url.clone();
    served.kill();
    let child = start(&served.place, &["submit", "plan.yaml", "--server", &url]);
    until("a try", || served.place.read("stderr").contains("trying again for 30s"));
    served.server = start_at(&served.place, served.server.address);
    let answer = end(&served.place, child).expect(0);
    assert_eq!(answer.stderr.lines().count(), 1, "it is said once: {}", answer.stderr);
    let jobs = jobs(&served);
    assert_eq!(jobs.len(), 1);
    assert!(answer.stdout.contains(jobs[0]["id"].as_str().unwrap()), "{}", answer.stdout);
}

/// A way to a server on which the first answers are lost.
struct Lossy {
    address: SocketAddr,
}

impl Lossy {
    fn new(server: SocketAddr, lost: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for (number, client) in listener.incoming().enumerate() {
                let mut client = client.unwrap();
                let answer = exchange(&client, server);
                if number >= lost {
                    // A client that went away has its answer.
                    let _ = client.write_all(&answer);
                }
            }
        });
        Self { address }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// Has a server answer what a client sends, to the end of the answer.
fn exchange(client: &TcpStream, server: SocketAddr) -> Vec<u8> {
    let mut reader = BufReader::new(client);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "a request ended early");
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).unwrap();
    let head = head.replacen("\r\n", "\r\nconnection: close\r\n", 1);
    let mut server = TcpStream::connect(server).unwrap();
    server.write_all(head.as_bytes()).unwrap();
    server.write_all(&body).unwrap();
    let mut answer = Vec::new();
    server.read_to_end(&mut answer).unwrap();
    answer
}

#[test]
fn a_submission_whose_answer_is_lost_makes_one_job() {
    let served = Served::new();
    served.place.write("plan.yaml", SMALL);
    let way = Lossy::new(served.server.address, 3);
    let answer = served.place.annals(&["submit", "plan.yaml", "--server", &way.url()]).expect(0);
    assert!(answer.stderr.contains("went away before it answered"), "{}", answer.stderr);
    let jobs = jobs(&served);
    assert_eq!(jobs.len(), 1);
    assert!(answer.stdout.contains(jobs[0]["id"].as_str().unwrap()), "{}", answer.stdout);
}

#[test]
fn commands_whose_answers_are_lost_are_carried_out_once() {
    let served = Served::new();
    let id = served.submit(HELD);
    for (args, types) in [
        (&["pause", &id][..], "JobPaused"),
        (&["resume", &id], "JobResumed"),
        (&["remove", &id, "a"], "TaskRemoved"),
        (&["execute", &id], "JobCompleted"),
    ] {
        let way = Lossy::new(served.server.address, 2);
        served.place.annals(&[args, &["--server", &way.url()]].concat()).expect(0);
        let events = served.server.get(&format!("/api/v1/jobs/{id}/events")).json();
        let events = events["items"].as_array().unwrap().clone();
        let of_type = events.iter().filter(|event| event["type"] == types).count();
        assert_eq!(of_type, 1, "{args:?}: {events:?}");
    }
}

#[test]
fn a_submission_of_which_nothing_is_known_says_how_to_find_out() {
    let served = Served::new();
    served.place.write("plan.yaml", SMALL);
    let way = Lossy::new(served.server.address, usize::MAX);
    let args = ["submit", "plan.yaml", "--retry-for", "300ms", "--server", &way.url()];
    let answer = served.place.annals(&args).expect(7);
    let (_, key) = answer.stderr.split_once("--idempotency-key ").expect("a key to repeat it by");
    let key = key.split(' ').next().unwrap();
    let again = served.place.json(&["submit", "plan.yaml", "--idempotency-key", key]);
    let jobs = jobs(&served);
    assert_eq!(jobs.len(), 1, "the repeat found it");
    assert_eq!(again["id"], jobs[0]["id"]);
}

/// Many small steps, so that there is always something happening.
fn steps() -> String {
    let task = |number| format!("  - {{id: step-{number}, kind: sleep, input: {{for: 100ms}}}}\n");
    format!("name: steps\ntasks:\n{}", (0..30).map(task).collect::<String>())
}

#[test]
fn events_are_followed_through_restarts_each_once() {
    let mut served = Served::new();
    let id = served.submit(&steps());
    let url = served.server.url.clone();
    let args = ["events", &id, "--follow", "--json", "--server", &url];
    let child = start(&served.place, &args);
    for restarts in 1..=3 {
        let seen = || served.place.read("stdout").lines().count();
        until("events", || seen() > restarts * 15);
        served.restart();
    }
    let answer = end(&served.place, child).expect(0);
    assert_eq!(answer.stderr, "", "what programs read has no lines for people");
    let all = served.place.annals(&["events", &id, "--json"]).expect(0).stdout;
    assert_eq!(answer.stdout, all);
    assert!(all.lines().last().unwrap().contains("JobCompleted"), "{all}");
}

#[test]
fn a_job_is_watched_through_restarts_to_its_end() {
    let mut served = Served::new();
    let id = served.submit(&steps());
    let url = served.server.url.clone();
    let child = start(&served.place, &["watch", &id, "--server", &url]);
    let json = File::create(served.place.path("json")).unwrap();
    let mut command = served.place.command(&["watch", &id, "--json", "--server", &url]);
    let second = command.stdout(json).spawn().unwrap();
    for restarts in 1..=2 {
        until("steps", || served.place.read("stdout").matches("completed").count() > restarts * 6);
        served.restart();
    }
    let answer = end(&served.place, child).expect(0);
    for step in 0..30 {
        let line = format!("  step-{step} ");
        let lines =
            answer.stdout.lines().filter(|text| text.contains(&line) && text.contains("completed"));
        assert_eq!(lines.count(), 1, "{line}: {}", answer.stdout);
    }
    assert!(answer.stdout.contains("completed: 30 of 30 tasks in "), "{}", answer.stdout);
    let told: Vec<&str> = answer.stderr.lines().collect();
    assert!(told[0].contains("went away") && told[0].contains("until it is back"), "{told:?}");
    assert_eq!(told[1], "annals: the server is back");
    assert_eq!(told.len(), 4, "once for each restart: {told:?}");
    finish(second).expect(0);
    let all = served.place.annals(&["events", &id, "--json"]).expect(0).stdout;
    let snapshot = served.place.annals(&["show", &id, "--json"]).expect(0).stdout;
    assert_eq!(served.place.read("json"), format!("{all}{snapshot}"));
}
