//! Nothing is read, waited for or kept without an end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use annals_engine::kinds::{AllowedTarget, Http, HttpSettings};
use annals_tasks_sdk::{Payload, testing};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::answers::gzipped;
use super::house::{call, fail, get, http, input, told, within};
use super::server::{Server, read, until_closed};

/// Sends an endless chunked body; counts what was taken of it.
async fn endless(mut stream: TcpStream, status: u16, sent: Arc<AtomicU64>) {
    read(&mut stream).await;
    let head = format!("HTTP/1.1 {status} Said\r\nTransfer-Encoding: chunked\r\n\r\n");
    let mut next = head.into_bytes();
    while stream.write_all(&next).await.is_ok() {
        sent.fetch_add(next.len() as u64, Ordering::Relaxed);
        next = [b"4000\r\n", &[b'x'; 0x4000][..], b"\r\n"].concat();
    }
}

#[tokio::test]
async fn a_body_may_be_as_long_as_its_limit_and_no_longer() {
    let limit = r#""max_response_bytes": 100"#;
    for (length, fits) in [(100, true), (101, false)] {
        let body = "x".repeat(length);
        let known = Server::saying(200, "", &body).await;
        let headers = "Transfer-Encoding: chunked";
        let chunked =
            format!("HTTP/1.1 200 OK\r\n{headers}\r\n\r\n{length:x}\r\n{body}\r\n0\r\n\r\n");
        let chunked = Server::answering(move |_| chunked.clone().into_bytes()).await;
        let to_the_end = format!("HTTP/1.0 200 OK\r\n\r\n{body}");
        let to_the_end = Server::answering(move |_| to_the_end.clone().into_bytes()).await;
        for server in [known, chunked, to_the_end] {
            if fits {
                assert_eq!(get(&server.url("/"), limit).await["text"], body);
            } else {
                let error = fail(&server.url("/"), limit).await;
                assert_eq!(told(&error), "response_too_large final");
                assert!(error.message().ends_with("max_response_bytes, 100"), "{error}");
            }
        }
    }
    // What is announced is not waited for.
    let server =
        Server::answering(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n".into());
    let error = fail(&server.await.url("/"), "").await;
    assert_eq!(told(&error), "response_too_large final");
}

#[tokio::test]
async fn an_endless_body_is_left_at_its_limit() {
    let sent = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&sent);
    let server = Server::wild(move |stream| endless(stream, 200, Arc::clone(&counted))).await;
    let error = fail(&server.url("/"), "").await;
    assert_eq!(told(&error), "response_too_large final");
    // The limit of 1 MiB, and what fits into buffers on the way.
    assert!(sent.load(Ordering::Relaxed) < 32 << 20, "{sent:?}");
}

#[tokio::test]
async fn a_small_body_that_unfolds_to_a_large_one_is_left_at_its_limit() {
    let bomb = gzipped(&vec![0; 64 << 20]);
    assert!(bomb.len() < 100_000);
    let server = Server::saying(200, "Content-Encoding: gzip\r\n", &bomb).await;
    let error = fail(&server.url("/"), "").await;
    assert_eq!(told(&error), "response_too_large final");
    // One that is opened twice is opened once, and then is a body of its own.
    let twice = gzipped(&gzipped(b"x"));
    let server = Server::saying(200, "Content-Encoding: gzip\r\n", twice).await;
    assert_eq!(get(&server.url("/"), "").await["body_base64"].as_str().unwrap().len(), 28);
}

#[tokio::test]
async fn endless_headers_are_not_listened_to() {
    let server = Server::wild(|mut stream| async move {
        read(&mut stream).await;
        let mut next = b"HTTP/1.1 200 OK\r\n".to_vec();
        while stream.write_all(&next).await.is_ok() {
            next = b"X-Filler: and so on and so on and so on\r\n".repeat(100);
        }
    })
    .await;
    let error = fail(&server.url("/"), "").await;
    assert_eq!(told(&error), "bad_response final");
    // One line of it without an end, too.
    let server = Server::wild(|mut stream| async move {
        read(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nX: ").await;
        while stream.write_all(&[b'x'; 0x4000]).await.is_ok() {}
    })
    .await;
    assert_eq!(told(&fail(&server.url("/"), "").await), "bad_response final");
}

#[tokio::test]
async fn a_failure_does_not_wait_for_its_body() {
    let sent = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&sent);
    let server = Server::wild(move |stream| endless(stream, 503, Arc::clone(&counted))).await;
    let run = call(&http(), &input(&server.url("/"), "")).await;
    assert_eq!(told(run.error()), "http_status retryable");
    assert!(run.error().message().ends_with("xxx ..."), "{}", run.error());
    assert!(run.log().ends_with(", 65,536 bytes of more\n"), "{}", run.log());
    let late = Server::wild(|mut stream| async move {
        read(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 404 No\r\nContent-Length: 9\r\n\r\nnot").await;
        until_closed(&mut stream).await;
    })
    .await;
    let error = fail(&late.url("/"), "").await;
    assert_eq!(told(&error), "http_status final");
    assert!(error.message().ends_with("status 404 Not Found:\nnot"), "{error}");
    assert_eq!(error.output().unwrap().pointer("/text"), None, "it is only a part");
}

#[tokio::test]
async fn an_attempt_that_is_told_to_stop_hangs_up_at_once() {
    for head in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nnot"] {
        let (asked, closed) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (seen, over) = (Arc::clone(&asked), Arc::clone(&closed));
        let server = Server::wild(move |mut stream| {
            let (seen, over) = (Arc::clone(&seen), Arc::clone(&over));
            async move {
                read(&mut stream).await;
                stream.write_all(head.as_bytes()).await.unwrap();
                seen.notify_one();
                until_closed(&mut stream).await;
                over.notify_one();
            }
        })
        .await;
        let attempt = testing::attempt();
        let (token, http) = (attempt.token(), http());
        let input = Payload::parse(&input(&server.url("/"), "")).unwrap();
        let stop = async {
            asked.notified().await;
            token.cancel();
        };
        let (run, ()) = within(async { tokio::join!(attempt.call(&http, input), stop) }).await;
        assert!(run.error().is_cancelled(), "{:?}", run.error());
        let begin = format!("GET {} -> stopped in ", server.url("/"));
        assert!(run.log().starts_with(&begin), "{}", run.log());
        within(closed.notified()).await;
    }
}

#[tokio::test]
async fn an_attempt_that_is_dropped_hangs_up_at_once() {
    let (asked, closed) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (seen, over) = (Arc::clone(&asked), Arc::clone(&closed));
    let server = Server::wild(move |mut stream| {
        let (seen, over) = (Arc::clone(&seen), Arc::clone(&over));
        async move {
            read(&mut stream).await;
            seen.notify_one();
            until_closed(&mut stream).await;
            over.notify_one();
        }
    })
    .await;
    let (http, input) = (http(), Payload::parse(&input(&server.url("/"), "")).unwrap());
    tokio::select! {
        run = testing::attempt().call(&http, input) => panic!("{run:?}"),
        () = within(asked.notified()) => {}
    }
    within(closed.notified()).await;
}

#[tokio::test]
async fn an_attempt_that_was_told_before_asks_nothing() {
    let server = Server::saying(200, "", "").await;
    let input = Payload::parse(&input(&server.url("/"), "")).unwrap();
    let run = within(testing::attempt().cancelled().call(&http(), input)).await;
    assert!(run.error().is_cancelled());
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn connecting_takes_no_longer_than_it_may() {
    // TLS is part of connecting: here somebody listens and says nothing.
    let silent = Server::wild(|mut stream| async move { until_closed(&mut stream).await }).await;
    let silent_url = silent.url("/").replace("http:", "https:");
    let mut settings = HttpSettings::default().allow([AllowedTarget::PRIVATE]);
    settings.connect_timeout = Duration::from_millis(100);
    let http = Http::new(settings);
    let run = call(&http, &input(&silent_url, "")).await;
    assert_eq!(told(run.error()), "connect_failed retryable");
    assert!(run.error().message().ends_with("no connection was made in time"), "{}", run.error());
}
