//! Idempotency keys: in records, and in the views.

use annals_tasks_sdk::{JobId, Timestamp};

use super::conformance::everywhere;
use super::redb::Place;
use super::{Job, fill, small, viewing};
use crate::job::{IdempotencyKey, Recorded};
use crate::log::{
    EventLog, Hour, KeyRow, LogError, LogReader, Position, ViewsUpdate, decode_row, encode_row,
};

pub(super) fn key(number: u32) -> IdempotencyKey {
    IdempotencyKey::new("ada", "/jobs", &number.to_string(), b"{}")
}

fn row(number: u32, hour: i64) -> KeyRow {
    KeyRow { hour: Hour(hour), key: key(number), job: JobId::from_u128(number.into()) }
}

fn with(keys: Vec<KeyRow>, since: i64) -> ViewsUpdate {
    ViewsUpdate { keys, keys_since: Hour(since), ..viewing(&[], Position(1)) }
}

fn read(reader: &dyn LogReader, since: i64) -> Vec<KeyRow> {
    let mut found = Vec::new();
    reader.keys(Hour(since), &mut |key| found.push(key)).unwrap();
    found
}

#[test]
fn a_key_is_known_by_all_that_makes_it_one() {
    let base = IdempotencyKey::new("ada", "/jobs", "a", b"{}");
    let others = [
        IdempotencyKey::new("bob", "/jobs", "a", b"{}"),
        IdempotencyKey::new("ada", "/job", "a", b"{}"),
        IdempotencyKey::new("ada", "/jobs", "b", b"{}"),
        IdempotencyKey::new("ada/", "jobs", "a", b"{}"),
        IdempotencyKey::new("ada", "/jobsa", "", b"{}"),
    ];
    for other in others {
        assert!(other.key != base.key && other.body == base.body, "{other:?}");
    }
    let changed = IdempotencyKey::new("ada", "/jobs", "a", b"{ }");
    assert!(changed.key == base.key && changed.body != base.body);
    assert_eq!(IdempotencyKey::from_bytes(base.to_bytes()), base);
}

#[test]
fn a_key_comes_back_with_its_event_and_is_hashed_with_it() {
    let job = Job::new(1);
    let event = job.record(&[small(1)]).remove(0);
    let keyed = |key| Recorded { key, ..event.clone() };
    let variants = [
        keyed(None),
        keyed(Some(Box::new(key(1)))),
        keyed(Some(Box::new(key(2)))),
        keyed(Some(Box::new(IdempotencyKey::new("ada", "/jobs", "1", b"")))),
    ];
    let mut hashes = Vec::new();
    for variant in &variants {
        let (mut row, hash) =
            encode_row(job.id, &job.head, std::slice::from_ref(variant), Vec::new()).unwrap();
        row.place(Position(3));
        let read = decode_row(Position(3), &row.bytes).unwrap();
        assert_eq!(read.events, std::slice::from_ref(variant));
        assert!(!hashes.contains(&hash));
        hashes.push(hash);
        for at in 113..row.bytes.len() {
            let mut flipped = row.bytes.clone();
            flipped[at] ^= 4;
            assert!(decode_row(Position(3), &flipped).is_err(), "byte {at} of {variant:?}");
        }
    }
}

#[test]
fn an_hour_begins_where_it_does_and_holds_what_is_young_enough() {
    let hour = |millis| Hour::of(Timestamp::from_millis(millis));
    assert_eq!([hour(-1), hour(0), hour(3_599_999), hour(3_600_000)], [-1, 0, 0, 1].map(Hour));
    // What was used at the end of hour 5 is 24 hours old at the end of hour 29.
    assert_eq!(Hour(29).before(24), Hour(5));
    assert_eq!(Hour(i64::MIN).before(1), Hour(i64::MIN));
}

#[test]
fn keys_are_kept_by_the_hour_and_dropped_by_the_hour() {
    everywhere(|place| {
        let mut log = place.open();
        fill(&mut *log, 1, 1..=1);
        assert_eq!(read(&*log.reader(), i64::MIN), []);
        log.checkpoint(&with(vec![row(3, 7), row(1, 5), row(2, 7)], 0)).unwrap();
        log.checkpoint(&with(vec![row(4, -2), row(5, 6)], -10)).unwrap();
        // Of two uses of a key the later one comes later.
        log.checkpoint(&with(vec![KeyRow { job: JobId::from_u128(9), ..row(3, 7) }], -10)).unwrap();
        drop(log);
        let mut log = place.open();
        let reader = log.reader();
        let jobs = |rows: Vec<KeyRow>| -> Vec<(i64, u128)> {
            rows.iter().map(|row| (row.hour.0, row.job.as_u128())).collect()
        };
        let all = [(-2, 4), (5, 1), (6, 5), (7, 3), (7, 2), (7, 9)];
        assert_eq!(jobs(read(&*reader, i64::MIN)), all);
        assert_eq!(jobs(read(&*reader, 6)), all[2..]);
        assert_eq!(read(&*reader, 5)[0], row(1, 5));
        // What comes with an update is too old for it, too.
        log.checkpoint(&with(vec![row(6, 5), row(7, 6)], 6)).unwrap();
        assert_eq!(jobs(read(&*reader, i64::MIN)), [(6, 5), (6, 7), (7, 3), (7, 2), (7, 9)]);
        log.checkpoint(&with(Vec::new(), 100)).unwrap();
        drop((log, reader));
        assert_eq!(read(&*place.open().reader(), i64::MIN), []);
    });
}

#[test]
fn many_keys_of_one_hour_come_back_as_they_were() {
    let place = Place::new();
    let mut log = place.open().unwrap();
    fill(&mut log, 1, 1..=1);
    let keys: Vec<KeyRow> = (0..40_000).map(|number| row(number, 3)).collect();
    log.checkpoint(&with(keys[..10].to_vec(), 0)).unwrap();
    log.checkpoint(&with(keys[10..].to_vec(), 0)).unwrap();
    drop(log);
    assert_eq!(read(&*place.open().unwrap().reader(), 0), keys);
}

#[test]
fn keys_that_are_damaged_cost_the_views_and_are_never_served() {
    let place = Place::new();
    let mut log = place.open().unwrap();
    fill(&mut log, 1, 1..=1);
    let keys: Vec<KeyRow> = (0..2_000).map(|number| row(number, i64::from(number / 200))).collect();
    log.checkpoint(&with(keys.clone(), 0)).unwrap();
    drop(log);
    let mut told = 0;
    super::damage::with_flips(&place, "views.redb", 9, |damaged| {
        let log = damaged.open().unwrap();
        let reader = log.reader();
        let mut found = Vec::new();
        match reader.keys(Hour(i64::MIN), &mut |key| found.push(key)) {
            Ok(()) if reader.viewed() == Position(0) => told += 1,
            Ok(()) => {}
            Err(error) => assert!(matches!(error, LogError::Damaged(_)), "{error}"),
        }
        assert!(found.iter().all(|key| keys.contains(key)), "a wrong key was served");
        assert!(found.is_empty() || reader.viewed() == Position(1));
    });
    assert!(told > 10, "{told}");
}
