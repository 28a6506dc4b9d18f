//! What must hold of the loops after every turn: no wake-up is lost, no slot is, and what a loop
//! takes for durable is so.

use std::collections::{BTreeMap, BTreeSet};

use annals_engine::job::{Effect, Job, LossRule, Waiting};
use annals_engine::runtime::by_hand::{AttemptSeen, Hands, JobSeen, Letter, LoopSeen};
use annals_tasks_sdk::{JobId, Timestamp};

use crate::witness::Witness;

/// What the simulation has taken from an engine since it was started.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Lost {
    /// Messages that will never come.
    pub(crate) letters: u64,
}

/// What the loops are held against.
pub(crate) struct Around<'a> {
    pub(crate) witness: &'a Witness,
    /// How many attempts there are.
    pub(crate) attempts: usize,
    pub(crate) lost: Lost,
    /// Whether the engine has all kinds.
    pub(crate) all_kinds: bool,
    /// Whether it has been told to end.
    pub(crate) ends: bool,
}

/// Checks all loops.
pub(crate) fn check(hands: &mut Hands, around: &Around<'_>) {
    let Around { witness, attempts, lost, .. } = *around;
    let homes = 0..hands.loops();
    let mail: Vec<Vec<Letter>> = homes.clone().map(|home| hands.mail(home).collect()).collect();
    let seen: Vec<LoopSeen> = homes.map(|home| hands.look_at(home)).collect();
    let mut at_hand = BTreeSet::new();
    for each in &seen {
        assert_eq!(each.broken, [], "a job was given up");
        for job in &each.jobs {
            assert!(at_hand.insert(job.job.id()), "two loops have one job");
            follows_the_log(job, witness);
        }
        at_hand.extend(each.parked.iter().map(|(id, _)| *id));
        at_hand.extend(&each.awaited);
    }
    one_at_a_time(witness.open().map(|(_, known)| &known.job));
    one_at_a_time(seen.iter().flat_map(|each| &each.jobs).map(|seen| &*seen.job));
    if seen.iter().any(|each| each.over) {
        return;
    }
    if let Some((id, _)) = witness.open().find(|(id, _)| !at_hand.contains(id)) {
        panic!("nobody has job {id}, which has not ended");
    }
    if lost.letters > 0 {
        return;
    }
    for (each, mail) in seen.iter().zip(&mail).filter(|(each, _)| each.dispatching) {
        for job in &each.jobs {
            Levels { job, each, mail, around }.check();
        }
        assert_eq!(each.without_reason, [], "the engine's own lookout sees it, too");
        for (id, due) in &each.parked {
            will_be_woken(*id, *due, each, witness);
        }
    }
    let started = |job: &JobSeen| job.running.iter().filter(|live| live.started).count();
    let started: usize = seen.iter().flat_map(|each| &each.jobs).map(started).sum();
    let reports = mail.iter().flatten().filter(|letter| **letter == Letter::Report).count();
    assert!(started <= attempts + reports, "{started} attempts are thought alive: {attempts} are");
    slots(hands, &seen, &mail);
}

/// No two jobs have begun that share an exclusive key.
fn one_at_a_time<'a>(jobs: impl Iterator<Item = &'a Job>) {
    let mut holders = BTreeMap::new();
    for job in jobs {
        let Some(own) = job.exclusive().filter(|own| own.taken) else { continue };
        let other = holders.insert(&own.key, job.id());
        assert_eq!(other, None, "another job has begun beside {} with key {}", job.id(), own.key);
    }
}

/// What a loop knows of a job agrees with the log.
fn follows_the_log(seen: &JobSeen, witness: &Witness) {
    let id = seen.job.id();
    let Some(known) = witness.jobs.get(&id) else {
        assert_eq!(seen.durable_seq, 0, "job {id} is taken for durable");
        return;
    };
    let durable = known.job.seq();
    assert!(seen.durable_seq <= durable, "more of job {id} is taken for durable than is");
    assert!(seen.job.seq() >= durable, "the log knows more of job {id} than its loop");
    if seen.job.seq() == durable {
        assert_eq!(*seen.job, known.job, "replay equals live");
    }
}

/// A job of a loop that has it go on.
struct Levels<'a> {
    job: &'a JobSeen,
    each: &'a LoopSeen,
    mail: &'a [Letter],
    around: &'a Around<'a>,
}

impl Levels<'_> {
    /// What is to be done for the job is being done.
    fn check(&self) {
        let JobSeen { job, running, wanting, due, .. } = self.job;
        assert!(self.job.recovered, "job {} goes on unrecovered", job.id());
        let mut wake = None;
        let mut run = 0;
        for effect in job.effects(self.each.now, LossRule::default()) {
            match effect {
                Effect::Run { task, attempt } => {
                    let mut of = running.iter().filter(|live| live.task == task);
                    let live = of.next().unwrap_or_else(|| self.fault(effect));
                    assert!(of.next().is_none() && live.attempt == attempt, "{running:?}");
                    run += 1;
                    self.comes_to_life(*live, effect);
                }
                Effect::Stop { task, .. } => {
                    let live = running.iter().find(|live| live.task == task);
                    let told = live.is_some_and(|live| live.told_to_stop);
                    let _ = told || self.waits_for_commit() || self.fault(effect);
                }
                Effect::Want { task, .. } => {
                    let wants = wanting.iter().any(|want| want.task == task);
                    let lacks = || {
                        let task = job.task(task).expect("it wants something");
                        !self.around.all_kinds && task.waiting() == Some(Waiting::Kind)
                    };
                    let made = self.job.preparing.contains(&task);
                    let _ = wants || made || self.job.in_line || lacks() || self.fault(effect);
                }
                Effect::Wake { at } => wake = Some(at),
                other => panic!("{other:?}"),
            }
        }
        let told = !self.job.given || self.mail.contains(&Letter::Turn);
        assert!(told, "nobody tells job {} of its key: {:?}", job.id(), self.job);
        self.stops_nothing_else();
        // The report of an attempt that is over may be on its way.
        assert!(running.len() >= run);
        if *due != wake {
            assert_eq!(*due, self.wake_of_others(), "the time at which job {} is due", job.id());
        }
    }

    /// When the job must be woken for tasks that stand in no queue. One that does, and whose time
    /// lies ahead because the clock was set back, is looked at when it is granted a slot.
    fn wake_of_others(&self) -> Option<Timestamp> {
        let queues = |task| self.job.wanting.iter().any(|want| want.task == task);
        let times = self.job.job.tasks().filter_map(|(number, task)| match task.waiting() {
            Some(Waiting::Retry { until }) if until > self.each.now && !queues(number) => {
                Some(until)
            }
            Some(Waiting::Timer { until }) => Some(until),
            Some(waits @ Waiting::Signal { .. }) => waits.until(),
            _ => None,
        });
        times.chain(self.job.job.deadline_at()).min()
    }

    /// No attempt is told to stop that nobody wants to.
    fn stops_nothing_else(&self) {
        for live in self.job.running.iter().filter(|live| live.told_to_stop) {
            let task = self.job.job.task(live.task);
            let timed = task.is_some_and(|task| {
                let policy = &task.spec.policy;
                policy.timeout.is_some() || policy.heartbeat_timeout.is_some()
            });
            let attempt = task.and_then(|task| task.attempts().get(live.attempt as usize - 1));
            let ordered = attempt.is_some_and(|attempt| attempt.stop.is_some());
            assert!(timed || ordered || self.around.ends, "{live:?} is told to stop");
        }
    }

    fn comes_to_life(&self, live: AttemptSeen, effect: Effect) {
        let _ = live.started || self.waits_for_commit() || self.fault(effect);
    }

    /// Whether a commit will be heard of.
    fn waits_for_commit(&self) -> bool {
        self.each.waits || self.mail.contains(&Letter::Durable)
    }

    fn fault<T>(&self, effect: Effect) -> T {
        panic!("a wake-up is lost: {effect:?} of job {}, {:?}", self.job.job.id(), self.job);
    }
}

/// A job that is not loaded does not need to be, or will be when it is due.
fn will_be_woken(id: JobId, due: Option<Timestamp>, each: &LoopSeen, witness: &Witness) {
    let known = witness.jobs.get(&id).expect("a job that is parked is durable");
    let job = &known.job;
    let awaited = each.awaited.contains(&id);
    assert!(!job.is_active() || awaited, "job {id} is parked and has something to do");
    if job.due().is_some() {
        // One that could not be read is tried again later.
        assert!(due.is_some() || awaited, "nobody will wake job {id}");
    }
}

/// Every slot that is taken is held by somebody.
fn slots(hands: &Hands, seen: &[LoopSeen], mail: &[Vec<Letter>]) {
    let jobs = || seen.iter().flat_map(|each| &each.jobs);
    let running: usize = jobs().flat_map(|job| &job.running).map(|live| live.slots).sum();
    let wants = || jobs().flat_map(|job| &job.wanting);
    let held: usize = wants().map(|want| want.slots).sum();
    let queued = wants().filter(|want| want.queues).count();
    let granted: usize = seen.iter().map(|each| each.granted).sum();
    let granted =
        granted + mail.iter().flatten().filter(|letter| **letter == Letter::Granted).count();
    let (in_use, waiting) = hands.slots();
    assert_eq!(in_use, (running + held + granted) as u64, "slots that are taken");
    let queued = queued as u64;
    // What was granted may be given back, if nobody wants it any more when that is heard of.
    let places = queued.saturating_sub(granted as u64)..=queued;
    assert!(places.contains(&waiting), "{waiting} places in queues, {places:?} are known");
}
