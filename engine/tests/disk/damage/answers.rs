//! All that an engine answers, and whether an engine on a damaged store answers the same or says
//! what is damaged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use annals_engine::job::{Job, JobStatus, ValueDigest};
use annals_engine::log::{Damage, JobRow, LogError, PageLimit, Position, ValueKey, verify};
use annals_engine::runtime::{EngineError, JobError, Logged, SubmitError};
use annals_tasks_sdk::JobId;

use super::house::{House, STORE};
use super::stored::Keyed;

/// So many events, and so many jobs, are asked for at once.
const PAGE: usize = 40;

/// What an engine answers.
pub(crate) struct Answers {
    jobs: BTreeMap<JobId, Known>,
    events: BTreeMap<Position, (JobId, Logged)>,
}

/// What it answers about one job.
struct Known {
    row: JobRow,
    job: Arc<Job>,
    history: Vec<Logged>,
    values: Vec<Value>,
}

struct Value {
    key: ValueKey,
    digest: ValueDigest,
    bytes: Vec<u8>,
}

/// How often damage was told instead of an answer.
#[derive(Default)]
pub(crate) struct Refusals {
    count: u64,
    /// Whether a key was forgotten with the row that it was in, so that there is one job more.
    pub(crate) has_forgotten: bool,
}

impl Refusals {
    pub(crate) fn any(&self) -> bool {
        self.count > 0
    }

    /// An error must say what is damaged.
    pub(crate) fn log(&mut self, error: &LogError) {
        self.count += 1;
        let says = match error {
            LogError::Damaged(damage) => says_where(damage),
            LogError::Codec { file, .. } => file.is_some(),
            LogError::Newer { .. } => true,
            _ => false,
        };
        assert!(says, "an error does not say what is damaged: {error}");
    }

    fn engine(&mut self, error: &EngineError) {
        match error {
            EngineError::Log(error) => self.log(error),
            other => panic!("an error does not say what is damaged: {other}"),
        }
    }

    fn job(&mut self, error: &JobError) {
        match error {
            JobError::Engine(error) => self.engine(error),
            JobError::Unreadable { why, .. } => {
                self.count += 1;
                let says = why.contains(STORE) || why.contains(" position ");
                assert!(says, "an error does not say what is damaged: {error}");
            }
            other => panic!("a wrong answer: {other}"),
        }
    }
}

/// A file, or the place in a job of which rows are missing.
fn says_where(damage: &Damage) -> bool {
    damage.file.is_some() || damage.position.is_some()
}

fn list(house: &mut House) -> Result<Vec<JobRow>, EngineError> {
    let (mut all, mut before) = (Vec::<JobRow>::new(), None);
    loop {
        let engine = house.engine.clone();
        let rows = house.wait(async move { engine.jobs(before, PAGE).await })?;
        let Some(last) = rows.last() else { return Ok(all) };
        before = Some(last.job);
        all.extend(rows);
    }
}

fn snapshot(house: &mut House, job: JobId) -> Result<Arc<Job>, JobError> {
    let job = house.engine.job(job);
    house.wait(async move { job.snapshot().await.map(|snapshot| snapshot.job) })
}

fn history(house: &mut House, job: JobId) -> Result<Vec<Logged>, JobError> {
    let job = house.engine.job(job);
    house.wait(async move { job.history(0, usize::MAX).await })
}

impl Answers {
    /// The answers of an engine on a sound store.
    pub(crate) fn of(house: &mut House) -> Self {
        let rows = list(house).expect("jobs can be listed");
        let jobs = rows.into_iter().map(|row| {
            let job = snapshot(house, row.job).expect("it can be read");
            let history = history(house, row.job).expect("it can be read");
            let values = values(house, &job);
            (row.job, Known { row, job, history, values })
        });
        let jobs: BTreeMap<_, _> = jobs.collect();
        let logged = |(&id, known): (&JobId, &Known)| {
            known
                .history
                .iter()
                .map(move |logged| (logged.position, (id, logged.clone())))
                .collect::<Vec<_>>()
        };
        let events = jobs.iter().flat_map(logged).collect();
        let answers = Self { jobs, events };
        let mut refusals = Refusals::default();
        answers.check(house, &[], &mut refusals);
        assert!(!refusals.any(), "a sound store is said to be damaged");
        answers
    }

    pub(crate) fn statuses(&self) -> impl Iterator<Item = JobStatus> {
        self.jobs.values().map(|known| known.row.status)
    }

    pub(crate) fn values(&self) -> usize {
        self.jobs.values().map(|known| known.values.len()).sum()
    }

    /// Asks for everything. What is not refused must be right.
    pub(crate) fn check(&self, house: &mut House, keyed: &[Keyed], refusals: &mut Refusals) {
        let unreadable = self.check_list(house, refusals);
        for (&id, known) in &self.jobs {
            match snapshot(house, id) {
                Ok(job) => assert!(job == known.job, "job {id} is another one than it was"),
                Err(error) => refusals.job(&error),
            }
            match history(house, id) {
                Ok(found) => assert!(found == known.history, "job {id} has another history"),
                Err(error) => refusals.job(&error),
            }
            known.check_values(house, refusals);
        }
        self.check_events(house, refusals);
        match verify(&*house.engine.reader()) {
            Ok(found) => {
                for damage in &found.damage {
                    refusals.count += 1;
                    assert!(says_where(damage), "it is not said where: {damage}");
                }
                let is_sound = found.damage.is_empty();
                let all = found.events == self.events.len() as u64 && found.free == 0;
                assert!(!is_sound || all, "an audit passes over what is missing: {found:?}");
            }
            Err(error) => refusals.log(&error),
        }
        // Last, since a key that was forgotten would make a job.
        for keyed in keyed {
            check_key(house, keyed, &unreadable, refusals);
        }
    }

    /// The log is the beginning of what it is here, and nothing in it is damaged.
    pub(crate) fn check_beginning(&self, house: &mut House) {
        let engine = house.engine.clone();
        let all = PageLimit::events(usize::MAX);
        let page = house.wait(async move { engine.events(Position(0), all).await });
        let page = page.expect("the log can be read");
        assert_eq!(page.damage, []);
        let beginning = self.events.values().take(page.events.len());
        assert!(beginning.eq(&page.events), "other events than there were");
        let found = verify(&*house.engine.reader()).expect("the log can be read");
        assert_eq!((found.damage, found.events), (Vec::new(), page.events.len() as u64));
    }

    /// Gives the jobs that are told to be unreadable.
    fn check_list(&self, house: &mut House, refusals: &mut Refusals) -> BTreeSet<JobId> {
        let engine = house.engine.clone();
        let unreadable = house.wait(async move { engine.unreadable().await });
        let unreadable = unreadable.expect("the loops answer");
        for (&job, why) in &unreadable {
            refusals.job(&JobError::Unreadable { job, why: why.clone() });
        }
        let rows = match list(house) {
            Ok(rows) => rows,
            Err(error) => {
                refusals.engine(&error);
                return unreadable.into_keys().collect();
            }
        };
        let ids: Vec<_> = rows.iter().map(|row| row.job).collect();
        assert!(self.jobs.keys().rev().eq(&ids), "other jobs are listed than there are");
        for row in rows.iter().filter(|row| !unreadable.contains_key(&row.job)) {
            assert!(*row == self.jobs[&row.job].row, "job {} is listed as {row:?}", row.job);
        }
        unreadable.into_keys().collect()
    }

    fn check_events(&self, house: &mut House, refusals: &mut Refusals) {
        let (mut after, mut told, mut damage_told) = (Position(0), BTreeSet::new(), Vec::new());
        let last = self.events.last_key_value().map_or(0, |(position, _)| position.0);
        loop {
            let engine = house.engine.clone();
            let page =
                house.wait(async move { engine.events(after, PageLimit::events(PAGE)).await });
            let page = match page {
                Ok(page) => page,
                // Nobody knows how far it goes.
                Err(error) => return refusals.engine(&error),
            };
            for damage in &page.damage {
                refusals.log(&LogError::Damaged(Box::new(damage.clone())));
                let upto = damage.upto.expect("it says how far it goes");
                told.extend((after.0 + 1..=upto.0.min(last)).map(Position));
            }
            damage_told.push((after, page.damage, page.upto));
            for (job, logged) in page.events {
                let position = logged.position;
                let found = self
                    .events
                    .get(&position)
                    .is_some_and(|(of, event)| (*of, event) == (job, &logged));
                assert!(found, "another event is at position {}", position.0);
                told.insert(position);
            }
            if page.upto <= after {
                break;
            }
            after = page.upto;
        }
        let silent = self.events.keys().find(|position| !told.contains(position));
        assert_eq!(silent, None, "an event is missing, and nobody says so: {damage_told:?}");
    }
}

impl Known {
    fn check_values(&self, house: &House, refusals: &mut Refusals) {
        let (reader, id) = (house.engine.reader(), self.row.job);
        for Value { key, digest, bytes } in &self.values {
            match reader.value(id, *key, digest) {
                Ok(Some(found)) => assert!(found == *bytes, "{key} is another one"),
                // Whoever wants it says that it is missing.
                Ok(None) => refusals.count += 1,
                Err(error) => refusals.log(&error),
            }
        }
    }
}

/// The last checkpoint of each task, and the results of its steps.
fn values(house: &House, job: &Job) -> Vec<Value> {
    let reader = house.engine.reader();
    let of_task = job.tasks().flat_map(|(number, task)| {
        let key = ValueKey::Checkpoint { task: number.0 };
        let checkpoint = task.checkpoint().map(|checkpoint| (key, checkpoint.value));
        let steps = task.steps().as_slice().iter();
        let steps = steps.map(|step| (ValueKey::Step { seq: step.seq }, step.value));
        checkpoint.into_iter().chain(steps)
    });
    let values = of_task.map(|(key, digest)| {
        let bytes = reader.value(job.id(), key, &digest).expect("it can be read");
        Value { key, digest, bytes: bytes.expect("it is kept") }
    });
    values.collect()
}

fn check_key(
    house: &mut House,
    keyed: &Keyed,
    unreadable: &BTreeSet<JobId>,
    refusals: &mut Refusals,
) {
    let (engine, submission) = (house.engine.clone(), keyed.submission.clone());
    match house.wait(async move { engine.accept(submission).await }) {
        // It was in the row that is damaged; that the job is, was told.
        Ok(accepted) if !accepted.replayed && unreadable.contains(&keyed.job) => {
            refusals.has_forgotten = true;
        }
        Ok(accepted) => {
            assert!(accepted.replayed, "a key was forgotten");
            assert_eq!(accepted.job.id(), keyed.job, "a key stands for another job");
        }
        Err(SubmitError::Job(error)) => refusals.job(&error),
        Err(SubmitError::Engine(error)) => refusals.engine(&error),
        Err(other) => panic!("a wrong answer: {other}"),
    }
}
