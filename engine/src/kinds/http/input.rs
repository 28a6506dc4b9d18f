//! The input of a request.

use std::collections::BTreeMap;

use annals_tasks_sdk::{Payload, PayloadError, near};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use serde_json::value::RawValue;

use super::super::fields::{Fields, References};
use super::expect::Expect;
use super::secrets;

const KNOWN: [&str; 8] =
    ["method", "url", "headers", "json", "text", "body_base64", "expect", "max_response_bytes"];

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// These change what the connection does, and a request says nothing of that.
const OF_CONNECTION: [&str; 10] = [
    "connection",
    "content-length",
    "expect",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

const URL_MAX: usize = 8 * 1024;
const HEADERS_MAX: usize = 100;
const HEADER_MAX: usize = 16 * 1024;

/// The body of an answer is read so far, in bytes, unless the input says otherwise.
const RESPONSE_DEFAULT: u64 = 1024 * 1024;

pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// What is sent, and what is made of the answer.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) message: Message,
    pub(super) expect: Expect,
    /// The most bytes of a body.
    pub(super) response_max: u64,
    /// Headers that are not to be added to those of the input.
    omitted: Vec<HeaderName>,
}

/// A request.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) method: Method,
    /// Without userinfo and fragment.
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Bytes>,
}

impl Input {
    /// Adds a header, unless the input has it or leaves it out.
    pub(super) fn add_header(&mut self, name: HeaderName, value: HeaderValue) {
        if !self.omitted.contains(&name) {
            self.message.headers.entry(name).or_insert(value);
        }
    }
}

/// Reads an input. `None` where a pending reference stands for the whole, or for the URL.
///
/// `response_most` is what `max_response_bytes` may be at most.
pub(super) fn parse(
    input: &Payload,
    references: References,
    response_most: u64,
) -> Result<Option<Input>, Vec<PayloadError>> {
    let Some(mut fields) = Fields::open(input, &KNOWN, references)? else { return Ok(None) };
    if !fields.has("url") {
        fields.problem(&[], "a request needs a url");
    }
    let url = url(&mut fields);
    let (headers, omitted) = headers(&mut fields);
    let (body, content_type) = body(&mut fields);
    let default = if body.is_some() { Method::POST } else { Method::GET };
    let method = method(&mut fields).unwrap_or(default);
    let expect = Expect::take(&mut fields);
    let response_max = response_max(&mut fields, response_most);
    let both = headers.contains_key(AUTHORIZATION)
        && url.as_ref().is_some_and(|(_, userinfo)| userinfo.is_some());
    if both {
        let detail = "the url has credentials, and so have the headers; one of them must go";
        fields.problem(&["headers", "Authorization"], detail);
    }
    fields.finish()?;
    let Some((url, userinfo)) = url else { return Ok(None) };
    let message = Message { method, url, headers, body };
    let mut input = Input { message, expect, response_max, omitted };
    if let Some(value) = userinfo {
        input.add_header(AUTHORIZATION, value);
    }
    if let Some(value) = content_type {
        input.add_header(CONTENT_TYPE, HeaderValue::from_static(value));
    }
    Ok(Some(input))
}

fn method(fields: &mut Fields<'_>) -> Option<Method> {
    let text = fields.take::<String>("method", "a text such as \"POST\"")?;
    let custom = |text: &str| text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-');
    let refused = ["CONNECT", "TRACE"].contains(&text.as_str());
    match Method::from_bytes(text.as_bytes()) {
        Ok(method) if custom(&text) && text.len() <= 32 && !refused => Some(method),
        _ => {
            let shown: String = text.chars().take(32).collect();
            let hint = near::hint(&text, METHODS);
            let methods = METHODS.join(", ");
            let detail = format!("{shown:?} is no method of a request{hint} (methods: {methods})");
            fields.problem(&["method"], detail);
            None
        }
    }
}

/// The URL, and what is to be sent for its userinfo. What is wrong is said without the URL: there
/// may be a password in it.
fn url(fields: &mut Fields<'_>) -> Option<(Url, Option<HeaderValue>)> {
    let text = fields.take::<String>("url", "a text such as \"https://example.org/\"")?;
    let mut wrong = |detail: &str| {
        fields.problem(&["url"], detail);
        None
    };
    if text.len() > URL_MAX {
        return wrong(&format!("the url has more than {URL_MAX} bytes"));
    }
    let mut url = match Url::parse(&text) {
        Ok(url) => url,
        Err(error) => {
            let hint = "write it with its scheme, such as https://example.org/";
            return wrong(&format!("the url cannot be read: {error}; {hint}"));
        }
    };
    if !matches!(url.scheme(), "http" | "https") {
        let scheme: String = url.scheme().chars().take(32).collect();
        return wrong(&format!("the url must begin with http:// or https://, not {scheme}:"));
    }
    if url.port() == Some(0) {
        return wrong("the url has port 0, on which nothing listens");
    }
    let userinfo = (!url.username().is_empty() || url.password().is_some()).then(|| {
        let password = url.password().unwrap_or_default();
        secrets::basic(&unescaped(url.username()), &unescaped(password))
    });
    // These parts of a http URL can always be taken out.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_fragment(None);
    Some((url, userinfo.flatten()))
}

/// The bytes of a text in which some are written as `%20`.
fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| byte == b'%');
        let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let unescaped = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(unescaped.unwrap_or(byte));
        rest = if unescaped.is_some() { &after[2..] } else { after };
    }
    bytes
}

/// The headers, and the names of those that are null.
fn headers(fields: &mut Fields<'_>) -> (HeaderMap, Vec<HeaderName>) {
    let (mut headers, mut omitted) = (HeaderMap::new(), Vec::new());
    let Some(raw) = fields.raw("headers") else { return (headers, omitted) };
    let Ok(members) = serde_json::from_str::<BTreeMap<String, &RawValue>>(raw) else {
        fields.problem(&["headers"], "headers must be an object of names and values");
        return (headers, omitted);
    };
    if members.len() > HEADERS_MAX {
        fields.problem(&["headers"], format!("there are more than {HEADERS_MAX} headers"));
    }
    for (text, value) in members.into_iter().take(HEADERS_MAX) {
        let Some(name) = header_name(fields, &text) else { continue };
        if headers.contains_key(&name) || omitted.contains(&name) {
            let detail = format!("the header {name} stands there twice, in other letters");
            fields.problem(&["headers", &text], detail);
        }
        if value.get() == "null" {
            omitted.push(name);
            continue;
        }
        for value in header_values(fields, &text, value.get()) {
            headers.append(name.clone(), value);
        }
    }
    (headers, omitted)
}

fn header_name(fields: &mut Fields<'_>, text: &str) -> Option<HeaderName> {
    let shown: String = text.chars().take(64).collect();
    let name = HeaderName::try_from(text).ok();
    match name.filter(|_| text.len() <= 256) {
        None => {
            fields.problem(&["headers", text], format!("{shown:?} cannot be the name of a header"));
            None
        }
        Some(name) if OF_CONNECTION.contains(&name.as_str()) => {
            let detail = format!("the header {shown} belongs to the connection, not to a request");
            fields.problem(&["headers", text], detail);
            None
        }
        name => name,
    }
}

/// The values of one header: a text, a number or a truth value, or a list of them. What is wrong
/// is said without the value: it may be a secret.
fn header_values(fields: &mut Fields<'_>, name: &str, raw: &str) -> Vec<HeaderValue> {
    let one = || serde_json::from_str::<&RawValue>(raw).into_iter().collect();
    let list = raw.starts_with('[').then(|| serde_json::from_str::<Vec<&RawValue>>(raw));
    let values: Vec<&RawValue> = list.and_then(Result::ok).unwrap_or_else(one);
    let mut read = Vec::with_capacity(values.len());
    for value in values.into_iter().map(RawValue::get) {
        if fields.is_pending(value) {
            continue;
        }
        let text = match value.as_bytes().first() {
            Some(b'"') => serde_json::from_str::<String>(value).ok(),
            Some(b'{' | b'[' | b'n') | None => None,
            Some(_) => Some(value.to_owned()),
        };
        let Some(text) = text else {
            let detail = "the value of a header must be a text, a number, or a list of these";
            fields.problem(&["headers", name], detail);
            continue;
        };
        match HeaderValue::from_str(text.trim()) {
            Ok(_) if text.len() > HEADER_MAX => {
                let detail = format!("the value of this header has more than {HEADER_MAX} bytes");
                fields.problem(&["headers", name], detail);
            }
            Ok(mut value) if text.is_ascii() => {
                value.set_sensitive(true);
                read.push(value);
            }
            _ => {
                let detail = "the value of this header holds what no header can: only visible \
                              ASCII characters and spaces are possible";
                fields.problem(&["headers", name], detail);
            }
        }
    }
    read
}

/// The body, and what type it has.
fn body(fields: &mut Fields<'_>) -> (Option<Bytes>, Option<&'static str>) {
    // A null is JSON too: the output of another task may be one.
    let json = fields.present("json");
    let given = [json.is_some(), fields.has("text"), fields.has("body_base64")];
    if given.iter().filter(|given| **given).count() > 1 {
        fields.problem(&[], "a request has one body: json, text or body_base64");
    }
    if let Some(json) = json {
        let body = (!fields.is_pending(json)).then(|| Bytes::copy_from_slice(json.as_bytes()));
        return (body.or(Some(Bytes::new())), Some("application/json"));
    }
    if let Some(text) = fields.take::<String>("text", "a text") {
        return (Some(text.into()), Some("text/plain; charset=utf-8"));
    }
    if let Some(text) = fields.take::<String>("body_base64", "bytes as Base64 text") {
        return match STANDARD.decode(&text) {
            Ok(bytes) => (Some(bytes.into()), Some("application/octet-stream")),
            Err(error) => {
                fields.problem(&["body_base64"], format!("body_base64 is no Base64: {error}"));
                (None, None)
            }
        };
    }
    (None, None)
}

fn response_max(fields: &mut Fields<'_>, most: u64) -> u64 {
    let default = RESPONSE_DEFAULT.min(most);
    let what = "a number of bytes";
    let Some(bytes) = fields.take::<u64>("max_response_bytes", what) else { return default };
    if bytes > most {
        let detail = format!("max_response_bytes is more than the largest payload, {most} bytes");
        fields.problem(&["max_response_bytes"], detail);
    }
    bytes
}
