//! The example that is killed: it goes on behind its last checkpoint, and what it publishes is
//! what it would have published undisturbed; also where it is served by HTTP.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use common::server::Server;
use common::{PATIENCE, Place, built, finish, signal, until};
use rustix::process::Signal;
use serde_json::{Value, json};

const FRAMES: &str = "60";

#[test]
fn the_pipeline_goes_on_behind_its_checkpoint() {
    let program = built("media_pipeline", &["--example", "media_pipeline"]);
    let place = Place::new();
    let start_in = |data: &str| {
        let mut command = Command::new(&program);
        command.arg(place.path(data)).arg(FRAMES).stdin(Stdio::null());
        Run::of(command.stdout(Stdio::piped()).spawn().unwrap())
    };
    let start = || start_in("data");

    let undisturbed = start_in("undisturbed");
    let mut killed = start();
    killed.says("transcode   30 %");
    killed.child.kill().unwrap();

    // At once: the killed process may still be on its way out.
    let stopped = start();
    let frame = stopped.says("goes on at frame ");
    let frame = frame.split(' ').nth_back(2).and_then(|word| word.parse::<u64>().ok());
    assert!(frame.is_some_and(|frame| (10..60).contains(&frame)), "{frame:?}");
    signal(&stopped.child, Signal::INT);
    stopped.says("the same command goes on");
    finish(stopped.child).expect(0);

    let last = start();
    last.says("transcode   running (attempt 3)");
    last.says("60 frames in ");
    finish(last.child).expect(0);
    finish(killed.child);

    undisturbed.says("60 frames in ");
    finish(undisturbed.child).expect(0);
    assert_eq!(published(&place, "data"), published(&place, "undisturbed"));
    assert_eq!(place.json(&["verify", "--data", "data"])["sound"], true);
}

#[test]
fn the_pipeline_is_served() {
    let program = built("media_pipeline", &["--example", "media_pipeline"]);
    let place = Place::new();
    let serve = || {
        let mut command = Command::new(&program);
        command.args(["serve", "--json", "--listen", "127.0.0.1:0", "--data"]);
        command.arg(place.path("data"));
        Server::of(command)
    };
    let order = |frames: u64, speed: u64| {
        let folder = place.path("films");
        json!({"workflow": "media",
            "input": {"folder": folder, "frames": frames, "frames_per_second": speed}})
    };

    let server = serve();
    let kinds = server.get("/api/v1/kinds").expect(200).json();
    let kinds = kinds["items"].as_array().unwrap();
    assert!(kinds.iter().any(|kind| kind["name"] == "transcode"), "{kinds:?}");
    let workflows = server.get("/api/v1/workflows").expect(200).json();
    assert_eq!(workflows, json!({"items": [{"name": "media"}]}));
    let refused =
        server.post("/api/v1/jobs", &json!({"workflow": "media", "input": {"frames": 1}}));
    let refused = refused.expect(422).json();
    assert!(refused["errors"][0]["detail"].as_str().unwrap().contains("folder"), "{refused}");

    let killed = server.post("/api/v1/jobs", &order(60, 20)).expect(202).json();
    let killed = format!("/api/v1/jobs/{}", killed["id"].as_str().unwrap());
    let undisturbed = server.post("/api/v1/jobs?wait=1m", &order(60, 1_000)).expect(202).json();
    assert_eq!(undisturbed["status"], "completed", "{undisturbed}");
    until("a checkpoint", || {
        let job = server.get(&killed).expect(200).json();
        let fraction = job.pointer("/tasks/2/progress/fraction").and_then(Value::as_f64);
        fraction.is_some_and(|fraction| fraction > 0.3)
    });
    server.signal(Signal::KILL);
    server.wait();

    let server = serve();
    let job = server.get(&format!("{killed}?wait=1m")).expect(200).json();
    assert_eq!(job["status"], "completed", "{job}");
    let transcode = &job["tasks"][2];
    let outcomes = transcode["attempts"].as_array().unwrap().iter();
    let outcomes: Vec<_> = outcomes.map(|attempt| &attempt["outcome"]).collect();
    assert_eq!(outcomes, ["lost", "completed"]);
    // Had it begun anew, some checkpoints would be there twice.
    let checkpoints = |path: &str| {
        let events = server.get(&format!("{path}/events?limit=1000")).expect(200).json();
        let events = events["items"].as_array().unwrap().clone();
        events.iter().filter(|event| event["type"] == "CheckpointSaved").count()
    };
    let undisturbed_path = format!("/api/v1/jobs/{}", undisturbed["id"].as_str().unwrap());
    assert_eq!(checkpoints(&killed), checkpoints(&undisturbed_path));
    assert!(checkpoints(&killed) > 3);
    let sums = |job: &Value| fs::read_to_string(job["output"]["manifest"].as_str().unwrap());
    assert_eq!(sums(&job).unwrap(), sums(&undisturbed).unwrap());
    server.end();
}

/// The checksums that the only job of a store has published.
fn published(place: &Place, data: &str) -> String {
    let films = std::fs::read_dir(place.path(data).join("films")).unwrap();
    let folders: Vec<_> = films.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(folders.len(), 1, "all runs were about one job: {folders:?}");
    std::fs::read_to_string(folders[0].join("SHA256SUMS")).unwrap()
}

/// A run of the example, whose lines come through a channel.
struct Run {
    child: Child,
    lines: Receiver<String>,
}

impl Run {
    fn of(mut child: Child) -> Self {
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, lines }
    }

    /// Waits for a line with these words.
    #[track_caller]
    fn says(&self, words: &str) -> String {
        let mut seen = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            if line.contains(words) {
                return line;
            }
            seen.push(line);
        }
        panic!("{words:?} was not said, but {seen:?}");
    }
}
