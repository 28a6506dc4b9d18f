//! `annals logs`: what an attempt has written, byte by byte.

use std::io::Read;

use annals_engine::steplog::{Filter, LogName, Part, StepLogs};
use annals_tasks_sdk::Stream;

use super::args::{LogsArgs, StreamName};
use super::error::{CliError, Exit};
use super::output::Out;
use super::{Session, store};

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
    let printed = print(engine.step_logs(), name, filter, args.tail, &mut session.out);
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
