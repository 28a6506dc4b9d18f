//! Following a job to its end: events are shown as they become durable, Ctrl-C pauses.
//!
//! Nothing polls: the loop sleeps until the job has changed or a signal comes. Only on a
//! terminal it also wakes to draw what is volatile.

use std::time::Duration;

use annals_engine::job::{Command, Event, Job, JobStatus, PauseMode};
use annals_engine::runtime::{CommandError, Logged, Snapshot};
use annals_engine::{Ask, JobHandle};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::lines::Teller;
use super::screen::Screen;
use super::{Run, lines, summary};
use crate::cli::error::{CliError, Exit};
use crate::cli::output::eprint;
use crate::cli::{events, store};
use crate::dto;

/// Events that are read at a time.
const PAGE: usize = 500;

/// How often a terminal is drawn while nothing happens.
const FRAME: Duration = Duration::from_millis(100);

/// The signals that end a run.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// None where it is ignored, as below `nohup`.
    hang_up: Option<Signal>,
}

impl Signals {
    /// Since here on they no longer end the process by themselves.
    pub(super) fn listen() -> Result<Self, CliError> {
        let listen = |kind| {
            signal(kind).map_err(|error| {
                CliError::unreachable(format!("cannot listen to signals: {error}"))
            })
        };
        let (interrupt, terminate) = (SignalKind::interrupt(), SignalKind::terminate());
        let hang_up = (!ignores_hang_up()).then(|| listen(SignalKind::hangup())).transpose()?;
        Ok(Self { interrupt: listen(interrupt)?, terminate: listen(terminate)?, hang_up })
    }

    async fn next(&mut self) -> Exit {
        tokio::select! {
            _ = self.interrupt.recv() => Exit::Interrupted,
            _ = self.terminate.recv() => Exit::Terminated,
            () = hung_up(self.hang_up.as_mut()) => Exit::HungUp,
        }
    }
}

async fn hung_up(signal: Option<&mut Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Whether whoever started this process wants it to outlive its terminal. To listen to the
/// signal would take that back.
fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // The first signal is the lowest bit, and SIGHUP is the first.
    ignored.is_some_and(|mask| mask & 1 == 1)
}

/// Where following begins.
pub(super) struct Since {
    /// The last event that is no news.
    pub(super) seq: u64,
    /// Whether nothing more would happen if nothing is news.
    pub(super) over: bool,
}

impl Since {
    /// Since the submission on.
    pub(super) const START: Self = Self { seq: 0, over: false };

    /// Since a job's present state on.
    pub(super) fn state(job: &Job) -> Self {
        let over = job.status().is_ended() || job.status() == JobStatus::Paused;
        Self { seq: job.seq(), over }
    }
}

/// What is followed, and what of it has been shown.
struct Follower<'a> {
    job: &'a JobHandle,
    seen: Since,
    teller: Teller,
    screen: Screen,
    run: &'a mut Run,
}

/// Follows a job until it has ended or is paused.
pub(super) async fn follow(
    job: &JobHandle,
    seen: Since,
    mut signals: Signals,
    run: &mut Run,
) -> Result<Exit, CliError> {
    let first = job.snapshot().await?.job;
    if seen.seq == 0 && !run.session.json {
        run.session.out.line(summary::begins(&first));
    }
    let teller = Teller::new(first, run.session.data.clone());
    let mut follower = Follower { job, seen, teller, screen: Screen::new(run), run };
    let mut frames = tokio::time::interval(FRAME);
    let mut told: Option<Exit> = None;
    follower.show().await?;
    while !follower.seen.over {
        tokio::select! {
            changed = job.changed(follower.seen.seq) => {
                changed?;
                follower.show().await?;
            }
            exit = signals.next() => {
                if told.replace(exit).is_some() {
                    // As safe as a kill: the next run goes on.
                    leave(exit, &mut follower.screen, job);
                }
                follower.stop().await?;
            }
            _ = frames.tick(), if follower.screen.is_drawn() => {
                follower.screen.draw(&job.snapshot().await?);
            }
        }
    }
    follower.screen.clear();
    let last = job.snapshot().await?;
    let exit = exit_of(&last.job, told);
    end(&last, exit, run);
    Ok(exit)
}

impl Follower<'_> {
    /// Shows what has happened since.
    async fn show(&mut self) -> Result<(), CliError> {
        loop {
            let page = self.job.history(self.seen.seq, PAGE).await?;
            for logged in &page {
                self.tell(logged);
            }
            if page.len() < PAGE {
                return Ok(());
            }
        }
    }

    fn tell(&mut self, logged: &Logged) {
        let Logged { recorded, .. } = logged;
        self.seen.seq = recorded.seq;
        self.seen.over = match &recorded.event {
            Event::JobCompleted
            | Event::JobFailed { .. }
            | Event::JobCancelled
            | Event::JobPaused
            | Event::JobReopened { held: true } => true,
            Event::JobStarted | Event::JobResumed | Event::JobReopened { held: false } => false,
            _ => self.seen.over,
        };
        let out = &mut self.run.session.out;
        if self.run.session.json {
            out.line(events::shape(self.teller.job(), logged).to_json());
            return;
        }
        let lines = self.teller.lines(recorded);
        // What runs and waits moves on a terminal; only what is over stays there.
        if self.screen.is_drawn() && lines::is_passing(&recorded.event) {
            return;
        }
        for line in lines {
            self.screen.print(&line, out);
        }
    }

    /// Pauses the job; what runs is stopped.
    async fn stop(&mut self) -> Result<(), CliError> {
        let ask = Ask { origin: store::origin(Some("interrupted")), ..Ask::default() };
        let pause = Command::Pause { mode: PauseMode::Interrupt };
        let line = match self.job.command(pause, ask).await {
            Ok(_) => "stopping what runs; once more leaves at once",
            // It is ending already.
            Err(CommandError::Rejected(_)) => "it is about to end; once more leaves at once",
            Err(error) => return Err(error.into()),
        };
        if !self.run.session.json {
            self.screen.print(line, &mut self.run.session.out);
        }
        Ok(())
    }
}

fn leave(exit: Exit, screen: &mut Screen, job: &JobHandle) -> ! {
    screen.clear();
    eprint(&format!("annals: left at once; job {} goes on with the next run", job.id()));
    std::process::exit(exit as i32)
}

fn exit_of(job: &Job, told: Option<Exit>) -> Exit {
    match (job.status(), told) {
        (JobStatus::Completed, _) => Exit::Done,
        (JobStatus::Failed, _) => Exit::Failed,
        (JobStatus::Cancelled, _) => Exit::Cancelled,
        (_, Some(exit)) => exit,
        (_, None) => Exit::Paused,
    }
}

fn end(last: &Snapshot, exit: Exit, run: &mut Run) {
    if run.session.json {
        run.session.out.line(dto::Job::at(last).to_json());
        return;
    }
    let lines = summary::ends(&last.job, exit, run);
    run.session.out.lines(lines);
}
