//! The bodies of commands.

use std::sync::Arc;

use annals_engine::job::{self, Command, PauseMode};
use utoipa::ToSchema;

use super::fields::Fields;
use super::problem::Problem;
use super::query::Parameters;

/// What a body says beside the command itself.
#[derive(Debug, Default)]
pub(super) struct Why {
    pub(super) reason: Option<Arc<str>>,
    pub(super) expected_seq: Option<u64>,
}

impl Why {
    fn read(fields: &mut Fields<'_>) -> Self {
        let reason = fields.text("reason").map(Into::into);
        Self { reason, expected_seq: fields.number("expected_seq") }
    }

    /// The same from the query, of requests whose body has no place for it.
    pub(super) fn of_query(parameters: &Parameters) -> Result<Self, Problem> {
        let reason = parameters.text("reason")?.map(Into::into);
        Ok(Self { reason, expected_seq: parameters.number("expected_seq")? })
    }
}

/// A body that asks for a command. The types describe it; it is read field by field.
pub(super) trait Body: ToSchema {
    /// What it says: the command, or what is to be known for it beside the path.
    type Said;

    /// What it is, in messages.
    const WHAT: &'static str;
    /// The fields that it may have.
    const KNOWN: &'static [&'static str];

    /// Reads what it says.
    fn said(fields: &mut Fields<'_>) -> Self::Said;

    /// Reads everything; what is wrong is left in `fields`.
    fn read(fields: &mut Fields<'_>) -> (Self::Said, Why) {
        (Self::said(fields), Why::read(fields))
    }
}

/// Start a pending job, or go on with a failed or cancelled one.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes what is read")]
pub(super) struct ExecuteBody {
    /// Open an ended job again, but hold it.
    #[schema(default = false)]
    paused: Option<bool>,
    /// Why, for the history.
    reason: Option<String>,
    /// Refuse the command if the job's seq is another.
    expected_seq: Option<u64>,
}

impl Body for ExecuteBody {
    type Said = Command;
    const WHAT: &'static str = "execute";
    const KNOWN: &'static [&'static str] = &["paused", "reason", "expected_seq"];

    fn said(fields: &mut Fields<'_>) -> Command {
        Command::Execute { paused: fields.flag("paused") }
    }
}

/// How a cancel treats what a plan does at its end.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "it describes what is read")]
enum CancelMode {
    /// Nothing of it runs before the end, and what runs of it is stopped, too.
    Now,
}

/// Stop everything and end.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes what is read")]
pub(super) struct CancelBody {
    /// How it treats the tasks of `finally`, which run before the end where it is left out.
    #[schema(inline)]
    mode: Option<CancelMode>,
    /// Why, for the history.
    reason: Option<String>,
    /// Refuse the command if the job's seq is another.
    expected_seq: Option<u64>,
}

impl Body for CancelBody {
    type Said = Command;
    const WHAT: &'static str = "cancel";
    const KNOWN: &'static [&'static str] = &["mode", "reason", "expected_seq"];

    fn said(fields: &mut Fields<'_>) -> Command {
        let mode = fields.word("mode", &[("now", job::CancelMode::Now)]);
        Command::Cancel { mode: mode.unwrap_or_default() }
    }
}

/// How a pause treats live attempts.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "it describes what is read")]
enum Mode {
    /// It lets them end.
    Drain,
    /// It stops them; they run again when the job goes on.
    Interrupt,
}

/// Start nothing more.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes what is read")]
pub(super) struct PauseBody {
    /// `drain` where it is left out.
    #[schema(inline)]
    mode: Option<Mode>,
    /// Why, for the history.
    reason: Option<String>,
    /// Refuse the command if the job's seq is another.
    expected_seq: Option<u64>,
}

impl Body for PauseBody {
    type Said = Command;
    const WHAT: &'static str = "pause";
    const KNOWN: &'static [&'static str] = &["mode", "reason", "expected_seq"];

    fn said(fields: &mut Fields<'_>) -> Command {
        let modes = [("drain", PauseMode::Drain), ("interrupt", PauseMode::Interrupt)];
        Command::Pause { mode: fields.word("mode", &modes).unwrap_or(PauseMode::Drain) }
    }
}

/// Take a pause back.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes what is read")]
pub(super) struct ResumeBody {
    /// Why, for the history.
    reason: Option<String>,
    /// Refuse the command if the job's seq is another.
    expected_seq: Option<u64>,
}

impl Body for ResumeBody {
    type Said = Command;
    const WHAT: &'static str = "resume";
    const KNOWN: &'static [&'static str] = &["reason", "expected_seq"];

    fn said(_: &mut Fields<'_>) -> Command {
        Command::Resume
    }
}

/// Go on without a task.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes what is read")]
pub(super) struct SkipBody {
    #[schema(pattern = "^[A-Za-z0-9_][A-Za-z0-9_.:()+@-]{0,127}(~[a-z0-9]{1,8})?$")]
    /// Its id; the only one that runs, waits, is interrupted or has failed where it is left out.
    task: Option<String>,
    /// What it gives instead of its own output.
    output: Option<serde_json::Value>,
    /// Skip the tasks too that would lose an input.
    #[schema(default = false)]
    cascade: Option<bool>,
    /// Why, for the history.
    reason: Option<String>,
    /// Refuse the command if the job's seq is another.
    expected_seq: Option<u64>,
}

impl Body for SkipBody {
    type Said = Command;
    const WHAT: &'static str = "skip";
    const KNOWN: &'static [&'static str] = &["task", "output", "cascade", "reason", "expected_seq"];

    fn said(fields: &mut Fields<'_>) -> Command {
        let (task, output) = (fields.task("task"), fields.payload("output"));
        Command::Skip { task, output, cascade: fields.flag("cascade") }
    }
}

/// Take a task out of the plan.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes what is read")]
pub(super) struct RemoveBody {
    #[schema(pattern = "^[A-Za-z0-9_][A-Za-z0-9_.:()+@-]{0,127}(~[a-z0-9]{1,8})?$")]
    /// Its id, which must be there.
    task: Option<String>,
    /// Remove the tasks too that would lose an input.
    #[schema(default = false)]
    cascade: Option<bool>,
    /// Why, for the history.
    reason: Option<String>,
    /// Refuse the command if the job's seq is another.
    expected_seq: Option<u64>,
}

impl Body for RemoveBody {
    type Said = Command;
    const WHAT: &'static str = "remove";
    const KNOWN: &'static [&'static str] = &["task", "cascade", "reason", "expected_seq"];

    fn said(fields: &mut Fields<'_>) -> Command {
        if fields.raw("task").is_none_or(|text| text == "null") {
            fields.fault("", "`task` is missing");
        }
        let (task, cascade) = (fields.task("task"), fields.flag("cascade"));
        // Where there is none the fault has been noted, and nothing is carried out.
        task.map_or(Command::Resume, |task| Command::Remove { task, cascade })
    }
}

/// Try a task again now, among those of many jobs.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes what is read")]
pub(super) struct RetryTaskBody {
    #[schema(pattern = "^[A-Za-z0-9_][A-Za-z0-9_.:()+@-]{0,127}(~[a-z0-9]{1,8})?$")]
    /// Its id, which must be there.
    task: Option<String>,
    /// Why, for the history.
    reason: Option<String>,
    /// Refuse the command if the job's seq is another.
    expected_seq: Option<u64>,
}

impl Body for RetryTaskBody {
    type Said = Command;
    const WHAT: &'static str = "retry";
    const KNOWN: &'static [&'static str] = &["task", "reason", "expected_seq"];

    fn said(fields: &mut Fields<'_>) -> Command {
        if fields.raw("task").is_none_or(|text| text == "null") {
            fields.fault("", "`task` is missing");
        }
        let task = fields.task("task");
        // As with a removal.
        task.map_or(Command::Resume, |task| Command::Retry { task })
    }
}

/// Leave nothing of a job but a tombstone.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes what is read")]
pub(super) struct PurgeBody {
    /// Why, for the history.
    reason: Option<String>,
    /// Refuse the command if the job's seq is another.
    expected_seq: Option<u64>,
}

impl Body for PurgeBody {
    type Said = Command;
    const WHAT: &'static str = "purge";
    const KNOWN: &'static [&'static str] = &["reason", "expected_seq"];

    fn said(_: &mut Fields<'_>) -> Command {
        Command::PURGE
    }
}

#[cfg(test)]
pub(super) mod tests {
    use utoipa::openapi::RefOr;
    use utoipa::openapi::schema::Schema;

    use super::*;

    /// Compares what a body is described with to what is read of it.
    #[track_caller]
    pub(in crate::http) fn check<B: Body>(required: &[&str]) {
        let RefOr::T(Schema::Object(object)) = B::schema() else {
            panic!("{} is an object", B::WHAT)
        };
        let described: Vec<&str> = object.properties.keys().map(String::as_str).collect();
        let mut known = B::KNOWN.to_vec();
        known.sort_unstable();
        let mut sorted = described.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, known, "{}", B::WHAT);
        assert_eq!(object.required, required, "{}", B::WHAT);
    }

    #[test]
    fn bodies_are_described_as_they_are_read() {
        check::<ExecuteBody>(&[]);
        check::<CancelBody>(&[]);
        check::<PauseBody>(&[]);
        check::<ResumeBody>(&[]);
        check::<SkipBody>(&[]);
        check::<RemoveBody>(&[]);
        check::<RetryTaskBody>(&[]);
    }
}
