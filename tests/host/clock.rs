//! The machine's clock is set while a server runs, by libfaketime: the wall clock alone, as the
//! monotonic one cannot be set on a real machine either.

use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::common::server::{Reply, Server};
use crate::common::{Place, until};
use crate::{nothing, outcomes, script, shown, skipped, submit};

/// A server whose wall clock is set by a file.
struct Machine {
    place: Place,
    server: Server,
}

impl Machine {
    /// None, said loudly, where there is no libfaketime.
    fn start() -> Option<Self> {
        let Some(library) = library() else {
            skipped("no clock can be set without the package `faketime`");
            return None;
        };
        sweep();
        let place = Place::new();
        place.write("clock", "+0");
        let serve = ["serve", "--json", "--listen", "127.0.0.1:0", "--allow-shell"];
        let mut command = place.command(&[&serve[..], &["--shell-slots", "4"]].concat());
        command.env("LD_PRELOAD", library);
        command.env("FAKETIME_TIMESTAMP_FILE", place.path("clock")).env("FAKETIME_NO_CACHE", "1");
        command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        let server = Server::of(command);
        Some(Self { place, server })
    }

    /// Sets the clock, and waits until the server goes by it.
    fn set(&self, offset: &str) {
        self.place.write("clock.new", offset);
        let before = self.now();
        fs::rename(self.place.path("clock.new"), self.place.path("clock")).unwrap();
        // The days that lie behind differ less than the hours by which the clock is set.
        until("the clock to be set", || (self.now() - before).abs() > 1_800);
    }

    /// What the server thinks the time is, in seconds: a job says when it was made.
    fn now(&self) -> i64 {
        let id = submit(&self.server, &nothing("now"));
        let time = &self.get(&id)["created_at"];
        time.as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_second()
    }

    fn get(&self, id: &str) -> Value {
        self.server.get(&format!("/api/v1/jobs/{id}")).expect(200).json()
    }

    /// Waits for the end of a job.
    fn ended(&self, id: &str) -> Value {
        let mut job = Value::Null;
        until("a job to end", || {
            job = self.server.get(&format!("/api/v1/jobs/{id}?wait=5s")).expect(200).json();
            job.get("finished_at").is_some()
        });
        job
    }
}

/// Where libfaketime is, in the variant for many threads.
fn library() -> Option<PathBuf> {
    let folders = fs::read_dir("/usr/lib").ok()?.flatten();
    let mut found = folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"));
    found.find(|library| library.exists())
}

/// Removes what libfaketime has left of processes that were killed: one that gets the number of
/// such a process would not start.
fn sweep() {
    for entry in fs::read_dir("/dev/shm").into_iter().flatten().flatten() {
        let name = entry.file_name().into_string().unwrap_or_default();
        let pid =
            ["faketime_shm_", "sem.faketime_sem_"].iter().find_map(|of| name.strip_prefix(of));
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The times of a job's events do not fall, whatever the clock says.
fn in_order(server: &Server, id: &str) {
    let events = server.get(&format!("/api/v1/jobs/{id}/events")).expect(200).json();
    let times = events["items"].as_array().unwrap().iter();
    let times: Vec<_> = times.map(|event| event["time"].as_str().unwrap()).collect();
    assert!(times.len() > 3 && times.is_sorted(), "{times:?}");
}

/// Jobs that have begun when the clock is set.
struct Jobs {
    /// Has ten minutes for its attempt.
    works: String,
    /// Is cancelled, and has ten minutes to end.
    ends: String,
    /// Waits for somebody to start it.
    waits: String,
}

fn begin(machine: &Machine) -> Jobs {
    let (place, server) = (&machine.place, &machine.server);
    let dir = place.path("").display().to_string();
    let until_go =
        |marks: &str| format!("{marks}; until [ -e {dir}/go ]; do sleep 0.01; done; echo done");
    let mut works = script("works", &until_go(&format!("touch {dir}/works")));
    works["tasks"][0]["timeout"] = json!("10m");
    let mut ends = script("ends", &until_go(&format!("trap '' TERM; touch {dir}/ends")));
    ends["tasks"][0]["cancel_grace"] = json!("10m");
    let mut waits = nothing("waits");
    waits["start"] = json!("manual");
    let [works, ends, waits] = [works, ends, waits].map(|plan| submit(server, &plan));
    place.wait_for("works");
    place.wait_for("ends");
    server.post(&format!("/api/v1/jobs/{ends}/cancel"), &json!({})).expect(202);
    Jobs { works, ends, waits }
}

/// Work that takes some time goes on, also such as waits.
fn goes_on(machine: &Machine) {
    let server = &machine.server;
    let backoff = json!({"initial": "100ms", "jitter": 0});
    let plan = json!({"name": "goes on", "tasks": [
        {"id": "sleeps", "kind": "sleep", "input": {"for": "100ms"}},
        {"id": "retries", "kind": "shell", "input": {"script": "[ $ANNALS_ATTEMPT -gt 1 ]"},
            "retry": {"max_attempts": 2, "backoff": backoff}},
    ]});
    let id = submit(server, &plan);
    let job = machine.ended(&id);
    assert_eq!(job["status"], "completed", "{job}");
    in_order(server, &id);
}

#[test]
fn limits_of_time_do_not_go_by_the_wall_clock() {
    for offset in ["+1h", "-1h"] {
        let Some(machine) = Machine::start() else { return };
        let jobs = begin(&machine);
        let poll = machine.server.begin("GET", &format!("/api/v1/jobs/{}?wait=5m", jobs.works));
        machine.set(offset);
        goes_on(&machine);
        // An hour of the wall clock has cost none of them its ten minutes.
        for id in [&jobs.works, &jobs.ends] {
            let job = machine.get(id);
            assert_eq!(job["status"], "running", "{offset}: {job}");
        }
        machine.place.write("go", "");
        let polled = Reply::read(&mut BufReader::new(poll)).expect("an answer").expect(200).json();
        assert_eq!(outcomes(&polled, 0), ["completed"], "{offset}: {polled}");
        let ended = machine.ended(&jobs.ends);
        assert_eq!(
            (ended["status"].as_str(), &*outcomes(&ended, 0)),
            (Some("cancelled"), &["interrupted"][..])
        );
        // It came to its own end: nobody killed it.
        let log = machine.server.get(&format!("/api/v1/jobs/{}/tasks/a/log?tail=10", jobs.ends));
        assert_eq!(log.expect(200).body, "done\n");
        let Machine { place, server } = machine;
        server.end();

        // The clock is right again.
        let server = Server::start(&place, &[]);
        server.post(&format!("/api/v1/jobs/{}/execute", jobs.waits), &json!({})).expect(202);
        let waited = shown(&server, &jobs.waits);
        assert_eq!(waited["status"], "completed", "{offset}: {waited}");
        for id in [&jobs.works, &jobs.ends, &jobs.waits] {
            in_order(&server, id);
        }
        server.end();
        let report = place.json(&["verify"]);
        assert_eq!(report["sound"], true, "{report}");
    }
}
