//! The numbers, read as Prometheus reads them.

use std::collections::{BTreeMap, BTreeSet};

use annals::http::{AppState, Settings, router};

use crate::face::{Face, answer, ask, send};

/// Names with labels, as they are written, and their values.
type Numbers = BTreeMap<String, String>;

/// Reads a page, and makes sure that it is well formed.
fn parse(page: &str) -> Numbers {
    let (mut numbers, mut families) = (Numbers::new(), BTreeSet::new());
    let (mut family, mut kind) = ("", "");
    assert!(page.ends_with('\n'));
    for line in page.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            family = help.split_once(' ').expect("a name and a text").0;
            assert!(families.insert(family), "{family} stands there twice");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, its) = rest.split_once(' ').expect("a name and a type");
            assert_eq!(name, family);
            assert!(["counter", "gauge", "histogram", "summary"].contains(&its), "{line}");
            assert_eq!(its == "counter", name.ends_with("_total"), "{line}");
            kind = its;
        } else {
            let (name, value) = line.rsplit_once(' ').expect("a name and a number");
            let ending = name.split('{').next().unwrap().strip_prefix(family).expect(line);
            let endings: &[&str] = match kind {
                "histogram" => &["_bucket", "_sum", "_count"],
                "summary" => &["_sum", "_count"],
                _ => &[""],
            };
            assert!(endings.contains(&ending), "{line}");
            assert!(value.parse::<f64>().is_ok(), "{line}");
            assert!(
                numbers.insert(name.to_owned(), value.to_owned()).is_none(),
                "{name} stands there twice"
            );
        }
    }
    numbers
}

fn whole(text: &str) -> u64 {
    text.parse().expect("a whole number")
}

async fn numbers(face: &Face) -> Numbers {
    let answer = face.get("/metrics").await;
    let media_type = answer.header("content-type");
    assert_eq!(media_type, Some("text/plain; version=0.0.4; charset=utf-8"));
    parse(&answer.text)
}

#[tokio::test]
async fn the_engine_is_counted() {
    let face = Face::new().await;
    let before = numbers(&face).await;
    assert_eq!(before["annals_jobs_submitted_total"], "0");
    let job = face.submit(r#"{"id": "a", "kind": "noop"}, {"id": "b", "kind": "gate"}"#).await;
    face.running(&job, "b").await;
    let now = numbers(&face).await;
    assert_eq!(now["annals_jobs_submitted_total"], "1");
    assert_eq!(now["annals_jobs_current{status=\"running\"}"], "1");
    assert_eq!(now["annals_task_attempts_total{outcome=\"completed\"}"], "1");
    assert_eq!(now["annals_worker_slots{pool=\"default\",state=\"used\"}"], "1");
    assert_eq!(now["annals_worker_slots{pool=\"default\",state=\"free\"}"], "63");
    assert_eq!(now["annals_engine_phase{phase=\"ready\"}"], "1");
    assert_eq!(now["annals_engine_phase{phase=\"starting\"}"], "0");
    let seq = |numbers: &Numbers| whole(&numbers["annals_log_seq"]);
    assert!(seq(&now) > seq(&before));
    assert!(whole(&now["annals_log_commit_seconds_count"]) > 0);
    face.open_gate();
    face.ended(&job).await;
    let then = numbers(&face).await;
    assert_eq!(then["annals_jobs_finished_total{status=\"completed\"}"], "1");
    assert_eq!(then["annals_jobs_current{status=\"running\"}"], "0");
}

#[tokio::test]
async fn the_process_is_measured() {
    let face = Face::new().await;
    let numbers = numbers(&face).await;
    for name in ["process_resident_memory_bytes", "process_open_fds", "process_max_fds"] {
        assert!(whole(&numbers[name]) > 0, "{name}");
    }
    assert!(whole(&numbers["process_open_fds"]) < whole(&numbers["process_max_fds"]));
    assert!(numbers.contains_key("process_cpu_seconds_total"));
}

const DURATION: &str = "annals_http_server_request_duration_seconds";

#[tokio::test]
async fn requests_are_counted_by_route_and_never_by_what_clients_choose() {
    let face = Face::new().await;
    let job = "0197f0c2-7b3e-7c11-9f0e-1d2c3b4a5968";
    for _ in 0..3 {
        face.get(&format!("/api/v1/jobs/{job}")).await.problem(404, "no_such_job");
    }
    let strange = ["/api/v1/jobs/x%22y", "/secret/7", "/secret/8", "/api/v1/nothing?token=7"];
    for path in strange {
        face.get(path).await;
    }
    for method in ["BREW", "STEEP"] {
        face.answer(ask(method, "/api/v1/jobs")).await;
    }
    face.answer(send("POST", "/api/v1/jobs", "{}")).await;
    let page = face.get("/metrics").await.text;
    for word in [job, "secret", "token", "BREW", "STEEP", "x\"y", "x%22y"] {
        assert!(!page.contains(word), "{word} is in {page}");
    }
    let numbers = parse(&page);
    let count = |method: &str, route: &str, status: u16| {
        let labels = format!(
            "http_request_method=\"{method}\",http_route=\"{route}\",\
             http_response_status_code=\"{status}\""
        );
        let total = numbers.get(&format!("{DURATION}_count{{{labels}}}")).map(|text| whole(text));
        let bucket =
            |bound: &str| whole(&numbers[&format!("{DURATION}_bucket{{{labels},le=\"{bound}\"}}")]);
        if let Some(total) = total {
            let bounds = [
                "0.0005", "0.001", "0.0025", "0.005", "0.01", "0.025", "0.05", "0.1", "0.25",
                "0.5", "1", "2.5", "5", "10", "+Inf",
            ];
            let buckets = bounds.map(bucket);
            assert!(buckets.is_sorted(), "{buckets:?}");
            assert_eq!(buckets.last().copied(), Some(total));
            assert_ne!(numbers[&format!("{DURATION}_sum{{{labels}}}")], "0");
        }
        total
    };
    assert_eq!(count("GET", "/api/v1/jobs/{id}", 404), Some(3));
    assert_eq!(count("GET", "/api/v1/jobs/{id}", 400), Some(1));
    assert_eq!(count("GET", "", 404), Some(3));
    assert_eq!(count("_OTHER", "/api/v1/jobs", 405), Some(2));
    assert_eq!(count("POST", "/api/v1/jobs", 422), Some(1));
    assert_eq!(count("GET", "/livez", 200), None);
}

#[tokio::test]
async fn there_are_numbers_before_there_is_an_engine() {
    let state = AppState::starting(Settings::default());
    let page = answer(router(state), ask("GET", "/metrics")).await;
    let numbers = parse(&page.text);
    assert_eq!(numbers["annals_engine_phase{phase=\"starting\"}"], "1");
    assert!(!numbers.contains_key("annals_jobs_submitted_total"));
}
