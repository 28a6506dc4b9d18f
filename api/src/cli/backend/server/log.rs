//! The log of an attempt on a server: its bytes, or its lines as they are written.

use annals_tasks_sdk::JobId;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::ask::{Server, of, one_line};
use crate::cli::args::{LogsArgs, StreamName};
use crate::cli::backend::aside;
use crate::cli::error::{CliError, Exit};
use crate::cli::output::{Out, note};
use crate::cli::view;
use crate::client::{Frame, News, Request};
use crate::dto::{self, LogPlace};

const TEXT: &str = "text/plain";
const X_ANNALS_LOG_ATTEMPT: &str = "x-annals-log-attempt";
const X_ANNALS_LOG_NEXT: &str = "x-annals-log-next";
const X_ANNALS_LOG_MISSING: &str = "x-annals-log-missing";

/// A line, a piece of one, or a gap.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    text: String,
    bytes_base64: Option<String>,
    partial: bool,
    gap_bytes: u64,
}

impl Entry {
    /// The bytes as they were written.
    fn bytes(self) -> Result<Vec<u8>, CliError> {
        let Some(text) = self.bytes_base64 else { return Ok(self.text.into_bytes()) };
        let bytes = STANDARD.decode(text);
        bytes.map_err(|error| CliError::unreachable(format!("the log cannot be read: {error}")))
    }
}

/// How a stream ended.
#[derive(Default, Deserialize)]
#[serde(default)]
struct End {
    missing_bytes: u64,
    damage: Option<String>,
}

impl Server {
    /// Prints the log of an attempt: as it stands, or until the attempt is over.
    pub(in crate::cli::backend) async fn log(
        &self,
        job: JobId,
        args: &LogsArgs,
        json: bool,
        out: &mut Out,
    ) -> Result<(), CliError> {
        if args.follow {
            return self.lines(job, args, None, json, out).await;
        }
        if !json {
            return self.bytes(job, args, out).await;
        }
        let (upto, missing) = self.extent(job, args).await?;
        if upto.after > 0 && args.tail != Some(0) {
            self.lines(job, args, Some(upto), json, out).await?;
        }
        tell(missing, json, out);
        Ok(())
    }

    /// Prints the bytes as they were written.
    async fn bytes(&self, job: JobId, args: &LogsArgs, out: &mut Out) -> Result<(), CliError> {
        let request = request(job, args).with_some("attempt", args.attempt);
        let request = request.with_some("tail", args.tail);
        let mut body = self.open(&request, TEXT).await?;
        while let Some(chunk) = body.chunk().await? {
            if out.is_closed() {
                break;
            }
            out.bytes(&chunk);
        }
        Ok(())
    }

    /// How far the log of an attempt goes now, and how many bytes it lacks there.
    async fn extent(&self, job: JobId, args: &LogsArgs) -> Result<(LogPlace, u64), CliError> {
        let request = request(job, args).with_some("attempt", args.attempt).with("tail", 0);
        let head = self.open(&request, TEXT).await?;
        let number = |name| head.header(name).and_then(|text| text.parse().ok());
        let attempt = head.header(X_ANNALS_LOG_ATTEMPT).and_then(|text| text.parse().ok());
        let place = attempt.zip(number(X_ANNALS_LOG_NEXT));
        let missing = number(X_ANNALS_LOG_MISSING).unwrap_or(0);
        let place = place.map(|(attempt, after)| (LogPlace { attempt, after }, missing));
        place.ok_or_else(|| CliError::unreachable("the server does not say how long the log is"))
    }

    /// Prints lines as they come: up to a place, or else until the attempt is over.
    async fn lines(
        &self,
        job: JobId,
        args: &LogsArgs,
        upto: Option<LogPlace>,
        json: bool,
        out: &mut Out,
    ) -> Result<(), CliError> {
        let attempt = upto.map(|upto| upto.attempt).or(args.attempt);
        let request = request(job, args).with_some("attempt", attempt);
        let mut follow = self.begin(request.with_some("tail", args.tail));
        while !out.is_closed() {
            let frame = match follow.next().await? {
                Some(News::Frame(frame)) if frame.kind == "end" => return over(&frame, json, out),
                Some(News::Frame(frame)) => frame,
                Some(news) if !json => {
                    note(&aside(&news));
                    continue;
                }
                Some(_) => continue,
                None => return Ok(()),
            };
            let place = frame.id.as_deref().and_then(LogPlace::read);
            // What has no place is no part of the log.
            let Some(place) = place else { continue };
            print(frame, json, out)?;
            if upto.is_some_and(|upto| place.after >= upto.after) {
                return Ok(());
            }
        }
        Ok(())
    }
}

fn request(job: JobId, args: &LogsArgs) -> Request {
    let stream = args.stream.map(|stream| match stream {
        StreamName::Stdout => "stdout",
        StreamName::Stderr => "stderr",
    });
    of(job, &["tasks", args.task.as_str(), "log"]).with_some("stream", stream)
}

fn print(frame: Frame, json: bool, out: &mut Out) -> Result<(), CliError> {
    if json {
        out.line(one_line(frame.data));
        return Ok(());
    }
    let entry: Entry = view::parse(&frame.data)?;
    if frame.kind == "gap" {
        out.bytes(format!("[{} bytes were dropped here]\n", entry.gap_bytes).as_bytes());
        return Ok(());
    }
    let is_whole = !entry.partial;
    let mut bytes = entry.bytes()?;
    if is_whole {
        bytes.push(b'\n');
    }
    out.bytes(&bytes);
    Ok(())
}

/// What the end of a stream says.
fn over(frame: &Frame, json: bool, out: &mut Out) -> Result<(), CliError> {
    let End { missing_bytes, damage } = view::parse(&frame.data)?;
    if let Some(damage) = damage {
        let detail = format!("the rest of the log cannot be read: {damage}");
        return Err(CliError::new(Exit::Unreachable, "log_damaged", detail));
    }
    tell(missing_bytes, json, out);
    Ok(())
}

/// Says how many bytes are missing, if any are.
fn tell(missing_bytes: u64, json: bool, out: &mut Out) {
    match missing_bytes {
        0 => {}
        _ if json => out.line(dto::LogLoss { missing_bytes }.to_json()),
        _ => note(&format!("{missing_bytes} bytes of the log are missing")),
    }
}
