//! What happens to every request: ids, paths and methods that are not served, phases.

use std::sync::Arc;

use annals::http::{AppState, Phase, Settings, Starting, router};

use crate::face::{Face, answer, ask, with};

const JOB: &str = "/api/v1/jobs/0197f0c2-7b3e-7c11-9f0e-1d2c3b4a5968";

#[tokio::test]
async fn what_is_not_served_is_a_problem_that_says_so() {
    let face = Face::new().await;
    let table = [
        ("GET", "/api/v1/nothing", 404, "no_such_route", None),
        ("GET", "/", 404, "no_such_route", None),
        ("GET", "/api/v1/jobs/", 404, "no_such_route", None),
        ("BREW", JOB, 405, "method_not_allowed", Some("GET,HEAD,DELETE")),
        ("PUT", "/api/v1/openapi.json", 405, "method_not_allowed", Some("GET,HEAD")),
        ("GET", "/api/v1/jobs/latest", 400, "bad_id", None),
        ("GET", "/api/v1/jobs/%ff", 400, "bad_id", None),
        ("GET", JOB, 404, "no_such_job", None),
    ];
    for (method, path, status, code, allow) in table {
        let answer = face.answer(ask(method, path)).await;
        answer.problem(status, code);
        assert_eq!(answer.header("allow"), allow, "{method} {path}");
    }
    let near = face.get(&format!("{JOB}?atx=1")).await.problem(400, "bad_query");
    assert!(near["detail"].as_str().unwrap().contains("no parameter \"atx\""), "{near}");
}

#[tokio::test]
async fn the_id_of_a_request_is_taken_or_made() {
    let face = Face::new().await;
    let sent = |id| face.answer(with(ask("GET", JOB), "x-request-id", id));
    let problem = sent("trace:1/a").await.problem(404, "no_such_job");
    assert_eq!(problem["request_id"], "trace:1/a");
    for bad in ["", "two words", "\"quoted\"", &"x".repeat(129)] {
        let made = sent(bad).await.problem(404, "no_such_job");
        assert_eq!(made["request_id"].as_str().map(str::len), Some(36), "{bad:?}");
    }
}

#[tokio::test]
async fn while_no_engine_answers_the_api_says_why() {
    let state = AppState::starting(Settings::default());
    let get = || answer(router(state.clone()), ask("GET", JOB));
    let starting = get().await;
    starting.problem(503, "starting");
    assert_eq!(starting.header("retry-after"), Some("1"));
    state.enter(Phase::Starting(Starting { doing: "repairing".into(), percent: Some(40) }));
    let detail = get().await.problem(503, "starting")["detail"].clone();
    assert_eq!(detail, "the engine is starting: repairing, 40 %");
    state.enter(Phase::Failed(Arc::from("the disk is gone")));
    get().await.problem(503, "start_failed");
    let described = answer(router(state.clone()), ask("GET", "/api/v1/openapi.json")).await;
    assert_eq!((described.status.as_u16(), &described.json()["openapi"]), (200, &"3.1.0".into()));
}

#[tokio::test]
async fn an_engine_that_is_being_shut_down_answers_until_it_is_closed() {
    let face = Face::new().await;
    face.state.enter(Phase::Stopping(face.engine.clone()));
    face.get(JOB).await.problem(404, "no_such_job");
    face.engine.shutdown().await.expect("it ends");
    face.get(JOB).await.problem(503, "stopped");
}

#[tokio::test]
async fn large_answers_are_compressed_for_who_takes_that() {
    let face = Face::new().await;
    let large = format!(r#"{{"id": "a", "kind": "echo", "input": "{}"}}"#, "x".repeat(10_000));
    let jobs = [face.submit(&large).await, face.submit(r#"{"id": "a", "kind": "noop"}"#).await];
    for job in &jobs {
        face.ended(job).await;
    }
    let plain = [face.get(&jobs[0]).await, face.get(&jobs[1]).await];
    let get = |job, takes| face.answer(with(ask("GET", job), "accept-encoding", takes));
    for takes in ["gzip", "br, GZIP;q=0.5", "identity;q=0, gzip;q=1"] {
        let zipped = get(&jobs[0], takes).await;
        let named = (zipped.header("content-encoding"), zipped.header("vary"));
        assert_eq!(named, (Some("gzip"), Some("accept-encoding")), "{takes}");
        assert!(zipped.bytes.starts_with(&[0x1f, 0x8b]) && zipped.bytes.len() < 2_000, "{takes}");
        assert_eq!(zipped.header("etag"), plain[0].header("etag"));
        assert_eq!(get(&jobs[1], takes).await.header("content-encoding"), None, "{takes}");
    }
    for refuses in ["", "br", "gzip;q=0", "gzip; q=0.0, br", "identity;q=0", "*;q=0"] {
        let answer = get(&jobs[0], refuses).await;
        assert_eq!((answer.status, &answer.text), (plain[0].status, &plain[0].text), "{refuses}");
    }
}
