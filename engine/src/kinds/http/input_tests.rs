//! What an input may say.

use annals_tasks_sdk::Payload;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use reqwest::header::HeaderValue;

use super::super::fields::References;
use super::input::{Input, parse};

const MOST: u64 = 2 * 1024 * 1024;

fn read(input: &str) -> Input {
    let input = Payload::parse(input).unwrap();
    parse(&input, References::Resolved, MOST).unwrap().unwrap()
}

fn problems(input: &str, references: References) -> Vec<String> {
    let input = Payload::parse(input).unwrap();
    let problems = parse(&input, references, MOST).err().unwrap_or_default();
    problems.iter().map(ToString::to_string).collect()
}

/// The input with these fields and a good URL.
fn with(fields: &str) -> String {
    format!(r#"{{"url": "http://a.example/", {fields}}}"#)
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    for (input, word) in [
        ("null".to_owned(), "must be an object"),
        ("{}".into(), "needs a url"),
        (r#"{"uri": "http://a.example/"}"#.into(), "did you mean \"url\"? (at /uri)"),
        (with(r#""methd": "GET""#), "did you mean \"method\"?"),
        (r#"{"url": 5}"#.into(), "url must be a text"),
        (r#"{"url": "a.example"}"#.into(), "with its scheme"),
        (r#"{"url": "/x"}"#.into(), "(at /url)"),
        (r#"{"url": "ftp://a.example/"}"#.into(), "not ftp:"),
        (r#"{"url": "http://"}"#.into(), "cannot be read"),
        (r#"{"url": "http://a.example:0/"}"#.into(), "port 0"),
        (r#"{"url": "http://a.example:99999/"}"#.into(), "port"),
        (format!(r#"{{"url": "http://a.example/{}"}}"#, "x".repeat(9_000)), "more than 8192"),
        (with(r#""method": "get""#), "did you mean `GET`?"),
        (with(r#""method": "CONNECT""#), "is no method"),
        (with(r#""method": "GE T""#), "is no method"),
        (with(r#""method": """#), "is no method"),
        (with(r#""method": 5"#), "method must be a text"),
        (with(r#""json": 1, "text": "a""#), "one body"),
        (with(r#""json": null, "body_base64": "aGk=""#), "one body"),
        (with(r#""text": 5"#), "text must be a text"),
        (with(r#""body_base64": "a!""#), "no Base64"),
        (with(r#""headers": []"#), "must be an object"),
        (with(r#""headers": {"a b": "c"}"#), "name of a header"),
        (with(r#""headers": {"": "c"}"#), "name of a header"),
        (with(r#""headers": {"a": "b", "A": "c"}"#), "twice"),
        (with(r#""headers": {"a": null, "A": "c"}"#), "twice"),
        (with(r#""headers": {"a": {"b": 1}}"#), "(at /headers/a)"),
        (with(r#""headers": {"a": [null]}"#), "(at /headers/a)"),
        (with(r#""headers": {"a": "b\r\nc: d"}"#), "no header can"),
        (with(r#""headers": {"a": "ä"}"#), "no header can"),
        (with(&format!(r#""headers": {{"a": "{}"}}"#, "x".repeat(20_000))), "more than 16384"),
        (with(r#""headers": {"Content-Length": 5}"#), "belongs to the connection"),
        (with(r#""headers": {"Transfer-Encoding": "chunked"}"#), "belongs to the connection"),
        (with(r#""max_response_bytes": 3000000"#), "largest payload"),
        (with(r#""max_response_bytes": -1"#), "a number of bytes"),
        (with(r#""max_response_bytes": "1MiB""#), "a number of bytes"),
        (with(r#""expect": {}"#), "expect must be"),
        (with(r#""expect": []"#), "expect must be"),
        (with(r#""expect": true"#), "expect must be"),
        (with(r#""expect": "2xx""#), "\"2xx\" is no status"),
        (with(r#""expect": "299-200""#), "begins before it ends"),
        (with(r#""expect": "200-""#), "\"\" is no status"),
        (with(r#""expect": "200,,204""#), "\"\" is no status"),
        (with(r#""expect": 99"#), "\"99\" is no status"),
        (with(r#""expect": 100"#), "\"100\" is no status"),
        (with(r#""expect": [200, 600]"#), "\"600\" is no status"),
        (with(r#""expect": [200, "x"]"#), "\"x\" is no status"),
        (with(r#""expect": 200.5"#), "expect must be"),
        (
            r#"{"url": "http://u:p@a.example/", "headers": {"authorization": "x"}}"#.into(),
            "one of them must go",
        ),
    ] {
        let found = problems(&input, References::Pending);
        assert!(found.iter().any(|one| one.contains(word)), "{input}: {found:?}");
    }
}

#[test]
fn what_is_wrong_is_said_without_secrets() {
    for input in [
        r#"{"url": "ftp://u:s3cret@a.example/s3cret"}"#.to_owned(),
        r#"{"url": "http://u:s3cret@a.example:99999/s3cret"}"#.into(),
        r#"{"url": "s3cret"}"#.into(),
        with(r#""headers": {"Authorization": "s3cret\ns3cret"}"#),
        with(r#""headers": {"Authorization": ["s3cret", {"s3cret": 1}]}"#),
        with(r#""text": {"s3cret": 1}"#),
        with(r#""body_base64": "s3cret!""#),
    ] {
        let found = problems(&input, References::Resolved);
        assert!(!found.is_empty() && !found.concat().contains("s3cret"), "{found:?}");
    }
}

#[test]
fn references_are_passed_over_until_they_are_resolved() {
    for input in [
        r#"{"$output": "a"}"#.to_owned(),
        r#"{"url": {"$output": "a"}}"#.into(),
        with(r#""method": {"$input": "/m"}, "expect": {"$input": "/e"}"#),
        with(r#""headers": {"$input": "/h"}, "json": {"$input": "/j"}"#),
        with(r#""headers": {"a": {"$input": "/a"}, "b": [{"$input": "/b"}]}"#),
        with(r#""text": {"$input": "/t"}, "max_response_bytes": {"$input": "/n"}"#),
        with(r#""body_base64": {"$input": "/b"}, "expect": [200, {"$input": "/e"}]"#),
        with(r#""json": {"a": {"$output": "a"}}"#),
    ] {
        assert_eq!(problems(&input, References::Pending), Vec::<String>::new(), "{input}");
    }
    let both = with(r#""json": {"$input": "/j"}, "text": {"$input": "/t"}"#);
    assert!(problems(&both, References::Pending)[0].contains("one body"));
    assert!(!problems(r#"{"url": {"$output": "a"}}"#, References::Resolved).is_empty());
}

#[test]
fn bodies_bring_their_type_and_make_it_a_post() {
    let plain = read(r#"{"url": "http://a.example/"}"#).message;
    assert_eq!((plain.method, plain.body), (Method::GET, None));
    for (fields, body, content_type) in [
        (r#""json": {"a": 1.50, "b": 20000000000000000000001}"#, None, "application/json"),
        (r#""json": null"#, Some("null"), "application/json"),
        (r#""json": "x""#, Some("\"x\""), "application/json"),
        (r#""text": "ä\n""#, Some("ä\n"), "text/plain; charset=utf-8"),
        (r#""text": """#, Some(""), "text/plain; charset=utf-8"),
        (r#""body_base64": "aGk=""#, Some("hi"), "application/octet-stream"),
    ] {
        let message = read(&with(fields)).message;
        let body = body.unwrap_or(r#"{"a": 1.50, "b": 20000000000000000000001}"#);
        assert_eq!(message.body.unwrap(), body.as_bytes(), "{fields}");
        assert_eq!(message.headers["content-type"], content_type);
        assert_eq!(message.method, Method::POST);
    }
    let own = read(&with(r#""method": "PATCH", "json": 1, "headers": {"content-type": "a/b"}"#));
    assert_eq!(own.message.method, Method::PATCH);
    assert_eq!(own.message.headers["content-type"], "a/b");
    let none = read(&with(r#""json": 1, "headers": {"Content-Type": null}"#));
    assert!(!none.message.headers.contains_key("content-type"));
}

#[test]
fn headers_and_credentials_are_taken_out_of_where_they_stand() {
    let input = read(
        r#"{"url": "https://ad%61:p%3Aq%zz@a.example/x?y#z",
            "headers": {"A": ["1", 2], "b": 1.50, "C": true, "d": " e\n"}}"#,
    );
    let message = input.message;
    assert_eq!(message.url.as_str(), "https://a.example/x?y");
    let encoded = format!("Basic {}", STANDARD.encode("ada:p:q%zz"));
    assert_eq!(message.headers["authorization"], encoded.as_str());
    let values: Vec<_> = message.headers.get_all("a").iter().collect();
    assert_eq!(values, ["1", "2"]);
    assert_eq!(message.headers["b"], "1.50");
    assert_eq!(message.headers["c"], "true");
    assert_eq!(message.headers["d"], "e");
    assert!(message.headers.values().all(HeaderValue::is_sensitive));
}

#[test]
fn statuses_are_named_in_several_ways() {
    for (expect, good, bad) in [
        (None, vec![200, 204, 299], vec![199, 300, 404, 503]),
        (Some("null"), vec![200, 299], vec![300]),
        (Some("204"), vec![204], vec![200]),
        (Some("\"200-299,404\""), vec![200, 299, 404], vec![403]),
        (Some("\" 200 - 204 , 301 \""), vec![200, 204, 301], vec![205]),
        (Some("[200, \"300-399\", \"404,410\"]"), vec![200, 301, 404, 410], vec![201, 409]),
        (Some("\"200-599\""), vec![200, 599], vec![]),
    ] {
        let input = expect.map_or("{\"url\": \"http://a.example/\"}".into(), |expect| {
            with(&format!("\"expect\": {expect}"))
        });
        let input = read(&input);
        assert!(good.iter().all(|status| input.expect.contains(*status)), "{expect:?}");
        assert!(!bad.iter().any(|status| input.expect.contains(*status)), "{expect:?}");
    }
}
