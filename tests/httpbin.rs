//! httpbin, a server that strangers wrote to try clients on, below gunicorn: the tasks of a plan
//! ask it that the real binary runs.
//!
//! Both come from the package index, into `target/httpbin`; what cannot be installed is a failure.
//! Slow, so run by `cargo xtask slow`.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::Place;
use serde_json::{Value, json};

/// What is installed: versions that this test was written with.
const PACKAGES: [&str; 2] = ["httpbin==0.10.4", "gunicorn==27.0.1"];

const SECRET: &str = "c4n4ry";

#[test]
#[ignore = "slow: needs the package index; cargo xtask slow runs it"]
fn what_httpbin_answers_is_what_becomes_of_the_tasks() {
    let site = Site::new();
    let (httpbin, nobody, stranger) = (site.serve(&[]), nobody(), stranger());
    let tasks = tasks(&httpbin.url, &nobody, &stranger);
    let plan = json!({"name": "httpbin", "tasks": tasks, "output": null});
    site.place.write("plan.json", plan.to_string());
    site.annals(&[]).expect(0);
    let job = site.place.newest_id();
    let shown = site.place.json(&["show", &job]);
    for (name, expected) in EXPECTED {
        let task = task(&shown, name);
        assert_eq!(outcome(task), *expected, "{name}: {task:#}");
    }
    outputs(&shown);
    waits(&site, &job);
    secrets(&site, &job, &shown);
}

#[test]
#[ignore = "slow: needs the package index; cargo xtask slow runs it"]
fn a_certificate_counts_where_somebody_trusts_it() {
    let site = Site::new();
    let tls = Path::new(env!("CARGO_MANIFEST_DIR")).join("engine/tests/http/tls");
    let (certificate, key) = (tls.join("certificate.pem"), tls.join("key.pem"));
    let (certificate, key) = (certificate.to_str().unwrap(), key.to_str().unwrap());
    let httpbin = site.serve(&["--certfile", certificate, "--keyfile", key]);
    let input = json!({"url": format!("{}/get", httpbin.url.replace("127.0.0.1", "localhost"))});
    let plan = json!({"name": "tls", "tasks": [{"id": "a", "kind": "http", "input": input}]});
    site.place.write("plan.json", plan.to_string());
    let answer = site.annals(&[("SSL_CERT_FILE", "/nowhere/roots.pem")]).expect(1);
    assert!(answer.stdout.contains("[tls_failed]"), "{answer:?}");
    site.annals(&[("SSL_CERT_FILE", certificate)]).expect(0);
    let shown = site.place.json(&["show", &site.place.newest_id()]);
    assert_eq!(shown["output"]["status"], 200);
}

/// What becomes of each task: its status, the code of its error, and its number of attempts.
const EXPECTED: &[(&str, (&str, &str, usize))] = &[
    ("status-201", ("completed", "", 1)),
    ("status-204", ("completed", "", 1)),
    ("status-404", ("failed", "http_status", 1)),
    ("status-404-expected", ("completed", "", 1)),
    ("status-418", ("failed", "http_status", 1)),
    ("status-500", ("failed", "http_status", 3)),
    ("status-503", ("failed", "http_status", 3)),
    ("status-503-never", ("failed", "http_status", 1)),
    ("retry-after", ("failed", "http_status", 2)),
    ("delay", ("failed", "timed_out", 1)),
    ("redirect", ("completed", "", 1)),
    ("redirect-too-often", ("failed", "bad_redirect", 1)),
    ("redirect-to-private", ("failed", "target_not_allowed", 1)),
    ("basic-auth", ("completed", "", 1)),
    ("basic-auth-without", ("failed", "http_status", 1)),
    ("bearer", ("failed", "http_status", 3)),
    ("cookies", ("failed", "http_status", 1)),
    ("set-cookie", ("completed", "", 1)),
    ("gzip", ("completed", "", 1)),
    ("bytes", ("completed", "", 1)),
    ("bytes-too-many", ("failed", "response_too_large", 1)),
    ("stream", ("failed", "response_too_large", 1)),
    ("drip", ("completed", "", 1)),
    ("post", ("completed", "", 1)),
    ("head", ("completed", "", 1)),
    ("nobody", ("failed", "connect_failed", 3)),
    ("stranger", ("failed", "bad_response", 1)),
];

/// Independent tasks, whose failures are tolerated.
fn tasks(httpbin: &str, nobody: &str, stranger: &str) -> Vec<Value> {
    let to = |path: &str| json!({"url": format!("{httpbin}{path}")});
    let with = |path: &str, more: Value| {
        let mut input = to(path);
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        input
    };
    let secret = |header: &str, value: String| json!({"headers": {header: value}});
    let signed_in = format!("{}/basic-auth/u/p", httpbin.replace("//", "//u:p@"));
    let inputs = [
        ("status-201", to("/status/201")),
        ("status-204", to("/status/204")),
        ("status-404", to("/status/404")),
        ("status-404-expected", with("/status/404", json!({"expect": "200-299,404"}))),
        ("status-418", to(&format!("/status/418?token={SECRET}"))),
        ("status-500", to("/status/500")),
        ("status-503", with("/status/503", json!({"method": "POST", "text": ""}))),
        ("status-503-never", to("/status/503")),
        // A status that is not expected, and a wait that is asked for.
        ("retry-after", with("/response-headers?Retry-After=1", json!({"expect": 201}))),
        ("delay", to("/delay/3")),
        ("redirect", to("/redirect/3")),
        ("redirect-too-often", to("/absolute-redirect/6")),
        ("redirect-to-private", to("/redirect-to?url=http://10.0.0.1/")),
        ("basic-auth", json!({"url": signed_in})),
        ("basic-auth-without", to("/basic-auth/u/p")),
        ("bearer", with("/status/500", secret("Authorization", format!("Bearer {SECRET}")))),
        ("cookies", with("/status/403", secret("Cookie", format!("session={SECRET}")))),
        ("set-cookie", with(&format!("/cookies/set?session={SECRET}"), json!({"expect": 302}))),
        ("gzip", to("/gzip")),
        ("bytes", to("/bytes/1048576")),
        ("bytes-too-many", with("/bytes/1001", json!({"max_response_bytes": 1000}))),
        ("stream", with("/stream-bytes/100000", json!({"max_response_bytes": 1000}))),
        ("drip", to("/drip?duration=1&numbytes=5&delay=0")),
        ("post", with("/anything/x", json!({"json": {"n": 1.50}}))),
        ("head", with("/bytes/1000", json!({"method": "HEAD"}))),
        ("nobody", json!({"url": nobody})),
        ("stranger", json!({"url": stranger})),
    ];
    let task = |(name, input): (&str, Value)| {
        let backoff = json!({"initial": "1ms", "jitter": 0});
        let max_attempts = if name == "retry-after" { 2 } else { 3 };
        let never = if name == "status-503-never" { json!(["http_503"]) } else { json!([]) };
        let mut task = json!({
            "id": name, "kind": "http", "needs": [], "input": input, "on_failure": "continue",
            "retry": {"max_attempts": max_attempts, "backoff": backoff, "never": never},
        });
        if name == "delay" {
            task["timeout"] = json!("1s");
            task["retry"] = json!({"max_attempts": 1});
        }
        task
    };
    inputs.into_iter().map(task).collect()
}

fn task<'a>(shown: &'a Value, name: &str) -> &'a Value {
    let mut tasks = shown["tasks"].as_array().unwrap().iter();
    tasks.find(|task| task["id"] == name).unwrap()
}

fn outcome(task: &Value) -> (&str, &str, usize) {
    let code = task["error"]["code"].as_str().unwrap_or_default();
    (task["status"].as_str().unwrap(), code, task["attempts"].as_array().unwrap().len())
}

/// What the tasks that succeeded have given.
fn outputs(shown: &Value) {
    let output = |name: &str| &task(shown, name)["output"];
    assert_eq!(output("status-201")["status"], 201);
    assert_eq!(output("status-404-expected")["status"], 404);
    assert!(output("redirect")["json"]["headers"]["Host"].is_string());
    assert_eq!(output("basic-auth")["json"], json!({"authenticated": true, "user": "u"}));
    assert_eq!(output("gzip")["json"]["gzipped"], true);
    assert_eq!(output("drip")["text"], "*****");
    let bytes = output("bytes")["body_base64"].as_str().unwrap();
    // It gives no more than 100 KiB, however many are asked for.
    assert_eq!(bytes.len(), (100_usize * 1_024).div_ceil(3) * 4);
    assert_eq!(output("head")["headers"]["content-length"], "1000");
    assert_eq!(output("head").as_object().unwrap().len(), 2, "{}", output("head"));
    assert_eq!(output("set-cookie")["headers"].get("set-cookie"), None);
    let echo = &output("post")["json"];
    assert_eq!((&echo["method"], &echo["data"]), (&json!("POST"), &json!(r#"{"n":1.5}"#)));
    let key = echo["headers"]["Idempotency-Key"].as_str().unwrap();
    assert!(key.ends_with(":post\""), "{key}");
    let message = task(shown, "status-418")["error"]["message"].as_str().unwrap();
    assert!(message.contains("-=[ teapot ]=-"), "{message}");
    let body = &task(shown, "status-418")["attempts"][0]["output"]["text"];
    assert!(body.as_str().unwrap().contains("teapot"), "{body}");
}

/// The wait that was asked for is in the history.
fn waits(site: &Site, job: &str) {
    let events = site.place.annals(&["events", job, "--json"]).expect(0).stdout;
    let events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of_task = |event: &Value| event["data"]["task"] == "retry-after";
    let event = events.filter(of_task).find(|event| event["type"] == "RetryScheduled").unwrap();
    let time = |value: &Value| {
        let text = value.as_str().unwrap();
        let seconds = text.rsplit_once(':').unwrap().1.trim_end_matches('Z');
        seconds.parse::<f64>().unwrap()
    };
    let waits = (time(&event["data"]["due"]) - time(&event["time"]) + 60.0) % 60.0;
    assert!((waits - 1.0).abs() < 0.01, "{event}");
}

/// The plan is the user's own, and so are its inputs; nothing else has a secret.
fn secrets(site: &Site, job: &str, shown: &Value) {
    let mut seen = 0;
    let mut look = |what: &str, text: &str| {
        assert!(!text.contains(SECRET), "{what}: {text}");
        seen += text.len();
    };
    for task in shown["tasks"].as_array().unwrap() {
        let mut task = task.clone();
        task.as_object_mut().unwrap().remove("input");
        look("a task", &task.to_string());
        let name = task["id"].as_str().unwrap();
        let log = site.place.annals(&["logs", job, name]).expect(0);
        look("a log", &log.stdout);
        let requests = log.stdout.lines().count();
        let all = log.stdout.lines().all(|line| line.contains(" -> "));
        assert!(all && (1..=6).contains(&requests), "the log of {name}: {log:?}");
    }
    let events = site.place.annals(&["events", job, "--json"]).expect(0).stdout;
    for event in events.lines().filter(|line| !line.contains("\"JobSubmitted\"")) {
        look("an event", event);
    }
    let run = site.place.read("run.log");
    look("what was printed", &run);
    assert!(seen > 10_000 && run.contains("teapot"), "{run}");
}

/// A folder with a store, and the programs.
struct Site {
    place: Place,
    programs: PathBuf,
}

/// A server that ends with the value.
struct Served {
    gunicorn: Child,
    url: String,
}

impl Site {
    fn new() -> Self {
        Self { place: Place::new(), programs: installed() }
    }

    /// Runs the plan; what it prints is kept.
    fn annals(&self, environment: &[(&str, &str)]) -> common::Answer {
        let mut run = self.place.command(&["run", "plan.json"]);
        run.env("ANNALS_ALLOW_TARGETS", "127.0.0.1,localhost");
        // A proxy would go where tasks may not, so none is used; here is none.
        let proxy = nobody();
        for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
            run.env(name, &proxy);
        }
        let answer: common::Answer = run.envs(environment.iter().copied()).output().unwrap().into();
        self.place.write("run.log", format!("{}{}", answer.stdout, answer.stderr));
        answer
    }

    fn serve(&self, more: &[&str]) -> Served {
        let mut gunicorn = Command::new(self.programs.join("gunicorn"));
        gunicorn.args(["--bind", "127.0.0.1:0", "--threads", "32", "--no-control-socket"]);
        gunicorn.args(more).arg("httpbin:app").env("HOME", self.place.path("home"));
        let mut gunicorn = gunicorn.stderr(Stdio::piped()).spawn().expect("gunicorn starts");
        let said = gunicorn.stderr.take().unwrap();
        let mut lines = BufReader::new(said).lines().map_while(Result::ok);
        let mut told = Vec::new();
        let url = lines.by_ref().find_map(|line| {
            let url = line
                .split_once("Listening at: ")
                .map(|(_, url)| url.split(' ').next().unwrap_or_default().to_owned());
            told.push(line);
            url
        });
        let url = url.unwrap_or_else(|| panic!("gunicorn does not listen: {told:#?}"));
        // It must not wait for somebody to read what it says.
        std::thread::spawn(move || lines.for_each(drop));
        Served { gunicorn, url }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        common::signal(&self.gunicorn, rustix::process::Signal::TERM);
        let _ = self.gunicorn.wait();
    }
}

/// Installs the packages, where that was not done yet, and gives the folder of their programs.
fn installed() -> PathBuf {
    let target = common::annals().parent().and_then(Path::parent).expect("it is below target");
    let home = target.join("httpbin");
    let (programs, mark) = (home.join("bin"), home.join("installed"));
    let lock = fs::File::create(target.join("httpbin.lock")).unwrap();
    lock.lock().unwrap();
    let wanted = PACKAGES.join("\n");
    if fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted) {
        return programs;
    }
    let must = |command: &mut Command| {
        let output = command.output();
        let output = output.unwrap_or_else(|error| panic!("{command:?} cannot be run: {error}"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{PACKAGES:?} cannot be installed: {command:?}: {said}");
    };
    must(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&home));
    must(Command::new(programs.join("pip")).args(["install", "--quiet"]).args(PACKAGES));
    fs::write(mark, wanted).unwrap();
    programs
}

/// A URL at which nobody listens.
fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}/", listener.local_addr().unwrap())
}

/// A URL at which something listens that speaks another language.
fn stranger() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n");
            let _ = stream.read(&mut [0; 1024]);
        }
    });
    url
}
