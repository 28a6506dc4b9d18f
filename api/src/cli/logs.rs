//! `annals logs`: what an attempt has written, byte by byte, or line by line in JSON.

use std::io::Read;

use annals_engine::steplog::{Entry, Filter, LogName, Part, StepLogs};
use annals_tasks_sdk::{Stream, Timestamp};
use serde::Serialize;

use super::args::{LogsArgs, StreamName};
use super::error::{CliError, Exit};
use super::output::Out;
use super::{Session, store};
use crate::dto::Time;

pub(super) async fn logs(args: &LogsArgs, mut session: Session) -> Result<Exit, CliError> {
    let (engine, job, snapshot) = store::look(&session.data, &args.job).await?;
    let no_such = |detail: String| CliError::new(Exit::NoSuch, "no_such_task", detail);
    let number = snapshot
        .job
        .find(&args.task)
        .ok_or_else(|| no_such(format!("the job has no task {:?}", args.task)))?;
    let attempts = snapshot.job.task(number).map_or(0, |task| task.attempts().len());
    let last = u32::try_from(attempts).unwrap_or(u32::MAX);
    let attempt = args.attempt.unwrap_or(last);
    if attempt == 0 || attempt > last {
        let detail = match (args.attempt, last) {
            (_, 0) => format!("task {} has not run yet", args.task),
            _ => format!("task {} has no attempt {attempt}; its last is {last}", args.task),
        };
        return Err(no_such(detail));
    }
    let name = LogName { job: job.id(), number: number.0, attempt };
    let filter = Filter { stream: args.stream.map(stream), after: 0 };
    let logs = engine.step_logs();
    let printed = if session.json {
        print_json(logs, name, filter, args.tail, &mut session.out)
    } else {
        print(logs, name, filter, args.tail, &mut session.out)
    };
    engine.shutdown().await?;
    printed.map_err(|error| {
        CliError::unreachable(format!("the log of {} cannot be read: {error}", args.task))
    })?;
    Ok(Exit::Done)
}

fn stream(name: StreamName) -> Stream {
    match name {
        StreamName::Stdout => Stream::Stdout,
        StreamName::Stderr => Stream::Stderr,
    }
}

fn print(
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

fn print_json(
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
