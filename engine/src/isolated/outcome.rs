//! What the end of a process means for its attempt.

use annals_tasks_sdk::{Done, Exit, TaskContext, TaskError, TaskResult};

use super::limits::Limits;
use super::talk::{BEGIN, Heard};
use crate::processes::{Kept, Report, signal_name};

/// Any death of the process that is nobody's order.
const CRASHED: &str = "crashed";

/// Its processes needed more memory than their pool lets them have.
const OUT_OF_MEMORY: &str = "out_of_memory";

/// Decides what became of an attempt. What it said last counts, however its process ended then.
pub(super) fn judge(
    cx: &TaskContext,
    limits: Limits,
    heard: Heard,
    kept: &Kept,
) -> TaskResult<Done> {
    if let Some(result) = heard.result {
        return result;
    }
    let begun = heard.begun;
    match &kept.report {
        Some(Report::NotBegun) => Err(TaskError::cancelled()),
        Some(Report::Failed { message }) => Err(spawn_failed(message)),
        Some(Report::Ended { code, signal, asked, out_of_memory }) => {
            let exit = Exit { code: *code, signal: signal.map(signal_name) };
            let error = match (asked, heard.nonsense) {
                (_, Some(error)) => {
                    let message = format!("the process said what is no message: {error}");
                    TaskError::new(CRASHED, with_excerpt(message, kept))
                }
                (true, None) if cx.token().is_cancelled() => killed(),
                (true, None) => late(kept),
                (false, None) if *out_of_memory && exit.signal.as_deref() == Some("SIGKILL") => {
                    ran_out(limits, kept)
                }
                (false, None) => died(limits, &exit, begun, kept),
            };
            Err(error.with_exit(exit))
        }
        _ if cx.token().is_cancelled() => Err(killed()),
        _ => {
            let rest = if kept.ended_all {
                ", and its processes with it"
            } else {
                "; what could be found of its processes was ended"
            };
            let message = format!("the supervisor of the attempt died{rest}");
            Err(TaskError::new(CRASHED, with_excerpt(message, kept)))
        }
    }
}

/// It could not be started; another time it may be.
pub(super) fn spawn_failed(message: &str) -> TaskError {
    TaskError::new("spawn_failed", message)
}

fn killed() -> TaskError {
    TaskError::new("grace_over", "the process was killed: it did not end within its grace")
}

fn late(kept: &Kept) -> TaskError {
    let message = format!(
        "the process was killed: the program did not come from its main to the start of its \
         engine within {} s",
        BEGIN.as_secs()
    );
    spawn_failed(&with_excerpt(message, kept))
}

/// The kernel ended it, since its processes could have no more memory together.
fn ran_out(limits: Limits, kept: &Kept) -> TaskError {
    let bytes = limits.memory.unwrap_or_default();
    let message = format!(
        "the process was ended by SIGKILL: with what it started it ran out of memory, of which its \
         pool lets it have {bytes} bytes"
    );
    TaskError::new(OUT_OF_MEMORY, with_excerpt(message, kept)).with_alias(CRASHED)
}

fn died(limits: Limits, exit: &Exit, begun: bool, kept: &Kept) -> TaskError {
    let signal = exit.signal.as_deref();
    let by = signal.map_or_else(
        || format!("the process ended with exit code {}", exit.code.unwrap_or(-1)),
        |signal| format!("the process was ended by {signal}"),
    );
    if !begun && signal.is_none() {
        let message = format!("{by} before the program came to the start of its engine");
        return spawn_failed(&with_excerpt(message, kept));
    }
    let (code, message) = match (signal, limits) {
        (Some("SIGABRT"), Limits { memory: Some(bytes), .. }) if ran_out_of_memory(kept) => (
            OUT_OF_MEMORY,
            format!("{by}: it ran out of memory, of which its pool lets it have {bytes} bytes"),
        ),
        (Some("SIGXCPU"), Limits { cpu_time: Some(time), .. }) => (
            "cpu_time_exceeded",
            format!(
                "{by}: it used more processor time than the {} s that its pool lets it have",
                time.as_secs_f64()
            ),
        ),
        (Some(_), _) => (CRASHED, by),
        (None, _) => (CRASHED, format!("{by} and without a result")),
    };
    let error = TaskError::new(code, with_excerpt(message, kept));
    if code == CRASHED { error } else { error.with_alias(CRASHED) }
}

/// Whether the program said so: Rust's allocation does, and aborts then.
fn ran_out_of_memory(kept: &Kept) -> bool {
    let says_so = |line: &str| {
        let bytes = line.strip_prefix("memory allocation of ");
        let bytes = bytes.and_then(|rest| rest.strip_suffix(" bytes failed"));
        bytes.is_some_and(|bytes| bytes.parse::<u64>().is_ok())
    };
    kept.excerpt.lines().any(says_so)
}

fn with_excerpt(message: String, kept: &Kept) -> String {
    if kept.excerpt.is_empty() { message } else { format!("{message}:\n{}", kept.excerpt) }
}
