//! The example that is killed: it goes on behind its last checkpoint, and what it publishes is
//! what it would have published undisturbed.

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use common::{PATIENCE, Place, built, finish, signal};
use rustix::process::Signal;

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
