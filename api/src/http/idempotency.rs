//! `Idempotency-Key`: a request that is repeated with its key is carried out once.

use annals_engine::IdempotencyKey;
use annals_tasks_sdk::JobId;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;

use super::problem::{Code, Problem};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// The longest key, in characters.
const KEY_MAX: usize = 255;
/// Whose keys they are: everyone's, while there are no tokens.
const SCOPE: &str = "";

/// The key that a request came with.
#[derive(Debug, Clone)]
pub(super) struct Key(Option<String>);

/// What the engine knows a request by that never was one, since a store was asked itself.
pub(crate) fn key_of(key: &str, path: &str, body: &[u8]) -> IdempotencyKey {
    IdempotencyKey::new(SCOPE, path, key, body)
}

impl Key {
    /// What the engine knows a request by: its path below the base, and its body as it came.
    pub(super) fn of(&self, path: &str, body: &[u8]) -> Option<IdempotencyKey> {
        self.0.as_deref().map(|key| key_of(key, path, body))
    }

    /// The same for one item of a batch, which has a key of its own by its index.
    pub(super) fn of_item(&self, path: &str, index: usize, item: &[u8]) -> Option<IdempotencyKey> {
        let key = self.0.as_deref()?;
        Some(IdempotencyKey::new(SCOPE, path, &format!("{key}#{index}"), item))
    }

    /// The same for one job of many, which has a key of its own by its id.
    pub(super) fn of_job(&self, path: &str, job: JobId, body: &[u8]) -> Option<IdempotencyKey> {
        let key = self.0.as_deref()?;
        Some(IdempotencyKey::new(SCOPE, path, &format!("{key}#{job}"), body))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Key {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let mut values = parts.headers.get_all(IDEMPOTENCY_KEY).iter();
        let Some(value) = values.next() else { return Ok(Self(None)) };
        let key = value.to_str().ok().and_then(read).filter(|_| values.next().is_none());
        key.map(|key| Self(Some(key))).ok_or_else(|| {
            let detail = "Idempotency-Key must be given once, as a string of 1 to 255 printable \
                ASCII characters, in double quotes or, if it has neither spaces, quotes nor \
                backslashes, without";
            Problem::new(Code::BAD_HEADER, detail)
        })
    }
}

/// A string of structured fields (RFC 9651), or what people send instead: the same without quotes.
fn read(header: &str) -> Option<String> {
    let key = match header.trim().strip_prefix('"') {
        Some(rest) => unquote(rest)?,
        None => header.trim().to_owned(),
    };
    let is_quoted = header.trim_start().starts_with('"');
    let bare = |byte: u8| byte.is_ascii_graphic() && !b"\"\\".contains(&byte);
    let fits = |byte: u8| if is_quoted { matches!(byte, b' '..=b'~') } else { bare(byte) };
    ((1..=KEY_MAX).contains(&key.len()) && key.bytes().all(fits)).then_some(key)
}

/// What stands before the closing quote, which must be the end.
fn unquote(rest: &str) -> Option<String> {
    let (mut key, mut chars) = (String::new(), rest.chars());
    loop {
        match chars.next()? {
            '"' => return chars.as_str().is_empty().then_some(key),
            '\\' => key.push(chars.next().filter(|escaped| matches!(escaped, '"' | '\\'))?),
            plain => key.push(plain),
        }
    }
}

/// Says that a request had been carried out before.
pub(super) fn replayed(mut response: Response) -> Response {
    response.headers_mut().insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
    response
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn keys_are_read_with_and_without_quotes() {
        let longest = "x".repeat(255);
        let table = [
            ("8e03978e-40d5-43dd-bc93-6894a57f9324", Some("8e03978e-40d5-43dd-bc93-6894a57f9324")),
            (r#""8e03""#, Some("8e03")),
            (r#" "two words" "#, Some("two words")),
            (r#""a \"b\" \\""#, Some(r#"a "b" \"#)),
            (&longest, Some(longest.as_str())),
            ("two words", None),
            (r#"a"b"#, None),
            (r#""open"#, None),
            (r#""a"b"#, None),
            (r#""a";q=1"#, None),
            (r#""\n""#, None),
            ("", None),
            (r#""""#, None),
        ];
        for (header, key) in table {
            assert_eq!(read(header).as_deref(), key, "{header}");
        }
        assert_eq!(read(&"x".repeat(256)), None);
    }
}
