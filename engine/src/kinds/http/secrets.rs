//! What a request carries and nobody else is to see.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

/// Shorter ones are words of everyday life; taking those out of a text would only spoil it.
const SECRET_MIN: usize = 4;

/// Parts of names of headers that carry secrets.
const SECRET_NAMES: [&str; 9] =
    ["auth", "cookie", "token", "secret", "key", "password", "session", "signature", "credential"];

/// Whether a header of that name carries a secret.
pub(super) fn is_secret(name: &HeaderName) -> bool {
    let name = name.as_str();
    name != "idempotency-key" && SECRET_NAMES.iter().any(|part| name.contains(part))
}

/// The secrets of a request, so that they can be taken out of what a server says.
pub(super) struct Secrets(Vec<String>);

impl Secrets {
    /// Those in the headers and in the query of a request.
    pub(super) fn of(headers: &HeaderMap, url: &Url) -> Self {
        let mut found = Vec::new();
        for (name, value) in headers {
            if let Some(value) = value.to_str().ok().filter(|_| is_secret(name)) {
                found.push(value.to_owned());
                found.extend(parts(value));
            }
        }
        let mut secrets = Self(found);
        secrets.add_query(url);
        secrets
    }

    /// Adds those in the query of a URL.
    pub(super) fn add_query(&mut self, url: &Url) {
        self.0.extend(url.query().map(str::to_owned));
        self.0.extend(url.query_pairs().map(|(_, value)| value.into_owned()));
        self.0.retain(|secret| secret.len() >= SECRET_MIN);
        // One that holds another goes first, or a part of it would stay.
        self.0.sort_unstable_by_key(|secret| std::cmp::Reverse(secret.len()));
        self.0.dedup();
    }

    /// The text without them.
    pub(super) fn scrub(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret, "[redacted]"))
    }
}

/// What of a header's value may come back alone: the token behind a scheme, the values of cookies,
/// the password of basic credentials.
fn parts(value: &str) -> Vec<String> {
    let mut parts = Vec::new();
    if let Some((_, token)) = value.split_once(' ') {
        parts.push(token.trim().to_owned());
    }
    let pairs = value.split([';', ',']).filter_map(|pair| pair.split_once('='));
    parts.extend(pairs.map(|(_, value)| value.trim().trim_matches('"').to_owned()));
    if let Some(encoded) = value.strip_prefix("Basic ")
        && let Ok(text) = STANDARD.decode(encoded.trim())
        && let Ok(text) = String::from_utf8(text)
    {
        parts.extend(text.split_once(':').map(|(_, password)| password.to_owned()));
        parts.push(text);
    }
    parts
}

/// The value of an `Authorization` by name and password.
pub(super) fn basic(user: &[u8], password: &[u8]) -> Option<HeaderValue> {
    let text = STANDARD.encode([user, b":", password].concat());
    let mut value = HeaderValue::try_from(format!("Basic {text}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_gives_back_is_taken_out() {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", basic(b"ada", b"lovelace").unwrap());
        headers.insert("x-api-key", HeaderValue::from_static("key-12345"));
        headers.insert("cookie", HeaderValue::from_static("a=chocolate; b=\"raisin\""));
        headers.insert("accept", HeaderValue::from_static("text/plain"));
        let url = Url::parse("http://a.example/x?token=quer%79y&page=12").unwrap();
        let secrets = Secrets::of(&headers, &url);
        let said = "Basic YWRhOmxvdmVsYWNl, ada:lovelace, lovelace, key-12345, chocolate, raisin, \
                    token=quer%79y&page=12, queryy, page 12, text/plain";
        let scrubbed = secrets.scrub(said);
        for secret in ["YWRh", "lovelace", "12345", "chocolate", "raisin", "quer"] {
            assert!(!scrubbed.contains(secret), "{scrubbed}");
        }
        assert!(scrubbed.ends_with("page 12, text/plain"), "{scrubbed}");
    }
}
