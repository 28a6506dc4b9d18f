//! The names of things: newtypes that are checked once, at the edge.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

/// The identity of a job: a `UUIDv7`, so that ids sort by the time of submission.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(Uuid);

impl JobId {
    /// Takes an id that someone else made.
    pub const fn from_uuid(id: Uuid) -> Self {
        Self(id)
    }

    /// The id as the number under which the log stores it.
    pub const fn as_u128(self) -> u128 {
        self.0.as_u128()
    }

    /// The inverse of [`JobId::as_u128`].
    pub const fn from_u128(id: u128) -> Self {
        Self(Uuid::from_u128(id))
    }
}

impl std::str::FromStr for JobId {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        Uuid::try_parse(text).map(Self).map_err(|_| BadName {
            what: "job id",
            name: text.into(),
            rule: "a job id is a UUID such as 0197f0c2-7b3e-7c11-9f0e-1d2c3b4a5968",
        })
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A name that does not follow the rule for names of its sort.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not a {what}: {rule}")]
pub struct BadName {
    /// What the name was to be: `task id`, `kind`, `job id`.
    pub what: &'static str,
    /// The name as it was given.
    pub name: String,
    /// The rule, as a sentence.
    pub rule: &'static str,
}

const RULE: &str = "it must have 1 to 128 characters from A-Z a-z 0-9 _ . : ( ) + @ - \
    and begin with a letter, a digit or _";

fn check(what: &'static str, name: &str) -> Result<(), BadName> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let fits = |byte: u8| plain(byte) || b".:()+@-".contains(&byte);
    let mut bytes = name.bytes();
    let valid = name.len() <= 128 && bytes.next().is_some_and(plain) && bytes.all(fits);
    if valid { Ok(()) } else { Err(BadName { what, name: name.into(), rule: RULE }) }
}

macro_rules! name {
    ($(#[$docs:meta])* $name:ident, $what:literal) => {
        $(#[$docs])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks a name: 1 to 128 characters from `A-Z a-z 0-9 _ . : ( ) + @ -`,
            /// of which the first is a letter, a digit or `_`.
            pub fn new(name: &str) -> Result<Self, BadName> {
                check($what, name).map(|()| Self(name.into()))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                Self::known(&name).map_err(serde::de::Error::custom)
            }
        }
    };
}

name! {
    /// The id of a task, unique in its job and never reused there.
    TaskId, "task id"
}
name! {
    /// The name under which a task implementation is registered: `shell`, `sleep`, `extract`.
    KindName, "kind"
}
name! {
    /// The name by which signals are told apart: `approved`, `stop`.
    SignalName, "signal name"
}

/// What stands between the id of a task and the word for what the engine derives from it. No name
/// that people give has it.
const DERIVED: char = '~';

/// The longest such word.
const WORD_MAX: usize = 8;

impl TaskId {
    /// Checks the id of a task that a job has: one that a plan names, or one that the engine
    /// derives from that, such as `charge~undo`.
    ///
    /// ```
    /// use annals_tasks_sdk::TaskId;
    /// assert!(TaskId::new("charge~undo").is_err(), "no plan names a task so");
    /// assert_eq!(TaskId::known("charge~undo"), Ok(TaskId::new("charge")?.derived("undo")));
    /// # Ok::<(), annals_tasks_sdk::BadName>(())
    /// ```
    pub fn known(name: &str) -> Result<Self, BadName> {
        let Some((of, word)) = name.split_once(DERIVED) else { return Self::new(name) };
        let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let valid = (1..=WORD_MAX).contains(&word.len()) && word.bytes().all(is_word);
        match check("task id", of) {
            Ok(()) if valid => Ok(Self(name.into())),
            _ => Err(BadName { what: "task id", name: name.into(), rule: RULE }),
        }
    }

    /// The id of what the engine derives from the task, for which there is a word of up to eight
    /// lowercase letters and digits.
    #[must_use]
    pub fn derived(&self, word: &str) -> Self {
        debug_assert!(!word.is_empty() && word.len() <= WORD_MAX, "{word:?}");
        Self(format!("{}{DERIVED}{word}", self.0).into())
    }

    /// The id of the task from which the engine has derived this one, and the word for it; none
    /// where people have named it.
    pub fn derived_from(&self) -> Option<(&str, &str)> {
        self.0.split_once(DERIVED)
    }
}

/// All of these are given by people.
macro_rules! given {
    ($($name:ident)+) => {$(
        impl $name {
            fn known(name: &str) -> Result<Self, BadName> {
                Self::new(name)
            }
        }
    )+};
}

given!(KindName SignalName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_ids_follow_the_rule() {
        let long = "x".repeat(128);
        for good in ["a", "_", "0", "A.b:c(d)+e@f-g", long.as_str()] {
            assert!(TaskId::new(good).is_ok(), "{good}");
        }
        let longer = "x".repeat(129);
        for bad in ["", "-a", ".a", "a b", "a/b", "ä", "a\n", longer.as_str()] {
            assert!(TaskId::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_the_engine_derives_has_an_id_that_nobody_else_can_give() {
        let undo = TaskId::new("a").unwrap().derived("undo");
        assert_eq!((undo.as_str(), undo.derived_from()), ("a~undo", Some(("a", "undo"))));
        assert_eq!(TaskId::known("a").unwrap().derived_from(), None);
        let text = serde_json::to_string(&undo).unwrap();
        assert_eq!(serde_json::from_str::<TaskId>(&text).unwrap(), undo);
        let long = format!("{}~10000", "x".repeat(128));
        for good in ["a~undo", "a~0", "a(b)~9999", &long] {
            assert!(TaskId::known(good).is_ok() && TaskId::new(good).is_err(), "{good}");
        }
        for bad in ["~undo", "a~", "a~Undo", "a~b~c", "a~ b", "a~123456789", "-~undo", ""] {
            assert!(TaskId::known(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_bad_job_id_says_what_it_should_be() {
        let error = "latest".parse::<JobId>().unwrap_err();
        assert!(error.to_string().starts_with("\"latest\" is not a job id"));
    }
}
