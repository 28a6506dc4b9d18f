//! Random walks: random plans, random commands and reports, beside the oracle.
//!
//! `ANNALS_WALK_COMMANDS` sets how many commands there are, `ANNALS_WALK_SEED` walks one seed and
//! prints it.
//!
//! Faults that were planted and caught, each by the first thousand walks and nearly all by a table
//! as well:
//!
//! - an unmet need is not counted down, a skip settles before its needs are, a removal does not
//!   relink those after it, a tolerated failure is not settled
//! - a start after a cancel, a cancel that stops nothing, a pause before the job is quiet, a
//!   drained job with nothing left that is paused instead of ended
//! - the report of an old attempt counts, so that a task succeeds twice; an execute runs what is
//!   settled again
//! - the end of a job forgets the timed set, a resume drops the back-off, a back-off ends early,
//!   a task that waits for its kind is no effect
//! - an execute does not renew the budget, an interrupted attempt uses it up, one retry too many
//! - a wait that was asked for is forgotten, or taken where the back-off is longer; an alias is
//!   retried although it is never to be
//! - a loss forgets the skip that waited, a skip outlives the attempt's end, a success does not end
//!   a row of losses, a loss or a failure that is to pause does not
//! - a cascade misses the takers of takers, a refusal lists one dependant of several, a removal
//!   ties a knot, a removal lets a task start before one whose output it takes
//! - a report counts as a revision
//! - the clock of a deadline goes on while the job is paused, or begins anew with a resume; a task
//!   starts past it; a pause that drains hides that it has passed; a reopened job has none;
//!   a cancel leaves it to end the job
//! - a fork runs again what has settled, keeps what takes the output of what runs anew, or forgets
//!   that it must come behind that
//!
//! An interrupting pause that does not harden a draining one is caught by a table alone.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use annals_engine::job::{
    Command, Context, Event, ForkFrom, Input, Job, JobStatus, LossRule, Origin, Parent, Recorded,
    Rejection, StepError, Submitted, TaskNumber, Undoing, begin, step, submit,
};
use annals_tasks_sdk::plan::Limits;
use annals_tasks_sdk::{JobId, Timestamp};
use fastrand::Rng;

use crate::answers::refused_by;
use crate::asked::Asked;
use crate::compare;
use crate::dsl::{id, replay};
use crate::edits::Edit;
use crate::forks;
use crate::oracle::Oracle;
use crate::plans::{Draft, draft};
use crate::purged;
use crate::table::{Cell, Column, TABLE, cell, row};
use crate::wanted::Change;

const COMMANDS: u64 = 100_000;
const FIRST_SEED: u64 = 1;

/// All that must have happened in a full walk.
const WORDS: &[&str] = &[
    "JobStarted",
    "PauseRequested",
    "JobPaused",
    "JobResumed",
    "CancelRequested",
    "DeadlinePassed",
    "JobEnding",
    "JobCompensating",
    "SkipRequested",
    "JobReopened",
    "JobCompleted",
    "JobFailed",
    "JobCancelled",
    "JobPurged",
    "AttemptStarted",
    "AttemptFailed",
    "AttemptTimedOut",
    "AttemptInterrupted",
    "AttemptLost",
    "TaskWaiting",
    "RetryScheduled",
    "TaskCompleted",
    "TaskFailed",
    "TaskSkipped",
    "TaskRemoved",
    "TaskInserted",
    "TaskMoved",
    "TaskEdited",
    "CheckpointSaved",
    "StepRecorded",
    "SignalReceived",
    "SignalDelivered",
    "JobForked",
    "HoldPlaced",
    "HoldLifted",
    "ChildStarted",
    "ChildPaused",
    "ChildEnded",
    "child_failed",
    "child_cancelled",
    "held_by_parent",
    "output_is_missing",
    "error",
    "timed_out",
    "lost",
    "crash_loop",
    "missing_output",
    "not_in_this_status",
    "purged",
    "which_task",
    "no_such_task",
    "task_is_live",
    "task_is_settled",
    "output_is_taken",
    "would_be_a_circle",
    "would_lose_order",
    "task_exists",
    "invalid_task",
    "other_part",
    "bad_condition",
    "nothing_to_retry",
    "compensated",
    "compensation_failed",
];

/// One job and all that watches it.
#[derive(Clone)]
pub(crate) struct Walk {
    pub(crate) rng: Rng,
    pub(crate) live: Job,
    /// The job as its events alone make it, one by one.
    replayed: Job,
    pub(crate) oracle: Oracle,
    history: Vec<Recorded>,
    pub(crate) now: i64,
    revision: u64,
    commands: u64,
    seen: BTreeSet<(usize, Column)>,
    /// How often what happened: events, failures and refusals by their words.
    tally: BTreeMap<String, u64>,
    pub(crate) mood: Mood,
    /// Whether it prints what it does.
    loud: bool,
}

/// What sort of walk it is, so that rare things happen often in some.
#[derive(Clone)]
pub(crate) struct Mood {
    reports_per_command: u8,
    pub(crate) crashes: bool,
    /// 0 to 2: from hardly ever to mostly.
    pub(crate) fails: u8,
}

impl Walk {
    fn new(seed: u64) -> Self {
        Self::of(draft(&mut Rng::with_seed(seed)), seed)
    }

    /// A walk on a job with this plan.
    pub(crate) fn of(draft: Draft, seed: u64) -> Self {
        // Apart from the generator that drew the plan.
        let mut rng = Rng::with_seed(seed ^ 0x5eed);
        let mood = Mood {
            reports_per_command: [2, 5, 20, 60][rng.usize(..4)],
            crashes: rng.u8(..6) == 0,
            fails: rng.u8(..3),
        };
        let submitted = Submitted { plan: draft.plan(), workflow: None, source: None };
        let mut events = submit(submitted, &Limits::default()).unwrap();
        if draft.linked {
            events.insert(1, linked());
        }
        let mut oracle = Oracle::new(draft);
        let cx = context(&mut rng, 0);
        let (live, history) = begin(JobId::from_u128(1), events, &cx).unwrap();
        let mut replayed = Job::begin(JobId::from_u128(1), &history[0]).unwrap();
        oracle.take_in(&history[0]);
        for event in &history[1..] {
            oracle.take_in(event);
            replayed.evolve(event).unwrap();
        }
        assert_eq!(replayed, live);
        compare::after_event(&live, &oracle, 0);
        let loud = setting("ANNALS_WALK_SEED").is_some();
        if loud {
            println!("{:#?}", oracle.draft);
        }
        Self {
            rng,
            live,
            replayed,
            oracle,
            history,
            now: 0,
            revision: 1,
            commands: 0,
            seen: BTreeSet::new(),
            tally: BTreeMap::new(),
            mood,
            loud,
        }
    }

    fn run(&mut self) {
        for _ in 0..self.rng.u32(10..160) {
            self.turn();
            // Little happens to a completed job; a few commands more will do.
            if self.live.status() == JobStatus::Completed && self.rng.u8(..6) == 0 {
                break;
            }
            if self.oracle.purged && self.rng.u8(..8) == 0 {
                break;
            }
        }
        self.must_end();
        assert_eq!(replay(&self.history), self.live, "replay of the whole equals live");
        let led = self.history.iter().filter(|event| event.leads).count() as u64;
        assert_eq!(led, self.revision, "each command that changed something leads once");
    }

    /// Lets the time pass until something is due.
    pub(crate) fn sleep(&mut self) {
        if let Some(due) = self.live.due() {
            self.now = self.now.max(due.as_millis());
        }
    }

    /// Whatever event comes, evolve answers, and a refusal leaves the job as it was.
    fn damage(&mut self) {
        let event = self.history[self.rng.usize(..self.history.len())].event.clone();
        let (seq, time) = (self.live.seq() + 1, self.live.time());
        let next = Recorded { seq, time, origin: Origin::ENGINE, leads: false, key: None, event };
        let mut job = self.live.clone();
        match job.evolve(&next) {
            Ok(()) => assert!(!job.status().is_ended() || !job.is_live()),
            Err(_) => assert_eq!(job, self.live),
        }
    }

    fn turn(&mut self) {
        match self.rng.u8(..20) {
            0 => self.now += self.rng.i64(1..4_000),
            1 => self.now += self.rng.i64(1..60_000),
            2 => self.now -= self.rng.i64(0..2_000),
            _ => {}
        }
        // Held and ended jobs wait for people; elsewhere it depends on the mood.
        let held = self.live.status() != JobStatus::Running;
        let asks = self.rng.u8(..self.mood.reports_per_command) == 0;
        let commands = asks || (held && self.rng.bool());
        let input: Input = if commands { self.command().into() } else { self.report().into() };
        let _ = self.give(input);
        if self.rng.u8(..16) == 0 {
            self.damage();
        }
        if self.rng.u8(..32) == 0 {
            self.fork();
        }
    }

    /// Forks the job as it stands from one of its tasks, or as it stood at one of its events.
    fn fork(&mut self) {
        let task = self.rng.bool().then(|| self.rng.usize(..self.oracle.tasks.len()));
        let made = if self.oracle.purged {
            let from = ForkFrom::Seq(self.live.seq());
            forks::made(&self.live, &from, Vec::new()).map(|(_, history)| history)
        } else if let Some(at) = task {
            forks::check(&self.live, &ForkFrom::Task(id(&self.oracle.name(at))))
        } else {
            let seq = self.rng.usize(..self.history.len()) + 1;
            let then = replay(&self.history[..seq]);
            forks::check(&then, &ForkFrom::Seq(then.seq()))
        };
        let word = match made {
            Ok(history) => {
                beside_the_oracle(&history);
                "JobForked"
            }
            Err(code) => code,
        };
        *self.tally.entry(word.to_owned()).or_default() += 1;
    }

    /// Gives the machine a command or a report, and checks all that must hold of what follows.
    pub(crate) fn give(&mut self, input: Input) -> Result<Vec<Recorded>, Rejection> {
        self.commands += 1;
        let column = Column::of(&self.live);
        let command = match &input {
            Input::Command(command) => Some(command),
            Input::Report(_) => None,
        };
        let finishes = self.live.ending().is_some() && !self.live.is_cut_short();
        // A job that its parent alone holds has a row of its own.
        let alone = self.live.is_held_by_parent() && !self.live.is_held_by_own();
        let is_undone = self.live.undoing().is_some_and(Undoing::is_done);
        let cell = command.map(|command| match command {
            Command::Pause { .. } if alone => Cell::Acts,
            Command::Resume if alone => Cell::Free,
            // It is refused by what was done before.
            Command::Execute { .. } if is_undone => Cell::Free,
            _ => cell(command, column, finishes),
        });
        let resumes = alone && matches!(command, Some(Command::Resume));
        self.seen.extend(command.map(|command| (row(command), column)));
        let told = format!("{input:?}");
        let is_signal = matches!(command, Some(Command::Signal { .. }));
        let edit = command.and_then(Edit::of);
        let change = command.and_then(|command| Change::of(command, &self.oracle));
        self.oracle.asked = Asked::by(&input);
        let cx = context(&mut self.rng, self.now);
        let dry = (self.rng.u8(..16) == 0).then(|| self.live.clone());
        let answer = match step(&mut self.live, input, &cx) {
            Ok(events) => Ok(events),
            Err(StepError::Rejected(rejection)) => Err(rejection),
            Err(illegal) => panic!("{told}: {illegal}"),
        };
        if resumes {
            assert_eq!(answer.as_ref().unwrap_err().code, "held_by_parent");
        }
        match (cell, &answer) {
            (Some(Cell::Acts), Ok(events)) => assert!(!events.is_empty(), "{told}"),
            (Some(Cell::Idle), Ok(events)) => assert!(events.is_empty(), "{told}"),
            (Some(Cell::No), Err(refusal)) => assert_eq!(refusal.code, refused_by(column)),
            (Some(Cell::Free) | None, _) => {}
            (cell, answer) => panic!("{told} while {column:?}: {cell:?}, but {answer:?}"),
        }
        if self.loud {
            print(&told, &answer);
        }
        if let Some(edit) = edit.filter(|_| cell == Some(Cell::Free)) {
            edit.check(&self.oracle, &answer);
        }
        if let Some(change) = change.filter(|_| cell == Some(Cell::Free)) {
            change.check(&self.oracle, &answer);
        }
        if is_signal {
            self.oracle.judges(&answer);
        }
        self.follow(&answer, cell.is_some());
        if let (Some(mut dry), Ok(events)) = (dry, &answer) {
            // A dry run is a step on a copy: taking its events in again gives the same.
            for event in events {
                dry.evolve(event).unwrap();
            }
            assert_eq!(dry, self.live);
        }
        answer
    }

    fn follow(&mut self, answer: &Result<Vec<Recorded>, Rejection>, of_command: bool) {
        let events = answer.as_deref().unwrap_or_default();
        for event in events {
            self.replayed.evolve(event).unwrap();
            if let Event::JobPurged(_) = event.event {
                purged::take_in(&self.replayed, &mut self.oracle, event);
                continue;
            }
            self.oracle.take_in(event);
            compare::after_event(&self.replayed, &self.oracle, self.now);
            if changes_needs(&event.event) {
                compare::needs(&self.replayed, &self.oracle);
            }
        }
        self.count(answer);
        self.history.extend_from_slice(events);
        self.revision += u64::from(of_command && !events.is_empty());
        assert_eq!(self.live, self.replayed, "replay equals live, and a refusal changes nothing");
        if self.oracle.purged {
            return purged::is_over(&self.live);
        }
        assert_eq!(self.live.revision(), self.revision);
        compare::after_command(&self.live, &self.oracle, self.now);
    }

    fn count(&mut self, answer: &Result<Vec<Recorded>, Rejection>) {
        let mut count = |word: &str| *self.tally.entry(word.to_owned()).or_default() += 1;
        match answer {
            Ok(events) => events.iter().for_each(|event| {
                count(event.event.type_name());
                if let Event::TaskFailed { error, .. } | Event::JobFailed { error } = &event.event {
                    count(&error.code);
                }
            }),
            Err(refusal) => count(refusal.code),
        }
    }
}

/// Replays a fork beside an oracle of its own.
fn beside_the_oracle(history: &[Recorded]) {
    let Event::JobSubmitted(submitted) = &history[0].event else { panic!() };
    let mut oracle = Oracle::of_fork(&submitted.plan);
    let mut job = Job::begin(JobId::from_u128(1), &history[0]).unwrap();
    oracle.take_in(&history[0]);
    for event in &history[1..] {
        job.evolve(event).unwrap();
        oracle.take_in(event);
        compare::after_event(&job, &oracle, event.time.as_millis());
    }
    compare::after_command(&job, &oracle, job.time().as_millis());
}

fn linked() -> Event {
    let (job, task) = (JobId::from_u128(2), TaskNumber(1));
    Event::JobLinked(Box::new(Parent { job, task, task_id: id("t0"), depth: 1 }))
}

fn changes_needs(event: &Event) -> bool {
    matches!(
        event,
        Event::TaskRemoved { .. }
            | Event::TaskInserted { .. }
            | Event::TaskMoved { .. }
            | Event::TaskEdited { .. }
            | Event::JobCompensating { .. }
    )
}

fn print(command: &str, answer: &Result<Vec<Recorded>, Rejection>) {
    match answer {
        Ok(events) => {
            println!("{command}");
            for event in events {
                println!("    {} {:?}", event.seq, event.event);
            }
        }
        Err(refusal) => println!("{command}\n    refused: {refusal}"),
    }
}

fn context(rng: &mut Rng, now: i64) -> Context {
    let (now, random) = (Timestamp::from_millis(now), rng.f64());
    let losses = LossRule::default();
    Context { origin: Origin::actor("walk"), key: None, now, random, losses, instances: 10_000 }
}

pub(crate) fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect(name))
}

/// Walks one seed; on a failure it says how to see it again.
fn walk(seed: u64) -> Walk {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut walk = Walk::new(seed);
        walk.run();
        walk
    }));
    outcome.unwrap_or_else(|panic| {
        eprintln!("ANNALS_WALK_SEED={seed} cargo test -p annals-engine --test machine walk");
        resume_unwind(panic)
    })
}

#[test]
fn random_walks_obey_the_laws() {
    if let Some(seed) = setting("ANNALS_WALK_SEED") {
        let walk = walk(seed);
        return println!("commands: {} tried, 0 failed", walk.commands);
    }
    let goal = setting("ANNALS_WALK_COMMANDS").unwrap_or(COMMANDS);
    let began = std::time::Instant::now();
    let (mut commands, mut events, mut walks) = (0, 0, 0);
    let (mut seen, mut tally) = (BTreeSet::new(), BTreeMap::new());
    for seed in FIRST_SEED.. {
        let walk = walk(seed);
        (commands, events) = (commands + walk.commands, events + walk.history.len());
        seen.extend(walk.seen);
        for (word, times) in walk.tally {
            *tally.entry(word).or_insert(0) += times;
        }
        walks += 1;
        if commands >= goal {
            break;
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    println!("{walks} walks, {commands} commands, {events} events in {seconds:.1} s");
    println!("{tally:?}");
    println!("commands: {commands} tried, 0 failed");
    for word in WORDS {
        assert!(tally.contains_key(*word), "{word} never happened");
    }
    for (row, (command, _)) in TABLE.iter().enumerate() {
        for column in Column::ALL {
            assert!(seen.contains(&(row, column)), "{command} while {column:?} never happened");
        }
    }
}

#[test]
fn the_same_seed_is_the_same_walk() {
    for seed in FIRST_SEED..=50 {
        let (one, two) = (walk(seed), walk(seed));
        assert_eq!(one.history, two.history, "seed {seed}");
        assert_eq!(one.live, two.live);
    }
}
