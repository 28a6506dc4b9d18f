//! What went wrong with a request: a code, whether another attempt may help, and a sentence that
//! holds no secret.

use std::error::Error;
use std::io;
use std::time::SystemTime;

use annals_tasks_sdk::TaskError;
use reqwest::StatusCode;

use super::super::text::printable;
use super::client::Unresolved;
use super::output::{self, Answer};
use super::retry_after;
use super::secrets::Secrets;
use super::targets::NotAllowed;

/// How much of an answer's body a message has, in bytes.
const EXCERPT_MAX: usize = 512;

/// Why there is no answer to judge.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) code: &'static str,
    /// Whether the same request may succeed another time.
    retried: Retried,
    detail: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Retried {
    Yes,
    No,
}

impl Failure {
    /// Tells what kind of failure an error of the client is.
    pub(super) fn of(error: reqwest::Error) -> Self {
        let error = error.without_url();
        let (code, retried) = class(&error);
        let detail = match find::<NotAllowed>(&error) {
            Some(refusal) => refusal.to_string(),
            None => reason(&error),
        };
        Self { code, retried, detail }
    }

    pub(super) fn not_allowed(refusal: &NotAllowed) -> Self {
        let detail = refusal.to_string();
        Self { code: "target_not_allowed", retried: Retried::No, detail }
    }

    pub(super) fn bad_redirect(detail: &str) -> Self {
        Self { code: "bad_redirect", retried: Retried::No, detail: detail.to_owned() }
    }

    pub(super) fn too_large(most: u64) -> Self {
        let detail = format!("the body of the answer has more than max_response_bytes, {most}");
        Self { code: "response_too_large", retried: Retried::No, detail }
    }

    /// The failure of an attempt whose request is shown as `line`.
    pub(super) fn into_error(self, line: &str) -> TaskError {
        let error = TaskError::new(self.code, format!("{line}: {}", self.detail));
        if self.retried == Retried::Yes { error } else { error.give_up() }
    }
}

fn class(error: &reqwest::Error) -> (&'static str, Retried) {
    if find::<NotAllowed>(error).is_some() {
        ("target_not_allowed", Retried::No)
    } else if find::<Unresolved>(error).is_some() {
        ("dns_failed", Retried::Yes)
    } else if find::<rustls::Error>(error).is_some() {
        // Certificates and settings: they do not mend themselves between two attempts.
        ("tls_failed", Retried::No)
    } else if error.is_connect() {
        ("connect_failed", Retried::Yes)
    } else if is_nonsense(error) {
        ("bad_response", Retried::No)
    } else {
        ("connection_lost", Retried::Yes)
    }
}

/// Whether what came cannot be read as HTTP, rather than that it ended.
fn is_nonsense(error: &reqwest::Error) -> bool {
    let mut unreadable = false;
    for cause in causes(error) {
        if let Some(error) = cause.downcast_ref::<hyper::Error>() {
            unreadable |= error.is_parse() || error.is_parse_too_large();
            // Something that speaks before it is asked. There is no other way to know it.
            unreadable |= error.to_string() == "received unexpected message from connection";
        }
        if let Some(error) = cause.downcast_ref::<io::Error>() {
            let kind = error.kind();
            unreadable |= matches!(kind, io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput);
        }
    }
    unreadable
}

/// An error, what it wraps, and so on.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn Error + 'static)| {
        let error: &'a (dyn Error + 'static) = *error;
        // What an I/O error wraps is not its source: that is what the wrapped one has for one.
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner as &(dyn Error + 'static)),
            None => error.source(),
        }
    })
}

fn find<E: Error + 'static>(error: &reqwest::Error) -> Option<&E> {
    causes(error).find_map(|cause| cause.downcast_ref::<E>())
}

/// The last cause says what happened; those before it say where it was noticed.
fn reason(error: &reqwest::Error) -> String {
    if error.is_timeout() && error.is_connect() {
        return "no connection was made in time".to_owned();
    }
    let last = causes(error).last().map(ToString::to_string).unwrap_or_default();
    printable(&last)
}

/// The failure of an attempt that was answered with a status that is not expected.
pub(super) fn of_status(line: &str, answer: &Answer, secrets: &Secrets) -> TaskError {
    let asked = retry_after::wait(&answer.headers, SystemTime::now());
    let number = answer.status.as_u16();
    let reason = answer.status.canonical_reason().map(|reason| format!(" {reason}"));
    let status = format!("{line}: status {number}{}", reason.unwrap_or_default());
    let message = match excerpt(answer, secrets) {
        Some(excerpt) => format!("{status}:\n{excerpt}"),
        None => status,
    };
    let error = TaskError::new("http_status", message).with_alias(&format!("http_{number}"));
    let error = error.with_output(output::of(answer));
    let error = asked.into_iter().fold(error, TaskError::retry_after);
    if asked.is_some() || is_retried(answer.status) { error } else { error.give_up() }
}

/// Whether another attempt may be answered otherwise. A request that is wrong stays so.
fn is_retried(status: StatusCode) -> bool {
    match status.as_u16() {
        408 | 425 | 429 => true,
        501 | 505 | 506 | 508 | 510 | 511 => false,
        number => number >= 500,
    }
}

/// The beginning of a body that is text.
fn excerpt(answer: &Answer, secrets: &Secrets) -> Option<String> {
    let body = &answer.body[..];
    // A character that is cut in half at the end of what was read is no reason to show nothing.
    let valid = match std::str::from_utf8(body) {
        Ok(text) => text,
        Err(error) if body.len() - error.valid_up_to() < 4 => {
            std::str::from_utf8(&body[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    // Before it is cut: half a secret would not be known any more.
    let text = secrets.scrub(valid.trim());
    let end = text.floor_char_boundary(EXCERPT_MAX);
    let lines: Vec<String> = text[..end].lines().map(printable).collect();
    let more = if end < text.len() { " ..." } else { "" };
    Some(format!("{}{more}", lines.join("\n"))).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_tried_again_where_that_may_help() {
        let retried: Vec<u16> = (100..600)
            .filter(|number| is_retried(StatusCode::from_u16(*number).unwrap()))
            .filter(|number| *number < 512)
            .collect();
        assert_eq!(retried, [408, 425, 429, 500, 502, 503, 504, 507, 509]);
        assert!(is_retried(StatusCode::from_u16(599).unwrap()));
    }
}
