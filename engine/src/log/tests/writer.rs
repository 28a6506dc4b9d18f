//! Group commit: order, gathering, and the end after a failure.

use std::io::ErrorKind;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::{Job, small, viewing};
use crate::job::{Event, JobStatus};
use crate::log::{
    Committer, Done, Durable, EventLog, Fault, LogError, LogReader, MemoryDisk, Position, Row,
    Stopped, Ticket, Viewer, ViewsLog, ViewsUpdate, Worked, Writer, encode_row,
};

type Answers = Arc<Mutex<Vec<(usize, Option<Ticket>)>>>;

fn answers() -> (Answers, Done) {
    let answers = Answers::default();
    let sink = answers.clone();
    let done = move |source, durable| {
        let ticket = match durable {
            Durable::UpTo(ticket) => Some(ticket),
            Durable::Failed(_) => None,
        };
        sink.lock().unwrap().push((source, ticket));
    };
    (answers, Arc::new(done))
}

fn by_hand(disk: &MemoryDisk) -> (Writer, Committer, Viewer, Answers) {
    let (answers, done) = answers();
    let (writer, committer, viewer) = Writer::by_hand(Box::new(disk.open()), done);
    (writer, committer, viewer, answers)
}

fn take(answers: &Answers) -> Vec<(usize, Option<Ticket>)> {
    std::mem::take(&mut answers.lock().unwrap())
}

/// A row without a position, as the engine makes them.
fn row(job: &Job, events: u32) -> Row {
    let events: Vec<Event> = (0..events).map(small).collect();
    encode_row(job.id, &job.head, &job.record(&events), Vec::new()).unwrap().0
}

#[test]
fn what_gathered_becomes_one_commit_in_order() {
    let disk = MemoryDisk::new();
    let (writer, mut committer, _, answers) = by_hand(&disk);
    assert_eq!(committer.commit_next(), Worked::Nothing);
    let mut rows = vec![row(&Job::new(1), 2), row(&Job::new(2), 1)];
    let one = writer.submit(4, &mut rows).unwrap();
    assert_eq!(rows.iter().map(|row| row.position.0).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(writer.next_position(), Position(4));
    let two = writer.submit(9, &mut [row(&Job::new(3), 1)]).unwrap();
    let three = writer.submit(4, &mut [row(&Job::new(4), 1)]).unwrap();
    assert!(one < two && two < three);
    assert_eq!(writer.stats().waiting, 3);
    assert_eq!(committer.commit_next(), Worked::Committed);
    assert_eq!(take(&answers), [(4, Some(three)), (9, Some(two))]);
    assert_eq!(committer.commit_next(), Worked::Nothing);
    let jobs: Vec<_> =
        disk.rows(Position(1), 9).unwrap().iter().map(|row| row.job.as_u128()).collect();
    assert_eq!(jobs, [1, 2, 3, 4]);
    let stats = writer.stats();
    assert_eq!((stats.commits, stats.events, stats.waiting), (1, 5, 0));
}

#[test]
fn a_commit_has_a_limit_and_parts_no_submission() {
    let disk = MemoryDisk::new();
    let (writer, mut committer, _, answers) = by_hand(&disk);
    let submit = |id, events| writer.submit(0, &mut [row(&Job::new(id), events)]).unwrap();
    let tickets = [submit(1, 4_000), submit(2, 96), submit(3, 1), submit(4, 9_000), submit(5, 1)];
    let mut seen = Vec::new();
    while committer.commit_next() == Worked::Committed {
        seen.extend(take(&answers).iter().filter_map(|(_, ticket)| *ticket));
    }
    assert_eq!(seen, [tickets[1], tickets[2], tickets[3], tickets[4]]);
}

#[test]
fn a_checkpoint_waits_for_the_rows_before_it() {
    let disk = MemoryDisk::new();
    let (writer, mut committer, viewer, _) = by_hand(&disk);
    // The second one is too much for the commit of the first.
    writer.submit(0, &mut [row(&Job::new(1), 4_000)]).unwrap();
    writer.submit(0, &mut [row(&Job::new(2), 97)]).unwrap();
    writer.checkpoint(viewing(&[Job::new(1).view(JobStatus::Running)], Position(4_097))).unwrap();
    writer.submit(0, &mut [row(&Job::new(3), 4_000)]).unwrap();
    assert_eq!(writer.stats().waiting, 4);
    let mut seen = Vec::new();
    while viewer.view_next() || committer.commit_next() == Worked::Committed {
        seen.push((disk.next_position().0, disk.viewed().0, writer.has_viewed()));
    }
    let expected =
        [(4_001, 0, false), (4_098, 0, false), (4_098, 4_097, true), (8_098, 4_097, true)];
    assert_eq!(seen, expected);
    assert_eq!((writer.stats().commits, writer.stats().waiting), (3, 0));
}

/// A log whose views are written when the test lets them, and as it wants.
struct Held {
    log: Box<dyn EventLog>,
    views: Arc<HeldViews>,
    /// Hears of an append, which finds the log poisoned by what happens to the views.
    poisoned: Option<Sender<()>>,
}

struct HeldViews {
    views: Arc<dyn ViewsLog>,
    begun: Mutex<Sender<()>>,
    go: Mutex<Receiver<Then>>,
}

/// What becomes of a checkpoint that was held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Written,
    Failed,
    Panicked,
}

impl ViewsLog for HeldViews {
    fn checkpoint(&self, update: &ViewsUpdate) -> Result<(), LogError> {
        self.begun.lock().unwrap().send(()).unwrap();
        let then = self.go.lock().unwrap().recv();
        match then.expect("the test says what is to become of it") {
            Then::Written => self.views.checkpoint(update),
            Then::Failed => {
                Err(LogError::Io { path: "views".into(), source: ErrorKind::Other.into() })
            }
            Then::Panicked => panic!("the views panic"),
        }
    }
}

impl EventLog for Held {
    fn append(&mut self, rows: &[Row]) -> Result<(), LogError> {
        match &self.poisoned {
            // The first row is what the checkpoint waits for.
            Some(tell) if rows[0].position > Position(1) => {
                tell.send(()).unwrap();
                Err(LogError::Poisoned)
            }
            _ => self.log.append(rows),
        }
    }

    fn views(&self) -> Arc<dyn ViewsLog> {
        self.views.clone()
    }

    fn idle(&mut self) -> Result<(), LogError> {
        self.log.idle()
    }

    fn reader(&self) -> Arc<dyn LogReader> {
        self.log.reader()
    }

    fn close(self: Box<Self>) -> Result<(), LogError> {
        self.log.close()
    }
}

#[test]
fn no_commit_waits_for_the_views_but_the_end_does() {
    for then in [Then::Written, Then::Failed, Then::Panicked] {
        let disk = MemoryDisk::new();
        let log: Box<dyn EventLog> = Box::new(disk.open());
        let ((begun, has_begun), (let_go, go)) = (channel(), channel());
        let views = HeldViews { views: log.views(), begun: Mutex::new(begun), go: Mutex::new(go) };
        let (answers, done) = answers();
        let writer =
            Writer::start(Box::new(Held { log, views: Arc::new(views), poisoned: None }), done)
                .unwrap();
        let submit = |id| writer.submit(0, &mut [row(&Job::new(id), 1)]).unwrap();
        let first = submit(1);
        writer.checkpoint(viewing(&[], Position(1))).unwrap();
        has_begun.recv().unwrap();
        let second = submit(2);
        let durable = || answers.lock().unwrap().last().copied();
        until(|| durable() == Some((0, Some(second))));
        assert!(first < second && !writer.has_viewed());
        let closing = writer.clone();
        let closing = std::thread::spawn(move || closing.close());
        until(|| writer.health().is_err());
        let_go.send(then).unwrap();
        let closed = closing.join().unwrap();
        assert_eq!(closed.is_ok(), then == Then::Written, "{closed:?}");
        assert_eq!(disk.viewed(), Position(u64::from(then == Then::Written)));
        // Who has submitted something hears of a failure.
        let failed = durable() == Some((0, None));
        assert_eq!(failed, then != Then::Written);
    }
}

#[test]
fn what_the_views_failed_by_is_told_where_it_meets_a_commit() {
    let disk = MemoryDisk::new();
    let log: Box<dyn EventLog> = Box::new(disk.open());
    let ((begun, has_begun), (let_go, go)) = (channel(), channel());
    let (tell, is_poisoned) = channel();
    let views = HeldViews { views: log.views(), begun: Mutex::new(begun), go: Mutex::new(go) };
    let held = Held { log, views: Arc::new(views), poisoned: Some(tell) };
    let (_, done) = answers();
    let writer = Writer::start(Box::new(held), done).unwrap();
    let submit = |id| writer.submit(0, &mut [row(&Job::new(id), 1)]).unwrap();
    submit(1);
    writer.checkpoint(viewing(&[], Position(1))).unwrap();
    has_begun.recv().unwrap();
    submit(2);
    is_poisoned.recv().unwrap();
    let_go.send(Then::Failed).unwrap();
    until(|| writer.health().is_err());
    let Err(Stopped(Some(error))) = writer.health() else { panic!("it says why") };
    assert!(matches!(&*error, LogError::Io { .. }), "{error}");
}

#[test]
fn a_failure_ends_everything() {
    for fault in [Fault::Before, Fault::After] {
        let disk = MemoryDisk::new();
        let (writer, mut committer, _, answers) = by_hand(&disk);
        disk.fail_append(2, fault);
        writer.submit(0, &mut [row(&Job::new(1), 1)]).unwrap();
        assert_eq!(committer.commit_next(), Worked::Committed);
        take(&answers);
        writer.submit(1, &mut [row(&Job::new(2), 5_000)]).unwrap();
        // This one waits for the next commit, which never comes.
        writer.submit(2, &mut [row(&Job::new(3), 1)]).unwrap();
        assert_eq!(committer.commit_next(), Worked::Ended);
        assert_eq!(take(&answers), [(0, None), (1, None), (2, None)]);
        let refused = writer.submit(1, &mut [row(&Job::new(4), 1)]).unwrap_err();
        assert!(refused.to_string().ends_with("memory: a fault was injected"), "{refused}");
        assert!(writer.checkpoint(viewing(&[], Position(1))).is_err());
        assert_eq!(committer.commit_next(), Worked::Ended);
        assert!(writer.close().is_err());
        assert_eq!(take(&answers), []);
    }
}

#[test]
fn closing_writes_what_waits() {
    let disk = MemoryDisk::new();
    let (answers, done) = answers();
    let writer = Writer::start(Box::new(disk.open()), done).unwrap();
    for id in 1..=100 {
        writer.submit(0, &mut [row(&Job::new(id), 1)]).unwrap();
    }
    writer.close().unwrap();
    writer.close().unwrap();
    assert_eq!(disk.rows(Position(1), 1_000).unwrap().len(), 100);
    assert_eq!(take(&answers).last(), Some(&(0, Some(Ticket(100)))));
    assert!(matches!(writer.submit(0, &mut [row(&Job::new(9), 1)]), Err(Stopped(None))));
}

#[test]
fn the_last_writer_that_is_dropped_ends_the_thread() {
    let disk = MemoryDisk::new();
    let (answers, done) = answers();
    let writer = Writer::start(Box::new(disk.open()), done).unwrap();
    writer.submit(0, &mut [row(&Job::new(1), 1)]).unwrap();
    drop(writer);
    // The thread holds the only other reference to the list of answers until it ends.
    until(|| Arc::strong_count(&answers) == 1);
    assert_eq!(take(&answers), [(0, Some(Ticket(1)))]);
}

#[test]
fn threads_that_submit_at_once_keep_their_order() {
    let disk = MemoryDisk::new();
    let (_, done) = answers();
    let writer = Writer::start(Box::new(disk.open()), done).unwrap();
    std::thread::scope(|scope| {
        for source in 0..4 {
            let writer = writer.clone();
            scope.spawn(move || {
                let mut job = Job::new(source + 1);
                for _ in 0..250 {
                    let mut rows = [row(&job, 1)];
                    let mut next = job;
                    next.row(0, &[small(0)]);
                    writer.submit(usize::try_from(source).unwrap(), &mut rows).unwrap();
                    job.head = crate::log::Head { row: rows[0].position, ..next.head };
                }
            });
        }
    });
    writer.close().unwrap();
    let found = crate::log::verify(&disk).unwrap();
    assert_eq!((found.rows, found.jobs, found.free, found.damage), (1_000, 4, 0, Vec::new()));
    assert_eq!(writer.stats().events, 1_000);
}

fn until(holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(20), "it never came to be");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A log that counts its idle work.
struct Counted(Box<dyn EventLog>, Arc<Mutex<u32>>);

impl EventLog for Counted {
    fn append(&mut self, rows: &[Row]) -> Result<(), LogError> {
        self.0.append(rows)
    }

    fn views(&self) -> Arc<dyn ViewsLog> {
        self.0.views()
    }

    fn idle(&mut self) -> Result<(), LogError> {
        *self.1.lock().unwrap() += 1;
        self.0.idle()
    }

    fn reader(&self) -> Arc<dyn LogReader> {
        self.0.reader()
    }

    fn close(self: Box<Self>) -> Result<(), LogError> {
        self.0.close()
    }
}

#[test]
fn idle_work_is_done_once_after_the_last_commit() {
    let count = Arc::new(Mutex::new(0));
    let log = Counted(Box::new(MemoryDisk::new().open()), count.clone());
    let writer = Writer::start(Box::new(log), answers().1).unwrap();
    for id in 1..=3 {
        writer.submit(0, &mut [row(&Job::new(id), 1)]).unwrap();
    }
    until(|| *count.lock().unwrap() == 1);
    writer.submit(0, &mut [row(&Job::new(4), 1)]).unwrap();
    until(|| *count.lock().unwrap() == 2);
    writer.close().unwrap();
    assert_eq!(*count.lock().unwrap(), 2);
}
