//! From the signal to the end.

use std::io::{Read, Write};

use rustix::process::Signal;

use crate::common::Place;
use crate::common::server::Server;

#[test]
fn either_signal_ends_it_in_good_order() {
    for which in [Signal::TERM, Signal::INT] {
        let place = Place::new();
        let server = Server::start(&place, &[]);
        // A connection that says nothing does not hold it up.
        let mut idle = server.connect();
        server.signal(which);
        server.wait().expect(0);
        assert_eq!(idle.read(&mut [0]).unwrap_or(0), 0);
        let verified = place.json(&["verify"]);
        assert_eq!(verified["sound"], true, "{verified}");
    }
}

#[test]
fn the_second_signal_ends_it_at_once() {
    let place = Place::new();
    let dir = place.path("").display().to_string();
    let script = format!("trap '' TERM; touch {dir}/runs; while :; do sleep 1; done");
    let task = format!("{{id: a, kind: shell, input: {{script: \"{script}\"}}}}");
    place.write("plan.yaml", format!("name: stubborn\ntasks: [{task}]\n"));
    let run = place.start(&["run", "plan.yaml"]);
    place.wait_for("runs");
    crate::common::signal(&run, Signal::KILL);
    crate::common::finish(run);
    std::fs::remove_file(place.path("runs")).unwrap();

    for (second, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        // The job goes on by itself, and its task listens to no signal.
        let server = Server::start(&place, &[]);
        place.wait_for("runs");
        server.signal(Signal::TERM);
        let mut stream = server.connect();
        stream.write_all(b"GET /api/v1/openapi.json HTTP/1.0\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("it answers while tasks end");
        assert!(text.starts_with("HTTP/1.0 200"), "{text}");
        server.signal(second);
        server.wait().expect(code);
        std::fs::remove_file(place.path("runs")).unwrap();
    }
}
