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
                Self::new(&name).map_err(serde::de::Error::custom)
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
    fn a_bad_job_id_says_what_it_should_be() {
        let error = "latest".parse::<JobId>().unwrap_err();
        assert!(error.to_string().starts_with("\"latest\" is not a job id"));
    }
}
