//! The engine's side: starts a supervisor, hands its orders on, and takes what it says.
//!
//! Dropping the future of [`Child::run`] closes the socket, upon which the supervisor ends
//! everything; only who waits for the report knows when that is done.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::Path;
use std::process::Stdio;
use std::sync::Mutex;
use std::time::Duration;

use annals_tasks_sdk::{Stream, TaskContext};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::Command;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::descriptor;
use super::excerpt::Excerpt;
use super::leftovers;
use super::live::{Record, Supervised};
use super::wire::{Order, Report, SUPERVISE, Spec};

const BUFFER: usize = 64 * 1024;

/// How long output is still read when everything that should write it is gone: a pipe can have
/// been handed to a process that is not the attempt's.
const DRAIN: Duration = Duration::from_secs(1);

/// How long after the order to end everything nothing need be heard of the supervisor. Then it
/// cannot do its work: a script may have stopped it. One that waits for the kernel says so earlier.
const OVERDUE: Duration = Duration::from_secs(3);

/// How long is swept before those that the kernel does not let go are named.
const SWEEP: Duration = Duration::from_secs(2);

/// What is kept of an attempt's output besides its log.
pub(crate) struct Kept {
    /// The last word of the supervisor; `None` where it died.
    pub(crate) report: Option<Report>,
    /// Whether all that a supervisor left behind was ended, not only what could be found.
    pub(crate) ended_all: bool,
    /// The last lines.
    pub(crate) excerpt: String,
    /// Standard output as far as it was asked for; `None` where it was too long.
    pub(crate) stdout: Option<Vec<u8>>,
}

/// What ties an attempt to the engine that knows the engine, and is no script.
pub(crate) struct Ties<'a> {
    /// Its standard input. It is told there when to stop, and not by a signal.
    pub(crate) input: Option<OwnedFd>,
    /// Has it killed, as the end of the grace does.
    pub(crate) kill: &'a CancellationToken,
}

/// One attempt to be supervised.
pub(crate) struct Child<'a> {
    pub(crate) program: &'a Path,
    pub(crate) spec: &'a Spec,
    pub(crate) cx: &'a TaskContext,
    /// How much of standard output to keep.
    pub(crate) stdout_max: usize,
    pub(crate) ties: Option<Ties<'a>>,
}

impl Child<'_> {
    /// Runs the attempt; when this returns nothing of it lives.
    pub(crate) async fn run(mut self) -> io::Result<Kept> {
        let (mut child, socket, rest) = self.start()?;
        let pipe = || io::Error::other("the supervisor has no pipes");
        let stdout = child.stdout.take().ok_or_else(pipe)?;
        let stderr = child.stderr.take().ok_or_else(pipe)?;
        let over = CancellationToken::new();
        let excerpt = Mutex::new(Excerpt::default());
        let mut kept = Some(Vec::new());
        let talk = async {
            let report = self.talk(socket, &rest).await;
            let ended_all = report.is_some() || self.sweep(child.id()).await;
            over.cancel();
            (report, ended_all)
        };
        let on_stdout = |bytes: &[u8]| {
            self.cx.log(Stream::Stdout, bytes);
            locked(&excerpt).push(bytes);
            kept.take_if(|kept| kept.len() + bytes.len() > self.stdout_max);
            if let Some(kept) = &mut kept {
                kept.extend_from_slice(bytes);
            }
        };
        let on_stderr = |bytes: &[u8]| {
            self.cx.log(Stream::Stderr, bytes);
            locked(&excerpt).push(bytes);
        };
        let ((report, ended_all), (), ()) =
            tokio::join!(talk, pump(stdout, &over, on_stdout), pump(stderr, &over, on_stderr));
        // It has said its last word, so this takes no time; it leaves no zombie.
        let _ = child.wait().await;
        let excerpt = locked(&excerpt).lines();
        Ok(Kept { report, ended_all, excerpt, stdout: kept })
    }

    /// Starts the supervisor. Gives what it has not been sent yet of what it is to run.
    fn start(&mut self) -> io::Result<(tokio::process::Child, UnixStream, Vec<u8>)> {
        let (ours, theirs) = BlockingStream::pair()?;
        ours.set_nonblocking(true)?;
        let mut command = Command::new(self.program);
        command.arg0("annals-supervisor").arg(SUPERVISE).stdin(Stdio::from(OwnedFd::from(theirs)));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn()?;
        // The command holds the supervisor's end; while it does, its death would go unnoticed.
        drop(command);
        let mut spec = line(self.spec)?;
        if let Some(input) = self.ties.as_mut().and_then(|ties| ties.input.take()) {
            let sent = descriptor::send(&ours, &spec, input)?;
            spec.drain(..sent);
        }
        Ok((child, UnixStream::from_std(ours)?, spec))
    }

    /// Gives the last word of the supervisor; `None` where it died or cannot do its work.
    async fn talk(&self, socket: UnixStream, rest: &[u8]) -> Option<Report> {
        let (reader, mut writer) = socket.into_split();
        let mut lines = BufReader::new(reader).lines();
        // A supervisor that is gone is noticed by who reads.
        let _ = writer.write_all(rest).await;
        let (mut asked, mut killed, mut overdue) = (false, false, None);
        loop {
            // All three may be dropped half-way: a line that was read in part stays in `lines`.
            tokio::select! {
                report = next(&mut lines) => match report {
                    Some(Report::Stuck { pids }) => {
                        overdue = None;
                        self.cx.message(stuck(&pids));
                    }
                    report => return report,
                },
                () = self.cx.cancelled(), if !asked => {
                    asked = true;
                    if self.ties.is_none() {
                        send(&mut writer, Order::Terminate).await;
                    }
                }
                () = self.is_to_die(), if !killed => {
                    killed = true;
                    overdue = Some(Instant::now() + OVERDUE);
                    send(&mut writer, Order::Kill).await;
                }
                () = sleep_until(overdue.unwrap_or_else(Instant::now)), if overdue.is_some() => {
                    return None;
                }
            }
        }
    }

    /// Resolves when nothing of the attempt is to live on.
    async fn is_to_die(&self) {
        match &self.ties {
            None => self.cx.grace_over().await,
            Some(ties) => tokio::select! {
                () = self.cx.grace_over() => {}
                () = ties.kill.cancelled() => {}
            },
        }
    }

    /// Ends a supervisor of which nothing more is to be expected, and what it has left behind.
    /// What it is is seen from here: the script may have removed its record. Gives whether nothing
    /// can have been missed.
    async fn sweep(&self, supervisor: Option<u32>) -> bool {
        let pid = supervisor.and_then(|pid| i32::try_from(pid).ok());
        let supervised = pid.and_then(|pid| Supervised::by(pid, self.spec));
        let Some(supervised) = supervised else { return false };
        let is_enclosed = supervised.cgroup.as_ref().is_some_and(|cgroup| cgroup.is_dir());
        let mut told = false;
        loop {
            let tree = supervised.clone();
            let end = move || leftovers::end(&tree, std::time::Instant::now() + SWEEP);
            match tokio::task::spawn_blocking(end).await {
                Ok((_, alive)) if alive.is_empty() => break,
                Ok((_, alive)) if !told => self.cx.message(stuck(&alive)),
                _ => {}
            }
            told = true;
        }
        if let Ok(Some(record)) = Record::read(&self.spec.live)
            && record.supervised == supervised
        {
            // One that stays is found and removed at the engine's next start.
            let _ = std::fs::remove_file(&self.spec.live);
        }
        is_enclosed
    }
}

fn stuck(pids: &[i32]) -> String {
    let pids: Vec<String> = pids.iter().map(ToString::to_string).collect();
    format!("killed, but the kernel does not let go of process {}", pids.join(", "))
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

async fn next(lines: &mut tokio::io::Lines<BufReader<OwnedReadHalf>>) -> Option<Report> {
    let line = lines.next_line().await.ok()??;
    serde_json::from_str(&line).ok()
}

fn line<T: serde::Serialize>(value: &T) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

async fn send(writer: &mut OwnedWriteHalf, order: Order) {
    let Ok(line) = line(&order) else { return };
    // A supervisor that is gone is noticed by who reads.
    let _ = writer.write_all(&line).await;
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    over: &CancellationToken,
    mut to: impl FnMut(&[u8]),
) {
    let mut buffer = Vec::with_capacity(BUFFER);
    let late = async {
        over.cancelled().await;
        tokio::time::sleep(DRAIN).await;
    };
    tokio::pin!(late);
    loop {
        buffer.clear();
        tokio::select! {
            count = from.read_buf(&mut buffer) => match count {
                Ok(count) if count > 0 => to(&buffer),
                _ => return,
            },
            () = &mut late => return,
        }
    }
}
