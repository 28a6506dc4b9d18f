//! Twins of the conditions of tasks.

use annals_tasks_sdk::plan::{self, Reference};
use annals_tasks_sdk::{Payload, TaskId};
use serde::{Deserialize, Serialize};

use crate::log::codec::CodecError;
use crate::log::v1::{Json, bad, payload, text};

#[derive(Serialize, Deserialize)]
pub(super) enum Condition<'a> {
    Output {
        task: &'a str,
        pointer: &'a str,
        #[serde(borrow)]
        default: Option<Json<'a>>,
        test: Test<'a>,
    },
    Input {
        pointer: &'a str,
        default: Option<Json<'a>>,
        test: Test<'a>,
    },
    Task {
        task: &'a str,
        ends: Vec<TaskEnd>,
    },
    Job {
        ends: Vec<JobEnd>,
    },
}

#[derive(Serialize, Deserialize)]
pub(super) enum Test<'a> {
    IsTrue,
    Equals(Json<'a>),
    #[serde(borrow)]
    In(Vec<Json<'a>>),
}

macro_rules! twin {
    ($name:ident { $($variant:ident)+ }) => {
        #[derive(Serialize, Deserialize)]
        pub(in crate::log) enum $name { $($variant,)+ }

        impl From<plan::$name> for $name {
            fn from(word: plan::$name) -> Self {
                match word { $(plan::$name::$variant => Self::$variant,)+ }
            }
        }

        impl From<$name> for plan::$name {
            fn from(word: $name) -> Self {
                match word { $($name::$variant => Self::$variant,)+ }
            }
        }
    };
}

twin!(TaskEnd { Completed Failed Skipped Removed Pending Interrupted });
twin!(JobEnd { Completed Failed Cancelled });

impl<'a> TryFrom<&'a plan::Condition> for Condition<'a> {
    type Error = CodecError;

    fn try_from(condition: &'a plan::Condition) -> Result<Self, CodecError> {
        Ok(match condition {
            plan::Condition::Value { reference, test } => {
                let test = test.into();
                let default = text(reference.default());
                match reference {
                    Reference::Output { task, pointer, .. } => {
                        Self::Output { task: task.as_str(), pointer, default, test }
                    }
                    Reference::Input { pointer, .. } => Self::Input { pointer, default, test },
                    _ => return unknown(),
                }
            }
            plan::Condition::Task { task, ends } => {
                let ends = ends.iter().map(|&end| end.into()).collect();
                Self::Task { task: task.as_str(), ends }
            }
            plan::Condition::Job { ends } => {
                Self::Job { ends: ends.iter().map(|&end| end.into()).collect() }
            }
            _ => return unknown(),
        })
    }
}

fn unknown<T>() -> Result<T, CodecError> {
    Err(CodecError::Encode("the condition is of a sort that has a later version".into()))
}

impl TryFrom<Condition<'_>> for plan::Condition {
    type Error = CodecError;

    fn try_from(condition: Condition<'_>) -> Result<Self, CodecError> {
        let id = |task| TaskId::new(task).map_err(|error| bad(&error));
        Ok(match condition {
            Condition::Output { task, pointer, default, test } => {
                let (task, pointer, default) = (id(task)?, pointer.into(), payload(default));
                let reference = Reference::Output { task, pointer, default };
                Self::Value { reference, test: test.into() }
            }
            Condition::Input { pointer, default, test } => {
                let (pointer, default) = (pointer.into(), payload(default));
                let reference = Reference::Input { pointer, default };
                Self::Value { reference, test: test.into() }
            }
            Condition::Task { task, ends } => {
                let ends = ends.into_iter().map(Into::into).collect();
                Self::Task { task: id(task)?, ends }
            }
            Condition::Job { ends } => {
                Self::Job { ends: ends.into_iter().map(Into::into).collect() }
            }
        })
    }
}

impl<'a> From<&'a plan::Test> for Test<'a> {
    fn from(test: &'a plan::Test) -> Self {
        match test {
            plan::Test::IsTrue => Self::IsTrue,
            plan::Test::Equals(value) => Self::Equals(value.as_str()),
            plan::Test::In(values) => Self::In(values.iter().map(Payload::as_str).collect()),
        }
    }
}

impl From<Test<'_>> for plan::Test {
    fn from(test: Test<'_>) -> Self {
        match test {
            Test::IsTrue => Self::IsTrue,
            Test::Equals(value) => Self::Equals(Payload::trusted(value)),
            Test::In(values) => Self::In(values.into_iter().map(Payload::trusted).collect()),
        }
    }
}
