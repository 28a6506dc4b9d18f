//! A disk that is really full: a small one of memory, with the store, its logs and a ballast on it.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::common::server::Server;
use crate::common::{Place, finish, signal, until};
use crate::{nothing, outcomes, script, shown, skipped, submit, unfit};

/// The server must not be unfit before the disk is full.
const SERVE: [&str; 5] = ["--data", "disk/data", "--min-free-disk", "4 KiB", "--allow-shell"];

/// So many bytes step logs leave to the event log.
const RESERVE: u64 = 16 << 20;

/// A disk of its own in a folder of a test.
struct Disk(PathBuf);

impl Disk {
    /// None, said loudly, where nothing may be mounted.
    fn mount(place: &Place, size: &str) -> Option<Self> {
        let disk = Self(place.path("disk"));
        fs::create_dir(&disk.0).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(&disk.0);
        match mount.output() {
            Ok(output) if output.status.success() => Some(disk),
            refused => {
                skipped(&format!("no disk can be filled, as none may be mounted: {refused:?}"));
                None
            }
        }
    }

    fn free(&self) -> u64 {
        let disk = rustix::fs::statvfs(&self.0).unwrap();
        disk.f_bavail * disk.f_frsize
    }

    /// Takes what is free, and goes on to take it.
    fn fill(&self) {
        let mut ballast = File::options().create(true).append(true).open(self.ballast()).unwrap();
        while ballast.write(&[7; 4096]).is_ok_and(|written| written > 0) {}
    }

    fn ballast(&self) -> PathBuf {
        self.0.join("ballast")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// Submits one job after the other until one is not accepted; gives the ids of those that were.
fn submit_until_refused(server: &Server, disk: &Disk) -> Vec<String> {
    let mut accepted = Vec::new();
    loop {
        let plan = json!({"name": "filler", "input": {"filler": "x".repeat(20_000)},
            "tasks": [{"id": "a", "kind": "noop"}, {"id": "b", "kind": "noop"}]});
        disk.fill();
        let reply = server.post("/api/v1/jobs", &plan);
        if reply.status != 202 {
            let refused = reply.expect(503).json();
            assert_eq!(refused["code"], "outcome_unknown", "{refused}");
            return accepted;
        }
        accepted.push(reply.json()["id"].as_str().unwrap().to_owned());
    }
}

#[test]
fn a_full_disk_costs_nothing_that_was_acknowledged() {
    let place = Place::new();
    let Some(disk) = Disk::mount(&place, "48m") else { return };
    let server = Server::start(&place, &SERVE);
    let go = place.path("go").display().to_string();
    // Its log goes to the same disk.
    let talks = format!("until [ -e {go} ]; do echo talks; sleep 0.01; done");
    let mut talks = script("talks", &talks);
    // Where there is no room for its script, it is tried again.
    talks["tasks"][0]["retry"] = json!({"max_attempts": 10_000, "backoff": {"initial": "50ms"}});
    let mut accepted = vec![submit(&server, &talks)];
    accepted.push(submit(&server, &nothing("before")));
    accepted.extend(submit_until_refused(&server, &disk));
    let (detail, code) = unfit(&server).expect("it is unfit");
    assert!(code == "engine_failed" && detail.contains("no space is left for"), "{code}: {detail}");
    server.get("/livez").expect(503);
    // What is not known to be durable is not acknowledged, and what is durable can be read.
    server.post(&format!("/api/v1/jobs/{}/cancel", accepted[0]), &json!({})).expect(503);
    server.signal(Signal::TERM);
    let ended = server.wait();
    assert_ne!(ended.code, Some(0), "{ended:?}");

    start_without_room(&place, &disk);
    fs::remove_file(disk.ballast()).unwrap();
    fs::write(place.path("go"), "").unwrap();
    let server = Server::start(&place, &SERVE);
    for id in &accepted {
        let job = shown(&server, id);
        assert_eq!(job["status"], "completed", "{job}");
    }
    let talks = shown(&server, &accepted[0]);
    let outcomes = outcomes(&talks, 0);
    assert_eq!((outcomes.first(), outcomes.last()), (Some(&"lost"), Some(&"completed")), "{talks}");
    // Of the one that was refused it was not known.
    let all = server.get("/api/v1/jobs?limit=1000").expect(200).json();
    let all = all["items"].as_array().unwrap().len();
    assert!(all == accepted.len() || all == accepted.len() + 1, "{all} of {}", accepted.len());
    server.end();
    let report = place.json(&["verify", "--data", "disk/data"]);
    assert_eq!(report["sound"], true, "{report}");
}

/// A start on a full disk goes well, if there is room within the store's own files, or says what
/// is the matter. Either way nothing is lost by it.
fn start_without_room(place: &Place, disk: &Disk) {
    disk.fill();
    let mut serve =
        place.command(&[&["serve", "--listen", "127.0.0.1:0", "--json"], &SERVE[..]].concat());
    serve.stdout(File::create(place.path("out")).unwrap()).stderr(Stdio::piped());
    let mut server = serve.spawn().unwrap();
    until("it to be ready or over", || {
        !place.read("out").is_empty() || server.try_wait().unwrap().is_some()
    });
    if server.try_wait().unwrap().is_none() {
        signal(&server, Signal::KILL);
        finish(server);
        return;
    }
    let answer = finish(server).expect(7);
    let problem: Value = serde_json::from_str(answer.stderr.lines().next_back().unwrap()).unwrap();
    assert_eq!(problem["code"], "store_full", "{problem}");
}

#[test]
fn step_logs_leave_room_for_the_event_log() {
    let place = Place::new();
    let Some(disk) = Disk::mount(&place, "36m") else { return };
    let server = Server::start(&place, &SERVE);
    let logs = disk.free() - RESERVE;
    // Two of them have more to say than there is room for, and each keeps up to 16 MiB of it.
    let talks = format!("head -c {} /dev/urandom | base64", logs / 2);
    let talking = [0, 1].map(|_| submit(&server, &script("talks", &talks)));
    for id in &talking {
        until("the talking to end", || {
            // The others go on all the while.
            let job = submit(&server, &nothing("beside"));
            assert_eq!(shown(&server, &job)["status"], "completed");
            let talks = server.get(&format!("/api/v1/jobs/{id}")).expect(200).json();
            talks["status"] == "completed"
        });
    }
    assert!(disk.free() > RESERVE / 2, "{} bytes are left", disk.free());
    server.get("/readyz").expect(200);
    let kept = used(&disk.0.join("data/steps"));
    assert!(kept > logs * 3 / 4, "{kept} bytes of {logs}");
    let told = |id: &String| {
        let log = server.get(&format!("/api/v1/jobs/{id}/tasks/a/log")).expect(200);
        let notes = [" bytes were dropped here]", " bytes are missing here]"];
        notes.iter().any(|note| log.body.contains(note))
    };
    assert!(talking.iter().any(told), "what was dropped is told");
    server.end();
}

/// How many bytes of the disk the files in a folder take.
fn used(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let of = |entry: fs::DirEntry| {
        let metadata = entry.metadata().unwrap();
        if metadata.is_dir() { used(&entry.path()) } else { metadata.blocks() * 512 }
    };
    entries.map(of).sum()
}
