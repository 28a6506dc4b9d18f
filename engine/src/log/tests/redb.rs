//! What only the store in files has: a folder, a lock, rolled files, damage, full disks.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use super::{Job, fill, small, viewing};
use crate::log::redb::{Notice, Options, RedbLog};
use crate::log::{EventLog, LogError, Position, ReadRow, ValueKey, digest, verify};

pub(super) struct Place(tempfile::TempDir);

impl Place {
    pub(super) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(super) fn dir(&self) -> PathBuf {
        self.0.path().join("store")
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    pub(super) fn open(&self) -> Result<RedbLog, LogError> {
        open(&self.dir())
    }

    /// What a kill at this moment would leave.
    pub(super) fn killed(&self) -> Self {
        let copy = Self::new();
        copy_folder(&self.dir(), &copy.dir());
        copy
    }
}

fn open(dir: &Path) -> Result<RedbLog, LogError> {
    RedbLog::open(dir, &Options::default())
}

pub(super) fn open_tiny(dir: &Path) -> RedbLog {
    RedbLog::open(dir, &Options { roll_bytes: 1, ..Options::default() }).unwrap()
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

pub(super) fn names(folder: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
    let names = fs::read_dir(folder).unwrap().map(name);
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

pub(super) fn rows(log: &RedbLog) -> Vec<ReadRow> {
    log.reader().rows(Position(1), 100_000).unwrap()
}

#[test]
fn files_are_rolled_and_read_as_one() {
    let place = Place::new();
    let mut log = open_tiny(&place.dir());
    let reader = log.reader();
    let mut job = Job::new(1);
    for position in 1..=12 {
        let value: Arc<[u8]> = Arc::from(position.to_string().as_bytes());
        let step = ValueKey::Step { seq: position };
        let value = vec![(ValueKey::Checkpoint { task: 1 }, value.clone()), (step, value)];
        log.append(&[job.row_with(position, &[small(1)], value)]).unwrap();
        assert_eq!(reader.rows(Position(1), 99).unwrap().len() as u64, position);
    }
    let files = names(&place.file("records"));
    assert_eq!(files.len(), 12);
    assert_eq!(files[11], "0000000012.redb");
    drop(log);
    let log = place.open().unwrap();
    assert_eq!(rows(&log).len(), 12);
    let checkpoint = ValueKey::Checkpoint { task: 1 };
    let value = |text: &[u8]| log.reader().value(job.id, checkpoint, &digest(text)).unwrap();
    // A later value does not reach into a closed file.
    assert_eq!(value(b"3"), Some(b"3".to_vec()));
    assert_eq!(value(b"12"), Some(b"12".to_vec()));
    // Whichever file was looked into last.
    for seq in [1, 12, 2, 2, 7, 1] {
        let result = seq.to_string().into_bytes();
        let found = log.reader().value(job.id, ValueKey::Step { seq }, &digest(&result)).unwrap();
        assert_eq!(found, Some(result));
    }
    assert_eq!(verify(&*log.reader()).unwrap().damage, []);
}

#[test]
fn a_store_that_was_killed_is_repaired_and_has_everything() {
    let place = Place::new();
    let mut log = place.open().unwrap();
    fill(&mut log, 1, 1..=50);
    let killed = place.killed();
    let (again, files) = repaired(&killed);
    assert_eq!(rows(&again).len(), 50);
    assert!(files.contains(&killed.file("records/0000000001.redb")), "{files:?}");
}

#[test]
fn after_the_idle_work_a_kill_needs_no_repair() {
    let place = Place::new();
    let mut log = place.open().unwrap();
    fill(&mut log, 1, 1..=50);
    log.idle().unwrap();
    let killed = place.killed();
    let (log, files) = repaired(&killed);
    assert_eq!((rows(&log).len(), files), (50, Vec::new()));
}

/// Opens a store, and gives the files that were repaired, once for each notice.
fn repaired(place: &Place) -> (RedbLog, Vec<PathBuf>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let sink = told.clone();
    let notify: Arc<dyn Fn(Notice) + Send + Sync> = Arc::new(move |notice| {
        if let Notice::Repairing { file, .. } = notice {
            sink.lock().unwrap().push(file);
        }
    });
    let log = RedbLog::open(&place.dir(), &Options { notify: Some(notify), ..<_>::default() });
    let files = told.lock().unwrap().clone();
    (log.unwrap(), files)
}

#[test]
fn a_store_that_was_only_opened_needs_no_repair_after_a_kill() {
    let place = Place::new();
    fill(&mut place.open().unwrap(), 1, 1..=5);
    let (_open, files) = repaired(&place);
    assert!(files.is_empty(), "it was closed in good order");
    let killed = place.killed();
    let (mut open, files) = repaired(&killed);
    assert!(files.is_empty(), "nothing was written since");
    open.append(&[Job::new(2).row(6, &[small(1)])]).unwrap();
    let killed = killed.killed();
    let (mut open, files) = repaired(&killed);
    assert!(!files.is_empty(), "something was");
    // Also a store that was repaired is settled when it is idle.
    open.idle().unwrap();
    let killed = killed.killed();
    assert!(repaired(&killed).1.is_empty());
}

#[test]
fn a_kill_in_the_middle_of_a_roll_is_harmless() {
    let place = Place::new();
    let mut log = place.open().unwrap();
    let mut job = fill(&mut log, 1, 1..=5);
    // The next file was not finished.
    let killed = place.killed();
    fs::write(killed.file("records/0000000006.redb.new"), "half").unwrap();
    let mut again = open_tiny(&killed.dir());
    again.append(&[job.row(6, &[small(1)])]).unwrap();
    assert_eq!(rows(&again).len(), 6);
    assert_eq!(names(&killed.file("records")), ["0000000001.redb", "0000000006.redb"]);
    // The next file is there, the one before it was not closed.
    let killed = place.killed();
    fs::copy(
        new_record_file().file("records/0000000001.redb"),
        killed.file("records/0000000006.redb"),
    )
    .unwrap();
    let again = killed.open().unwrap();
    assert_eq!(again.reader().next_position(), Position(6));
    assert_eq!(rows(&again).len(), 5);
}

/// A store whose record file is as it was made.
fn new_record_file() -> Place {
    let place = Place::new();
    drop(place.open().unwrap());
    place
}

#[test]
fn a_kill_in_the_middle_of_the_creation_is_harmless() {
    let whole = new_record_file();
    let steps: [fn(&Path, &Path); 9] = [
        |_, dir| fs::create_dir(dir).unwrap(),
        |_, dir| fs::write(dir.join("lock"), "1").unwrap(),
        |_, dir| fs::create_dir(dir.join("records")).unwrap(),
        |_, dir| fs::write(dir.join("records/0000000001.redb.new"), "half").unwrap(),
        |whole, dir| {
            fs::remove_file(dir.join("records/0000000001.redb.new")).unwrap();
            let name = "records/0000000001.redb";
            fs::copy(whole.join(name), dir.join(name)).unwrap();
        },
        |_, dir| fs::write(dir.join("views.redb.new"), "half").unwrap(),
        |whole, dir| {
            fs::remove_file(dir.join("views.redb.new")).unwrap();
            fs::copy(whole.join("views.redb"), dir.join("views.redb")).map(|_| ()).unwrap();
        },
        |_, dir| fs::write(dir.join("format.new"), "ann").unwrap(),
        |_, dir| fs::write(dir.join("format"), "annals store 1\n").unwrap(),
    ];
    for count in 0..=steps.len() {
        let place = Place::new();
        steps[..count].iter().for_each(|step| step(&whole.dir(), &place.dir()));
        let missing = RedbLog::open(&place.dir(), &Options { create: false, ..Options::default() });
        if count < steps.len() {
            let error = missing.unwrap_err();
            assert!(matches!(error, LogError::Missing { .. }), "{count} steps: {error}");
        } else {
            drop(missing.unwrap());
        }
        let mut log = place.open().unwrap();
        fill(&mut log, 1, 1..=2);
        assert_eq!(rows(&log).len(), 2);
        drop(log);
        assert_eq!(rows(&place.open().unwrap()).len(), 2, "after {count} steps");
    }
}

#[test]
fn a_folder_with_other_files_is_left_as_it_is() {
    let place = Place::new();
    fs::create_dir(place.dir()).unwrap();
    fs::write(place.file("thesis.txt"), "text").unwrap();
    let error = place.open().unwrap_err();
    assert!(
        error.to_string().ends_with("holds files but no store; choose an empty or a new folder")
    );
    assert_eq!(names(&place.dir()), ["thesis.txt"]);
}

#[test]
fn a_second_opening_is_refused_and_names_the_process() {
    let place = Place::new();
    let mut log = place.open().unwrap();
    let error = place.open().unwrap_err();
    let pid = std::process::id();
    assert!(matches!(&error, LogError::AlreadyOpen { pid: Some(found), .. } if *found == pid));
    assert!(error.to_string().ends_with("is open in this process already; stop that one first"));
    fill(&mut log, 1, 1..=2);
    drop(log);
    assert_eq!(rows(&place.open().unwrap()).len(), 2);
}

#[test]
fn a_newer_store_is_refused_with_both_versions() {
    let place = new_record_file();
    fs::write(place.file("format"), "annals store 7\n").unwrap();
    let error = place.open().unwrap_err();
    assert!(matches!(error, LogError::Newer { found: 7, known: 1, .. }), "{error}");
    assert!(error.to_string().contains("has format 7, this build reads up to 1"));
}

#[test]
fn a_store_that_lost_a_part_is_never_taken_for_a_new_one() {
    let filled = || {
        let place = Place::new();
        fill(&mut place.open().unwrap(), 1, 1..=2);
        place
    };
    let damaged = |place: &Place| {
        let error = place.open().unwrap_err();
        assert!(matches!(error, LogError::Damaged(_)), "{error}");
    };
    let place = filled();
    fs::remove_file(place.file("format")).unwrap();
    damaged(&place);
    fs::write(place.file("format"), "").unwrap();
    damaged(&place);
    let place = filled();
    fs::remove_dir_all(place.file("records")).unwrap();
    damaged(&place);
    // The views know more than the records.
    let place = filled();
    let mut log = place.open().unwrap();
    log.checkpoint(&viewing(&[], Position(2))).unwrap();
    drop(log);
    let name = "records/0000000001.redb";
    fs::copy(new_record_file().file(name), place.file(name)).unwrap();
    damaged(&place);
}

#[test]
fn readers_of_a_closed_log_say_so() {
    let place = Place::new();
    let mut log = place.open().unwrap();
    fill(&mut log, 1, 1..=2);
    let reader = log.reader();
    Box::new(log).close().unwrap();
    assert!(matches!(reader.rows(Position(1), 9), Err(LogError::Closed)));
    assert!(matches!(reader.open_rows(), Err(LogError::Closed)));
}

/// A small file system of its own.
struct Mount(tempfile::TempDir);

impl Mount {
    /// None, with a word to whoever runs the tests, where mounting is not allowed.
    fn new(size: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let options = format!("size={size}");
        let mount = Self::run("mount", &["-t", "tmpfs", "-o", &options, "tmpfs"], dir.path());
        if !mount {
            eprintln!("SKIPPED: this needs the right to mount a tmpfs");
            return None;
        }
        Some(Self(dir))
    }

    fn run(program: &str, arguments: &[&str], dir: &Path) -> bool {
        let status = Command::new(program).args(arguments).arg(dir).status();
        status.is_ok_and(|status| status.success())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        Self::run("umount", &["-l"], self.0.path());
    }
}

#[test]
fn a_full_disk_stops_the_log_and_loses_nothing() {
    let Some(mount) = Mount::new("8m") else { return };
    let dir = mount.0.path().join("store");
    let mut log = open(&dir).unwrap();
    let mut job = Job::new(1);
    let ballast: Arc<[u8]> = vec![7; 200_000].into();
    let mut kept = 0;
    let error = loop {
        let key = ValueKey::Checkpoint { task: u32::try_from(kept).unwrap() };
        let value = vec![(key, ballast.clone())];
        match log.append(&[job.row_with(kept + 1, &[small(1)], value)]) {
            Ok(()) => kept += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, LogError::Full { .. }), "{error}");
    assert!(matches!(log.append(&[]), Err(LogError::Poisoned)));
    drop(log);
    assert!(Mount::run("mount", &["-o", "remount,size=64m"], mount.0.path()));
    let mut log = open(&dir).unwrap();
    let next = log.reader().next_position();
    // The one that failed may be there; what was answered is.
    assert!(next == Position(kept + 1) || next == Position(kept + 2), "{next:?} after {kept}");
    fill(&mut log, 2, next.0..=next.0 + 3);
}

#[test]
fn a_read_only_place_is_named() {
    let Some(mount) = Mount::new("8m") else { return };
    let dir = mount.0.path().join("store");
    drop(open(&dir).unwrap());
    assert!(Mount::run("mount", &["-o", "remount,ro"], mount.0.path()));
    for dir in [dir, mount.0.path().join("other")] {
        let error = open(&dir).unwrap_err();
        assert!(matches!(error, LogError::ReadOnly { .. }), "{error}");
    }
}
