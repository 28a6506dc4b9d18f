//! Instances of tasks, folded: what happens to thousands of them is told in a few lines.

use std::collections::HashMap;

use annals_engine::job::TaskStatus;

use crate::cli::view::{Event, Job};

/// After so many failed attempts of the instances of one task the others are counted, not shown.
const FAILURES_SHOWN: u32 = 20;

/// How many lines tell how far the instances of a task are.
const LINES: u32 = 10;

/// The tasks that have become their instances.
pub(super) struct Fans(HashMap<String, Fan>);

#[derive(Default)]
struct Fan {
    total: u32,
    over: u32,
    failed: u32,
    failures_shown: u32,
}

/// What is shown of an event.
pub(super) enum Folded<'a> {
    /// What is shown of any.
    No,
    /// Where the task stands that it is about, or an instance of which it is about.
    Into(&'a str, TaskStatus, String),
    /// Nothing.
    Away,
}

impl Fans {
    /// Of a job when the telling begins.
    pub(super) fn of(job: &Job) -> Self {
        let fans = job.tasks.iter().filter_map(|task| {
            let items = task.items?;
            let (over, failed) = (items.over(), items.failed);
            Some((task.id.clone(), Fan { total: items.total, over, failed, failures_shown: 0 }))
        });
        Self(fans.collect())
    }

    /// Takes an event in, and says what is shown of it.
    pub(super) fn folds<'a>(&mut self, event: &'a Event) -> Folded<'a> {
        if event.kind == "JobReopened" {
            self.0.values_mut().for_each(Fan::tries_again);
        }
        let Some(task) = event.data.task.as_deref() else { return Folded::No };
        if event.kind == "TaskExpanded" {
            let total = u32::try_from(event.data.items.len()).unwrap_or(u32::MAX);
            let fan = Fan { total, ..Fan::default() };
            let told = fan.told();
            self.0.insert(task.to_owned(), fan);
            return Folded::Into(task, TaskStatus::Running, told);
        }
        let Some((of, _)) = task.split_once('~') else { return self.of_whole(task, event) };
        match self.0.get_mut(of) {
            Some(fan) => fan.of_one(of, event),
            None => Folded::No,
        }
    }

    fn of_whole<'a>(&self, task: &'a str, event: &Event) -> Folded<'a> {
        match (self.0.get(task), &*event.kind) {
            (Some(fan), "TaskCompleted") => Folded::Into(task, TaskStatus::Completed, fan.told()),
            _ => Folded::No,
        }
    }
}

impl Fan {
    fn of_one<'a>(&mut self, of: &'a str, event: &Event) -> Folded<'a> {
        match &*event.kind {
            "AttemptFailed" | "AttemptTimedOut" if self.failures_shown < FAILURES_SHOWN => {
                self.failures_shown += 1;
                Folded::No
            }
            "TaskCompleted" | "TaskSkipped" | "TaskFailed" => {
                self.failed += u32::from(event.kind == "TaskFailed");
                self.is_over(of)
            }
            _ => Folded::Away,
        }
    }

    /// One more is over. Now and then that is told.
    fn is_over<'a>(&mut self, of: &'a str) -> Folded<'a> {
        let step = self.total.div_ceil(LINES).max(1);
        self.over = (self.over + 1).min(self.total);
        // The end of the last is that of the task, which is told.
        if self.over < self.total && self.over.is_multiple_of(step) {
            return Folded::Into(of, TaskStatus::Running, self.told());
        }
        Folded::Away
    }

    /// Those that have failed are tried afresh.
    fn tries_again(&mut self) {
        self.over = self.over.saturating_sub(std::mem::take(&mut self.failed));
    }

    fn told(&self) -> String {
        let failed =
            if self.failed > 0 { format!(", {} failed", self.failed) } else { String::new() };
        format!("{} of {} instances{failed}", self.over, self.total)
    }
}
