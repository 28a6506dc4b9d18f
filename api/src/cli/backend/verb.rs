//! What can be asked of a job: a command of the engine here, a request to a server there.

use std::collections::BTreeMap;

use annals_engine::IdempotencyKey;
use annals_engine::job::{CancelMode, Command, PauseMode, Place};
use annals_tasks_sdk::plan::{TaskPatch, TaskSpec};
use annals_tasks_sdk::{JobId, Payload, SignalName, TaskId};

use crate::cli::args::Asked;
use crate::client::Request;
use crate::json::quoted;
use crate::list::Filter;

/// What is asked of a job.
#[derive(Debug, Clone)]
pub(in crate::cli) enum Verb {
    Execute { paused: bool },
    Cancel(CancelMode),
    Pause(PauseMode),
    Resume,
    Skip { task: Option<TaskId>, output: Option<Payload>, cascade: bool },
    Remove { task: TaskId, cascade: bool },
    Insert { task: Box<TaskSpec>, place: Place, needed_by: Vec<TaskId> },
    Move { task: TaskId, place: Place },
    Edit { task: TaskId, patch: TaskPatch, reset: bool },
    Retry { task: TaskId },
    Signal { name: SignalName, payload: Payload, key: Option<String> },
    Purge,
}

impl From<Verb> for Command {
    fn from(verb: Verb) -> Self {
        match verb {
            Verb::Execute { paused } => Self::Execute { paused },
            Verb::Cancel(mode) => Self::Cancel { mode },
            Verb::Pause(mode) => Self::Pause { mode },
            Verb::Resume => Self::Resume,
            Verb::Skip { task, output, cascade } => Self::Skip { task, output, cascade },
            Verb::Remove { task, cascade } => Self::Remove { task, cascade },
            Verb::Insert { task, place, needed_by } => Self::Insert { task, place, needed_by },
            Verb::Move { task, place } => Self::Move { task, place },
            Verb::Edit { task, patch, reset } => Self::Edit { task, patch, reset },
            Verb::Retry { task } => Self::Retry { task },
            Verb::Signal { name, payload, .. } => Self::Signal { name, payload },
            Verb::Purge => Self::PURGE,
        }
    }
}

impl Verb {
    /// What it is called.
    pub(in crate::cli) fn name(&self) -> &'static str {
        match self {
            Self::Execute { .. } => "execute",
            Self::Cancel(_) => "cancel",
            Self::Pause(_) => "pause",
            Self::Resume => "resume",
            Self::Skip { .. } => "skip",
            Self::Remove { .. } => "remove",
            Self::Insert { .. } => "insert",
            Self::Move { .. } => "move",
            Self::Edit { .. } => "edit",
            Self::Retry { .. } => "retry",
            Self::Signal { .. } => "signal",
            Self::Purge => "purge",
        }
    }

    /// By what it is known again, where it is asked of a job in a store: as a server knows it.
    pub(super) fn key(&self, job: JobId) -> Option<IdempotencyKey> {
        let Self::Signal { name, payload, key: Some(key) } = self else { return None };
        let path = format!("/jobs/{job}/signals/{name}");
        Some(crate::http::key_of(key, &path, payload.as_str().as_bytes()))
    }

    /// The request that asks it of a job on a server.
    pub(super) fn request(self, job: JobId, asked: &Asked) -> Request {
        let job = job.to_string();
        let in_query = |request: Request| {
            request
                .with_some("reason", asked.reason.as_ref())
                .with_some("expected_seq", asked.expected_seq)
                .with_some("dry_run", asked.dry_run.then_some(true))
        };
        let mut fields = self.fields();
        fields.extend(said(asked));
        let body = format!("{{{}}}", fields.join(","));
        let request = match &self {
            // Of these the body is another, or there is none.
            Self::Remove { task, cascade } => {
                let request = Request::delete(["jobs", &job, "tasks", task.as_str()]);
                return in_query(request.with_some("cascade", cascade.then_some(true)));
            }
            Self::Purge => return in_query(Request::delete(["jobs", &job])),
            Self::Signal { name, payload, key } => {
                let (path, body) = (["jobs", &job, "signals", name.as_str()], payload.as_str());
                let request = in_query(Request::post(path, body.to_owned()));
                return key.iter().cloned().fold(request, Request::by_key);
            }
            Self::Edit { task, patch, reset } => {
                let body = patch.to_json().as_str().to_owned();
                let request = Request::patch(["jobs", &job, "tasks", task.as_str()], body);
                return in_query(request.with_some("reset", reset.then_some(true)));
            }
            Self::Insert { .. } => Request::post(["jobs", &job, "tasks"], body),
            Self::Move { task, .. } | Self::Retry { task } => {
                Request::post(["jobs", &job, "tasks", task.as_str(), self.name()], body)
            }
            _ => Request::post(["jobs", &job, self.name()], body),
        };
        request.with_some("dry_run", asked.dry_run.then_some(true))
    }

    /// The body of a request that asks it of all jobs that a filter wants.
    pub(super) fn for_all(&self, filter: &Filter, reason: Option<&str>) -> String {
        let mut fields = self.fields();
        if let Self::Retry { task } = self {
            // The request to one job has it in its path.
            fields.push(format!(r#""task":{}"#, quoted(task.as_str())));
        }
        fields.extend(because(reason));
        let mut parts: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (name, value) in filter.parts() {
            parts.entry(name).or_default().push(quoted(&value));
        }
        let part = |(name, values): (&&str, &Vec<String>)| match &values[..] {
            [one] => format!("{}:{one}", quoted(name)),
            many => format!("{}:[{}]", quoted(name), many.join(",")),
        };
        let parts: Vec<String> = parts.iter().map(part).collect();
        let filter = if parts.is_empty() { r#""all":true"#.into() } else { parts.join(",") };
        format!(
            r#"{{"command":{},"body":{{{}}},"filter":{{{filter}}}}}"#,
            quoted(self.name()),
            fields.join(",")
        )
    }

    /// What it takes by itself, as members of an object.
    fn fields(&self) -> Vec<String> {
        let cascades = |cascade: &bool| Some(format!(r#""cascade":{cascade}"#));
        let named = |task: &TaskId| format!(r#""task":{}"#, quoted(task.as_str()));
        match self {
            Self::Execute { paused } => vec![format!(r#""paused":{paused}"#)],
            Self::Pause(PauseMode::Drain) => vec![r#""mode":"drain""#.into()],
            Self::Pause(PauseMode::Interrupt) => vec![r#""mode":"interrupt""#.into()],
            Self::Cancel(CancelMode::Now) => vec![r#""mode":"now""#.into()],
            Self::Cancel(_)
            | Self::Resume
            | Self::Purge
            | Self::Signal { .. }
            | Self::Edit { .. }
            | Self::Retry { .. } => Vec::new(),
            Self::Skip { task, output, cascade } => {
                let output = output.as_ref();
                let output = output.map(|output| format!(r#""output":{}"#, output.as_str()));
                let task = task.as_ref().map(named);
                [task, output, cascades(cascade)].into_iter().flatten().collect()
            }
            Self::Insert { task, place, needed_by } => {
                let needed_by: Vec<String> =
                    needed_by.iter().map(|task| quoted(task.as_str())).collect();
                let needed_by = format!(r#""needed_by":[{}]"#, needed_by.join(","));
                let task = format!(r#""task":{}"#, task.to_json().as_str());
                [Some(task), at(place), Some(needed_by)].into_iter().flatten().collect()
            }
            Self::Move { place, .. } => at(place).into_iter().collect(),
            Self::Remove { task, cascade } => {
                [Some(named(task)), cascades(cascade)].into_iter().flatten().collect()
            }
        }
    }
}

/// A place as a member of an object.
fn at(place: &Place) -> Option<String> {
    match place {
        Place::After(task) => Some(format!(r#""after":{}"#, quoted(task.as_str()))),
        Place::Before(task) => Some(format!(r#""before":{}"#, quoted(task.as_str()))),
        Place::First => Some(r#""first":true"#.into()),
        // That is where it is if nothing is said.
        Place::Last => None,
    }
}

/// What is said beside a command, as members of an object.
pub(super) fn said(asked: &Asked) -> impl Iterator<Item = String> {
    let seq = asked.expected_seq.map(|seq| format!(r#""expected_seq":{seq}"#));
    because(asked.reason.as_deref()).into_iter().chain(seq)
}

/// The reason as a member of an object.
fn because(reason: Option<&str>) -> Option<String> {
    reason.map(|reason| format!(r#""reason":{}"#, quoted(reason)))
}
