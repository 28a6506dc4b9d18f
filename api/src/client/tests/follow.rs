//! Streams that are cut off.

use std::time::Duration;

use super::script::{Act, Script, client, notices, nowhere, of, problem};
use crate::client::{ClientError, Follow, News, Patience, Request};

const WHILE_THERE: Patience = Patience::WhileThere(Duration::from_mins(1));

fn stream(frames: &str) -> Act {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    Act::Say(format!("{head}{frames}"))
}

fn event(id: u64) -> String {
    format!("id: {id}\ndata: {{\"seq\": {id}}}\n\n")
}

fn follow(script: &Script) -> Follow {
    let request = Request::get(["jobs", "7", "events"]).with("after", 0);
    Follow::begin(client(script.at), request, WHILE_THERE)
}

/// All that comes until the end or an error, in short.
async fn all(mut follow: Follow) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        all.push(match follow.next().await {
            Ok(Some(News::Frame(frame))) => {
                format!("{} {}", frame.kind, frame.id.unwrap_or_default())
            }
            Ok(Some(News::Lost(_))) => "lost".into(),
            Ok(Some(News::Back)) => "back".into(),
            Ok(None) => return all,
            Err(error) => format!("{error:?}").split([' ', '(']).next().unwrap().into(),
        });
    }
}

#[tokio::test]
async fn a_stream_goes_on_behind_the_last_whole_frame() {
    let server = Script::play(vec![
        stream(&format!("{}{}id: 3\ndata: {{\"se", event(1), event(2))),
        Act::Close,
        problem("503 Service Unavailable", "retry-after: 0\r\n", "starting"),
        stream(&format!(": still here\n\n{}", event(3))),
        stream("event: end\ndata: {}\n\n"),
    ]);
    let seen = all(follow(&server)).await;
    assert_eq!(seen, [" 1", " 2", "lost", "back", " 3", "lost", "back", "end "]);
    let asked = server.over().await;
    let ids: Vec<_> = asked.iter().map(|asked| asked.header("last-event-id")).collect();
    assert_eq!(ids, [None, Some("2"), Some("2"), Some("3")]);
    assert!(asked.iter().all(|asked| asked.line() == "GET /api/v1/jobs/7/events?after=0"));
    assert!(asked.iter().all(|asked| asked.header("accept") == Some("text/event-stream")));
}

#[tokio::test]
async fn a_server_that_is_away_is_sought_until_it_is_back() {
    let server = Script::play(vec![stream(&event(1))]);
    let at = server.at;
    let mut follow = follow(&server);
    server.over().await;
    assert!(matches!(follow.next().await, Ok(Some(News::Frame(_)))));
    let lost = follow.next().await.unwrap();
    let Some(News::Lost(why)) = lost else { panic!("{lost:?}") };
    assert!(why.contains(&format!("the server at http://{at} went away")), "{why}");
    let server = Script::play_at(at, vec![stream(&format!("{}event: end\n\n", event(2)))]);
    assert_eq!(all(follow).await, ["back", " 2", "end "]);
    assert_eq!(server.over().await[0].header("last-event-id"), Some("1"));
}

#[tokio::test]
async fn what_is_gone_ends_the_stream() {
    let server = Script::play(vec![stream(&event(1)), problem("404 Not Found", "", "no_such_job")]);
    assert_eq!(all(follow(&server)).await, [" 1", "lost", "Refused"]);
}

#[tokio::test]
async fn the_first_connection_is_not_waited_for_where_nobody_listens() {
    let request = Request::get(["events"]);
    let at = nowhere();
    let mut follow = Follow::begin(client(at), request, WHILE_THERE);
    let error = follow.next().await.unwrap_err();
    assert!(matches!(error, ClientError::NoServer { .. }), "{error:?}");
    assert!(follow.next().await.unwrap().is_none());
    assert_eq!(notices(at), Vec::<String>::new());
}

#[tokio::test]
async fn whoever_has_everything_is_at_the_end() {
    let nothing = Act::Say("HTTP/1.1 204 No Content\r\n\r\n".into());
    let server = Script::play(vec![stream(&event(1)), nothing]);
    assert_eq!(all(follow(&server)).await, [" 1", "lost"]);
}

#[tokio::test]
async fn what_is_no_stream_is_refused() {
    let server = Script::play(vec![Act::Say(of("text/html", "200 OK", "", "<p>"))]);
    assert_eq!(all(follow(&server)).await, ["Foreign"]);
}

#[tokio::test]
async fn a_slow_stream_is_a_stream() {
    let text = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n{}event: end\r\n\r\n",
        event(1).replace('\n', "\r\n")
    );
    let server = Script::play(vec![Act::Drip(text)]);
    assert_eq!(all(follow(&server)).await, [" 1", "end "]);
}
