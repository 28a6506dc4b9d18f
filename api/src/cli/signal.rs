//! `annals signal`: a job is told something that a task of it waits for, or will.

use annals_tasks_sdk::{Payload, SignalName};
use clap::Args;

use super::Session;
use super::args::{Asked, key};
use super::backend::Verb;
use super::commands::ask;
use super::error::{CliError, Exit};

#[derive(Debug, Args)]
pub(super) struct SignalArgs {
    /// The job.
    job: String,
    /// The signal's name.
    #[arg(value_parser = name)]
    name: SignalName,
    /// What is told; null where it is left out.
    #[arg(value_name = "JSON|@FILE")]
    payload: Option<String>,
    /// Tell it only if nothing was told by this key, as long as the job is there.
    #[arg(long, value_name = "KEY", value_parser = key)]
    idempotency_key: Option<String>,
    #[command(flatten)]
    asked: Asked,
}

fn name(text: &str) -> Result<SignalName, String> {
    SignalName::new(text).map_err(|error| error.rule.to_owned())
}

pub(super) async fn signal(args: SignalArgs, session: Session) -> Result<Exit, CliError> {
    let text = match args.payload.as_deref() {
        None => "null".to_owned(),
        Some(given) => match given.strip_prefix('@') {
            None => given.to_owned(),
            Some(path) => std::fs::read_to_string(path)
                .map_err(|error| CliError::usage(format!("{path} cannot be read: {error}")))?,
        },
    };
    let payload = Payload::parse(&text);
    let payload =
        payload.map_err(|error| CliError::usage(format!("what is told must be JSON: {error}")))?;
    let verb = Verb::Signal { name: args.name, payload, key: args.idempotency_key };
    ask(&args.job, verb, &args.asked, session).await
}
