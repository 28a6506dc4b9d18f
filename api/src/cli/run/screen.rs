//! The lower part of a terminal: one line for each task that runs or waits, and one for the job.

use std::time::Duration;

use annals_engine::job::{Job, TaskStatus, Waiting};
use annals_engine::runtime::{Live, Snapshot};
use annals_tasks_sdk::Progress;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::Run;
use crate::cli::output::Out;
use crate::cli::text::{due, duration, now, plain, tasks};

/// More tasks than this are counted, not shown.
const SHOWN: usize = 12;

/// What moves on a terminal. Elsewhere there is none, and lines are printed as they come.
pub(super) struct Screen(Option<Terminal>);

struct Terminal {
    all: MultiProgress,
    bars: Vec<ProgressBar>,
    frame: usize,
}

impl Screen {
    pub(super) fn new(run: &Run) -> Self {
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let drawn = Out::is_terminal() && !is_dumb && !run.session.json;
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
        match &self.0 {
            Some(terminal) => terminal.all.suspend(|| out.line(line)),
            None => out.line(line),
        }
    }

    /// Draws how far the job is.
    pub(super) fn draw(&mut self, snapshot: &Snapshot) {
        let Some(terminal) = &mut self.0 else { return };
        terminal.frame += 1;
        let lines = lines(snapshot, terminal.frame);
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

fn lines(snapshot: &Snapshot, frame: usize) -> Vec<String> {
    const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
    let job = &snapshot.job;
    let spinner = SPINNER[frame % SPINNER.len()];
    let moving = job
        .tasks()
        .filter(|(_, task)| matches!(task.status(), TaskStatus::Running | TaskStatus::Waiting));
    let mut lines = Vec::new();
    let mut more = 0;
    for (number, task) in moving {
        if lines.len() == SHOWN {
            more += 1;
            continue;
        }
        let id = task.spec.id.as_str();
        let what = match task.live_attempt() {
            Some(attempt) => {
                let nth = if attempt.number > 1 {
                    format!("  attempt {}", attempt.number)
                } else {
                    String::new()
                };
                let took = duration(now().since(attempt.started));
                let live = snapshot.live.get(&number).map(said).unwrap_or_default();
                format!("{took:>7}{nth}{live}")
            }
            None => waits(task.waiting()),
        };
        lines.push(format!("{spinner} {id:<24} {what}"));
    }
    if more > 0 {
        lines.push(format!("  and {more} more"));
    }
    lines.push(footer(job));
    lines
}

/// What a live attempt says of itself.
fn said(live: &Live) -> String {
    let mut text = String::new();
    if let Some(Progress { done, total }) = live.progress {
        text = match total {
            0 => format!("  {done}"),
            _ => format!("  {done}/{total} ({}%)", done.saturating_mul(100) / total),
        };
    }
    if let Some(message) = &live.message {
        text.push_str("  ");
        text.push_str(&plain(message));
    }
    if live.stopping_since.is_some() {
        text.push_str("  stopping");
    }
    text
}

fn waits(waiting: Option<Waiting>) -> String {
    match waiting {
        Some(Waiting::Retry { until }) => {
            let left = until.since(now());
            format!("waits {} for its next attempt", duration(left))
        }
        Some(Waiting::Timer { until }) => {
            let left = until.since(now());
            let when = if left > Duration::from_mins(1) {
                format!(" (until {})", due(until))
            } else {
                String::new()
            };
            format!("waits {}{when}", duration(left))
        }
        Some(Waiting::Kind) => "waits for its kind, which is not here".into(),
        _ => "waits".into(),
    }
}

fn footer(job: &Job) -> String {
    let (counts, total) = (job.counts(), job.total_tasks());
    let since = job.started().map(|started| duration(now().since(started))).unwrap_or_default();
    let intent = job.intent().map_or_else(String::new, |intent| format!(", to {intent}"));
    let done = counts.completed + counts.skipped;
    format!("  {done} of {}, {since}{intent}", tasks(total))
}
