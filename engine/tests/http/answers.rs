//! What is made of an answer.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

use super::house::{call, get, http, input};
use super::server::Server;

pub(crate) fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn json_keeps_its_digits() {
    let body = r#"{"big": 20000000000000000000001, "half": 1.50}"#;
    let server = Server::saying(200, "Content-Type: application/json\r\n", body).await;
    let run = call(&http(), &input(&server.url("/"), "")).await;
    let kept = run.output().output.pointer("/json").unwrap();
    assert_eq!(kept.as_str(), body);
}

#[tokio::test]
async fn texts_and_bytes_are_told_apart() {
    let server = Server::saying(200, "Content-Type: text/html\r\n", "<p>ä</p>").await;
    let headers = json!({"content-type": "text/html", "content-length": "9"});
    let expected = json!({"status": 200, "headers": headers, "text": "<p>ä</p>"});
    assert_eq!(get(&server.url("/"), "").await, expected);
    let server = Server::saying(200, "", b"\x00\xff").await;
    assert_eq!(get(&server.url("/"), "").await["body_base64"], "AP8=");
}

#[tokio::test]
async fn an_answer_without_a_body_has_none() {
    let table = [
        ("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n"),
        ("HEAD", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\n"),
        ("HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
        ("DELETE", "HTTP/1.1 204 No Content\r\n\r\n"),
        ("GET", "HTTP/1.1 204 No Content\r\nContent-Encoding: gzip\r\n\r\n"),
        ("GET", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 0\r\n\r\n"),
        ("GET", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 0\r\n\r\n"),
        ("GET", "HTTP/1.0 200 OK\r\n\r\n"),
        ("GET", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"),
    ];
    for (method, head) in table {
        let server = Server::answering(move |_| head.as_bytes().to_vec()).await;
        let output = get(&server.url("/"), &format!(r#""method": "{method}""#)).await;
        let fields: Vec<&String> = output.as_object().unwrap().keys().collect();
        assert_eq!(fields, ["headers", "status"], "{method} {head:?}: {output}");
    }
}

#[tokio::test]
async fn repeated_headers_are_joined_and_cookies_left_out() {
    let headers = "X-A: 1\r\nSet-Cookie: id=s3cret\r\nx-a: 2\r\nSet-Cookie: b=s3cret\r\n";
    let server = Server::saying(200, headers, "").await;
    let output = get(&server.url("/"), "").await;
    assert_eq!(output["headers"], json!({"x-a": "1, 2", "content-length": "0"}));
}

#[tokio::test]
async fn compressed_bodies_are_unfolded() {
    let headers = "Content-Encoding: gzip\r\nContent-Type: application/json\r\n";
    let server = Server::saying(200, headers, gzipped(br#"{"a": 1.0}"#)).await;
    let output = get(&server.url("/"), "").await;
    assert_eq!(output["json"], json!({"a": 1.0}));
    assert_eq!(output["headers"], json!({"content-type": "application/json"}));
    assert_eq!(server.request().header("accept-encoding").unwrap(), "gzip");
}

#[tokio::test]
async fn only_expected_statuses_are_a_success() {
    let server = Server::saying(404, "", "gone").await;
    let output = get(&server.url("/"), r#""expect": "200-299,404""#).await;
    assert_eq!((&output["status"], &output["text"]), (&json!(404), &json!("gone")));
    let server = Server::saying(200, "", "").await;
    let run = call(&http(), &input(&server.url("/"), r#""expect": [201]"#)).await;
    assert_eq!(run.error().alias(), Some("http_200"));
}
