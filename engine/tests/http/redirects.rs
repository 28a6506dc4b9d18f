//! Redirects: followed as browsers do, and no further than is allowed.

use serde_json::json;

use super::house::{allowing, call, fail, get, input, output, told};
use super::server::{Request, Server, answer, listener};

/// Sends on from `/n` to `/n-1`, and answers at `/0`.
fn counting_down(request: &Request) -> Vec<u8> {
    let left: u32 = request.target.trim_start_matches('/').parse().unwrap();
    match left.checked_sub(1) {
        Some(next) => answer(302, &format!("Location: /{next}\r\n"), "on you go"),
        None => answer(200, "", "arrived"),
    }
}

#[tokio::test]
async fn five_redirects_are_followed_and_a_sixth_is_not() {
    let server = Server::answering(counting_down).await;
    let run = call(&super::house::http(), &input(&server.url("/5"), "")).await;
    assert_eq!(output(&run)["text"], "arrived");
    assert_eq!(server.requests().len(), 6);
    let log = run.log();
    let first = format!("GET {} -> 302 in ", server.url("/5"));
    assert!(log.starts_with(&first), "{log}");
    assert!(log.lines().next().unwrap().ends_with(&format!(" to {}", server.url("/4"))), "{log}");
    assert_eq!(log.lines().count(), 6);
    let server = Server::answering(counting_down).await;
    let error = fail(&server.url("/6"), "").await;
    assert_eq!(told(&error), "bad_redirect final");
    assert!(error.message().contains("more than 5 redirects"), "{error}");
    assert_eq!(server.requests().len(), 6);
}

#[tokio::test]
async fn a_loop_ends() {
    let server =
        Server::answering(|request| answer(307, &format!("Location: {}\r\n", request.target), ""))
            .await;
    assert_eq!(told(&fail(&server.url("/"), r#""text": "x""#).await), "bad_redirect final");
    assert_eq!(server.requests().len(), 6);
}

#[tokio::test]
async fn a_redirect_that_is_expected_is_the_answer() {
    let server = Server::saying(302, "Location: https://u:p@a.example/x\r\n", "").await;
    let output = get(&server.url("/"), r#""expect": "302""#).await;
    assert_eq!(output["headers"]["location"], "https://a.example/x");
    let server = Server::saying(302, "", "nowhere").await;
    assert_eq!(fail(&server.url("/"), "").await.alias(), Some("http_302"));
}

#[tokio::test]
async fn methods_and_bodies_change_as_in_a_browser() {
    for (status, method, becomes, body) in [
        (301, "POST", "GET", ""),
        (302, "POST", "GET", ""),
        (303, "PUT", "GET", ""),
        (307, "POST", "POST", "body"),
        (308, "PUT", "PUT", "body"),
    ] {
        let server = Server::answering(move |request| match &*request.target {
            "/end" => answer(200, "", ""),
            _ => answer(status, "Location: end\r\n", ""),
        })
        .await;
        let fields = format!(r#""method": "{method}", "text": "body""#);
        get(&server.url("/a"), &fields).await;
        let last = server.requests().remove(1);
        assert_eq!((&*last.method, &*last.body), (becomes, body.as_bytes()), "{status}");
        let keeps = becomes == method;
        assert_eq!(last.header("content-type").is_some(), keeps);
        assert_eq!(last.header("idempotency-key").is_some(), keeps);
    }
}

#[tokio::test]
async fn credentials_go_to_no_other_host() {
    let other = Server::saying(200, "", "").await;
    let location = format!("Location: {}\r\n", other.url("/").replace("//", "//u:p@"));
    let server = Server::answering(move |request| match &*request.target {
        "/same" => answer(302, &location, ""),
        _ => answer(302, "Location: /same\r\n", ""),
    })
    .await;
    let headers = r#""headers": {"X-Api-Key": "s3cret", "Cookie": "a=s3cret", "Accept": "a/b"}"#;
    get(&server.url("/").replace("//", "//ada:s3cret@"), headers).await;
    let asked = server.requests();
    for request in &asked {
        assert_eq!(request.header("x-api-key").unwrap(), "s3cret");
        assert_eq!(request.header("cookie").unwrap(), "a=s3cret");
        assert!(request.header("authorization").unwrap().starts_with("Basic "));
    }
    let request = other.request();
    for name in ["x-api-key", "cookie", "authorization", "referer"] {
        assert_eq!(request.header(name), None, "{name}");
    }
    assert_eq!(request.header("accept").unwrap(), "a/b");
}

#[tokio::test]
async fn a_redirect_leads_to_no_address_that_is_not_allowed() {
    let inner = Server::saying(200, "", "secrets of the house").await;
    let port = inner.address.port();
    for to in [
        format!("http://127.0.0.1:{port}/"),
        format!("http://[::ffff:127.0.0.1]:{port}/"),
        format!("//2130706433:{port}/"),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "http://10.0.0.1/".to_owned(),
        "http://[fd00::1]/".to_owned(),
    ] {
        let location = format!("Location: {to}\r\n");
        let server = Server::saying(302, &location, "").await;
        let http = allowing(&["localhost"]);
        let url = format!("http://localhost:{}/", server.address.port());
        let run = call(&http, &input(&url, "")).await;
        assert_eq!(told(run.error()), "target_not_allowed final", "{to}");
        assert_eq!(server.requests().len(), 1);
    }
    // Nor by a name that leads there.
    let location = format!("Location: http://localhost:{port}/\r\n");
    let listener = listener("127.0.0.2").await;
    let server = Server::answering_at(listener, move |_| answer(302, &location, ""));
    let run = call(&allowing(&["127.0.0.2"]), &input(&server.url("/"), "")).await;
    assert_eq!(server.requests().len(), 1);
    assert_eq!(told(run.error()), "target_not_allowed final");
    assert!(inner.requests().is_empty());
}

#[tokio::test]
async fn a_redirect_to_something_else_is_not_followed() {
    for to in ["file:///etc/passwd", "ftp://a.example/", "gopher://127.0.0.1:70/_x", "http://"] {
        let server = Server::saying(301, &format!("Location: {to}\r\n"), "").await;
        assert_eq!(told(&fail(&server.url("/"), "").await), "bad_redirect final", "{to}");
    }
}

#[tokio::test]
async fn what_is_waited_for_after_a_redirect_is_the_last_answer() {
    let server = Server::answering(|request| match &*request.target {
        "/end" => answer(201, "X-End: yes\r\nContent-Type: application/json\r\n", "[1]"),
        _ => answer(303, "Location: /end\r\nSet-Cookie: a=b\r\n", ""),
    })
    .await;
    let output = get(&server.url("/"), r#""json": {}"#).await;
    assert_eq!((&output["status"], &output["json"]), (&json!(201), &json!([1])));
    assert_eq!(output["headers"]["x-end"], "yes");
    let last = server.requests().remove(1);
    assert_eq!(last.header("cookie"), None, "cookies are not kept");
}
