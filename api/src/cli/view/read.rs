//! How answers are read, and the words and times in them.

use annals_engine::job::{AttemptOutcome, Intent, JobStatus, TaskStatus};
use annals_tasks_sdk::Timestamp;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error};

use crate::cli::error::CliError;
use crate::cli::text::plain;

/// Reads one of these out of an answer.
pub(in crate::cli) fn parse<T: DeserializeOwned>(json: &str) -> Result<T, CliError> {
    serde_json::from_str(json).map_err(|error| {
        CliError::unreachable(format!(
            "what was answered cannot be read: {error}; it may be of another version than this \
             program"
        ))
    })
}

/// A word that means something here.
pub(super) trait Word: Copy + 'static {
    const ALL: &'static [Self];
    fn as_str(self) -> &'static str;
}

macro_rules! words {
    ($($name:ident),+) => {
        $(impl Word for $name {
            const ALL: &'static [Self] = Self::ALL;

            fn as_str(self) -> &'static str {
                self.as_str()
            }
        })+
    };
}

words!(AttemptOutcome, Intent, JobStatus, TaskStatus);

/// Reads a word that this version knows.
pub(super) fn word<'de, D: Deserializer<'de>, W: Word>(deserializer: D) -> Result<W, D::Error> {
    let text = String::deserialize(deserializer)?;
    let known = W::ALL.iter().find(|word| word.as_str() == text);
    known.copied().ok_or_else(|| D::Error::custom(format!("{text:?} is no word of this version")))
}

/// The same where it may be left out.
pub(super) fn maybe_word<'de, D: Deserializer<'de>, W: Word>(
    deserializer: D,
) -> Result<Option<W>, D::Error> {
    word(deserializer).map(Some)
}

/// Reads a time as RFC 3339 has it.
pub(in crate::cli) fn time<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Timestamp, D::Error> {
    let text = String::deserialize(deserializer)?;
    let time: jiff::Timestamp = text.parse().map_err(D::Error::custom)?;
    Ok(Timestamp::from_millis(time.as_millisecond()))
}

/// The same where it may be left out.
pub(super) fn maybe_time<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Timestamp>, D::Error> {
    time(deserializer).map(Some)
}

/// Reads a name that may be shown as it stands.
pub(super) fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    Ok(plain(&text).into_owned())
}

/// The same where it may be left out.
pub(super) fn maybe_name<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<String>, D::Error> {
    name(deserializer).map(Some)
}
