//! What is done with a log, and what must be in it whatever went wrong meanwhile.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};

use annals_engine::job::{Event, IdempotencyKey, JobStatus, Origin, Recorded, TaskNumber};
use annals_engine::log::{
    EventLog, Head, Hour, JobRow, KeyRow, LogError, Notice, Options, Position, ReadRow, RedbLog,
    Row, ValueKey, ViewsUpdate, decode_row, digest, encode_row, verify,
};
use annals_tasks_sdk::{JobId, Timestamp};

use super::sim::SimDisk;

/// Where the store lies on the disk.
pub(crate) const STORE: &str = "/store";

/// Small, so that a short work fills several files.
const ROLL_BYTES: u64 = 6_000;
const CACHE_BYTES: usize = 1 << 20;

/// What is done, one after the other, after the log was opened.
enum Step {
    Append(Range<usize>),
    Views(ViewsUpdate),
    Idle,
    Reopen,
}

/// Everything that is done with a log.
pub(crate) struct Work {
    steps: Vec<Step>,
    rows: Vec<Row>,
    /// What each row is when it is read.
    read: Vec<ReadRow>,
    /// After how many rows an append ended. The last append is none of the steps: it shows that
    /// a log that was opened again can be written.
    ends: Vec<usize>,
    /// What the views reflect after the steps so far.
    viewed: Position,
}

/// How far a work got.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Done {
    /// How many rows were acknowledged...
    pub(crate) acked: usize,
    /// ...and how many were handed over.
    pub(crate) sent: usize,
    /// What the acknowledged views reflect.
    viewed: Position,
}

impl Work {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut heads = BTreeMap::new();
        let mut work = Self {
            viewed: Position(0),
            steps: Vec::new(),
            rows: Vec::new(),
            read: Vec::new(),
            ends: Vec::new(),
        };
        for number in 0..11 {
            let rows = work.batch(&mut random, &mut heads);
            work.steps.push(Step::Append(rows));
            match number {
                2 | 7 => {
                    let views = work.views(&heads);
                    work.steps.push(Step::Views(views));
                }
                4 | 9 => work.steps.push(Step::Idle),
                6 => work.steps.push(Step::Reopen),
                _ => {}
            }
        }
        work.steps.push(Step::Reopen);
        work.batch(&mut random, &mut heads);
        work
    }

    /// Adds the rows of one append.
    fn batch(
        &mut self,
        random: &mut fastrand::Rng,
        heads: &mut BTreeMap<JobId, Head>,
    ) -> Range<usize> {
        let begin = self.rows.len();
        let mut jobs = [1, 2, 3, 4];
        random.shuffle(&mut jobs);
        for job in &jobs[..random.usize(1..=3)] {
            let next = self.read.last().map_or(Position(1), ReadRow::end);
            let job = JobId::from_u128(*job);
            let row = row(random, job, heads.entry(job).or_default(), next);
            self.read.push(decode_row(row.position, &row.bytes).unwrap());
            self.rows.push(row);
        }
        self.ends.push(self.rows.len());
        begin..self.rows.len()
    }

    fn views(&mut self, heads: &BTreeMap<JobId, Head>) -> ViewsUpdate {
        let upto = Position(self.read.last().unwrap().end().0 - 1);
        let before = std::mem::replace(&mut self.viewed, upto);
        ViewsUpdate {
            rows: heads.iter().map(|(job, head)| view(*job, *head)).collect(),
            keys: keys(&self.read, before),
            keys_since: Hour(0),
            upto,
        }
    }

    /// Does everything, up to the first failure, and tells how far it is whenever that changes.
    pub(crate) fn run(
        &self,
        disk: &SimDisk,
        mut tell: impl FnMut(Done),
    ) -> (Done, Result<(), LogError>) {
        let mut done = Done::default();
        let result = open(disk).and_then(|log| self.steps(log, disk, &mut done, &mut tell));
        (done, result)
    }

    fn steps(
        &self,
        log: RedbLog,
        disk: &SimDisk,
        done: &mut Done,
        tell: &mut dyn FnMut(Done),
    ) -> Result<(), LogError> {
        let mut log = Box::new(log);
        for step in &self.steps {
            let result = match step {
                Step::Append(rows) => {
                    done.sent = rows.end;
                    tell(*done);
                    log.append(&self.rows[rows.clone()]).map(|()| done.acked = rows.end)
                }
                Step::Views(update) => log.checkpoint(update).map(|()| done.viewed = update.upto),
                Step::Idle => log.idle(),
                Step::Reopen => {
                    log.close()?;
                    log = Box::new(open(disk)?);
                    Ok(())
                }
            };
            if let Err(error) = result {
                self.is_dead(*log, *done);
                return Err(error);
            }
            tell(*done);
        }
        log.close()
    }

    /// Nothing is taken on a handle that failed, also when the disk would take it.
    fn is_dead(&self, mut log: RedbLog, done: Done) {
        let (rows, keys) = (Vec::new(), Vec::new());
        let nothing = ViewsUpdate { rows, keys, keys_since: Hour(0), upto: Position(0) };
        let refused = |result| matches!(result, Err(LogError::Poisoned));
        assert!(refused(log.append(&self.rows[done.sent..])), "an append after a failure");
        assert!(refused(log.checkpoint(&nothing)), "views after a failure");
        assert!(refused(log.idle()), "idle work after a failure");
        // What can be read is what was written.
        if let Ok(rows) = log.reader().rows(Position(1), usize::MAX) {
            assert!(self.read.starts_with(&rows), "wrong rows are read after a failure");
        }
        assert!(refused(Box::new(log).close()), "a good end after a failure");
    }

    /// Opens the log again, as a start does after the fault is gone: what was acknowledged is
    /// there, an append that was not is there or is not, and the log goes on.
    pub(crate) fn check(&self, disk: &SimDisk, done: Done) {
        let count = self.check_once(disk, done);
        let mut log = open(disk).unwrap();
        let next = self.ends[self.ends.partition_point(|end| *end <= count)];
        log.append(&self.rows[count..next]).unwrap();
        Box::new(log).close().unwrap();
        let done = Done { acked: next, sent: next, ..done };
        self.check_once(disk, done);
    }

    fn check_once(&self, disk: &SimDisk, done: Done) -> usize {
        let log = open_telling(disk).expect("it opens");
        let reader = log.reader();
        let rows = reader.rows(Position(1), usize::MAX).expect("it can be read");
        let count = rows.len();
        assert!(self.read.starts_with(&rows), "other rows than were written");
        assert!(count >= done.acked, "{count} rows of {} that were acknowledged", done.acked);
        assert!(count <= done.sent, "{count} rows of {} that were sent", done.sent);
        assert!(count == 0 || self.ends.contains(&count), "half an append: {count} rows");
        let next = rows.last().map_or(Position(1), ReadRow::end);
        assert_eq!(reader.next_position(), next);
        let viewed = reader.viewed();
        assert!(viewed >= done.viewed, "views up to {viewed:?} of {:?}", done.viewed);
        let mut known = Vec::new();
        reader.keys(Hour(0), &mut |key| known.push(key)).expect("the keys can be read");
        known.extend(keys(&rows, viewed));
        assert_eq!(known, keys(&rows, Position(0)), "the views and the tail know all keys");
        let found = verify(&*reader).expect("it can be verified");
        assert_eq!(found.damage, [], "damage");
        count
    }
}

/// The keys in rows that begin behind a position.
fn keys(rows: &[ReadRow], behind: Position) -> Vec<KeyRow> {
    let rows = rows.iter().filter(|row| row.position > behind);
    let events = rows.flat_map(|row| row.events.iter().map(|event| (row.job, event)));
    let key = |(job, event): (JobId, &Recorded)| {
        let key = **event.key.as_ref()?;
        Some(KeyRow { hour: Hour::of(event.time), key, job })
    };
    events.filter_map(key).collect()
}

/// Makes the next row of a job: some events, some of them with a value.
fn row(random: &mut fastrand::Rng, job: JobId, head: &mut Head, position: Position) -> Row {
    let (mut events, mut values) = (Vec::new(), Vec::new());
    for seq in (head.seq + 1..).take(random.usize(1..=3)) {
        let task = TaskNumber(random.u32(0..2));
        let checkpoint = ValueKey::Checkpoint { task: task.0 };
        let kept = values.iter().any(|(other, _)| *other == checkpoint);
        let bytes: Arc<[u8]> = vec![random.u8(..); random.usize(0..5_000)].into();
        let value = digest(&bytes);
        let event = match random.u8(0..6) {
            0 | 1 if !kept => {
                values.push((checkpoint, bytes));
                Event::CheckpointSaved { task, attempt: 1, value }
            }
            2 => {
                values.push((ValueKey::Step { seq }, bytes));
                Event::StepRecorded { task, attempt: 1, name: format!("s{seq}").into(), value }
            }
            _ => Event::AttemptStarted { task, attempt: random.u32(..) },
        };
        let time = Timestamp::from_millis(1_700_000_000_000);
        let origin = Origin::ENGINE;
        let name = format!("{seq} of {job}");
        let key = IdempotencyKey::new("work", "/", &name, &[]);
        let key = random.bool().then(|| Box::new(key));
        events.push(Recorded { seq, time, origin, leads: seq == 1, key, event });
    }
    let (mut row, hash) = encode_row(job, head, &events, values).unwrap();
    row.place(position);
    *head = Head { row: position, seq: head.seq + events.len() as u64, hash };
    row
}

fn view(job: JobId, head: Head) -> JobRow {
    JobRow {
        job,
        head,
        status: JobStatus::Running,
        intent: None,
        active: true,
        due: None,
        revision: 0,
        name: "work".into(),
        workflow: None,
        source: None,
        labels: BTreeMap::new(),
        forked_from: None,
        parent: None,
        created: Timestamp::from_millis(0),
        started: None,
        finished: None,
        total_tasks: 2,
        completed_tasks: 0,
        skipped_tasks: 0,
        error: None,
        purged: None,
    }
}

/// How the stores of these tests are opened.
pub(crate) fn options(disk: &SimDisk) -> Options {
    Options {
        roll_bytes: ROLL_BYTES,
        cache_bytes: CACHE_BYTES,
        disk: Some(Arc::new(disk.clone())),
        ..Options::default()
    }
}

pub(crate) fn open(disk: &SimDisk) -> Result<RedbLog, LogError> {
    RedbLog::open(Path::new(STORE), &options(disk))
}

/// Opens the store; nothing but damage may cost the views.
fn open_telling(disk: &SimDisk) -> Result<RedbLog, LogError> {
    let rebuilt = Arc::new(Mutex::new(None));
    let sink = Arc::clone(&rebuilt);
    let notify: Arc<dyn Fn(Notice) + Send + Sync> = Arc::new(move |notice| {
        if let Notice::ViewsRebuilt { detail, .. } = notice {
            *sink.lock().unwrap() = Some(detail);
        }
    });
    let log = RedbLog::open(Path::new(STORE), &Options { notify: Some(notify), ..options(disk) });
    assert_eq!(*rebuilt.lock().unwrap(), None, "the views were lost");
    log
}
