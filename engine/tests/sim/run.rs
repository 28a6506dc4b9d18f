//! Runs: many seeds, one after the other, and what is told of them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::table::{Column, TABLE};
use crate::world::{Told, World};

/// All that goes wrong.
const FAULTS: [&str; 15] = [
    "clients that vanished",
    "clock jumps",
    "disk: a read failed",
    "disk: a write failed once",
    "disk: a write failed once, half done",
    "disk: it was full",
    "disk: the power went in a write or sync",
    "disk: writes failed for ever",
    "failed starts",
    "kills",
    "late reports",
    "letters doubled",
    "letters lost",
    "letters put off",
    "the power goes",
];

/// All that must have happened to jobs.
const WORDS: &[&str] = &[
    "ChildEnded",
    "ChildPaused",
    "ChildStarted",
    "HoldLifted",
    "HoldPlaced",
    "JobLinked",
    "child_cancelled",
    "child_failed",
    "held_by_ancestor",
    "AttemptFailed",
    "AttemptInterrupted",
    "AttemptLost",
    "AttemptStarted",
    "AttemptTimedOut",
    "CancelRequested",
    "CheckpointSaved",
    "DeadlinePassed",
    "JobCancelled",
    "JobCompleted",
    "JobFailed",
    "JobForked",
    "JobEnding",
    "JobCompensating",
    "JobPaused",
    "JobPurged",
    "JobReopened",
    "JobResumed",
    "JobStarted",
    "PauseRequested",
    "RetryScheduled",
    "SkipRequested",
    "StepRecorded",
    "SignalReceived",
    "SignalDelivered",
    "TaskCompleted",
    "TaskFailed",
    "TaskRemoved",
    "TaskSkipped",
    "TaskWaiting",
    "bad_condition",
    "heartbeat_timeout",
    "lost",
    "missing_output",
    "panic",
    "timed_out",
];

thread_local! {
    /// The step at which the world of this thread is, and its time in milliseconds.
    static AT: Cell<(u32, i64)> = const { Cell::new((0, 0)) };
    /// What the last panic of this thread said, and where it was.
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Notes where the world of this thread is.
pub(crate) fn at(step: u32, time: i64) {
    AT.set((step, time));
}

/// A seed whose world broke a law.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    seed: u64,
    step: u32,
    time: i64,
    what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, step, time, what } = self;
        let commit = commit().unwrap_or_else(|| "unknown".into());
        writeln!(f, "seed {seed} FAILED at step {step}, after {time} ms: {what}")?;
        writeln!(f, "    at commit {commit}; to see it again:")?;
        write!(f, "    cargo xtask sim --seed {seed}")
    }
}

fn commit() -> Option<String> {
    let git = std::process::Command::new("git").args(["describe", "--always", "--dirty"]).output();
    let text = String::from_utf8(git.ok()?.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Keeps what panics say instead of printing it: a world that fails is told of once. To be called
/// before any engine is started, so that the engine is the first to hear of panics in tasks: what
/// it notes of them is in the log.
pub(crate) fn keep_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            if AT.get() == (0, 0) {
                return before(info);
            }
            let text = info.to_string();
            LAST.with_borrow_mut(|last| *last = text);
        }));
    });
}

/// Runs a seed.
pub(crate) fn seed(seed: u64, loud: bool) -> Result<Told, Failure> {
    keep_panics();
    at(1, 0);
    let told = catch_unwind(AssertUnwindSafe(|| World::new(seed, loud).run()));
    let (step, time) = AT.replace((0, 0));
    told.map_err(|_| Failure { seed, step, time, what: LAST.take() })
}

/// What many seeds came to.
#[derive(Default)]
pub(crate) struct Sum {
    pub(crate) tried: u64,
    pub(crate) failures: Vec<Failure>,
    steps: u64,
    events: u64,
    time: i64,
    tally: BTreeMap<&'static str, u64>,
    words: BTreeMap<String, u64>,
    cells: BTreeMap<(usize, Column), u64>,
}

impl Sum {
    fn add(&mut self, result: Result<Told, Failure>) {
        self.tried += 1;
        let told = match result {
            Ok(told) => told,
            Err(failure) => {
                println!("{failure}");
                return self.failures.push(failure);
            }
        };
        self.steps += u64::from(told.steps);
        self.events += told.events;
        self.time += told.time;
        sum_up(&mut self.tally, told.tally);
        sum_up(&mut self.words, told.words);
        sum_up(&mut self.cells, told.cells);
    }

    /// Which faults have not struck, and what has not happened to any job.
    pub(crate) fn unseen(&self) -> Vec<String> {
        let faults = FAULTS.iter().filter(|fault| !self.tally.contains_key(**fault));
        let words = WORDS.iter().filter(|word| !self.words.contains_key(**word));
        let mut unseen: Vec<String> = faults.chain(words).map(ToString::to_string).collect();
        for (row, (name, _)) in TABLE.iter().enumerate() {
            let columns = Column::ALL.into_iter();
            let columns = columns.filter(|column| !self.cells.contains_key(&(row, *column)));
            unseen.extend(columns.map(|column| format!("{name} while {column:?}")));
        }
        unseen
    }

    /// Takes in what other seeds came to.
    pub(crate) fn join(&mut self, other: Self) {
        self.tried += other.tried;
        self.failures.extend(other.failures);
        self.steps += other.steps;
        self.events += other.events;
        self.time += other.time;
        sum_up(&mut self.tally, other.tally);
        sum_up(&mut self.words, other.words);
        sum_up(&mut self.cells, other.cells);
    }

    /// Which commands have been answered in which status, as a table.
    fn print_cells(&self) {
        println!("answers by command and status:");
        let heads = Column::ALL.map(|column| format!("{:>11}", format!("{column:?}")));
        println!("{:>8}{}", "", heads.concat());
        for (row, (name, _)) in TABLE.iter().enumerate() {
            let times = |column| self.cells.get(&(row, column)).copied().unwrap_or(0);
            let times = Column::ALL.map(|column| format!("{:>11}", times(column)));
            println!("{name:>8}{}", times.concat());
        }
        let all = TABLE.len() * Column::ALL.len();
        println!("{} of {all} pairs of a command and a status were seen", self.cells.len());
    }

    /// Tells all of it; the last line says what was tried and what failed.
    pub(crate) fn print(&self, took: Duration) {
        #[expect(clippy::cast_precision_loss, reason = "rates for people")]
        let rate = self.tried as f64 / took.as_secs_f64().max(0.001);
        let hours = Duration::from_millis(self.time.unsigned_abs()).as_secs() / 3_600;
        println!(
            "{} steps, {} events, {hours} h of simulated time in {} s, {rate:.1} seeds/s",
            self.steps,
            self.events,
            took.as_secs()
        );
        for (what, times) in &self.tally {
            println!("{times:>10} {what}");
        }
        println!("events and failures: {:?}", self.words);
        self.print_cells();
        let failed = self.failures.len();
        let outcome = if failed == 0 { "passed" } else { "FAILED" };
        println!("sim {outcome}: {} seeds tried, {failed} failed", self.tried);
    }
}

fn sum_up<K: Ord>(all: &mut BTreeMap<K, u64>, some: BTreeMap<K, u64>) {
    for (key, times) in some {
        *all.entry(key).or_default() += times;
    }
}

/// When a run has seen enough.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Until {
    pub(crate) seeds: u64,
    pub(crate) time: Duration,
}

/// Runs seeds from `first` on, on all cores.
pub(crate) fn many(first: u64, until: Until) -> Sum {
    let (begun, next) = (Instant::now(), AtomicU64::new(0));
    let (sender, results) = mpsc::channel();
    let mut sum = Sum::default();
    std::thread::scope(|scope| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..cores {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= until.seeds || begun.elapsed() >= until.time {
                        return;
                    }
                    // Whoever takes results does so to the end.
                    let _ = sender.send(seed(first.wrapping_add(number), false));
                }
            });
        }
        drop(sender);
        for result in results {
            sum.add(result);
        }
    });
    sum
}
