//! The lower part of a terminal: one line for each task that runs or waits, and one for the job.

use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::moving::{Doing, Moving};
use crate::cli::Session;
use crate::cli::output::Out;
use crate::cli::text::{due, duration, now, tasks};
use crate::cli::view::Waiting;

/// What moves on a terminal. Elsewhere there is none, and lines are printed as they come.
pub(super) struct Screen(Option<Terminal>);

struct Terminal {
    all: MultiProgress,
    bars: Vec<ProgressBar>,
    frame: usize,
}

impl Screen {
    pub(super) fn new(session: &Session) -> Self {
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let drawn = Out::is_terminal() && !is_dumb && !session.json;
        Self(drawn.then(|| Terminal {
            all: MultiProgress::with_draw_target(ProgressDrawTarget::stdout()),
            bars: Vec::new(),
            frame: 0,
        }))
    }

    /// Whether there is anything that moves.
    pub(super) fn is_drawn(&self) -> bool {
        self.0.is_some()
    }

    /// Prints a line that stays.
    pub(super) fn print(&mut self, line: &str, out: &mut Out) {
        self.aside(|| out.line(line));
    }

    /// Does something else with the terminal.
    pub(super) fn aside(&mut self, does: impl FnOnce()) {
        match &self.0 {
            Some(terminal) => terminal.all.suspend(does),
            None => does(),
        }
    }

    /// Draws how far the job is.
    pub(super) fn draw(&mut self, moving: &Moving) {
        let Some(terminal) = &mut self.0 else { return };
        terminal.frame += 1;
        let lines = lines(moving, terminal.frame);
        while terminal.bars.len() > lines.len() {
            if let Some(bar) = terminal.bars.pop() {
                terminal.all.remove(&bar);
            }
        }
        while terminal.bars.len() < lines.len() {
            let bar = terminal.all.add(ProgressBar::no_length());
            bar.set_style(
                ProgressStyle::with_template("{wide_msg}")
                    .unwrap_or_else(|_| ProgressStyle::default_spinner()),
            );
            terminal.bars.push(bar);
        }
        for (bar, line) in terminal.bars.iter().zip(lines) {
            bar.set_message(line);
        }
    }

    /// Takes everything that moves away.
    pub(super) fn clear(&mut self) {
        if let Some(terminal) = self.0.take() {
            // What cannot be drawn any more need not be taken away.
            let _ = terminal.all.clear();
        }
    }
}

fn lines(moving: &Moving, frame: usize) -> Vec<String> {
    const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
    let spinner = SPINNER[frame % SPINNER.len()];
    let lines =
        moving.tasks.iter().map(|(id, doing)| format!("{spinner} {id:<24} {}", what(doing)));
    let mut lines: Vec<String> = lines.collect();
    if moving.more > 0 {
        lines.push(format!("  and {} more", moving.more));
    }
    lines.push(footer(moving));
    lines
}

fn what(doing: &Doing) -> String {
    match doing {
        Doing::Runs { attempt, since, says } => {
            let nth = if *attempt > 1 { format!("  attempt {attempt}") } else { String::new() };
            let took = duration(now().since(*since));
            format!("{took:>7}{nth}{says}")
        }
        Doing::Waits(waiting) => waits(waiting),
        Doing::Each(items) => items.told(),
    }
}

fn waits(waiting: &Waiting) -> String {
    match waiting {
        Waiting::Retry(until) => {
            let left = until.since(now());
            format!("waits {} for its next attempt", duration(left))
        }
        Waiting::Timer(until) => {
            let left = until.since(now());
            let when = if left > Duration::from_mins(1) {
                format!(" (until {})", due(*until))
            } else {
                String::new()
            };
            format!("waits {}{when}", duration(left))
        }
        Waiting::Job(child) => format!("waits for its child job {child}"),
        Waiting::Signal(name, until) => {
            let until = until.map(|until| format!(" (until {})", due(until)));
            format!("waits for signal {name}{}", until.unwrap_or_default())
        }
        Waiting::Kind(_) => "waits for its kind, which is not here".into(),
        Waiting::Other => "waits".into(),
    }
}

fn footer(moving: &Moving) -> String {
    let since = moving.started.map(|started| duration(now().since(started))).unwrap_or_default();
    let intent = moving.intent.map_or_else(String::new, |intent| format!(", to {intent}"));
    format!("  {} of {}, {since}{intent}", moving.done, tasks(moving.total))
}
