//! What each failure is called, and whether it is tried again.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::house::{allowing, call, fail, http, input, told};
use super::server::{Server, answer, read, until_closed};

#[tokio::test]
async fn statuses_are_tried_again_by_their_class() {
    for (status, expected) in [
        (400, "http_status final"),
        (401, "http_status final"),
        (404, "http_status final"),
        (408, "http_status retryable"),
        (418, "http_status final"),
        (425, "http_status retryable"),
        (429, "http_status retryable"),
        (500, "http_status retryable"),
        (501, "http_status final"),
        (502, "http_status retryable"),
        (503, "http_status retryable"),
        (504, "http_status retryable"),
        (505, "http_status final"),
        (300, "http_status final"),
        (304, "http_status final"),
        (302, "http_status final"),
    ] {
        let server = Server::saying(status, "X-Why: because\r\n", "").await;
        let error = fail(&server.url("/"), "").await;
        assert_eq!(told(&error), expected, "{status}");
        assert_eq!(error.alias(), Some(&*format!("http_{status}")));
        assert_eq!(error.retry_wait(), None);
        let output = error.output().unwrap();
        assert_eq!(output.pointer("/status").unwrap().as_str(), status.to_string());
        assert_eq!(output.pointer("/headers/x-why").unwrap().as_str(), "\"because\"");
    }
}

#[tokio::test]
async fn the_message_has_what_one_looks_for() {
    let server = Server::saying(400, "", "the field \x1b[1m`name`\r\nis missing\n").await;
    let error = fail(&server.url("/a?b=c"), r#""method": "PUT""#).await;
    let shown = server.url("/a");
    let body = "the field \\u{1b}[1m`name`\nis missing";
    assert_eq!(error.message(), format!("PUT {shown}: status 400 Bad Request:\n{body}"));
    let server = Server::saying(599, "", b"\0\xff\xfe\xfd\xfc\xfb").await;
    let error = fail(&server.url("/"), "").await;
    assert_eq!(error.message(), format!("GET {}: status 599", server.url("/")));
    let server = Server::saying(500, "", "ä".repeat(9_000)).await;
    let message = fail(&server.url("/"), "").await.message().to_owned();
    assert!(message.len() < 700 && message.ends_with("ä ..."), "{message}");
}

#[tokio::test]
async fn what_a_server_asks_for_is_waited() {
    for (status, headers, expected, wait) in [
        (503, "Retry-After: 7\r\n", "http_status retryable", Some(7)),
        (429, "Retry-After: 0\r\n", "http_status retryable", Some(0)),
        (503, "Retry-After: soon\r\n", "http_status retryable", None),
        (403, "Retry-After: 60\r\n", "http_status retryable", Some(60)),
        (202, "Retry-After: 5\r\n", "http_status retryable", Some(5)),
        (503, "Retry-After: 99999999999\r\n", "http_status retryable", Some(24 * 60 * 60)),
        (
            503,
            "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nRetry-After: Sun, 06 Nov 1994 08:50:37 GMT\r\n",
            "http_status retryable",
            Some(60),
        ),
        (503, "Retry-After: Sun, 06 Nov 1994 08:50:37 GMT\r\n", "http_status retryable", Some(0)),
    ] {
        let server = Server::saying(status, headers, "").await;
        let error = fail(&server.url("/"), r#""expect": [200]"#).await;
        assert_eq!(told(&error), expected, "{headers}");
        assert_eq!(error.retry_wait(), wait.map(Duration::from_secs), "{headers}");
    }
}

#[tokio::test]
async fn where_nobody_listens_it_is_tried_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let run = call(&http(), &input(&url, "")).await;
    assert_eq!(told(run.error()), "connect_failed retryable");
    assert!(run.error().message().starts_with(&format!("GET {url}: ")), "{}", run.error());
    assert!(run.error().message().contains("refused"), "{}", run.error());
    let log = run.log();
    assert!(log.starts_with(&format!("GET {url} -> connect_failed in ")), "{log}");
    // No name ends so.
    let run = call(&http(), &input("http://nowhere.invalid/", "")).await;
    assert_eq!(told(run.error()), "dns_failed retryable");
    assert!(run.error().message().contains("\"nowhere.invalid\""), "{}", run.error());
}

#[tokio::test]
async fn what_is_no_http_is_not_tried_again() {
    for said in [
        "SSH-2.0-OpenSSH_9.2p1\r\n",
        "220 mail.example ESMTP\r\n\r\n",
        "\r\n\r\n\0\0\0\0",
        "HTTP/9.9 200 OK\r\n\r\n",
        "HTTP/1.1 999999 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nbad header\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 14\r\n\r\nno gzip at all",
        "<html>",
    ] {
        let server = Server::answering(move |_| said.as_bytes().to_vec()).await;
        let error = fail(&server.url("/"), "").await;
        assert_eq!(told(&error), "bad_response final", "{said:?}: {error}");
    }
    // Many speak before they are asked.
    let server = Server::wild(async |mut stream| {
        let _ = stream.write_all(b"220 mail.example ESMTP\r\n").await;
        until_closed(&mut stream).await;
    })
    .await;
    for _ in 0..20 {
        let error = fail(&server.url("/"), "").await;
        assert_eq!(told(&error), "bad_response final", "{error}");
    }
}

#[tokio::test]
async fn a_connection_that_ends_too_early_is_tried_again() {
    for said in [
        "",
        "HTTP/1.1",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhal",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhal",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhallo\r\n",
    ] {
        let server = Server::answering(move |_| said.as_bytes().to_vec()).await;
        let error = fail(&server.url("/"), r#""text": "x""#).await;
        assert_eq!(told(&error), "connection_lost retryable", "{said:?}: {error}");
        assert_eq!(server.requests().len(), 1, "it is for the plan to ask again");
    }
    let cut = super::answers::gzipped(&[b'x'; 10_000]);
    let server = Server::saying(200, "Content-Encoding: gzip\r\n", &cut[..cut.len() - 9]).await;
    let error = fail(&server.url("/"), "").await;
    assert_eq!(error.code(), "connection_lost", "{error}");
}

#[tokio::test]
async fn an_answer_that_comes_before_all_was_sent_is_heard() {
    let server = Server::wild(async |mut stream| {
        // Enough to know that it is too much.
        let _ = stream.read(&mut [0; 16]).await;
        let _ = stream.write_all(&answer(413, "Connection: close\r\n", "too much")).await;
        until_closed(&mut stream).await;
    })
    .await;
    let body = "x".repeat(8 << 20);
    let error = fail(&server.url("/"), &format!(r#""text": "{body}""#)).await;
    assert_eq!(told(&error), "http_status final", "{error}");
    assert!(error.message().ends_with("too much"), "{error}");
}

#[tokio::test]
async fn a_reset_is_tried_again() {
    let server = Server::wild(|mut stream| async move {
        read(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n").await;
        // Without time to linger, its end is a reset.
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    })
    .await;
    let error = fail(&server.url("/"), "").await;
    assert_eq!(told(&error), "connection_lost retryable", "{error}");
}

#[tokio::test]
async fn an_input_that_is_wrong_when_it_is_resolved_fails_at_once() {
    for (text, word) in [
        (r#"{"url": null}"#, "needs a url"),
        (r#"{"url": {"$output": "a"}}"#, "url must be a text"),
        (r#"{"url": "http://a.example/", "method": "get"}"#, "did you mean `GET`?"),
    ] {
        let run = call(&http(), text).await;
        assert_eq!(told(run.error()), "bad_input final");
        assert!(run.error().message().contains(word), "{}", run.error());
    }
}

#[tokio::test]
async fn only_public_addresses_are_reached_unless_a_setting_allows_more() {
    let server = Server::answering(|_| answer(200, "", "")).await;
    let port = server.address.port();
    for (allowed, host, reached) in [
        (&[][..], "127.0.0.1", false),
        (&[], "localhost", false),
        (&[], "[::ffff:127.0.0.1]", false),
        (&[], "127.1", false),
        (&["10.0.0.0/8", "::1"], "127.0.0.1", false),
        (&["localhost"], "127.0.0.1", false),
        (&["localhost"], "localhost", true),
        (&["127.0.0.1"], "127.0.0.1", true),
        (&["127.0.0.0/8"], "localhost", true),
        (&["127.0.0.0/8"], "[::ffff:127.0.0.1]", true),
        (&["private"], "localhost", true),
    ] {
        let before = server.requests().len();
        let run = call(&allowing(allowed), &input(&format!("http://{host}:{port}/"), "")).await;
        match &run.result {
            Ok(_) => assert!(reached, "{allowed:?} {host}"),
            Err(error) => {
                assert_eq!(told(error), "target_not_allowed final", "{allowed:?} {host}: {error}");
                assert!(error.message().contains("loopback address"), "{error}");
                assert!(!reached, "{allowed:?} {host}");
            }
        }
        assert_eq!(server.requests().len() - before, usize::from(reached), "{allowed:?} {host}");
    }
}
