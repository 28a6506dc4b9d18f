//! A world: an engine, its disk, its clock and its clients, on one thread and by one seed.

use std::collections::BTreeMap;
use std::sync::Arc;

use annals_engine::job::{Job, JobStatus};
use annals_tasks_sdk::JobId;
use fastrand::Rng;
use tokio::sync::watch;

use crate::client::Client;
use crate::clock::SimClock;
use crate::crowd::Crowd;
use crate::disk::SimDisk;
use crate::faults::Trick;
use crate::heard::Heard;
use crate::jobs::Made;
use crate::life::{Life, Stage};
use crate::limits::brief;
use crate::profile::{Profile, Rates};
use crate::request::{On, Request, Wish};
use crate::table::Column;
use crate::tasks::Ledger;
use crate::trace::Trace;
use crate::tree::Tree;
use crate::witness::Witness;

/// When faults have stopped, so many steps must be enough for everything to end.
const CALM_STEPS: u32 = 200_000;

/// Everything that there is.
pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) rng: Rng,
    pub(crate) profile: Profile,
    pub(crate) clock: Arc<SimClock>,
    pub(crate) crowd: Crowd,
    pub(crate) disk: SimDisk,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) calm: watch::Sender<bool>,
    pub(crate) made: Vec<Made>,
    /// What is to happen to letters.
    pub(crate) tricks: Vec<Trick>,
    /// The names of idempotency keys that were used.
    pub(crate) keys: Vec<u64>,
    /// What was submitted with a key.
    pub(crate) submitted: Vec<Request>,
    pub(crate) witness: Witness,
    pub(crate) heard: Heard,
    pub(crate) clients: Vec<Client>,
    pub(crate) life: Option<Life>,
    pub(crate) trace: Trace,
    /// How often what has happened.
    pub(crate) tally: BTreeMap<&'static str, u64>,
}

/// What became of a world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told {
    /// Stands for all that happened.
    pub(crate) trace: u64,
    pub(crate) steps: u32,
    pub(crate) events: u64,
    /// In milliseconds.
    pub(crate) time: i64,
    pub(crate) tally: BTreeMap<&'static str, u64>,
    /// Events, and the codes of failures.
    pub(crate) words: BTreeMap<String, u64>,
    pub(crate) cells: BTreeMap<(usize, Column), u64>,
}

impl World {
    pub(crate) fn new(seed: u64, loud: bool) -> Self {
        // The engine draws from the generator of its thread.
        fastrand::seed(seed);
        let mut rng = Rng::with_seed(seed);
        let profile = Profile::of(&mut rng);
        let ledger = Arc::new(Ledger::default());
        let clock = SimClock::new();
        let mut trace = Trace::new(loud);
        trace.note(0, format_args!("{profile:?}"));
        Self {
            seed,
            crowd: Crowd::default(),
            disk: SimDisk::holding(Tree::default(), rng.u64(..)),
            witness: Witness::new(Arc::clone(&ledger), Arc::clone(&clock)),
            clock,
            ledger,
            calm: watch::Sender::new(false),
            made: Vec::new(),
            tricks: Vec::new(),
            keys: Vec::new(),
            submitted: Vec::new(),
            heard: Heard::default(),
            clients: (0..profile.clients).map(|_| Client::default()).collect(),
            life: None,
            trace,
            tally: BTreeMap::new(),
            profile,
            rng,
        }
    }

    pub(crate) fn count(&mut self, what: &'static str) {
        *self.tally.entry(what).or_default() += 1;
    }

    pub(crate) fn note(&mut self, what: std::fmt::Arguments<'_>) {
        self.trace.note(self.clock.passed(), what);
    }

    /// Lives through all of it: with faults, then without, up to a good end.
    pub(crate) fn run(mut self) -> Told {
        self.start();
        for _ in 0..self.profile.steps {
            self.go_wrong();
            self.step();
        }
        self.calm_down();
        self.end_well();
        let next = self.witness.next();
        let changes = self.disk.changes();
        self.note(format_args!("the end: {next:?}, {changes} changes"));
        self.drop_life();
        self.count_faults();
        Told {
            words: std::mem::take(&mut self.witness.words),
            trace: self.trace.hash(),
            steps: self.trace.steps,
            events: self.witness.events,
            time: self.clock.passed(),
            tally: self.tally,
            cells: self.heard.cells,
        }
    }

    /// Takes a step. False where nothing can happen any more.
    pub(crate) fn step(&mut self) -> bool {
        self.trace.steps += 1;
        let Some(action) = self.choose() else { return false };
        self.perform(action);
        self.after_step();
        true
    }

    /// The faults stop, and tasks behave: every job that is not held must end in its time.
    fn calm_down(&mut self) {
        self.note(format_args!("the faults stop"));
        self.profile.rates = Rates::default();
        (self.profile.slow, self.profile.shares.small_turns) = (0, 0);
        self.disk.heal();
        self.calm.send_replace(true);
        let goes_on = self.life.as_ref().is_some_and(Life::goes_on);
        if !goes_on {
            // What was lost is found by a new start.
            self.kill();
        }
        self.let_held_jobs_go();
        let limits = self.limits();
        for _ in 0..CALM_STEPS {
            if self.witness.going().next().is_none() && self.is_running() {
                return;
            }
            let more = self.step();
            let stuck = self.witness.going().next().filter(|_| !more);
            if let Some((id, known)) = stuck {
                panic!("nothing happens any more, and {id} goes on: {}", brief(&known.job));
            }
            self.keep_time(&limits);
        }
        let id = self.witness.going().next().map(|(id, _)| *id);
        panic!("{CALM_STEPS} steps without a fault, and {id:?} has not ended");
    }

    /// Somebody sets some of the jobs going that are held, or have ended without success.
    fn let_held_jobs_go(&mut self) {
        while !self.is_running() {
            assert!(self.step(), "the engine does not resume");
        }
        self.vanish(0);
        let jobs = self.witness.jobs.values().map(|known| &known.job);
        let held = jobs.filter(|job| job.status() != JobStatus::Running).map(Job::id);
        for job in held.collect::<Vec<_>>() {
            let status = self.witness.jobs[&job].job.status();
            let wish = match status {
                JobStatus::Paused => Wish::Resume,
                JobStatus::Completed | JobStatus::Running => continue,
                _ => Wish::Execute { held: false },
            };
            if self.rng.bool() {
                self.send(0, Request::Command { job, wish, on: On::default() });
                while self.clients[0].is_waiting() {
                    assert!(self.step(), "nobody answers");
                }
            }
        }
    }

    fn keep_time(&self, limits: &BTreeMap<JobId, i64>) {
        let now = self.clock.passed();
        for (id, known) in self.witness.going() {
            // One that was submitted or set going later has its time from then on.
            let Some(limit) = limits.get(id) else { continue };
            let late = now - limit;
            let children =
                known.job.children().filter_map(|task| known.job.task(task)?.open_child());
            let children = children.filter_map(|child| self.witness.jobs.get(&child.job));
            let children: Vec<_> = children.map(|known| brief(&known.job)).collect();
            assert!(
                late <= 0,
                "{id} goes on {late} ms too long: {}; its children: {children:?}",
                brief(&known.job)
            );
        }
    }

    /// What the engine counts is what the log says.
    fn check_counts(&self) {
        let count = |status| {
            let jobs = self.witness.jobs.values().map(|known| known.job.status());
            jobs.filter(|other| *other == status).count() as u64
        };
        let life = self.life.as_ref().expect("it was started");
        let stats = life.engine.stats();
        let open = (stats.open.pending, stats.open.running, stats.open.paused, stats.open.broken);
        let known = [JobStatus::Pending, JobStatus::Running, JobStatus::Paused].map(count);
        assert_eq!(open, (known[0], known[1], known[2], 0), "open jobs");
        assert_eq!(stats.next_position, self.witness.next());
    }

    pub(crate) fn is_running(&self) -> bool {
        self.life.as_ref().is_some_and(|life| matches!(life.stage, Stage::Running))
    }

    /// Asks for the list, ends the engine in good order, and audits what it leaves.
    fn end_well(&mut self) {
        self.send(0, Request::List { known: self.heard.jobs.len() });
        while self.clients[0].is_waiting() {
            assert!(self.step(), "nobody answers");
        }
        // What somebody asked for before the end may still be decided, and not be durable.
        while self.life.as_ref().is_some_and(|life| life.hands.may_commit()) {
            assert!(self.step(), "nothing commits");
        }
        self.check_counts();
        self.shut_down();
        while self.life.as_ref().is_some_and(|life| !matches!(life.stage, Stage::Ended)) {
            assert!(self.step(), "the engine does not end");
        }
        self.kill();
        let reader = self.life.as_ref().expect("it was started").engine.reader();
        let found = self.disk.quietly(|| annals_engine::log::verify(&*reader));
        assert_eq!(found.expect("the log can be read").damage, []);
    }
}
