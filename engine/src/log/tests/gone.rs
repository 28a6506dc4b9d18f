//! A store that is taken away while it is in use. The system goes on to write to a file that has
//! lost its name, and nobody finds what is written there.

use std::fs;
use std::path::Path;

use super::redb::{Place, open_tiny};
use super::{Job, small};
use crate::log::{EventLog, LogError, Position};

const FIRST: &str = "records/0000000001.redb";

/// What may happen to a file.
const WAYS: [fn(&Path, &Path); 3] = [
    |file, _| fs::remove_file(file).unwrap(),
    |file, away| fs::rename(file, away).unwrap(),
    |file, away| {
        fs::copy(file, away).unwrap();
        fs::rename(away, file).unwrap();
    },
];

#[test]
fn nothing_is_durable_in_a_file_that_has_lost_its_name() {
    for take_away in WAYS {
        let (place, away) = (Place::new(), Place::new());
        fs::create_dir(away.dir()).unwrap();
        let mut log = place.open().unwrap();
        let mut job = Job::new(1);
        log.append(&[job.row(1, &[small(1)])]).unwrap();
        log.reader().in_place().unwrap();
        take_away(&place.file(FIRST), &away.file("records"));
        let error = log.append(&[job.row(2, &[small(1)])]).unwrap_err();
        assert!(matches!(&error, LogError::Gone { path } if *path == place.file(FIRST)), "{error}");
        assert!(matches!(log.append(&[]), Err(LogError::Poisoned)));
        drop(log);
        if away.file("records").exists() {
            fs::rename(away.file("records"), place.file(FIRST)).unwrap();
            // What was not acknowledged may be there all the same.
            assert_eq!(place.open().unwrap().reader().next_position(), Position(3));
        }
    }
}

#[test]
fn a_log_knows_that_it_is_gone_though_nothing_is_written() {
    let (place, away) = (Place::new(), Place::new());
    // It is always the last file that is looked after.
    let mut log = open_tiny(&place.dir());
    let (reader, mut job) = (log.reader(), Job::new(1));
    for position in 1..=3 {
        log.append(&[job.row(position, &[small(1)])]).unwrap();
    }
    fs::remove_file(place.file(FIRST)).unwrap();
    reader.in_place().unwrap();
    fs::rename(place.dir(), away.dir()).unwrap();
    assert!(matches!(reader.in_place(), Err(LogError::Gone { .. })));
    // What is put back was never gone.
    fs::rename(away.dir(), place.dir()).unwrap();
    reader.in_place().unwrap();
    log.append(&[job.row(4, &[small(1)])]).unwrap();
    fs::rename(place.dir(), away.dir()).unwrap();
    let closed = Box::new(log).close();
    assert!(matches!(closed, Err(LogError::Gone { .. })), "{closed:?}");
}
