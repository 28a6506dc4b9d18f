//! What is sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::AsyncWriteExt;

use super::house::{allowing, call, get, http, input, output};
use super::server::{Server, answer, read, until_closed};

#[tokio::test]
async fn a_request_is_what_the_input_says() {
    let server = Server::saying(200, "", "").await;
    let fields = r#""method": "PATCH", "headers": {"X-A": ["1", 2], "Accept": "a/b", "X-N": null},
                    "json": {"n": 1.50, "big": 20000000000000000000001}"#;
    get(&server.url("/p%20q/r?s=t#u"), fields).await;
    let request = server.request();
    assert_eq!((&*request.method, &*request.target), ("PATCH", "/p%20q/r?s=t"));
    assert_eq!(request.body, br#"{"n": 1.50, "big": 20000000000000000000001}"#);
    assert_eq!(request.header("content-type").unwrap(), "application/json");
    assert_eq!(request.header("x-a").unwrap(), "1, 2");
    assert_eq!(request.header("accept").unwrap(), "a/b");
    assert_eq!(request.header("x-n"), None);
    assert_eq!(request.header("host").unwrap(), server.address.to_string());
    assert!(request.header("user-agent").unwrap().starts_with("annals/"));
}

#[tokio::test]
async fn bodies_are_sent_as_they_are() {
    for (fields, method, body) in [
        ("", "GET", &b""[..]),
        (r#""method": "DELETE""#, "DELETE", b""),
        (r#""text": "ä\r\n""#, "POST", "ä\r\n".as_bytes()),
        (r#""body_base64": "AP8=""#, "POST", b"\0\xff"),
        (r#""json": null"#, "POST", b"null"),
        (r#""method": "PUT", "text": """#, "PUT", b""),
    ] {
        let server = Server::saying(200, "", "").await;
        get(&server.url("/"), fields).await;
        let request = server.request();
        assert_eq!((&*request.method, &*request.body), (method, body), "{fields}");
    }
}

#[tokio::test]
async fn attempts_of_a_task_carry_the_same_key_where_they_change_something() {
    for (fields, expected) in [
        (r#""method": "GET""#, None),
        (r#""method": "HEAD""#, None),
        (r#""method": "OPTIONS""#, None),
        (r#""method": "POST""#, Some("sent")),
        (r#""method": "DELETE""#, Some("sent")),
        (r#""text": "a""#, Some("sent")),
        (r#""text": "a", "headers": {"idempotency-key": "mine"}"#, Some("mine")),
        (r#""text": "a", "headers": {"Idempotency-Key": null}"#, None),
    ] {
        let server = Server::saying(200, "", "").await;
        let http = http();
        let run = call(&http, &input(&server.url("/"), fields)).await;
        let again = annals_tasks_sdk::Payload::parse(&input(&server.url("/"), fields)).unwrap();
        run.next_attempt().call(&http, again).await;
        let keys: Vec<_> =
            server.requests().iter().map(|request| request.header("idempotency-key")).collect();
        assert_eq!(keys[0], keys[1], "{fields}");
        match expected {
            Some("sent") => {
                let key = keys[0].clone().unwrap();
                assert!(key.starts_with('"') && key.ends_with(":task\""), "{key}");
            }
            expected => assert_eq!(keys[0].as_deref(), expected, "{fields}"),
        }
    }
}

#[tokio::test]
async fn credentials_of_a_url_are_sent_as_a_header() {
    let server = Server::answering(|request| {
        // "ada:love%lace", as it is once it is unescaped.
        let known =
            request.header("authorization").as_deref() == Some("Basic YWRhOmxvdmUlbGFjZQ==");
        answer(if known { 200 } else { 401 }, "", "")
    })
    .await;
    let url = server.url("/").replace("http://", "http://ada:love%25lace@");
    assert_eq!(get(&url, "").await["status"], 200);
    assert_eq!(server.request().target, "/");
    assert_eq!(get(&server.url("/"), r#""expect": 401"#).await["status"], 401);
}

#[tokio::test]
async fn a_name_is_looked_up_and_asked_for_by_that_name() {
    let server = Server::saying(200, "", "").await;
    let port = server.address.port();
    let run =
        call(&allowing(&["localhost"]), &input(&format!("http://LOCALHOST:{port}/"), "")).await;
    run.output();
    assert_eq!(server.request().header("host").unwrap(), format!("localhost:{port}"));
}

#[tokio::test]
async fn each_request_has_a_connection_of_its_own() {
    let connections = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&connections);
    // It would keep them, and closes them a moment later.
    let server = Server::wild(move |mut stream| {
        counted.fetch_add(1, Ordering::Relaxed);
        async move {
            read(&mut stream).await;
            stream.write_all(&answer(200, "", "kept")).await.unwrap();
            until_closed(&mut stream).await;
        }
    })
    .await;
    let http = http();
    for count in 1..=20 {
        assert_eq!(output(&call(&http, &input(&server.url("/"), "")).await)["text"], "kept");
        assert_eq!(connections.load(Ordering::Relaxed), count);
    }
}

#[tokio::test]
async fn the_step_log_has_a_line_of_each_request() {
    let body = "x".repeat(1_024);
    let server = Server::saying(201, "", body).await;
    let url = server.url("/path?query=secret");
    let run = call(&http(), &input(&url, r#""method": "POST""#)).await;
    let (log, shown) = (run.log(), server.url("/path"));
    let begin = format!("POST {shown} -> 201 in ");
    assert!(log.starts_with(&begin) && log.ends_with(" ms, 1,024 bytes\n"), "{log}");
    assert_eq!(log.lines().count(), 1);
}
