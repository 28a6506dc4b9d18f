//! Submissions: plans, workflows, dry runs, batches.

use annals::http::Settings;
use annals_engine::kinds::Supervisor;

use serde_json::json;

use crate::face::{Face, at, plan, send, with};

const JOBS: &str = "/api/v1/jobs";

#[tokio::test]
async fn an_accepted_job_is_shown_where_it_is_and_runs() {
    let face = Face::new().await;
    let request = send("POST", JOBS, plan(r#"{"id": "a", "kind": "echo", "input": [1]}"#));
    let request = with(request, "x-annals-actor", "Jörg");
    let answer = face.answer(with(request, "x-request-id", "r-1")).await;
    let job = answer.with_status(202);
    let location = answer.header("location").unwrap();
    assert_eq!(location, format!("{JOBS}/{}", job["id"].as_str().unwrap()));
    assert!(answer.header("etag").unwrap().starts_with("\"1."), "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(at(&job, ["/status", "/revision"]), json!(["running", 1]));
    let ended = face.ended(location).await;
    assert_eq!(at(&ended, ["/status", "/output"]), json!(["completed", [1]]));
    let id = job["id"].as_str().unwrap().parse().unwrap();
    let first = face.engine.job(id).history(0, 1).await.unwrap().remove(0);
    let origin = first.recorded.origin;
    assert_eq!((origin.name(), origin.request_id.as_deref()), ("Jörg", Some("r-1")));
}

#[tokio::test]
async fn the_digits_of_numbers_stay_as_they_were_sent() {
    let face = Face::new().await;
    let input = r#"{"n":[1.0,-0,1e400,0.30000000000000004,18446744073709551616],"z":1,"a":2}"#;
    let job = face.submit(&format!(r#"{{"id": "a", "kind": "echo", "input": {input}}}"#)).await;
    // Its numbers fit no type of the reader that tests have.
    let shown = face.get(&format!("{job}?wait=5m")).await.text;
    assert_eq!(shown.matches(input).count(), 3, "in, out and the job's own: {shown}");
}

#[tokio::test]
async fn a_job_may_wait_for_somebody_and_a_submission_for_its_job() {
    let face = Face::new().await;
    let body = r#"{"name": "p", "start": "manual", "tasks": [{"id": "a", "kind": "noop"}]}"#;
    let job = face.post(JOBS, body).await;
    assert_eq!(job.with_status(202)["status"], "pending");
    let text = plan(r#"{"id": "a", "kind": "noop"}"#);
    let ended = face.post(&format!("{JOBS}?wait=5m"), text.clone()).await.with_status(202);
    assert_eq!(ended["status"], "completed");
    let further = face.post(&format!("{JOBS}?wait=5m&after=3"), text).await.with_status(202);
    assert!(further["seq"].as_u64().unwrap() > 3, "{further}");
}

#[tokio::test]
async fn a_dry_run_shows_the_job_and_makes_none() {
    let face = Face::new().await;
    let dry = format!("{JOBS}?dry_run=true");
    let run = face.post(&dry, plan(r#"{"id": "a", "kind": "noop"}"#)).await.with_status(200);
    let types: Vec<_> = run["events"].as_array().unwrap().iter().map(|e| &e["type"]).collect();
    assert_eq!(types, ["JobSubmitted", "JobStarted"]);
    assert_eq!(at(&run, ["/job/status", "/job/seq"]), json!(["running", 2]));
    face.post(&dry, plan(r#"{"id": "a", "kind": "nop"}"#)).await.problem(422, "invalid_plan");
    let keyed =
        with(send("POST", &dry, plan(r#"{"id": "a", "kind": "noop"}"#)), "idempotency-key", "k");
    assert_eq!(face.answer(keyed).await.header("idempotency-replayed"), None);
    assert_eq!(face.engine.jobs(None, 1).await.unwrap(), []);
}

#[tokio::test]
async fn a_workflow_makes_the_plan_of_its_input() {
    let face = Face::new().await;
    let body = r#"{"workflow": "greet", "input": "Ada", "name": "for Ada", "labels": {"a": "b"},
        "start": "manual"}"#;
    let job = face.post(JOBS, body).await.with_status(202);
    assert_eq!(at(&job, ["/workflow", "/name"]), json!(["greet", "for Ada"]));
    assert_eq!(at(&job, ["/status", "/labels/a"]), json!(["pending", "b"]));
    let answer = face.post(JOBS, r#"{"workflow": "greet", "input": "Ada"}"#).await;
    assert_eq!(answer.with_status(202)["name"], "greet");
    assert_eq!(face.ended(answer.header("location").unwrap()).await["output"], "Ada");
}

#[tokio::test]
async fn shell_over_http_runs_where_it_is_allowed() {
    let mut settings = Settings::default();
    settings.allow_shell = true;
    let supervisor = Supervisor::Program(env!("CARGO_BIN_EXE_annals").into());
    let face = Face::with(settings, |builder| builder.supervisor(supervisor)).await;
    let job = face.submit(r#"{"id": "a", "kind": "shell", "input": {"script": "exit 3"}}"#).await;
    let ended = face.ended(&job).await;
    assert_eq!(at(&ended, ["/status", "/error/code"]), json!(["failed", "exit_status"]));
}

#[tokio::test]
async fn each_of_a_batch_is_accepted_or_refused_by_itself() {
    let face = Face::new().await;
    let batch = format!("{JOBS}/batch");
    let fine = plan(r#"{"id": "a", "kind": "echo", "input": 1.0}"#);
    let body = format!(r#"{{"jobs": [{fine}, {{"name": "b"}}, {{"workflow": "greet"}}, {fine}]}}"#);
    let answer = face.post(&batch, body).await;
    let shown = answer.with_status(202);
    assert_eq!(at(&shown, ["/accepted", "/refused"]), json!([2, 2]));
    let items = shown["items"].as_array().unwrap();
    let statuses: Vec<_> = items.iter().map(|item| item["status"].as_u64().unwrap()).collect();
    assert_eq!(statuses, [202, 422, 422, 202]);
    assert_eq!(
        items[1]["problem"]["errors"][0]["detail"],
        "`tasks` is missing; a plan needs at least one task"
    );
    assert_eq!(items[1]["problem"]["request_id"].as_str(), answer.header("x-request-id"));
    assert_eq!(items[2]["problem"]["errors"][0]["pointer"], "/input");
    assert_eq!(face.engine.jobs(None, 10).await.unwrap().len(), 2);
    for (body, code) in [("{}", "invalid_body"), ("[]", "invalid_body"), ("", "invalid_body")] {
        face.post(&batch, body).await.problem(422, code);
    }
    let none = face.post(&batch, r#"{"jobs": [{}]}"#).await.with_status(200);
    assert_eq!(none["refused"], 1);
    let many = vec!["{}"; 1001].join(",");
    let problem = face.post(&batch, format!(r#"{{"jobs": [{many}]}}"#)).await;
    problem.problem(413, "too_large");
}
