//! A server that is stopped for a while (SIGSTOP), as by a debugger, a hypervisor or a machine that
//! sleeps, and goes on (SIGCONT).

use std::fs;
use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::common::server::{Reply, Server};
use crate::common::{Place, until};
use crate::{nothing, outcomes, shown, submit};

/// So long the server is stopped at least: longer than what is to come meanwhile takes, and than
/// any of its time limits here.
const STOP_MIN: Duration = Duration::from_millis(2_500);
/// Names another number of seconds.
const SECONDS: &str = "ANNALS_STOP_SECONDS";

const SERVE: [&str; 7] =
    ["--allow-shell", "--header-timeout", "1s", "--body-timeout", "1s", "--idle-timeout", "1s"];

fn stop_for() -> Duration {
    let asked = std::env::var(SECONDS).ok().and_then(|seconds| seconds.parse().ok());
    asked.map_or(STOP_MIN, Duration::from_secs).max(STOP_MIN)
}

/// Jobs of which each has something to come while the server is stopped.
struct Jobs {
    /// Its script ends.
    ends: String,
    /// Its timer is due.
    sleeps: String,
    /// Its back-off is over.
    retries: String,
    /// Its attempt has its time behind it, for which nobody but the server can end it.
    lags: String,
    /// Goes on afterwards.
    lasts: String,
}

fn begin(place: &Place, server: &Server) -> Jobs {
    let dir = place.path("").display().to_string();
    let job = |name: &str, task: Value| {
        let mut plan = nothing(name);
        plan["tasks"].as_array_mut().unwrap().insert(0, task);
        submit(server, &plan)
    };
    let shell = |script: String| json!({"id": "t", "kind": "shell", "input": {"script": script}});
    let wait_for = |file: &str| format!("until [ -e {dir}/{file} ]; do sleep 0.01; done");
    let mut fails =
        shell(format!("[ $ANNALS_ATTEMPT -gt 1 ] || {{ touch {dir}/failed; exit 1; }}"));
    fails["retry"] = json!({"max_attempts": 2, "backoff": {"initial": "2s", "jitter": 0}});
    let mut lags = shell(format!("touch {dir}/lags; sleep 600"));
    lags["timeout"] = json!("2s");
    Jobs {
        ends: job("ends", shell(format!("{}; touch {dir}/ended", wait_for("end")))),
        sleeps: job("sleeps", json!({"id": "t", "kind": "sleep", "input": {"for": "2s"}})),
        retries: job("retries", fails),
        lags: job("lags", lags),
        lasts: job("lasts", shell(format!("touch {dir}/lasts; {}", wait_for("last")))),
    }
}

/// Sends a request; the answer is for later.
fn send(stream: &mut TcpStream, name: &str) {
    let body = nothing(name).to_string();
    let head = "POST /api/v1/jobs HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n";
    let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).expect("the system takes it");
}

#[test]
fn a_server_that_was_stopped_goes_on_where_it_was() {
    let place = Place::new();
    let server = Server::start(&place, &SERVE);
    let jobs = begin(&place, &server);
    for file in ["failed", "lags", "lasts"] {
        place.wait_for(file);
    }
    let poll = server.begin("GET", &format!("/api/v1/jobs/{}?wait=5m", jobs.ends));
    // Its connection is there already when the server stops.
    let mut early = server.connect();

    let begun = Instant::now();
    server.signal(Signal::STOP);
    let stat = format!("/proc/{}/stat", server.pid());
    until("it to stop", || fs::read_to_string(&stat).unwrap().contains(") T "));
    place.write("end", "");
    place.wait_for("ended");
    let mut late = server.connect();
    send(&mut early, "early");
    send(&mut late, "late");
    // What the server is to have missed is time.
    std::thread::sleep(stop_for().saturating_sub(begun.elapsed()));
    server.signal(Signal::CONT);

    for stream in [early, late] {
        let accepted = Reply::read(&mut BufReader::new(stream)).expect("an answer").expect(202);
        let id = accepted.json()["id"].as_str().unwrap().to_owned();
        assert_eq!(shown(&server, &id)["status"], "completed");
    }
    let polled = Reply::read(&mut BufReader::new(poll)).expect("an answer").expect(200).json();
    assert_eq!(polled["status"], "completed", "{polled}");
    place.write("last", "");
    let expected: [(&str, &str, &[&str]); 5] = [
        (&jobs.ends, "completed", &["completed"]),
        (&jobs.sleeps, "completed", &[]),
        (&jobs.retries, "completed", &["failed", "completed"]),
        (&jobs.lags, "failed", &["timed_out"]),
        (&jobs.lasts, "completed", &["completed"]),
    ];
    for (id, status, of_task) in expected {
        let job = shown(&server, id);
        assert_eq!(
            (job["status"].as_str().unwrap(), &*outcomes(&job, 0)),
            (status, of_task),
            "{job}"
        );
    }
    server.get("/readyz").expect(200);
    server.end();
    let report = place.json(&["verify"]);
    assert_eq!(report["sound"], true, "{report}");
}
