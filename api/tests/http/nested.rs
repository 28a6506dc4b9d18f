//! The router under a path of another application.

use axum::Router;
use axum::routing::get;

use crate::face::{Face, answer, ask, plan, send};

#[tokio::test]
async fn links_lead_back_to_where_they_came_from() {
    let face = Face::new().await;
    let api = annals::router(face.engine.clone());
    let own = Router::new().route("/", get(|| async { "mine" }));
    let app = own.nest("/automation/annals", api);
    let ask = |path: &str| answer(app.clone(), ask("GET", path));

    let body = plan(r#"{"id": "a", "kind": "noop"}"#);
    let request = send("POST", "/automation/annals/api/v1/jobs", body);
    let accepted = answer(app.clone(), request).await;
    let job = accepted.with_status(202)["id"].as_str().unwrap().to_owned();
    let location = accepted.header("location").expect("a location").to_owned();
    assert_eq!(location, format!("/automation/annals/api/v1/jobs/{job}"));
    assert_eq!(ask(&location).await.with_status(200)["id"], job);

    assert_eq!(ask("/automation/annals/readyz").await.status, 200);
    assert_eq!(ask("/").await.text, "mine");
    ask("/automation/annals/nothing").await.problem(404, "no_such_route");
    let elsewhere = ask("/nothing").await;
    assert_eq!((elsewhere.status.as_u16(), elsewhere.text.as_str()), (404, ""), "not ours");
    let metrics = ask("/automation/annals/metrics").await.text;
    assert!(metrics.contains("http_route=\"/automation/annals/api/v1/jobs/{id}\""), "{metrics}");
}

#[tokio::test]
async fn an_embedding_program_says_what_is_allowed() {
    let face = Face::new().await;
    let shell = plan(r#"{"id": "a", "kind": "shell", "input": {"script": "true"}}"#);
    let refused = annals::router(face.engine.clone());
    let refused = answer(refused, send("POST", "/api/v1/jobs", shell)).await;
    refused.problem(403, "shell_not_allowed");
}
