//! One operation of the disk fails, or every one from there on, in all ways in which disks do.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use annals_engine::log::{
    EventLog, Hour, JobRow, LogError, Options, Position, RedbLog, ViewsUpdate,
};

use super::sim::{EDQUOT, EIO, ENOSPC, Fault, SimDisk, What};
use super::work::{Done, STORE, Work, open, options};
use super::{setting, tree::Tree};

const ERRORS: [i32; 3] = [ENOSPC, EDQUOT, EIO];

/// Runs cases, and tells of all that fail.
pub(crate) struct Tried {
    what: &'static str,
    cases: u64,
    failed: Vec<String>,
}

impl Tried {
    pub(crate) fn new(what: &'static str) -> Self {
        Self { what, cases: 0, failed: Vec::new() }
    }

    pub(crate) fn case(&mut self, name: impl FnOnce() -> String, run: impl FnOnce()) {
        self.cases += 1;
        // No panic may come out of the log or the engine, whatever the disk does.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
            self.failed.push(format!("{}: {text}", name()));
        }
    }

    pub(crate) fn cases(&self) -> u64 {
        self.cases
    }

    /// The last line of the test.
    pub(crate) fn end(self) {
        println!("{}: {} tried, {} failed", self.what, self.cases, self.failed.len());
        let first = &self.failed[..self.failed.len().min(20)];
        assert!(first.is_empty(), "{}", first.join("\n"));
    }
}

/// The faults at the operation number `at`. By default each way of failing is tried once, with
/// one of the errors; else with all of them.
pub(crate) fn faults(what: What, at: u64, all: bool) -> impl Iterator<Item = Fault> {
    let ways = [(false, false), (false, true), (true, false), (true, true)];
    let ways = ways.into_iter().zip(0_u64..);
    ways.flat_map(move |((lasts, half), way)| {
        let one = usize::try_from((at + way) % 3).unwrap_or(0);
        let errors = if all { &ERRORS[..] } else { &ERRORS[one..=one] };
        errors.iter().map(move |errno| Fault { what, at, errno: *errno, lasts, half })
    })
}

/// Whether an error says what is wrong with which file.
pub(crate) fn told(error: &LogError, errno: i32, store: &Path) {
    let path = match error {
        LogError::Full { path, .. } if errno != EIO => path,
        LogError::Io { path, .. } if errno == EIO => path,
        other => panic!("error {errno} is told as: {other}"),
    };
    // Also the name of the store must be made durable, in the folder above it.
    let near = path.starts_with(store) || store.parent() == Some(path);
    assert!(near, "{error}");
}

fn rounds() -> (bool, std::ops::Range<u64>) {
    let rounds = setting("ANNALS_IOERR_ROUNDS");
    (rounds.is_some(), 0..rounds.unwrap_or(1))
}

#[test]
fn an_error_of_any_operation_loses_nothing() {
    let mut tried = Tried::new("faults under a log");
    let (all, seeds) = rounds();
    for seed in seeds {
        let work = Work::new(seed);
        let disk = SimDisk::default();
        let (done, result) = work.run(&disk, |_| {});
        result.expect("nothing fails");
        let (changes, reads) = disk.counts();
        work.check(&disk, done);
        let changes = (1..=changes).flat_map(|at| faults(What::Changes, at, all));
        let reads = (1..=reads).flat_map(|at| faults(What::Reads, at, all));
        for fault in changes.chain(reads.filter(|fault| !fault.half)) {
            tried.case(|| format!("seed {seed}, {fault:?}"), || strike(&work, fault));
        }
    }
    tried.end();
}

fn strike(work: &Work, fault: Fault) {
    let disk = SimDisk::default();
    disk.fail(Some(fault));
    let (done, result) = work.run(&disk, |_| {});
    assert!(disk.struck() > 0, "the fault was not met");
    match result {
        Err(error) => told(&error, fault.errno, Path::new(STORE)),
        Ok(()) => panic!("nobody heard of the fault"),
    }
    disk.fail(None);
    work.check(&disk, done);
}

#[test]
fn an_error_while_a_store_is_opened_and_read_is_told_and_harms_nothing() {
    let mut tried = Tried::new("faults while a store is opened and read");
    let (all, seeds) = rounds();
    for seed in seeds {
        let work = Work::new(seed);
        for (closed, (tree, done)) in [("closed", closed(&work)), ("crashed", crashed(&work))] {
            let disk = SimDisk::holding(tree.clone());
            use_once(&disk).expect("nothing fails");
            let (changes, reads) = disk.counts();
            let changes = (1..=changes).flat_map(|at| faults(What::Changes, at, all));
            let reads = (1..=reads).flat_map(|at| faults(What::Reads, at, all));
            for fault in changes.chain(reads.filter(|fault| !fault.half)) {
                let name = || format!("seed {seed}, {closed}, {fault:?}");
                tried.case(name, || strike_opening(&work, &tree, done, fault));
            }
        }
    }
    tried.end();
}

fn closed(work: &Work) -> (Tree, Done) {
    let disk = SimDisk::default();
    let (done, _) = work.run(&disk, |_| {});
    (disk.tree(), done)
}

/// What lies on the disk when the process dies late in the work.
fn crashed(work: &Work) -> (Tree, Done) {
    let disk = SimDisk::default();
    let mut last = None;
    work.run(&disk, |done| {
        if done.acked < done.sent {
            last = Some((disk.tree(), done));
        }
    })
    .1
    .expect("nothing fails");
    last.expect("something was appended")
}

/// Opens the store, reads all of it, and closes it.
fn use_once(disk: &SimDisk) -> Result<(), LogError> {
    let log = open(disk)?;
    log.reader().rows(Position(1), usize::MAX)?;
    log.reader().job_rows(None, usize::MAX)?;
    Box::new(log).close()
}

fn strike_opening(work: &Work, tree: &Tree, done: Done, fault: Fault) {
    let disk = SimDisk::holding(tree.clone());
    disk.fail(Some(fault));
    let result = use_once(&disk);
    assert!(disk.struck() > 0, "the fault was not met");
    match result {
        Err(error) => told(&error, fault.errno, Path::new(STORE)),
        Ok(()) => panic!("nobody heard of the fault"),
    }
    disk.fail(None);
    work.check(&disk, done);
}

/// The store never uses a file again in which an operation failed, and files that are not written
/// any more stay open: what could not be read once could not be read until the next start.
#[test]
fn a_closed_file_that_could_not_be_read_once_can_be_read_again() {
    let work = Work::new(0);
    let (tree, done) = closed(&work);
    let read = |disk: &SimDisk, log: &RedbLog, fault| {
        disk.fail(fault);
        let row = log.reader().row(Position(1));
        let (_, reads) = disk.counts();
        disk.fail(None);
        (row, reads)
    };
    let disk = SimDisk::holding(tree.clone());
    let (row, reads) = read(&disk, &open(&disk).unwrap(), None);
    let row = row.unwrap();
    assert!(row.is_some() && reads > 0);
    for at in 1..=reads {
        let disk = SimDisk::holding(tree.clone());
        let log = open(&disk).unwrap();
        let fault = Fault { what: What::Reads, at, errno: EIO, lasts: false, half: false };
        told(&read(&disk, &log, Some(fault)).0.unwrap_err(), EIO, Path::new(STORE));
        assert_eq!(read(&disk, &log, None).0.expect("it can be read again"), row);
        Box::new(log).close().expect("nothing was written meanwhile");
        work.check(&disk, done);
    }
}

/// The same of the views: a read that fails once must not keep the next checkpoint from them,
/// which would end the log.
#[test]
fn views_that_could_not_be_read_once_can_be_read_and_written_again() {
    let work = Work::new(0);
    let (tree, done) = closed(&work);
    let read = |disk: &SimDisk, log: &RedbLog, fault| {
        disk.fail(fault);
        let rows = log.reader().job_rows(None, usize::MAX);
        let (_, reads) = disk.counts();
        disk.fail(None);
        (rows, reads)
    };
    let disk = SimDisk::holding(tree.clone());
    let (rows, reads) = read(&disk, &open_cold(&disk), None);
    let rows = rows.unwrap();
    assert!(!rows.is_empty() && reads > 0);
    for (at, reads_again) in (1..=reads).flat_map(|at| [(at, true), (at, false)]) {
        let disk = SimDisk::holding(tree.clone());
        let mut log = open_cold(&disk);
        let fault = Fault { what: What::Reads, at, errno: EIO, lasts: false, half: false };
        told(&read(&disk, &log, Some(fault)).0.unwrap_err(), EIO, Path::new(STORE));
        if reads_again {
            assert_eq!(read(&disk, &log, None).0.expect("they can be read again"), rows);
        }
        let update = again(&rows, log.reader().viewed());
        log.checkpoint(&update).expect("they can be written");
        Box::new(log).close().expect("nothing has failed but a read");
        work.check(&disk, done);
    }
}

/// As long as the disk gives nothing of the views, they stay as they are, and the log goes on.
#[test]
fn views_that_cannot_be_read_any_more_do_not_end_the_log() {
    let work = Work::new(0);
    let (tree, done) = closed(&work);
    let disk = SimDisk::holding(tree);
    let mut log = open_cold(&disk);
    let rows = log.reader().job_rows(None, usize::MAX).unwrap();
    let viewed = log.reader().viewed();
    let fault = Fault { what: What::Reads, at: 1, errno: EIO, lasts: true, half: false };
    disk.fail(Some(fault));
    assert!(log.reader().job_rows(None, usize::MAX).is_err());
    // What comes later would be right only with what was left out.
    for _ in 0..2 {
        log.checkpoint(&again(&rows, Position(log.reader().next_position().0 - 1))).unwrap();
        disk.fail(None);
        assert_eq!(log.reader().viewed(), viewed);
    }
    Box::new(log).close().expect("nothing has failed but reads");
    work.check(&disk, done);
}

/// Opens the store so that nothing is kept in memory.
fn open_cold(disk: &SimDisk) -> RedbLog {
    let options = Options { cache_bytes: 0, ..options(disk) };
    RedbLog::open(Path::new(STORE), &options).unwrap()
}

/// The same rows once more.
fn again(rows: &[JobRow], upto: Position) -> ViewsUpdate {
    ViewsUpdate { rows: rows.to_vec(), keys: Vec::new(), keys_since: Hour(0), upto }
}
