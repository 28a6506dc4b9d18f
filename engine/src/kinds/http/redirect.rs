//! What follows a redirect: the rules of browsers.

use reqwest::header::{
    ACCEPT, ACCEPT_LANGUAGE, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LOCATION, CONTENT_TYPE,
    HOST, HeaderMap, HeaderName, LOCATION, USER_AGENT,
};
use reqwest::{Method, StatusCode, Url};

use super::input::{IDEMPOTENCY_KEY, Message};

/// Headers that say something about a body.
const OF_BODY: [HeaderName; 4] =
    [CONTENT_TYPE, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LOCATION];

/// Where an answer sends the request on to; `None` where it does not.
pub(super) fn location(status: StatusCode, headers: &HeaderMap) -> Option<&str> {
    let redirects = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
    headers.get(LOCATION).filter(|_| redirects)?.to_str().ok()
}

/// The URL of the next request. The error is a sentence.
pub(super) fn target(from: &Url, location: &str) -> Result<Url, &'static str> {
    let mut url = from.join(location).map_err(|_| "its Location is no URL")?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("it leads to something that is not http");
    }
    // A server has no credentials to give; these parts of a http URL can always be taken out.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_fragment(None);
    Ok(url)
}

/// Makes the next request of the one that was answered.
pub(super) fn follow(message: &mut Message, status: StatusCode, to: Url) {
    let becomes_get = match status.as_u16() {
        301 | 302 => message.method == Method::POST,
        303 => message.method != Method::GET && message.method != Method::HEAD,
        _ => false,
    };
    if becomes_get {
        message.method = Method::GET;
        message.body = None;
        message.headers.remove(IDEMPOTENCY_KEY);
        for name in OF_BODY {
            message.headers.remove(name);
        }
    }
    // It was for the host that was asked for first.
    message.headers.remove(HOST);
    if message.url.origin() != to.origin() {
        message.headers = harmless(&message.headers);
    }
    message.url = to;
}

/// The headers that another host may have. Which of the others are secrets is not for this to
/// guess, so none of them goes along.
fn harmless(headers: &HeaderMap) -> HeaderMap {
    let other = [ACCEPT, ACCEPT_LANGUAGE, USER_AGENT];
    let harmless = |name: &HeaderName| {
        OF_BODY.contains(name) || other.contains(name) || name == IDEMPOTENCY_KEY
    };
    let kept = headers.iter().filter(|(name, _)| harmless(name));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(method: Method) -> Message {
        let all = [
            ("authorization", "Bearer x"),
            ("cookie", "a=b"),
            ("x-api-key", "k"),
            ("host", "virtual.example"),
            ("accept", "text/plain"),
            ("content-type", "text/plain"),
            ("idempotency-key", "i"),
        ];
        let headers = all.into_iter().map(|(name, value)| {
            (name.parse().unwrap(), reqwest::header::HeaderValue::from_static(value))
        });
        let url = Url::parse("https://a.example/x").unwrap();
        Message { method, url, headers: headers.collect(), body: Some(b"body".to_vec().into()) }
    }

    fn followed(method: &Method, status: u16, to: &str) -> Message {
        let mut message = message(method.clone());
        let to = target(&message.url, to).unwrap();
        follow(&mut message, StatusCode::from_u16(status).unwrap(), to);
        message
    }

    #[test]
    fn methods_change_as_in_a_browser() {
        let (post, put, head) = (Method::POST, Method::PUT, Method::HEAD);
        for (status, method, becomes) in [
            (301, &post, Method::GET),
            (302, &post, Method::GET),
            (303, &post, Method::GET),
            (307, &post, Method::POST),
            (308, &post, Method::POST),
            (301, &put, Method::PUT),
            (302, &put, Method::PUT),
            (303, &put, Method::GET),
            (303, &head, Method::HEAD),
            (302, &head, Method::HEAD),
        ] {
            let next = followed(method, status, "/y");
            assert_eq!(next.method, becomes, "{status} {method}");
            let keeps_body = next.method == *method;
            assert_eq!(next.body.is_some(), keeps_body, "{status} {method}");
            assert_eq!(next.headers.contains_key("content-type"), keeps_body);
            assert_eq!(next.headers.contains_key("idempotency-key"), keeps_body);
            assert!(!next.headers.contains_key("host"));
            assert_eq!(next.headers["authorization"], "Bearer x", "the host is the same");
            assert_eq!(next.url.as_str(), "https://a.example/y");
        }
    }

    #[test]
    fn credentials_stay_with_their_origin() {
        for to in [
            "https://b.example/",
            "http://a.example/",
            "https://a.example:8443/",
            "https://sub.a.example/",
            "//b.example/",
        ] {
            let next = followed(&Method::POST, 307, to);
            let mut kept: Vec<_> = next.headers.keys().map(HeaderName::as_str).collect();
            kept.sort_unstable();
            assert_eq!(kept, ["accept", "content-type", "idempotency-key"], "{to}");
        }
        let next = followed(&Method::GET, 302, "https://a.example:443/?y");
        assert!(next.headers.contains_key("x-api-key"));
    }

    #[test]
    fn only_urls_of_http_without_credentials_are_followed() {
        let from = Url::parse("https://a.example/x/y?z").unwrap();
        assert_eq!(target(&from, "../w").unwrap().as_str(), "https://a.example/w");
        let bare = target(&from, "http://u:p@b.example/#f").unwrap();
        assert_eq!(bare.as_str(), "http://b.example/");
        for location in ["file:///etc/passwd", "ftp://b.example/", "data:,x", "http://", "//[x"] {
            assert!(target(&from, location).is_err(), "{location}");
        }
    }
}
