//! Shows a job as it moves, to people or to programs.

use annals_engine::job::{JobStatus, TaskStatus};
use annals_tasks_sdk::Timestamp;

use super::Moving;
use super::screen::Screen;
use super::teller::{Teller, is_passing};
use crate::cli::Session;
use crate::cli::error::CliError;
use crate::cli::output::note;
use crate::cli::place::Place;
use crate::cli::view::{self, Event, Job, Task};

/// What is shown of a job that moves, and how far.
pub(in crate::cli) struct Show<'a> {
    session: &'a mut Session,
    teller: Teller,
    screen: Screen,
    seen: Seen,
}

/// How much has been seen.
#[derive(Debug, Clone, Copy)]
pub(in crate::cli) struct Seen {
    /// The number of the last event that is no news.
    pub(in crate::cli) seq: u64,
    /// When that was, where it was seen.
    pub(in crate::cli) time: Option<Timestamp>,
    /// Whether nothing more happens by itself.
    pub(in crate::cli) is_over: bool,
}

impl Seen {
    /// Nothing yet.
    pub(in crate::cli) const NOTHING: Self = Self { seq: 0, time: None, is_over: false };

    /// A job's state at one moment.
    pub(in crate::cli) fn state(seq: u64, status: JobStatus) -> Self {
        let is_over = status.is_ended() || status == JobStatus::Paused;
        Self { seq, time: None, is_over }
    }

    fn note(&mut self, event: &Event) {
        self.seq = event.seq;
        self.time = Some(event.time);
        self.is_over = match event.kind.as_str() {
            "JobCompleted" | "JobFailed" | "JobCancelled" | "JobPaused" => true,
            "JobReopened" => event.data.held,
            "JobStarted" | "JobResumed" => false,
            _ => self.is_over,
        };
    }
}

impl<'a> Show<'a> {
    /// Shows `job` since what was seen of it.
    pub(in crate::cli) fn new(session: &'a mut Session, job: &Job, seen: Seen) -> Self {
        let teller = Teller::new(job, session.place.clone());
        let screen = Screen::new(session);
        Self { session, teller, screen, seen }
    }

    pub(in crate::cli) fn seen(&self) -> Seen {
        self.seen
    }

    /// Learns from the first event of the job what later ones do not say.
    pub(in crate::cli) fn learn(&mut self, json: &str) -> Result<(), CliError> {
        self.teller.learn(&view::parse(json)?);
        Ok(())
    }

    /// Shows where the tasks of a job stand: on a terminal those that do not move.
    pub(in crate::cli) fn standing(&mut self, job: &Job) {
        let moving = |task: &Task| matches!(task.status, TaskStatus::Running | TaskStatus::Waiting);
        let mut job = job.clone();
        if self.is_drawn() {
            job.tasks.retain(|task| !moving(task));
        }
        for line in self.teller.standing(&job) {
            self.say(&line);
        }
    }

    /// Says something to people beside what is shown.
    pub(in crate::cli) fn aside(&mut self, line: &str) {
        if !self.session.json {
            self.screen.aside(|| note(line));
        }
    }

    /// Shows an event.
    pub(in crate::cli) fn event(&mut self, json: &str) -> Result<(), CliError> {
        let event: Event = view::parse(json)?;
        self.seen.note(&event);
        if self.session.json {
            self.session.out.line(json);
            return Ok(());
        }
        let lines = self.teller.lines(&event);
        // What runs and waits moves on a terminal; only what is over stays there.
        if !self.screen.is_drawn() || !is_passing(&event) {
            for line in &lines {
                self.say(line);
            }
        }
        Ok(())
    }

    /// Says something to people.
    pub(in crate::cli) fn say(&mut self, line: &str) {
        if !self.session.json {
            self.screen.print(line, &mut self.session.out);
        }
    }

    /// Notes that nothing more happens.
    pub(in crate::cli) fn is_over(&mut self) {
        self.seen.is_over = true;
    }

    /// Whether programs read it.
    pub(in crate::cli) fn is_json(&self) -> bool {
        self.session.json
    }

    pub(in crate::cli) fn place(&self) -> &Place {
        &self.session.place
    }

    /// Whether there is anything that moves.
    pub(in crate::cli) fn is_drawn(&self) -> bool {
        self.screen.is_drawn()
    }

    /// Draws how far the job is.
    pub(in crate::cli) fn draw(&mut self, moving: &Moving) {
        self.screen.draw(moving);
    }

    /// Takes everything that moves away.
    pub(in crate::cli) fn clear(&mut self) {
        self.screen.clear();
    }
}
