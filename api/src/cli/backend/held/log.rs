//! What an attempt has written, read from the step logs beside a store.

use std::io::Read;

use annals_engine::job::Job;
use annals_engine::steplog::{Extent, Filter, LogName, Part, StepLogs};
use annals_tasks_sdk::{JobId, Stream};

use super::store::Held;
use crate::cli::args::{LogsArgs, StreamName};
use crate::cli::error::{CliError, Exit};
use crate::cli::output::Out;
use crate::dto;
use crate::loss::{self, Loss};

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
        let (name, written) = find(&snapshot.job, args)?;
        let filter = Filter { stream: args.stream.map(stream), after: 0 };
        let logs = self.engine().step_logs();
        let cannot = |error: std::io::Error| {
            CliError::unreachable(format!("the log of {} cannot be read: {error}", args.task))
        };
        let extent = logs.extent(name, filter.stream).map_err(cannot)?;
        let lost = Loss::of(written, &extent);
        let Extent { after, total, damage } = extent;
        if total == 0 {
            damage.map_or(Ok(()), |error| Err(cannot(error)))?;
            if let Some(written) = written.filter(|written| *written > 0) {
                let detail = loss::gone(name.attempt, written);
                return Err(CliError::new(Exit::Unreachable, "log_missing", detail));
            }
        }
        let wish = Wish { name, filter, after, tail: args.tail };
        let print = if json { lines } else { bytes };
        print(logs, &wish, out).map_err(cannot)?;
        match lost {
            Some(Loss { bytes: Some(missing_bytes), .. }) if json => {
                out.line(dto::LogLoss { missing_bytes }.to_json());
            }
            Some(lost) if !json => out.bytes(lost.to_string().as_bytes()),
            _ => {}
        }
        Ok(())
    }
}

/// Which part of a log is wanted, as far as it can be read.
struct Wish {
    name: LogName,
    filter: Filter,
    /// Where it ends.
    after: u64,
    tail: Option<usize>,
}

/// Which log is meant, and how much was written to it.
fn find(job: &Job, args: &LogsArgs) -> Result<(LogName, Option<u64>), CliError> {
    let no_such = |detail: String| CliError::new(Exit::NoSuch, "no_such_task", detail);
    let number = job
        .find(args.task.as_str())
        .ok_or_else(|| no_such(format!("the job has no task {:?}", args.task)))?;
    let task = job.task(number);
    let attempts = task.map_or(&[][..], |task| task.attempts());
    let last = attempts.last().map_or(0, |attempt| attempt.number);
    let wanted = args.attempt.unwrap_or(last);
    let attempt = attempts.iter().find(|attempt| attempt.number == wanted).ok_or_else(|| {
        no_such(match task.filter(|_| last == 0) {
            Some(task) => loss::not_run(job, task),
            None => format!("task {} has no attempt {wanted}; its last is {last}", args.task),
        })
    })?;
    let name = LogName { job: job.id(), number: number.0, attempt: wanted };
    Ok((name, loss::written(attempt)))
}

fn stream(name: StreamName) -> Stream {
    match name {
        StreamName::Stdout => Stream::Stdout,
        StreamName::Stderr => Stream::Stderr,
    }
}

/// The bytes as they were written.
fn bytes(logs: &StepLogs, wish: &Wish, out: &mut Out) -> std::io::Result<()> {
    let Wish { name, filter, after, tail } = *wish;
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
    let mut raw = logs.read(name, filter)?.upto(after);
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
fn lines(logs: &StepLogs, wish: &Wish, out: &mut Out) -> std::io::Result<()> {
    let Wish { name, filter, tail, .. } = *wish;
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
