//! What the end of an attempt means.

use annals_tasks_sdk::{Done, Exit, Payload, TaskContext, TaskError, TaskResult};

use super::folder::Written;
use super::input::{Input, OutputFrom};
use crate::processes::{Kept, Report, known_signal, signal_name};

/// What the judgement rests on besides the supervisor's report.
pub(super) struct Outcome<'a> {
    pub(super) input: &'a Input,
    pub(super) output_max: u64,
    pub(super) written: Written,
}

impl Outcome<'_> {
    /// Decides whether the attempt succeeded.
    pub(super) fn judge(self, cx: &TaskContext, kept: Kept) -> TaskResult<Done> {
        match kept.report {
            Some(Report::Ended { code, signal, asked, .. }) => {
                let exit = Exit { code, signal: signal.map(signal_name) };
                self.ended(exit, asked, &kept)
            }
            Some(Report::AlreadyDone) => Ok(Done {
                output: Payload::trusted(r#"{"exit_code":0,"already_done":true}"#),
                exit: Exit { code: Some(0), signal: None },
            }),
            Some(Report::NotBegun) => Err(TaskError::cancelled()),
            Some(Report::Failed { message }) => Err(spawn_failed(message)),
            _ if cx.token().is_cancelled() => Err(TaskError::cancelled()),
            _ => {
                let processes = if kept.ended_all {
                    ", and its processes with it"
                } else {
                    "; what could be found of its processes was ended"
                };
                let message = format!("the supervisor of the attempt died{processes}");
                Err(TaskError::new("crashed", with_excerpt(&message, &kept.excerpt)))
            }
        }
    }

    fn ended(&self, exit: Exit, asked: bool, kept: &Kept) -> TaskResult<Done> {
        let output = self.output(&exit, kept);
        let succeeded = exit.code == Some(0) && (!asked || self.input.term_is_success);
        if succeeded {
            return match output {
                Ok(output) => Ok(Done { output, exit }),
                Err(reason) => {
                    let message = format!("the output of the task {reason}");
                    let message = with_excerpt(&message, &kept.excerpt);
                    Err(TaskError::new("invalid_output", message).with_exit(exit))
                }
            };
        }
        let error = if asked { TaskError::cancelled() } else { failure(&exit, &kept.excerpt) };
        let error = error.with_exit(exit);
        // That it has no output worth keeping is not why it failed.
        Err(match output {
            Ok(output) => error.with_output(output),
            Err(_) => error,
        })
    }

    fn output(&self, exit: &Exit, kept: &Kept) -> Result<Payload, String> {
        match self.input.output {
            OutputFrom::Stdout => match &kept.stdout {
                Some(text) => json(text),
                None => Err(format!("is longer than {} bytes", self.output_max)),
            },
            OutputFrom::File => match &self.written {
                Written::Nothing => Ok(with_exit(&Payload::trusted("{}"), exit)),
                Written::Text(text) if text.trim_ascii().is_empty() => {
                    Ok(with_exit(&Payload::trusted("{}"), exit))
                }
                Written::Text(text) => json(text).map(|output| with_exit(&output, exit)),
                Written::Refused(reason) => Err(reason.clone()),
            },
        }
    }
}

/// Something could not be started; another time it may be.
pub(super) fn spawn_failed(message: String) -> TaskError {
    TaskError::new("spawn_failed", message)
}

fn failure(exit: &Exit, excerpt: &str) -> TaskError {
    match (&exit.signal, exit.code) {
        (Some(signal), _) => {
            let message = format!("ended by {signal}");
            TaskError::new("signal", with_excerpt(&message, excerpt))
        }
        (None, code) => {
            let code = code.unwrap_or(-1);
            // Shells report so what happened to a program that they ran.
            let hint = known_signal(code - 128);
            let hint = hint.map_or_else(String::new, |name| format!(" (as after {name})"));
            let message = format!("exit code {code}{hint}");
            TaskError::new("exit_status", with_excerpt(&message, excerpt))
        }
    }
}

fn with_excerpt(message: &str, excerpt: &str) -> String {
    if excerpt.is_empty() { message.to_owned() } else { format!("{message}:\n{excerpt}") }
}

fn json(text: &[u8]) -> Result<Payload, String> {
    let text = std::str::from_utf8(text).map_err(|error| format!("is no UTF-8: {error}"))?;
    Payload::parse(text).map_err(|error| format!("is no JSON: {error}"))
}

/// An object without a field that says how the process ended gets one. Its text is extended
/// rather than written anew, so that the digits of its numbers stay.
fn with_exit(output: &Payload, exit: &Exit) -> Payload {
    let (name, value) = match (&exit.signal, exit.code) {
        (Some(signal), _) => ("signal", format!("\"{signal}\"")),
        (None, Some(code)) => ("exit_code", code.to_string()),
        (None, None) => return output.clone(),
    };
    let Some(members) = output.as_str().strip_prefix('{').and_then(|text| text.strip_suffix('}'))
    else {
        return output.clone();
    };
    if output.pointer(&format!("/{name}")).is_some() {
        return output.clone();
    }
    let members = members.trim();
    let comma = if members.is_empty() { "" } else { "," };
    Payload::trusted(&format!("{{{members}{comma}\"{name}\":{value}}}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_object_gets_the_exit_code_and_keeps_its_digits() {
        let exit = |code| Exit { code: Some(code), signal: None };
        for (given, code, expected) in [
            ("{}", 0, r#"{"exit_code":0}"#),
            (r#"{"a": 1.50 }"#, 3, r#"{"a": 1.50,"exit_code":3}"#),
            (r#"{"exit_code": "mine"}"#, 3, r#"{"exit_code": "mine"}"#),
            ("[1]", 0, "[1]"),
            ("null", 0, "null"),
        ] {
            let output = with_exit(&Payload::parse(given).unwrap(), &exit(code));
            assert_eq!(output.as_str(), expected);
        }
        let killed = Exit { code: None, signal: Some("SIGKILL".into()) };
        assert_eq!(with_exit(&Payload::trusted("{}"), &killed).as_str(), r#"{"signal":"SIGKILL"}"#);
    }
}
