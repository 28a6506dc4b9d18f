//! The witness: it reads the log as it grows, replays every job beside the oracle, and remembers
//! what nobody may forget.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use annals_engine::job::{
    Event, Failure, IdempotencyKey, Job, JobStatus, Part, Recorded, TaskNumber, Tombstone,
};
use annals_engine::log::{LogReader, Position, ReadRow};
use annals_tasks_sdk::JobId;

use crate::clock::SimClock;
use crate::compare;
use crate::copied;
use crate::jobs::{Made, number_of};
use crate::oracle::Oracle;
use crate::purged;
use crate::tasks::{Call, Ledger, Name, StepSeen};

/// A job as the log tells it.
pub(crate) struct Known {
    /// As its events alone make it.
    pub(crate) job: Job,
    pub(crate) history: Vec<Recorded>,
    oracle: Oracle,
}

/// Who reads the log.
pub(crate) struct Witness {
    pub(crate) jobs: BTreeMap<JobId, Known>,
    /// What each idempotency key was used for.
    keys: HashMap<IdempotencyKey, JobId>,
    next: Position,
    /// The job and the seq of each event, by its position.
    owners: Vec<(JobId, u64)>,
    ledger: Arc<Ledger>,
    clock: Arc<SimClock>,
    pub(crate) events: u64,
    /// How often which event there was, and which failure of a task.
    pub(crate) words: BTreeMap<String, u64>,
    /// What was read since somebody asked, a line for each row.
    fresh: Vec<String>,
}

impl Known {
    /// The job as it was at this seq.
    pub(crate) fn at(&self, seq: u64) -> Job {
        if seq == self.job.seq() {
            return self.job.clone();
        }
        let mut events = self.history.iter().take_while(|event| event.seq <= seq);
        let first = events.next().expect("a job has a first event");
        let mut job = Job::begin(self.job.id(), first).expect("the first event is one");
        for event in events {
            job.evolve(event).expect("each event may follow");
        }
        assert_eq!(job.seq(), seq, "the log does not go that far");
        job
    }

    /// Whether a task is done at the end of each run, and begins anew for each.
    fn is_at_end(&self, task: u32) -> bool {
        self.job.task(TaskNumber(task)).is_some_and(|task| task.part() == Part::Finally)
    }

    /// The seq of the event that says that an attempt starts.
    pub(crate) fn start_of(&self, (_, task, attempt): Name) -> Option<u64> {
        let starts = |event: &&Recorded| {
            matches!(event.event, Event::AttemptStarted { task: other, attempt: number }
                if other.0 == task && number == attempt)
        };
        self.history.iter().find(starts).map(|event| event.seq)
    }
}

impl Witness {
    pub(crate) fn new(ledger: Arc<Ledger>, clock: Arc<SimClock>) -> Self {
        let (jobs, keys, next) = (BTreeMap::new(), HashMap::new(), Position(1));
        let (words, fresh) = (BTreeMap::new(), Vec::new());
        let owners = Vec::new();
        Self { jobs, keys, next, owners, ledger, clock, events: 0, words, fresh }
    }

    /// The job whose event has this position.
    pub(crate) fn owner(&self, position: u64) -> JobId {
        self.owners[usize::try_from(position - 1).expect("small")].0
    }

    /// Whether the event at this position is the one that purged its job.
    pub(crate) fn is_purge(&self, position: u64, tombstone: &Tombstone) -> bool {
        self.owners[usize::try_from(position - 1).expect("small")].1 == tombstone.seq()
    }

    /// Up to where the log has been read.
    pub(crate) fn next(&self) -> Position {
        self.next
    }

    /// Reads what has become durable.
    pub(crate) fn follow(&mut self, reader: &dyn LogReader, made: &[Made]) {
        while self.next < reader.next_position() {
            let rows = reader.rows(self.next, 64).expect("the log can be read");
            assert!(!rows.is_empty(), "the log has no row where it says it has");
            for row in &rows {
                self.take_in(row, made);
            }
        }
    }

    /// Reads the log of an engine that has just started: all that was durable before is there, and
    /// what comes beyond may follow it.
    pub(crate) fn reread(&mut self, reader: &dyn LogReader, made: &[Made]) {
        let mut seen: BTreeMap<JobId, u64> = BTreeMap::new();
        let before = std::mem::replace(&mut self.next, Position(1));
        while self.next < before {
            let rows = reader.rows(self.next, 64).expect("the log can be read");
            assert!(!rows.is_empty(), "durable rows are lost: the log ends at {:?}", self.next);
            for row in rows.iter().take_while(|row| row.position < before) {
                assert_eq!(row.position, self.next, "a hole in the log");
                self.next = row.end();
                let known = self.jobs.get(&row.job).expect("a job that was never there");
                let seen = seen.entry(row.job).or_default();
                let from = usize::try_from(*seen).expect("small");
                assert!(known.history[from..].starts_with(&row.events), "another history");
                *seen += row.events.len() as u64;
            }
        }
        for (id, known) in &self.jobs {
            assert_eq!(seen.get(id), Some(&known.job.seq()), "job {id} has lost events");
        }
        self.follow(reader, made);
    }

    fn take_in(&mut self, row: &ReadRow, made: &[Made]) {
        assert_eq!(row.position, self.next, "a hole in the log");
        self.next = row.end();
        self.write_down(row);
        for event in &row.events {
            self.events += 1;
            self.owners.push((row.job, event.seq));
            self.take_in_key(row.job, event);
            self.take_in_output(row.job, event);
            let known = match self.jobs.entry(row.job) {
                std::collections::btree_map::Entry::Occupied(known) => {
                    let known = known.into_mut();
                    known.job.evolve(event).expect("it may follow");
                    known
                }
                std::collections::btree_map::Entry::Vacant(free) => {
                    let job = Job::begin(row.job, event).expect("it may be the first");
                    let oracle = oracle_of(row, &job, made);
                    free.insert(Known { job, history: Vec::new(), oracle })
                }
            };
            if let Event::JobPurged(_) = &event.event {
                purged::take_in(&known.job, &mut known.oracle, event);
                known.history.push(event.clone());
                continue;
            }
            took_its_time(&known.job, event, &self.ledger, self.clock.passed());
            known.oracle.take_in(event);
            known.history.push(event.clone());
            compare::after_event(&known.job, &known.oracle, event.time.as_millis());
        }
        if let Some(Event::JobForked { job: origin, seq, .. }) = origin_of(row) {
            self.check_fork(row, (*origin, *seq));
        }
        let known = self.jobs.get(&row.job).expect("it has events");
        assert_eq!(row.after.seq, known.job.seq());
        if known.oracle.purged {
            return purged::is_over(&known.job);
        }
        compare::after_command(&known.job, &known.oracle, known.job.time().as_millis());
    }

    /// A fork begins with what its origin had done, and is all there at once.
    fn check_fork(&self, row: &ReadRow, (origin, seq): (JobId, u64)) {
        let origin = self.jobs.get(&origin).expect("the origin was durable before").at(seq);
        let (fork, from) = copied::begun(row.job, &row.events);
        copied::check_begun(&origin, &from, (&fork, &row.events));
    }

    /// What was read since this was asked last.
    pub(crate) fn fresh(&mut self) -> Vec<String> {
        std::mem::take(&mut self.fresh)
    }

    fn write_down(&mut self, row: &ReadRow) {
        let mut names = Vec::new();
        for event in &row.events {
            let name = event.event.type_name();
            names.push(name);
            *self.words.entry(name.into()).or_default() += 1;
            if let Event::TaskFailed { error, .. } = &event.event {
                *self.words.entry(error.code.to_string()).or_default() += 1;
            }
        }
        let (job, position, after) = (row.job, row.position.0, row.after.seq);
        self.fresh.push(format!("row {position} of {job}, up to {after}: {}", names.join(" ")));
    }

    fn take_in_key(&mut self, job: JobId, event: &Recorded) {
        let Some(key) = event.key.as_deref() else { return };
        let before = self.keys.insert(*key, job);
        assert_eq!(before, None, "a key was used twice");
    }

    /// What is recorded as the output of an attempt is what that attempt gave.
    fn take_in_output(&self, job: JobId, event: &Recorded) {
        if let Event::TaskCompleted { task, attempt, output, .. } = &event.event
            && *attempt > 0
        {
            let gave = self.ledger.gave(&(job, task.0, *attempt));
            assert_eq!(gave.as_ref(), Some(output), "the output of {task:?}#{attempt} of {job}");
        }
    }

    /// Checks the call of a task's code: its start is durable, and it found the last checkpoint.
    pub(crate) fn check_call(&self, call: &Call) {
        let (id, task, attempt) = call.attempt;
        let known = self.jobs.get(&id).expect("a task of a job runs that is not durable");
        let at_end = known.is_at_end(task);
        let start = known.start_of(call.attempt);
        let start = start.unwrap_or_else(|| panic!("{task}#{attempt} of {id} runs unrecorded"));
        let saved = known.history.iter().take_while(|event| event.seq < start);
        let saved = saved.fold(None, |last, event| match &event.event {
            Event::CheckpointSaved { task: of, value, .. } if of.0 == task => Some(*value),
            Event::TaskEdited { task: of, reset: true, .. } if of.0 == task => None,
            // What is done at the end begins anew for each.
            Event::JobReopened { .. } if at_end => None,
            _ => last,
        });
        let restored = call.restored.as_ref();
        let restored = restored.map(|value| annals_engine::log::digest(value.as_str().as_bytes()));
        assert_eq!(restored, saved, "the checkpoint of {task}#{attempt} of {id}");
    }

    /// Checks a step: where its code begins none was recorded that the attempt knows of, and what
    /// it returns is durable.
    pub(crate) fn check_step(&self, step: &StepSeen) {
        let (id, task, attempt) = step.attempt;
        let known = self.jobs.get(&id).expect("a task of a job runs that is not durable");
        let start = known.start_of(step.attempt).expect("an attempt that runs is recorded");
        let recorded = |event: &Recorded| match &event.event {
            Event::StepRecorded { task: of, name, value, .. }
                if of.0 == task && **name == *step.name =>
            {
                Some(*value)
            }
            _ => None,
        };
        if let Some(returned) = step.returned {
            let value = annals_engine::log::digest(returned.to_string().as_bytes());
            let durable = known.history.iter().any(|event| recorded(event) == Some(value));
            assert!(durable, "{step:?} returned what is not recorded");
            return;
        }
        let before = known.history.iter().take_while(|event| event.seq < start);
        let before = before.fold(None, |last, event| match &event.event {
            Event::TaskEdited { task: of, reset: true, .. } if of.0 == task => None,
            Event::JobReopened { .. } if known.is_at_end(task) => None,
            _ => recorded(event).or(last),
        });
        assert_eq!(before, None, "step {} of {task}#{attempt} of {id} runs again", step.name);
    }

    /// Jobs that have not ended.
    pub(crate) fn open(&self) -> impl Iterator<Item = (&JobId, &Known)> {
        self.jobs.iter().filter(|(_, known)| !known.job.status().is_ended())
    }

    /// Jobs that must end by themselves.
    pub(crate) fn going(&self) -> impl Iterator<Item = (&JobId, &Known)> {
        let running = |known: &Known| known.job.status() == JobStatus::Running;
        self.open().filter(move |(_, known)| running(known) && !self.stands_still(&known.job, 0))
    }

    /// The jobs that are children.
    pub(crate) fn children(&self) -> Vec<JobId> {
        let all = self.jobs.iter();
        let some = all.filter(|(_, known)| known.job.parent().is_some());
        some.map(|(id, _)| *id).collect()
    }

    /// Whether a job waits for one that somebody holds, be it through others.
    fn stands_still(&self, job: &Job, depth: usize) -> bool {
        let held = |job: &Job| matches!(job.status(), JobStatus::Pending | JobStatus::Paused);
        let child = |task| {
            let child = job.task(task).and_then(|task| task.open_child());
            child.and_then(|child| self.jobs.get(&child.job))
        };
        let mut children = job.children().filter_map(child);
        let still = |known: &Known| held(&known.job) || self.stands_still(&known.job, depth + 1);
        // Who waits in a circle is seen by its length.
        depth > 64 || self.waits_for_held(job, depth) || children.any(still)
    }

    /// Whether the key of a job is that of one that is held.
    fn waits_for_held(&self, job: &Job, depth: usize) -> bool {
        let Some(own) = job.exclusive().filter(|own| !own.taken) else { return false };
        let holds = |other: &Job| {
            let is_its = other.exclusive().is_some_and(|its| its.taken && its.key == own.key);
            let held = other.status() == JobStatus::Paused;
            is_its && (held || self.stands_still(other, depth + 1))
        };
        self.open().any(|(_, known)| holds(&known.job))
    }
}

/// That a job is a fork, where its first row says so.
fn origin_of(row: &ReadRow) -> Option<&Event> {
    let second = row.events.iter().find(|event| event.seq == 2).map(|event| &event.event);
    second.filter(|event| matches!(event, Event::JobForked { .. }))
}

/// What a new job is replayed beside.
fn oracle_of(row: &ReadRow, job: &Job, made: &[Made]) -> Oracle {
    match (&row.events[0].event, origin_of(row)) {
        (Event::JobSubmitted(submitted), Some(_)) => Oracle::of_fork(&submitted.plan),
        _ => Oracle::new(made[number_of(&job.header().name)].draft.clone()),
    }
}

/// No attempt times out before its time is over, or that of its silence.
fn took_its_time(job: &Job, event: &Recorded, ledger: &Ledger, now: i64) {
    let Event::AttemptTimedOut { task, attempt, end } = &event.event else { return };
    let policy = job.task(*task).map(|task| &task.spec.policy).expect("a task of the job");
    let name = (job.id(), task.0, *attempt);
    let (limit, since) = match &*end.error.code {
        Failure::HEARTBEAT_TIMEOUT => (policy.heartbeat_timeout, ledger.heard(&name)),
        _ => (policy.timeout, ledger.began(&name)),
    };
    let limit = limit.unwrap_or_else(|| panic!("{name:?} has no limit: {end:?}"));
    let took = u128::try_from(now - since.expect("it has begun")).expect("time passes");
    assert!(took >= limit.as_millis(), "{name:?}: {} after {took} ms", end.error.code);
}
