//! What is registered.

use serde_json::json;

use crate::face::Face;

#[tokio::test]
async fn kinds_are_listed_with_their_schemas() {
    let face = Face::new().await;
    let kinds = face.get("/api/v1/kinds").await.with_status(200);
    let items = kinds["items"].as_array().unwrap();
    let names: Vec<_> = items.iter().map(|kind| kind["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["echo", "gate", "http", "job", "noop", "sleep", "stubborn", "wait"]);
    let kind = |name| items.iter().find(|kind| kind["name"] == name).unwrap();
    assert_eq!(kind("sleep")["input_schema"]["title"], "sleep");
    assert!(kind("sleep").get("pool").is_none(), "its tasks hold no slot");
    assert_eq!(kind("echo"), &json!({"name": "echo", "pool": "default"}));
    assert_eq!(kind("http")["input_schema"]["required"], json!(["url"]));
}

#[tokio::test]
async fn workflows_are_listed() {
    let face = Face::new().await;
    let workflows = face.get("/api/v1/workflows").await.with_status(200);
    assert_eq!(workflows, json!({"items": [{"name": "greet"}]}));
    face.get("/api/v1/workflows?limit=1").await.problem(400, "bad_query");
}
