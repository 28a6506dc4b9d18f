//! Requests and answers.

use std::time::Duration;

use super::script::{Act, Script, answer, client, notices, nowhere, of, problem};
use crate::client::{ClientError, Patience, Request};

/// Long enough for every test here, and never waited for.
const LONG: Patience = Patience::For(Duration::from_mins(1));
const WHILE_THERE: Patience = Patience::WhileThere(Duration::from_mins(1));

fn submit() -> Request {
    Request::post(["jobs"], r#"{"name": "x"}"#.into()).with("dry_run", true)
}

#[tokio::test]
async fn a_request_says_who_asks_and_what() {
    let server = Script::play(vec![answer("202 Accepted", "etag: \"1.2.0\"\r\n", "{\"a\": 1}")]);
    let request = submit().by_key(r#"a "key" \"#.into());
    let reply = client(server.at).send(&request, WHILE_THERE).await.unwrap();
    assert_eq!((reply.status.as_u16(), &*reply.text), (202, "{\"a\": 1}"));
    assert_eq!(reply.tag.as_deref(), Some("\"1.2.0\""));
    let asked = server.over().await.remove(0);
    assert_eq!(asked.line(), "POST /api/v1/jobs?dry_run=true");
    assert_eq!(asked.body, r#"{"name": "x"}"#);
    for (name, value) in [
        ("x-annals-actor", "ada"),
        ("idempotency-key", r#""a \"key\" \\""#),
        ("content-type", "application/json"),
        ("accept", "application/json"),
        ("x-request-id", &request.id.to_string()),
    ] {
        assert_eq!(asked.header(name), Some(value), "{name}");
    }
}

#[tokio::test]
async fn what_was_cut_off_is_sent_again_with_the_same_key() {
    let half = of("application/json", "202 Accepted", "", "{\"id\": 1}");
    let half = half[..half.len() - 3].to_owned();
    let server = Script::play(vec![
        Act::Close,
        Act::Say(String::new()),
        Act::Say("HTTP/1.1 202 Acc".into()),
        Act::Say(half),
        answer("202 Accepted", "", "{}"),
    ]);
    let reply = client(server.at).send(&submit(), LONG).await.unwrap();
    assert_eq!(reply.text, "{}");
    let told = notices(server.at);
    assert_eq!(told.len(), 1, "it is said once: {told:?}");
    assert!(told[0].contains("went away") && told[0].ends_with("trying again for 1m"), "{told:?}");
    let asked = server.over().await;
    assert_eq!(asked.len(), 4);
    for name in ["idempotency-key", "x-request-id"] {
        let first = asked[0].header(name);
        assert!(first.is_some());
        assert!(asked.iter().all(|asked| asked.header(name) == first), "{name}");
    }
    assert!(asked.iter().all(|asked| asked.body == r#"{"name": "x"}"#));
}

#[tokio::test]
async fn each_request_has_a_key_of_its_own() {
    let server = Script::play(vec![answer("200 OK", "", "{}"), answer("200 OK", "", "{}")]);
    for _ in 0..2 {
        client(server.at).send(&submit(), LONG).await.unwrap();
    }
    let asked = server.over().await;
    assert_ne!(asked[0].header("idempotency-key"), asked[1].header("idempotency-key"));
}

#[tokio::test]
async fn a_server_that_is_not_ready_is_asked_again() {
    let html = of("text/html", "502 Bad Gateway", "", "<p>");
    for patience in [LONG, WHILE_THERE] {
        let server = Script::play(vec![
            problem("503 Service Unavailable", "retry-after: 0\r\n", "starting"),
            Act::Say(html.clone()),
            problem("429 Too Many Requests", "retry-after: 0\r\n", "too_many"),
            answer("200 OK", "", "{}"),
        ]);
        client(server.at).send(&Request::get(["jobs"]), patience).await.unwrap();
        let told = notices(server.at);
        assert!(told[0].contains("cannot answer now: it is starting"), "{told:?}");
        assert_eq!(server.over().await.len(), 4);
    }
}

#[tokio::test]
async fn a_server_that_will_not_be_ready_is_not() {
    let server = Script::play(vec![problem("503 Service Unavailable", "", "start_failed")]);
    let error = client(server.at).send(&submit(), LONG).await.unwrap_err();
    assert!(matches!(&error, ClientError::NotNow { again: None, .. }), "{error:?}");
    assert!(error.to_string().contains("it is start_failed"), "{error}");
    assert!(!error.may_be_done());
    assert_eq!(notices(server.at), Vec::<String>::new());
}

#[tokio::test]
async fn a_refusal_is_read_and_not_tried_again() {
    let body = r#"{"type": "x", "title": "Refused", "status": 1, "detail": "no", "code": "c",
        "request_id": "r", "job_status": "paused", "allowed": ["resume"],
        "errors": [{"pointer": "/a", "detail": "b"}],
        "dependants": [{"task": "t", "reference": "/r"}, {"reference": "/s"}]}"#;
    let text = of("application/problem+json; charset=utf-8", "409 Conflict", "", body);
    let server = Script::play(vec![Act::Say(text)]);
    let error = client(server.at).send(&submit(), LONG).await.unwrap_err();
    let ClientError::Refused(problem) = error else { panic!("{error:?}") };
    assert_eq!((problem.status, &*problem.code, &*problem.detail), (409, "c", "no"));
    assert_eq!(problem.job_status.as_deref(), Some("paused"));
    assert_eq!(problem.allowed.as_deref(), Some(&["resume".to_owned()][..]));
    assert_eq!(problem.errors[0].pointer, "/a");
    assert_eq!(problem.dependants[0].task.as_deref(), Some("t"));
    assert_eq!(problem.dependants[1].reference, "/s");
}

#[tokio::test]
async fn what_is_not_annals_is_said_to_be_not() {
    for text in [
        of("text/html", "200 OK", "", "<p>welcome"),
        of("text/html", "404 Not Found", "", "<p>"),
        of("application/problem+json", "404 Not Found", "", "nothing"),
        of("text/plain", "500 Internal Server Error", "", ""),
    ] {
        let server = Script::play(vec![Act::Say(text)]);
        let error = client(server.at).send(&Request::get(["jobs"]), LONG).await.unwrap_err();
        assert!(matches!(&error, ClientError::Foreign { passes: false, .. }), "{error:?}");
        let words = format!("http://{} answers, but not as Annals does", server.at);
        assert!(error.to_string().starts_with(&words), "{error}");
    }
}

#[tokio::test]
async fn where_nobody_listens_reading_fails_at_once() {
    let at = nowhere();
    let error = client(at).send(&Request::get(["jobs"]), WHILE_THERE).await.unwrap_err();
    let words = format!("no server answers at http://{at}: Connection refused");
    assert!(error.to_string().starts_with(&words), "{error}");
    assert!(error.to_string().ends_with("start one with `annals serve`"), "{error}");
    assert!(!error.may_be_done());
}

#[tokio::test]
async fn where_nobody_listens_asking_waits_for_a_server() {
    let at = nowhere();
    let client = client(at);
    let asking = tokio::spawn(async move { client.send(&submit(), LONG).await });
    while notices(at).is_empty() {
        tokio::task::yield_now().await;
    }
    let server = Script::play_at(at, vec![answer("202 Accepted", "", "{}")]);
    asking.await.unwrap().unwrap();
    assert_eq!(server.over().await.len(), 1);
}

#[tokio::test]
async fn patience_has_an_end() {
    let at = nowhere();
    let patience = Patience::For(Duration::from_millis(300));
    let error = client(at).send(&submit(), patience).await.unwrap_err();
    assert!(matches!(error, ClientError::NoServer { .. }), "{error:?}");
    assert_eq!(notices(at).len(), 1);
    let at = nowhere();
    let none = Patience::For(Duration::ZERO);
    client(at).send(&submit(), none).await.unwrap_err();
    assert_eq!(notices(at), Vec::<String>::new(), "nothing is tried again");
}

#[tokio::test]
async fn an_answer_may_come_in_small_pieces() {
    let text = of("application/json", "200 OK", "", r#"{"text": "ü"}"#);
    let server = Script::play(vec![Act::Drip(text)]);
    let reply = client(server.at).send(&Request::get(["jobs"]), LONG).await.unwrap();
    assert_eq!(reply.text, r#"{"text": "ü"}"#);
}

#[tokio::test]
async fn what_is_known_is_not_sent_again() {
    let server = Script::play(vec![Act::Say("HTTP/1.1 304 Not Modified\r\n\r\n".into())]);
    let request = Request::get(["jobs", "7"]).unless(Some("\"1.2.3\"".into()));
    let reply = client(server.at).send(&request, LONG).await.unwrap();
    assert_eq!(reply.status.as_u16(), 304);
    assert_eq!(server.over().await[0].header("if-none-match"), Some("\"1.2.3\""));
}
