//! The lines on stderr.

use serde_json::{Value, json};

use crate::common::Place;
use crate::common::server::Server;

/// Serves with these flags while something is asked; gives the lines of the log.
fn logged(flags: &[&str], ask: impl FnOnce(&Server)) -> Vec<String> {
    let place = Place::new();
    let server = Server::start(&place, flags);
    ask(&server);
    server.end().stderr.lines().map(str::to_owned).collect()
}

fn ask_a_few_things(server: &Server) {
    let secret = "canary-7f3a";
    let plan = json!({"name": secret, "input": {"key": secret}, "labels": {"a": secret},
        "tasks": [{"id": "a", "kind": "noop", "input": secret}]});
    let headers = [
        ("content-type", "application/json"),
        ("x-request-id", "request-1"),
        ("x-annals-actor", "ada"),
        ("authorization", secret),
        ("cookie", secret),
        ("idempotency-key", secret),
    ];
    let job = server.send("POST", "/api/v1/jobs?wait=1m", &headers, &plan.to_string());
    let job = job.expect(202).json()["id"].as_str().unwrap().to_owned();
    server.get(&format!("/api/v1/jobs/{job}")).expect(200);
    server.get(&format!("/{secret}?token={secret}")).expect(404);
    server.get(&format!("/api/v1/jobs?token={secret}")).expect(400);
    server.send("POST", "/api/v1/jobs", &headers[..1], &format!("{{\"{secret}\": ")).expect(400);
    server.get("/readyz").expect(200);
    server.get("/metrics").expect(200);
}

#[test]
fn each_request_is_a_line_that_holds_nothing_of_what_was_sent() {
    let lines = logged(&["--log-format", "json"], ask_a_few_things);
    let lines: Vec<Value> =
        lines.iter().map(|line| serde_json::from_str(line).expect(line)).collect();
    let mut requests = lines.iter().filter(|line| line["target"] == "annals::access");
    let mut next = |method: &str, route: &str, status: u16| {
        let line = requests.next().expect("there is a line");
        let found = [&line["method"], &line["route"], &line["status"]];
        assert_eq!(found, [&json!(method), &json!(route), &json!(status)], "{line}");
        assert!(line["duration_ms"].as_f64().is_some_and(|millis| millis > 0.0), "{line}");
        assert!(line["timestamp"].as_str().is_some(), "{line}");
        assert_eq!(line["level"], "INFO");
        line
    };
    let submitted = next("POST", "/api/v1/jobs", 202);
    assert_eq!(
        (&submitted["request_id"], &submitted["actor"]),
        (&json!("request-1"), &json!("ada"))
    );
    let read = next("GET", "/api/v1/jobs/{id}", 200);
    assert_eq!(read["request_id"].as_str().map(str::len), Some(36));
    assert_eq!(read["actor"], "anonymous");
    next("GET", "", 404);
    next("GET", "/api/v1/jobs", 400);
    next("POST", "/api/v1/jobs", 400);
    assert_eq!(requests.next(), None, "probes are not worth a line");
    let all = format!("{lines:?}");
    assert!(!all.contains("canary"), "{all}");
}

#[test]
fn nothing_of_what_was_sent_is_logged_at_any_level() {
    for flags in [["--log", "trace"], ["--log", "trace,annals=debug"]] {
        let lines = logged(&flags, ask_a_few_things);
        assert!(lines.iter().any(|line| line.contains("/readyz")), "probes are logged now");
        let found = lines.iter().find(|line| line.contains("canary"));
        assert_eq!(found, None);
    }
}

#[test]
fn a_filter_shows_what_it_says() {
    let lines = logged(&["--log", "warn"], ask_a_few_things);
    assert_eq!(lines, [""; 0]);
    let lines = logged(&["--log", "off,annals::access=info"], ask_a_few_things);
    assert_eq!(lines.len(), 5, "{lines:?}");
}

/// Whoever starts a server and never reads what it says must not stop it.
#[test]
fn a_stderr_that_nobody_reads_stops_nothing() {
    let place = Place::new();
    let mut command = place.command(&["serve", "--json", "--listen", "127.0.0.1:0"]);
    let (reader, writer) = std::io::pipe().unwrap();
    let stdout = std::fs::File::create(place.path("out")).unwrap();
    let child = command.stdout(stdout).stderr(writer).spawn().unwrap();
    drop(command);
    crate::common::until("it is ready", || place.read("out").ends_with('\n'));
    let ready: Value = serde_json::from_str(&place.read("out")).unwrap();
    let address = ready["url"].as_str().unwrap().strip_prefix("http://").unwrap();
    let address = address.parse().unwrap();
    // A pipe holds 64 KiB; each request is some 200 bytes.
    for _ in 0..1_000 {
        let reply = crate::common::server::exchange(address, "GET", "/api/v1/kinds", &[], "");
        reply.expect("it answers").expect(200);
    }
    crate::common::signal(&child, rustix::process::Signal::TERM);
    crate::common::finish(child).expect(0);
    drop(reader);
}
