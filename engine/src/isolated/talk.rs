//! The engine's side of the talk with the process of an attempt.

use std::io;
use std::time::Duration;

use annals_tasks_sdk::cancel::CancellationToken;
use annals_tasks_sdk::{Done, Payload, Progress, TaskContext, TaskResult};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{Instant, sleep_until};

use super::frame::{self, Frames};
use super::wire::{Assignment, Failure, Order, Report};

/// How long a program may take to come from its `main` to where it starts its engine.
pub(super) const BEGIN: Duration = Duration::from_mins(1);

/// How long a process may take to end that has nothing more to say.
const EXIT: Duration = Duration::from_secs(2);

/// What was heard of an attempt.
pub(super) struct Heard {
    /// The last word, if there was one.
    pub(super) result: Option<TaskResult<Done>>,
    /// Whether the task's code began.
    pub(super) begun: bool,
    /// What was wrong with what the process said, for which it was killed.
    pub(super) nonsense: Option<io::Error>,
}

/// A talk.
pub(super) struct Talk<'a> {
    cx: &'a TaskContext,
    /// Has the process killed.
    kill: &'a CancellationToken,
    frames: Frames<OwnedReadHalf>,
    writer: OwnedWriteHalf,
    heard: Heard,
}

impl<'a> Talk<'a> {
    pub(super) fn new(
        socket: UnixStream,
        cx: &'a TaskContext,
        kill: &'a CancellationToken,
    ) -> Self {
        let (reader, writer) = socket.into_split();
        let heard = Heard { result: None, begun: false, nonsense: None };
        Self { cx, kill, frames: Frames::new(reader), writer, heard }
    }

    /// Has the process run the attempt, until it has nothing more to say.
    pub(super) async fn run(mut self, assignment: &Assignment) -> Heard {
        self.send(assignment).await;
        let (mut told, begin) = (false, Instant::now() + BEGIN);
        while self.heard.result.is_none() {
            // A frame that was read in part stays where it is.
            tokio::select! {
                report = self.frames.next() => match report {
                    Ok(Some(report)) => self.hear(report).await,
                    Ok(None) => return self.heard,
                    Err(error) => {
                        self.heard.nonsense = Some(error);
                        break;
                    }
                },
                () = self.cx.cancelled(), if !told => {
                    told = true;
                    self.send(&Order::Stop).await;
                }
                () = sleep_until(begin), if !self.heard.begun => break,
            }
        }
        if self.heard.result.is_some() {
            let gone = async { while let Ok(Some(_)) = self.frames.next::<Report>().await {} };
            // One that does not end by itself has said all that it had to.
            let _ = tokio::time::timeout(EXIT, gone).await;
        }
        self.kill.cancel();
        self.heard
    }

    async fn hear(&mut self, report: Report) {
        match report {
            Report::Begun => self.heard.begun = true,
            Report::Heartbeat => self.cx.heartbeat(),
            Report::Progress { counts, message } => {
                if let Some((done, total)) = counts {
                    self.cx.progress(Progress { done, total });
                }
                if let Some(message) = message {
                    self.cx.message(message);
                }
            }
            Report::Checkpoint { request, value } => {
                let saved = self.cx.checkpoint(&value).await;
                let failure = saved.err().map(|error| Failure::of(&error));
                self.send(&Order::Saved { request, failure }).await;
            }
            Report::RecordedStep { request, name } => {
                let (recorded, failure) = match self.cx.host().recorded_step(&name).await {
                    Ok(recorded) => (recorded, None),
                    Err(error) => (None, Some(Failure::of(&error))),
                };
                let recorded = recorded.into();
                self.send(&Order::Step { request, recorded, failure }).await;
            }
            Report::RecordStep { request, name, value } => {
                let saved = self.cx.host().record_step(&name, value).await;
                let failure = saved.err().map(|error| Failure::of(&error));
                self.send(&Order::Saved { request, failure }).await;
            }
            Report::OutputOf { request, task } => {
                let output = self.cx.output_of::<Payload>(&task).ok();
                self.send(&Order::Output { request, output: output.into() }).await;
            }
            Report::Completed { output, exit } => {
                self.heard.result = Some(Ok(Done { output, exit: exit.into_exit() }));
            }
            Report::Failed(failure) => self.heard.result = Some(Err(failure.into_error())),
        }
    }

    async fn send<T: serde::Serialize>(&mut self, message: &T) {
        // Nothing is as long as that here: limits are lower.
        let Ok(Some(frame)) = frame::encode(message) else { return self.kill.cancel() };
        // That the process is gone is noticed by who reads.
        let _ = self.writer.write_all(&frame).await;
    }
}
