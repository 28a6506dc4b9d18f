//! The data of a server is removed, moved or replaced while it runs. The system lets it go on and
//! write to files that nobody will find again; it must not say that anything of that is durable.

use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use crate::common::Place;
use crate::common::server::Server;
use crate::{nothing, shown, submit, unfit};

const DATA: &str = "annals-data";

/// What is done with the data, given another name for it.
type TakeAway = fn(&Path, &Path);

const WAYS: [(&str, TakeAway); 3] = [
    ("removed", |data, _| fs::remove_dir_all(data).unwrap()),
    ("moved", |data, away| fs::rename(data, away).unwrap()),
    ("replaced", |data, away| {
        fs::rename(data, away).unwrap();
        // As whoever puts a backup there.
        let copied = Command::new("cp").arg("-a").args([away, data]).status();
        assert!(copied.unwrap().success());
    }),
];

#[test]
fn nothing_is_acknowledged_without_the_data() {
    for (how, take_away) in WAYS {
        let place = Place::new();
        let server = Server::start(&place, &[]);
        let (data, away) = (place.path(DATA), place.path("away"));
        let before = submit(&server, &nothing("before"));
        assert_eq!(shown(&server, &before)["status"], "completed");
        take_away(&data, &away);
        let refused = server.post("/api/v1/jobs", &nothing("after")).expect(503).json();
        assert_eq!(refused["code"], "outcome_unknown", "{how}: {refused}");
        let (detail, code) = unfit(&server).unwrap_or_else(|| panic!("{how}, and it is well"));
        assert_eq!(code, "engine_failed", "{how}");
        says_so(&detail);
        server.get("/livez").expect(503);
        // And so it stays.
        server.post("/api/v1/jobs", &nothing("later")).expect(503);
        server.signal(Signal::TERM);
        let ended = server.wait();
        assert_ne!(ended.code, Some(0), "{how}: {ended:?}");
        says_so(&ended.stderr);
        if how == "moved" {
            fs::rename(&away, &data).unwrap();
            let server = Server::start(&place, &[]);
            assert_eq!(shown(&server, &before)["status"], "completed");
            server.end();
            let report = place.json(&["verify"]);
            assert_eq!(report["sound"], true, "{report}");
        }
    }
}

#[test]
fn a_server_at_rest_says_that_its_data_is_gone() {
    for (how, take_away) in WAYS {
        let place = Place::new();
        let server = Server::start(&place, &[]);
        assert_eq!(unfit(&server), None);
        let (data, away) = (place.path(DATA), place.path("away"));
        take_away(&data, &away);
        let (detail, code) = unfit(&server).unwrap_or_else(|| panic!("{how}, and it is well"));
        assert_eq!(code, "store_gone", "{how}");
        says_so(&detail);
        if how == "moved" {
            // What is put back was never gone.
            fs::rename(&away, &data).unwrap();
            assert_eq!(unfit(&server), None);
            let job = submit(&server, &nothing("again"));
            assert_eq!(shown(&server, &job)["status"], "completed");
            server.end();
        }
    }
}

#[track_caller]
fn says_so(text: &str) {
    let says = text.contains("was removed, renamed or replaced while the store was in use");
    assert!(says && text.contains("annals-data/records/"), "{text}");
}
