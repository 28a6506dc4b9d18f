//! What can be asked of a job: a command of the engine here, a request to a server there.

use std::collections::BTreeMap;

use annals_engine::job::{Command, PauseMode};
use annals_tasks_sdk::{JobId, Payload, TaskId};

use crate::cli::args::Asked;
use crate::client::Request;
use crate::json::quoted;
use crate::list::Filter;

/// What is asked of a job.
#[derive(Debug, Clone)]
pub(in crate::cli) enum Verb {
    Execute { paused: bool },
    Cancel,
    Pause(PauseMode),
    Resume,
    Skip { task: Option<TaskId>, output: Option<Payload>, cascade: bool },
    Remove { task: TaskId, cascade: bool },
}

impl From<Verb> for Command {
    fn from(verb: Verb) -> Self {
        match verb {
            Verb::Execute { paused } => Self::Execute { paused },
            Verb::Cancel => Self::Cancel,
            Verb::Pause(mode) => Self::Pause { mode },
            Verb::Resume => Self::Resume,
            Verb::Skip { task, output, cascade } => Self::Skip { task, output, cascade },
            Verb::Remove { task, cascade } => Self::Remove { task, cascade },
        }
    }
}

impl Verb {
    /// What it is called.
    pub(in crate::cli) fn name(&self) -> &'static str {
        match self {
            Self::Execute { .. } => "execute",
            Self::Cancel => "cancel",
            Self::Pause(_) => "pause",
            Self::Resume => "resume",
            Self::Skip { .. } => "skip",
            Self::Remove { .. } => "remove",
        }
    }

    /// The request that asks it of a job on a server.
    pub(super) fn request(self, job: JobId, asked: &Asked) -> Request {
        let job = job.to_string();
        let dry_run = asked.dry_run.then_some(true);
        if let Self::Remove { task, cascade } = self {
            return Request::delete(["jobs", &job, "tasks", task.as_str()])
                .with_some("cascade", cascade.then_some(true))
                .with_some("reason", asked.reason.as_ref())
                .with_some("expected_seq", asked.expected_seq)
                .with_some("dry_run", dry_run);
        }
        let mut fields = self.fields();
        fields.extend(because(asked.reason.as_deref()));
        fields.extend(asked.expected_seq.map(|seq| format!(r#""expected_seq":{seq}"#)));
        let body = format!("{{{}}}", fields.join(","));
        Request::post(["jobs", &job, self.name()], body).with_some("dry_run", dry_run)
    }

    /// The body of a request that asks it of all jobs that a filter wants.
    pub(super) fn for_all(&self, filter: &Filter, reason: Option<&str>) -> String {
        let mut fields = self.fields();
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
            Self::Cancel | Self::Resume => Vec::new(),
            Self::Skip { task, output, cascade } => {
                let output = output.as_ref();
                let output = output.map(|output| format!(r#""output":{}"#, output.as_str()));
                let task = task.as_ref().map(named);
                [task, output, cascades(cascade)].into_iter().flatten().collect()
            }
            Self::Remove { task, cascade } => {
                [Some(named(task)), cascades(cascade)].into_iter().flatten().collect()
            }
        }
    }
}

/// The reason as a member of an object.
fn because(reason: Option<&str>) -> Option<String> {
    reason.map(|reason| format!(r#""reason":{}"#, quoted(reason)))
}
