//! What an attempt has written, read from the step logs beside a store.

use std::io::Read;

use annals_engine::job::Job;
use annals_engine::steplog::{Filter, LogName, Part, StepLogs};
use annals_tasks_sdk::{JobId, Stream};

use super::store::Held;
use crate::cli::args::{LogsArgs, StreamName};
use crate::cli::error::{CliError, Exit};
use crate::cli::output::Out;
use crate::dto;

impl Held {
    /// Prints the log of an attempt.
    pub(in crate::cli::backend) async fn log(
        &self,
        job: JobId,
        args: &LogsArgs,
        json: bool,
        out: &mut Out,
    ) -> Result<(), CliError> {
        let snapshot = self.engine().job(job).snapshot().await?;
        let name = name(&snapshot.job, args)?;
        let filter = Filter { stream: args.stream.map(stream), after: 0 };
        let logs = self.engine().step_logs();
        let printed = if json {
            lines(logs, name, filter, args.tail, out)
        } else {
            bytes(logs, name, filter, args.tail, out)
        };
        printed.map_err(|error| {
            CliError::unreachable(format!("the log of {} cannot be read: {error}", args.task))
        })
    }
}

/// Which log is meant.
fn name(job: &Job, args: &LogsArgs) -> Result<LogName, CliError> {
    let no_such = |detail: String| CliError::new(Exit::NoSuch, "no_such_task", detail);
    let number = job
        .find(args.task.as_str())
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
        out.lines(
            logs.tail(name, filter, lines)?.iter().map(|entry| dto::LogEntry::of(entry).to_json()),
        );
        return Ok(());
    }
    for entry in logs.entries(name, filter)? {
        if out.is_closed() {
            break;
        }
        out.line(dto::LogEntry::of(&entry?).to_json());
    }
    Ok(())
}
