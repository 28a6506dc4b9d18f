//! What can be asked of a job: a command of the engine here, a request to a server there.

use annals_engine::job::{Command, PauseMode};
use annals_tasks_sdk::{JobId, Payload, TaskId};

use crate::cli::args::Asked;
use crate::client::Request;
use crate::json::quoted;

/// What is asked of a job.
#[derive(Debug)]
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
    /// The request that asks it of a job on a server.
    pub(super) fn request(self, job: JobId, asked: &Asked) -> Request {
        let job = job.to_string();
        let dry_run = asked.dry_run.then_some(true);
        let (verb, mut fields) = match self {
            Self::Execute { paused } => ("execute", vec![format!(r#""paused":{paused}"#)]),
            Self::Cancel => ("cancel", Vec::new()),
            Self::Pause(PauseMode::Drain) => ("pause", vec![r#""mode":"drain""#.into()]),
            Self::Pause(PauseMode::Interrupt) => ("pause", vec![r#""mode":"interrupt""#.into()]),
            Self::Resume => ("resume", Vec::new()),
            Self::Skip { task, output, cascade } => {
                let task = task.map(|task| format!(r#""task":{}"#, quoted(task.as_str())));
                let output = output.map(|output| format!(r#""output":{}"#, output.as_str()));
                let cascade = Some(format!(r#""cascade":{cascade}"#));
                ("skip", [task, output, cascade].into_iter().flatten().collect())
            }
            Self::Remove { task, cascade } => {
                return Request::delete(["jobs", &job, "tasks", task.as_str()])
                    .with_some("cascade", cascade.then_some(true))
                    .with_some("reason", asked.reason.as_ref())
                    .with_some("expected_seq", asked.expected_seq)
                    .with_some("dry_run", dry_run);
            }
        };
        let reason = asked.reason.as_deref();
        fields.extend(reason.map(|reason| format!(r#""reason":{}"#, quoted(reason))));
        fields.extend(asked.expected_seq.map(|seq| format!(r#""expected_seq":{seq}"#)));
        let body = format!("{{{}}}", fields.join(","));
        Request::post(["jobs", &job, verb], body).with_some("dry_run", dry_run)
    }
}
