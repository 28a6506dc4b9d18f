//! An answer, read within its limit, and the output that it makes.

use std::collections::BTreeMap;
use std::time::Duration;

use annals_tasks_sdk::Payload;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{
    AUTHORIZATION, CONTENT_LOCATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION,
    PROXY_AUTHORIZATION, SET_COOKIE,
};
use reqwest::{Response, StatusCode, Url};

use super::failure::Failure;

/// How much of the body of an answer that is a failure anyway is kept, in bytes.
const FAILED_MAX: u64 = 64 * 1024;

/// How long it is waited for.
const FAILED_PATIENCE: Duration = Duration::from_secs(2);

/// Headers of an answer that open something for whoever has them.
const NOT_KEPT: [HeaderName; 4] =
    [SET_COOKIE, HeaderName::from_static("set-cookie2"), AUTHORIZATION, PROXY_AUTHORIZATION];

/// What a server has answered.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    /// How much of the body that is.
    pub(super) extent: Extent,
}

/// How much of a body was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    Whole,
    Part,
}

impl Answer {
    /// Reads an answer, whose body must be no longer than `most` bytes.
    pub(super) async fn read(mut response: Response, most: u64) -> Result<Self, Failure> {
        // What the server says of the length need not be waited for.
        if response.content_length().is_some_and(|length| length > most) {
            return Err(Failure::too_large(most));
        }
        let mut answer = Self::head(&response);
        answer.take(&mut response, most).await?;
        Ok(answer)
    }

    /// Reads an answer of which the status already says that it is a failure. Its body is shown
    /// as a favour: one that is long, late or cut off changes nothing.
    pub(super) async fn read_what_comes(mut response: Response, most: u64) -> Self {
        let mut answer = Self::head(&response);
        let body = answer.take(&mut response, most.min(FAILED_MAX));
        // Whatever stopped it: what has come is there.
        let _ = tokio::time::timeout(FAILED_PATIENCE, body).await;
        answer
    }

    fn head(response: &Response) -> Self {
        let (status, headers) = (response.status(), response.headers().clone());
        Self { status, headers, body: Vec::new(), extent: Extent::Part }
    }

    async fn take(&mut self, response: &mut Response, most: u64) -> Result<(), Failure> {
        while let Some(chunk) = response.chunk().await.map_err(Failure::of)? {
            let room = usize::try_from(most).unwrap_or(usize::MAX).saturating_sub(self.body.len());
            self.body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if chunk.len() > room {
                return Err(Failure::too_large(most));
            }
        }
        self.extent = Extent::Whole;
        Ok(())
    }

    /// The body, where it is not only a part of it.
    fn whole(&self) -> Option<&[u8]> {
        (self.extent == Extent::Whole).then_some(&*self.body)
    }
}

/// The output of a task: `{"status", "headers"}`, and `json`, `text` or `body_base64` where there
/// is a body.
pub(super) fn of(answer: &Answer) -> Payload {
    let with_json = json(answer).map(|json| write(answer, Some(("json", json))));
    // What lies too deep for a payload is still a text.
    let with_json = with_json.filter(|output| Payload::parse(output).is_ok());
    let output = with_json.unwrap_or_else(|| write(answer, plain(answer)));
    Payload::trusted(&output)
}

/// Written by hand, so that the digits of numbers stay.
fn write(answer: &Answer, body: Option<(&str, String)>) -> String {
    let headers = serde_json::to_string(&headers(&answer.headers)).unwrap_or_default();
    let body = body.map(|(name, value)| format!(",\"{name}\":{value}")).unwrap_or_default();
    format!("{{\"status\":{},\"headers\":{headers}{body}}}", answer.status.as_u16())
}

/// The body where it is JSON, and says so.
fn json(answer: &Answer) -> Option<String> {
    let body = std::str::from_utf8(answer.whole()?).ok()?;
    let of_type = answer.headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let of_type = of_type.split(';').next()?.trim().to_ascii_lowercase();
    let is_json =
        matches!(&*of_type, "application/json" | "text/json") || of_type.ends_with("+json");
    let payload = Payload::parse(body).ok().filter(|_| is_json)?;
    Some(payload.as_str().to_owned())
}

/// The body as text, or as Base64 where it is none.
fn plain(answer: &Answer) -> Option<(&'static str, String)> {
    let body = answer.whole().filter(|body| !body.is_empty())?;
    let is_text = |text: &&str| !text.chars().any(is_no_text);
    match std::str::from_utf8(body).ok().filter(is_text) {
        Some(text) => Some(("text", serde_json::to_string(text).ok()?)),
        None => Some(("body_base64", format!("\"{}\"", STANDARD.encode(body)))),
    }
}

/// Control characters that stand in no text, as opposed to the ends of lines and colours.
fn is_no_text(character: char) -> bool {
    character < ' ' && !matches!(character, '\t' | '\n' | '\r' | '\x0c' | '\x1b')
}

/// The headers by name; those that stand there several times are joined by commas.
fn headers(headers: &HeaderMap) -> BTreeMap<&str, String> {
    let mut kept: BTreeMap<&str, String> = BTreeMap::new();
    for (name, value) in headers.iter().filter(|(name, _)| !NOT_KEPT.contains(name)) {
        let value = match *name {
            LOCATION | CONTENT_LOCATION => without_userinfo(value),
            _ => String::from_utf8_lossy(value.as_bytes()).into_owned(),
        };
        kept.entry(name.as_str())
            .and_modify(|joined| {
                joined.push_str(", ");
                joined.push_str(&value);
            })
            .or_insert(value);
    }
    kept
}

fn without_userinfo(value: &HeaderValue) -> String {
    let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
    match Url::parse(&text) {
        Ok(mut url) if !url.username().is_empty() || url.password().is_some() => {
            let _ = url.set_username("");
            let _ = url.set_password(None);
            url.into()
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(headers: &[(&'static str, &'static [u8])], body: &[u8]) -> String {
        let headers = headers.iter().map(|(name, value)| {
            (HeaderName::from_static(name), HeaderValue::from_bytes(value).unwrap())
        });
        let (status, body, extent) = (StatusCode::OK, body.to_vec(), Extent::Whole);
        let output = of(&Answer { status, headers: headers.collect(), body, extent });
        assert!(Payload::parse(output.as_str()).is_ok(), "{output:?}");
        output.as_str().to_owned()
    }

    fn body(content_type: &'static str, body: &[u8]) -> String {
        let output = output(&[("content-type", content_type.as_bytes())], body);
        let begin = format!(r#"{{"status":200,"headers":{{"content-type":"{content_type}"}}"#);
        output.strip_prefix(&begin).unwrap().strip_suffix('}').unwrap().to_owned()
    }

    #[test]
    fn bodies_are_json_text_or_bytes() {
        let digits = br#" {"b": 1.50, "a": 20000000000000000000001} "#;
        let kept = r#","json":{"b": 1.50, "a": 20000000000000000000001}"#;
        assert_eq!(body("application/json", digits), kept);
        assert_eq!(body("Application/Problem+JSON; charset=utf-8", digits), kept);
        assert_eq!(body("application/json", b"null"), r#","json":null"#);
        assert_eq!(body("text/plain", b"{}"), r#","text":"{}""#);
        assert_eq!(body("application/json", b"{\"a\": "), r#","text":"{\"a\": ""#);
        assert_eq!(body("application/json", br#"{"a":1,"a":2}"#), r#","text":"{\"a\":1,\"a\":2}""#);
        assert_eq!(body("image/png", "ä\n\x1b[1m".as_bytes()), r#","text":"ä\n\u001b[1m""#);
        assert_eq!(body("text/plain", b"\xff\xfe"), r#","body_base64":"//4=""#);
        assert_eq!(body("text/plain", b"a\0b"), r#","body_base64":"YQBi""#);
        for nothing in ["application/json", "text/plain"] {
            assert_eq!(body(nothing, b""), "");
        }
        // As deep as a payload may be, and with the output around it too deep.
        let deep = format!("{}{}", "[".repeat(128), "]".repeat(128));
        assert!(body("application/json", deep.as_bytes()).starts_with(r#","text":"[[["#));
    }

    #[test]
    fn headers_are_joined_and_those_that_open_something_left_out() {
        let given: [(&str, &[u8]); 9] = [
            ("set-cookie", b"session=s3cret"),
            ("x-b", b"2"),
            ("x-a", b"1"),
            ("x-b", b"3, 4"),
            ("authorization", b"s3cret"),
            ("proxy-authorization", b"s3cret"),
            ("set-cookie2", b"s3cret"),
            ("location", b"https://u:s3cret@a.example/x"),
            ("x-latin", b"caf\xe9"),
        ];
        let expected =
            r#"{"location":"https://a.example/x","x-a":"1","x-b":"2, 3, 4","x-latin":"caf�"}"#;
        assert_eq!(output(&given, b""), format!(r#"{{"status":200,"headers":{expected}}}"#));
        assert_eq!(
            output(&[("location", b"/relative?x")], b""),
            r#"{"status":200,"headers":{"location":"/relative?x"}}"#
        );
    }
}
