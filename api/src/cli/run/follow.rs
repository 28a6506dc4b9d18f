//! Following a job to its end: events are shown as they become durable, Ctrl-C pauses.
//!
//! Nothing polls: the loop sleeps until the job has changed or a signal comes. Only on a
//! terminal it also wakes to draw what is volatile.

use std::time::Duration;

use annals_engine::job::{Command, Job, JobStatus, PauseMode};
use annals_engine::runtime::{CommandError, Snapshot};
use annals_engine::{Ask, JobHandle};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::screen::Screen;
use super::{Run, lines, summary};
use crate::cli::error::{CliError, Exit};
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
}

impl Signals {
    /// From here on they no longer end the process by themselves.
    pub(super) fn listen() -> Result<Self, CliError> {
        let listen = |kind| {
            signal(kind).map_err(|error| {
                CliError::unreachable(format!("cannot listen to signals: {error}"))
            })
        };
        let interrupt = listen(SignalKind::interrupt())?;
        Ok(Self { interrupt, terminate: listen(SignalKind::terminate())? })
    }

    async fn next(&mut self) -> Exit {
        tokio::select! {
            _ = self.interrupt.recv() => Exit::Interrupted,
            _ = self.terminate.recv() => Exit::Terminated,
        }
    }
}

/// Follows a job from the event after `seen` until it has ended or is paused.
pub(super) async fn follow(
    job: &JobHandle,
    mut seen: u64,
    mut signals: Signals,
    run: &mut Run,
) -> Result<Exit, CliError> {
    let mut screen = Screen::new(run);
    let mut frames = tokio::time::interval(FRAME);
    let mut told: Option<Exit> = None;
    if seen == 0 && !run.session.json {
        run.session.out.line(summary::begins(&job.snapshot().await?.job));
    }
    let last = loop {
        let snapshot = show(job, &mut seen, run, &mut screen).await?;
        if is_over(&snapshot.job) {
            break snapshot;
        }
        loop {
            tokio::select! {
                changed = job.changed(seen) => {
                    changed?;
                    break;
                }
                exit = signals.next() => {
                    if told.is_some() {
                        // As safe as a kill: the next run goes on.
                        leave(exit, &mut screen, job);
                    }
                    told = Some(exit);
                    stop(job, run, &mut screen).await?;
                }
                _ = frames.tick(), if screen.is_drawn() => screen.draw(&job.snapshot().await?),
            }
        }
    };
    screen.clear();
    let exit = exit_of(&last.job, told);
    end(&last, exit, run);
    Ok(exit)
}

/// Shows what has happened since `seen`.
async fn show(
    job: &JobHandle,
    seen: &mut u64,
    run: &mut Run,
    screen: &mut Screen,
) -> Result<Snapshot, CliError> {
    loop {
        let page = job.history(*seen, PAGE).await?;
        let snapshot = job.snapshot().await?;
        for logged in &page {
            if run.session.json {
                run.session.out.line(events::shape(&snapshot.job, logged).to_json());
            } else {
                // What runs and waits moves on a terminal; only what is over stays there.
                if screen.is_drawn() && lines::is_passing(&logged.recorded.event) {
                    continue;
                }
                for line in lines::of(&logged.recorded, &snapshot.job, &run.session.data) {
                    screen.print(&line, &mut run.session.out);
                }
            }
        }
        if let Some(last) = page.last() {
            *seen = last.recorded.seq;
        }
        // What has happened while the page was read is read before anything is concluded.
        if snapshot.job.seq() <= *seen || page.is_empty() {
            screen.draw(&snapshot);
            return Ok(snapshot);
        }
    }
}

/// Whether nothing more happens by itself.
fn is_over(job: &Job) -> bool {
    job.status().is_ended() || job.status() == JobStatus::Paused
}

/// Pauses the job; what runs is stopped.
async fn stop(job: &JobHandle, run: &mut Run, screen: &mut Screen) -> Result<(), CliError> {
    let ask = Ask { origin: store::origin(Some("interrupted")), ..Ask::default() };
    let paused = job.command(Command::Pause { mode: PauseMode::Interrupt }, ask).await;
    let line = match paused {
        Ok(_) => "stopping what runs; once more leaves at once",
        // It is ending already.
        Err(CommandError::Rejected(_)) => "it is about to end; once more leaves at once",
        Err(error) => return Err(error.into()),
    };
    if !run.session.json {
        screen.print(line, &mut run.session.out);
    }
    Ok(())
}

fn leave(exit: Exit, screen: &mut Screen, job: &JobHandle) -> ! {
    screen.clear();
    eprint(&format!("annals: left at once; job {} goes on with the next run", job.id()));
    std::process::exit(exit as i32)
}

fn eprint(line: &str) {
    use std::io::Write;
    // When stderr is closed nobody is left to be told.
    let _ = writeln!(anstream::stderr(), "{line}");
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
