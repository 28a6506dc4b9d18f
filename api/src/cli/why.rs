//! `annals explain`: why a job does not move, and what to type to change that.

use annals_engine::job::JobStatus;
use annals_tasks_sdk::KindName;

use super::Session;
use super::args::JobArgs;
use super::backend::Backend;
use super::error::{CliError, Exit};
use super::place::Place;
use super::text::{damaged, due, foreign, job_status, plain, shell_quoted, tasks};
use super::view::{self, Explanation, Suggestion};

pub(super) async fn why(args: &JobArgs, mut session: Session) -> Result<Exit, CliError> {
    let backend = Backend::open(&session).await?;
    let json = backend.explain(&args.job).await?;
    if session.json {
        session.out.line(json);
    } else {
        let explanation: Explanation = view::parse(&json)?;
        let missing = match explanation.status {
            Some(_) => backend.missing_kinds(explanation.job).await?,
            None => Vec::new(),
        };
        session.out.lines(lines(&explanation, &missing, &session.place));
    }
    backend.close().await?;
    Ok(Exit::Done)
}

fn lines(explanation: &Explanation, missing: &[KindName], place: &Place) -> Vec<String> {
    let Explanation { job, status, intent, reasons, more_tasks, .. } = explanation;
    let status_word = status.map_or_else(damaged, job_status);
    let intent = intent.map_or_else(String::new, |intent| format!(" (to {intent})"));
    let mut lines = vec![format!("job {job} is {status_word}{intent}")];
    for reason in reasons {
        lines.push(format!("  {}", plain(&reason.message)));
        let commands = reason.commands.iter().map(|command| typed(explanation, command, place));
        lines.extend(commands.map(|command| format!("      {command}")));
        if reason.code == "nothing_runs" {
            lines.push(format!("      {}", go_on(explanation, missing, place)));
        }
    }
    if *more_tasks > 0 {
        lines.push(format!("  and {} more", tasks(*more_tasks)));
    }
    lines.extend(beside(explanation).map(|line| format!("  {line}")));
    lines
}

/// What is to be known of a job beside the reasons why it does not move.
fn beside(explanation: &Explanation) -> impl Iterator<Item = String> {
    let deadline = explanation.deadline.map(|at| {
        let at = due(at);
        if explanation.deadline_passed {
            format!(
                "the deadline of the run passed at {at}, and the job fails as soon as an engine \
                 runs"
            )
        } else {
            format!("the deadline of the run passes at {at}")
        }
    });
    let held = explanation.holds_key.as_ref().map(|held| plain(&held.message).into_owned());
    deadline.into_iter().chain(held)
}

/// What to type for a command.
fn typed(explanation: &Explanation, command: &Suggestion, place: &Place) -> String {
    let mut words = format!("{} {}", plain(&command.verb), explanation.job);
    for name in [&command.task, &command.signal].into_iter().flatten() {
        words.push(' ');
        words.push_str(&shell_quoted(name));
    }
    if command.mode.as_deref() == Some("interrupt") {
        words.push_str(" --interrupt");
    }
    if command.mode.as_deref() == Some("now") {
        words.push_str(" --now");
    }
    if command.cascade {
        words.push_str(" --cascade");
    }
    place.command(&words)
}

/// What has a job go on in a store that no engine runs on.
fn go_on(explanation: &Explanation, missing: &[KindName], place: &Place) -> String {
    match missing {
        [] => place.go_on(explanation.job, explanation.status.unwrap_or(JobStatus::Running)),
        kinds => foreign(kinds),
    }
}
