//! Following a job to its end: events are shown as they become durable, Ctrl-C pauses.
//!
//! Nothing polls: the loop sleeps until the job has changed or a signal comes. Only on a
//! terminal it also wakes to draw what is volatile.

use std::sync::Arc;
use std::time::Duration;

use annals_engine::job::{Command, Event, Job, PauseMode};
use annals_engine::runtime::CommandError;
use annals_engine::views::Reason;
use annals_engine::{Ask, JobHandle};

use super::{Run, summary};
use crate::cli::backend::event;
use crate::cli::error::{CliError, Exit};
use crate::cli::live::{Moving, Seen, Show, Signals, begins, ends};
use crate::cli::output::eprint;
use crate::cli::{store, view};
use crate::dto;

/// Events that are read at a time.
const PAGE: usize = 500;

/// How often a terminal is drawn while nothing happens.
const FRAME: Duration = Duration::from_millis(100);

/// What is followed, and what of it is shown.
struct Follower<'a> {
    handle: &'a JobHandle,
    /// The job as it was when it last got tasks: what these are called.
    job: Arc<Job>,
    show: Show<'a>,
}

/// Follows a job until it has ended or is paused.
pub(super) async fn follow(
    handle: &JobHandle,
    seen: Seen,
    mut signals: Signals,
    run: &mut Run,
) -> Result<Exit, CliError> {
    let first = handle.snapshot().await?;
    let shown = view::Job::of(&first)?;
    let show = Show::new(&mut run.session, &shown, seen);
    let mut follower = Follower { handle, job: first.job, show };
    follower.begin(&shown).await?;
    let mut frames = tokio::time::interval(FRAME);
    let mut told: Option<Exit> = None;
    while !follower.show.seen().is_over {
        tokio::select! {
            changed = handle.changed(follower.show.seen().seq) => {
                changed?;
                follower.catch_up().await?;
            }
            exit = signals.next() => {
                if told.replace(exit).is_some() {
                    // As safe as a kill: the next run goes on.
                    leave(exit, &mut follower.show, handle);
                }
                follower.stop().await?;
            }
            _ = frames.tick(), if follower.show.is_drawn() => {
                follower.show.draw(&Moving::here(&handle.snapshot().await?));
            }
        }
    }
    follower.show.clear();
    let seen = follower.show.seen();
    end(handle, seen, told, run).await
}

/// Whether a job has tasks from then on that it did not have before.
fn adds_tasks(event: &Event) -> bool {
    matches!(
        event,
        Event::JobCompensating { .. } | Event::TaskExpanded { .. } | Event::TaskInserted { .. }
    )
}

impl Follower<'_> {
    async fn begin(&mut self, job: &view::Job) -> Result<(), CliError> {
        if self.show.seen().seq == 0 {
            self.show.say(&begins(job));
        }
        if let Some(first) = self.handle.history(0, 1).await?.first() {
            self.show.learn(&event(&self.job, first))?;
        }
        self.catch_up().await?;
        self.say_who_is_first().await
    }

    /// Nothing would be shown as long as another job holds the key that the job needs, which may
    /// be paused.
    async fn say_who_is_first(&mut self) -> Result<(), CliError> {
        if self.job.exclusive().is_none() || self.show.is_json() {
            return Ok(());
        }
        let why = self.handle.explain().await?;
        let waits = why.reasons.iter().find_map(|one| match one.reason {
            Reason::WantsKey { holder, .. } => Some((one.reason.to_string(), holder)),
            _ => None,
        });
        if let Some((sentence, holder)) = waits {
            self.show.say(&sentence);
            let show = self.show.place().command(&format!("show {holder}"));
            self.show.say(&format!("when this is stopped, `{show}` shows that job"));
        }
        Ok(())
    }

    /// Shows what has happened since.
    async fn catch_up(&mut self) -> Result<(), CliError> {
        loop {
            let page = self.handle.history(self.show.seen().seq, PAGE).await?;
            if page.iter().any(|logged| adds_tasks(&logged.recorded.event)) {
                self.job = self.handle.snapshot().await?.job;
            }
            for logged in &page {
                self.show.event(&event(&self.job, logged))?;
            }
            if page.len() < PAGE {
                return Ok(());
            }
        }
    }

    /// Pauses the job; what runs is stopped.
    async fn stop(&mut self) -> Result<(), CliError> {
        let ask = Ask { origin: store::origin(Some("interrupted")), ..Ask::default() };
        let pause = Command::Pause { mode: PauseMode::Interrupt };
        let line = match self.handle.command(pause, ask).await {
            Ok(_) => "stopping what runs; once more leaves at once",
            // It is ending already.
            Err(CommandError::Rejected(_)) => "it is about to end; once more leaves at once",
            Err(error) => return Err(error.into()),
        };
        self.show.say(line);
        Ok(())
    }
}

fn leave(exit: Exit, show: &mut Show<'_>, job: &JobHandle) -> ! {
    show.clear();
    eprint(&format!("annals: left at once; job {} goes on with the next run", job.id()));
    std::process::exit(exit as i32)
}

/// Says how it ended, and what to do.
async fn end(
    handle: &JobHandle,
    seen: Seen,
    told: Option<Exit>,
    run: &mut Run,
) -> Result<Exit, CliError> {
    let last = handle.snapshot().await?;
    let exit = match (Exit::of(last.job.status()), told) {
        (Exit::Paused, Some(told)) => told,
        (exit, _) => exit,
    };
    if run.session.json {
        run.session.out.line(dto::Job::at(&last).to_json());
        return Ok(exit);
    }
    let job = view::Job::of(&last)?;
    let go_on = (exit != Exit::Done).then(|| summary::again(&job, run));
    let lines = ends(&job, seen.time, go_on, &run.session.place);
    run.session.out.lines(lines);
    Ok(exit)
}
