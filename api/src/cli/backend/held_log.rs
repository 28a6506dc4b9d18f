//! What an attempt has written, read from the step logs beside a store.

use std::io::Read;

use annals_engine::job::Job;
use annals_engine::steplog::{Entry, Filter, LogName, Part, StepLogs};
use annals_tasks_sdk::{JobId, Stream, Timestamp};
use serde::Serialize;

use super::held::Held;
use crate::cli::args::{LogsArgs, StreamName};
use crate::cli::error::{CliError, Exit};
use crate::cli::output::Out;
use crate::dto::Time;

pub(super) async fn print(
    held: &Held,
    job: JobId,
    args: &LogsArgs,
    json: bool,
    out: &mut Out,
) -> Result<(), CliError> {
    let snapshot = held.engine().job(job).snapshot().await?;
    let name = name(&snapshot.job, args)?;
    let filter = Filter { stream: args.stream.map(stream), after: 0 };
    let logs = held.engine().step_logs();
    let printed = if json {
        lines(logs, name, filter, args.tail, out)
    } else {
        bytes(logs, name, filter, args.tail, out)
    };
    printed.map_err(|error| {
        CliError::unreachable(format!("the log of {} cannot be read: {error}", args.task))
    })
}

/// Which log is meant.
fn name(job: &Job, args: &LogsArgs) -> Result<LogName, CliError> {
    let no_such = |detail: String| CliError::new(Exit::NoSuch, "no_such_task", detail);
    let number = job
        .find(&args.task)
        .ok_or_else(|| no_such(format!("the job has no task {:?}", args.task)))?;
    let attempts = job.task(number).map_or(0, |task| task.attempts().len());
    let last = u32::try_from(attempts).unwrap_or(u32::MAX);
    let attempt = args.attempt.unwrap_or(last);
    if attempt == 0 || attempt > last {
        let detail = match (args.attempt, last) {
            (_, 0) => format!("task {} has not run yet", args.task),
            _ => format!("task {} has no attempt {attempt}; its last is {last}", args.task),
        };
        return Err(no_such(detail));
    }
    Ok(LogName { job: job.id(), number: number.0, attempt })
}

fn stream(name: StreamName) -> Stream {
    match name {
        StreamName::Stdout => Stream::Stdout,
        StreamName::Stderr => Stream::Stderr,
    }
}

/// The bytes as they were written.
fn bytes(
    logs: &StepLogs,
    name: LogName,
    filter: Filter,
    tail: Option<usize>,
    out: &mut Out,
) -> std::io::Result<()> {
    if let Some(lines) = tail {
        for entry in logs.tail(name, filter, lines)? {
            match entry.part {
                Part::Line { mut bytes, .. } => {
                    bytes.push(b'\n');
                    out.bytes(&bytes);
                }
                Part::Piece { bytes, .. } => out.bytes(&bytes),
                Part::Gap { bytes } => {
                    out.bytes(format!("[{bytes} bytes were dropped here]\n").as_bytes());
                }
            }
        }
        return Ok(());
    }
    let mut raw = logs.read(name, filter)?;
    let mut buffer = vec![0; 64 * 1024];
    while !out.is_closed() {
        match raw.read(&mut buffer)? {
            0 => break,
            count => out.bytes(&buffer[..count]),
        }
    }
    Ok(())
}

/// One JSON object per line.
fn lines(
    logs: &StepLogs,
    name: LogName,
    filter: Filter,
    tail: Option<usize>,
    out: &mut Out,
) -> std::io::Result<()> {
    if let Some(lines) = tail {
        out.lines(logs.tail(name, filter, lines)?.iter().map(json));
        return Ok(());
    }
    for entry in logs.entries(name, filter)? {
        if out.is_closed() {
            break;
        }
        out.line(json(&entry?));
    }
    Ok(())
}

/// A line of a log. What is not UTF-8 is replaced: the bytes themselves are had without `--json`.
#[derive(Serialize)]
struct LineJson<'a> {
    time: Time,
    stream: &'static str,
    text: &'a str,
}

#[derive(Serialize)]
struct GapJson {
    gap_bytes: u64,
}

fn json(entry: &Entry) -> String {
    let json = match &entry.part {
        Part::Line { stream, bytes } | Part::Piece { stream, bytes } => {
            let text = String::from_utf8_lossy(bytes);
            let time = Time(Timestamp::from_millis(entry.time.as_millisecond()));
            let stream = match stream {
                Stream::Stdout => "stdout",
                Stream::Stderr => "stderr",
            };
            serde_json::to_string(&LineJson { time, stream, text: &text })
        }
        Part::Gap { bytes } => serde_json::to_string(&GapJson { gap_bytes: *bytes }),
    };
    json.unwrap_or_default()
}
