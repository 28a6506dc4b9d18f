//! Damaged files: what was not written is never served, and no file is removed.

use std::fs;

use super::redb::{Place, names, open_tiny, rows};
use super::{Job, fill, viewing};
use crate::job::JobStatus;
use crate::log::{EventLog, LogError, Options, Position, RedbLog, verify};

#[test]
fn views_that_are_lost_or_damaged_are_begun_anew() {
    let place = Place::new();
    let mut log = place.open().unwrap();
    let job = fill(&mut log, 1, 1..=3);
    log.checkpoint(&viewing(&[job.view(JobStatus::Running)], Position(3))).unwrap();
    drop(log);
    let empty = |place: &Place| {
        let log = place.open().unwrap();
        let reader = log.reader();
        assert_eq!((reader.viewed(), reader.open_rows().unwrap()), (Position(0), Vec::new()));
        assert_eq!(rows(&log).len(), 3);
    };
    let lost = place.killed();
    fs::remove_file(lost.file("views.redb")).unwrap();
    empty(&lost);
    let cut = place.killed();
    let bytes = fs::read(cut.file("views.redb")).unwrap();
    fs::write(cut.file("views.redb"), &bytes[..bytes.len() / 2]).unwrap();
    empty(&cut);
    assert!(names(&cut.dir()).contains(&"views.damaged-1".to_owned()));
    let other = place.killed();
    fs::write(other.file("views.redb"), "something else").unwrap();
    empty(&other);
}

/// The bytes of a file with one bit flipped; the places that hold data are tried more often.
fn flipped(whole: &[u8], used: &[usize], random: &mut fastrand::Rng) -> Vec<u8> {
    let anywhere = random.u8(..4) == 0;
    let at = if anywhere { random.usize(..whole.len()) } else { used[random.usize(..used.len())] };
    let mut bytes = whole.to_vec();
    bytes[at] ^= 1 << random.u8(..8);
    bytes
}

/// Runs `check` on a store again and again, each time with another bit of a file flipped.
pub(super) fn with_flips(place: &Place, name: &str, seed: u64, mut check: impl FnMut(&Place)) {
    let mut random = fastrand::Rng::with_seed(seed);
    let whole = fs::read(place.file(name)).unwrap();
    let used: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] != 0).collect();
    for _ in 0..100 {
        let damaged = place.killed();
        fs::write(damaged.file(name), flipped(&whole, &used, &mut random)).unwrap();
        check(&damaged);
        assert!(damaged.file(name).exists(), "a file that is damaged is kept");
    }
}

#[test]
fn flipped_bits_in_records_are_told() {
    let place = Place::new();
    let mut log = place.open().unwrap();
    let job = fill(&mut log, 1, 1..=200);
    log.checkpoint(&viewing(&[job.view(JobStatus::Running)], Position(200))).unwrap();
    let expected = rows(&log);
    drop(log);
    let mut told = 0;
    with_flips(&place, "records/0000000001.redb", 5, |damaged| {
        let Ok(log) = damaged.open() else {
            told += 1;
            return;
        };
        let reader = log.reader();
        let rows = reader.rows(Position(1), 1_000);
        if let Ok(rows) = &rows {
            assert!(rows.iter().all(|row| expected.contains(row)), "a wrong row was served");
        }
        if verify(&*reader).is_ok_and(|found| found.damage.is_empty()) {
            assert_eq!(rows.unwrap(), expected);
        } else {
            told += 1;
        }
    });
    assert!(told > 10, "{told}");
}

#[test]
fn flipped_bits_in_views_are_never_served() {
    let place = Place::new();
    let mut log = place.open().unwrap();
    let jobs: Vec<Job> = (0..60).map(|id| fill(&mut log, id + 1, id_at(id)..=id_at(id))).collect();
    let views: Vec<_> = jobs
        .iter()
        .map(|job| {
            let open = job.id.as_u128() % 2 == 0;
            job.view(if open { JobStatus::Running } else { JobStatus::Completed })
        })
        .collect();
    log.checkpoint(&viewing(&views, Position(60))).unwrap();
    drop(log);
    with_flips(&place, "views.redb", 6, |damaged| {
        let log = damaged.open().unwrap();
        let read = log.reader().job_rows(None, 100);
        match read {
            Ok(rows) => assert!(rows.iter().all(|row| views.contains(row))),
            Err(error) => {
                assert!(matches!(error, LogError::Damaged(_)), "{error}");
                drop(log);
                // What was found once is mended by the next start.
                let log = damaged.open().unwrap();
                assert_eq!(log.reader().viewed(), Position(0));
                assert_eq!(log.reader().job_rows(None, 100).unwrap(), []);
            }
        }
    });
}

fn id_at(id: u128) -> u64 {
    u64::try_from(id).unwrap() + 1
}

#[test]
fn an_audit_goes_on_behind_a_file_that_cannot_be_read() {
    let place = Place::new();
    let mut log = open_tiny(&place.dir());
    fill(&mut log, 1, 1..=3);
    fill(&mut log, 2, 4..=4);
    drop(log);
    let broken = place.file("records/0000000002.redb");
    fs::write(&broken, "something else").unwrap();
    let log = place.open().unwrap();
    let error = log.reader().rows(Position(1), 9).unwrap_err();
    assert!(matches!(error, LogError::Damaged(_)), "{error}");
    let found = verify(&*log.reader()).unwrap();
    assert_eq!((found.rows, found.jobs), (3, 2));
    let places: Vec<_> = found.damage.iter().map(|damage| damage.file.clone()).collect();
    // The file, and the row behind it that continues nothing.
    assert_eq!(places, [Some(broken.clone()), None]);
    assert_eq!(fs::read(&broken).unwrap(), b"something else");
}

#[test]
fn views_that_are_found_damaged_by_a_checkpoint_do_not_end_the_log() {
    let place = Place::new();
    let mut log = place.open().unwrap();
    let jobs: Vec<Job> = (0..60).map(|id| fill(&mut log, id + 1, id_at(id)..=id_at(id))).collect();
    let views: Vec<_> = jobs.iter().map(|job| job.view(JobStatus::Running)).collect();
    log.checkpoint(&viewing(&views, Position(60))).unwrap();
    drop(log);
    // What the opening has not read, the checkpoint finds.
    let options = Options { cache_bytes: 0, ..Options::default() };
    let mut log = RedbLog::open(&place.dir(), &options).unwrap();
    let mut bytes = fs::read(place.file("views.redb")).unwrap();
    bytes[4096..].fill(0xff);
    fs::write(place.file("views.redb"), bytes).unwrap();
    for upto in [60, 61] {
        log.checkpoint(&viewing(&views, Position(upto))).unwrap();
        assert_eq!(log.reader().viewed(), Position(60));
        fill(&mut log, 70, upto + 1..=upto + 1);
    }
    assert!(matches!(log.reader().job_row(jobs[0].id), Err(LogError::Damaged(_))));
    log.idle().unwrap();
    drop(log);
    let log = place.open().unwrap();
    assert_eq!((log.reader().viewed(), rows(&log).len()), (Position(0), 62));
    assert!(names(&place.dir()).contains(&"views.damaged-1".to_owned()));
}
