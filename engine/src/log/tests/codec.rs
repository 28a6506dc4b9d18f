//! Rows: what goes in comes out, and what was not written is refused.

use annals_tasks_sdk::Timestamp;

use super::samples;
use super::{Job, small};
use crate::job::{Event, Origin, Recorded};
use crate::log::{
    CodecError, EventLog, JobRow, MemoryDisk, Position, ReadRow, Row, codec, decode_row,
    encode_row, history, payload, v1, v4, verify,
};

fn round(job: &Job, events: &[Recorded]) -> (Vec<u8>, ReadRow) {
    let (mut row, _) = encode_row(job.id, &job.head, events, Vec::new()).unwrap();
    row.place(Position(10));
    let read = decode_row(Position(10), &row.bytes).unwrap();
    (row.bytes, read)
}

#[test]
fn every_event_comes_back_as_it_was() {
    let job = Job::new(1);
    let events = job.record(&samples::events());
    let (_, read) = round(&job, &events);
    assert_eq!(read.events, events);
    assert!(read.unknown.is_empty());
    assert_eq!(read.hashes.len(), events.len());
    assert_eq!(read.hashes.last(), Some(&read.after.hash));
    assert_eq!(read.end(), Position(10 + events.len() as u64));
}

#[test]
fn the_hashes_do_not_depend_on_how_events_are_parted_into_rows() {
    let (mut one, mut many) = (Job::new(1), Job::new(1));
    let events = samples::events();
    one.row(1, &events);
    for (event, position) in events.iter().zip(1..) {
        many.row(position, std::slice::from_ref(event));
    }
    assert_eq!(one.head.hash, many.head.hash);
}

#[test]
fn whatever_is_in_the_header_is_hashed() {
    let base = Recorded {
        seq: 1,
        time: Timestamp::from_millis(5),
        origin: Origin::ENGINE,
        leads: false,
        key: None,
        event: small(1),
    };
    let named = |actor: Option<&str>, request_id: Option<&str>, reason: Option<&str>| Recorded {
        origin: Origin {
            actor: actor.map(Into::into),
            request_id: request_id.map(Into::into),
            reason: reason.map(Into::into),
        },
        ..base.clone()
    };
    let variants = [
        base.clone(),
        Recorded { time: Timestamp::from_millis(6), ..base.clone() },
        Recorded { leads: true, ..base.clone() },
        Recorded { event: small(2), ..base.clone() },
        Recorded {
            event: Event::AttemptLost { task: crate::job::TaskNumber(1), attempt: 1 },
            ..base.clone()
        },
        named(Some(""), None, None),
        named(None, Some(""), None),
        named(None, None, Some("")),
        named(Some("ab"), Some("c"), None),
        named(Some("a"), Some("bc"), None),
        named(Some("a"), None, Some("bc")),
    ];
    let hash = |job: &Job, event: &Recorded| round(job, std::slice::from_ref(event)).1.after.hash;
    let mut seen: Vec<_> = variants.iter().map(|event| hash(&Job::new(1), event)).collect();
    seen.push(hash(&Job::new(2), &base));
    let count = seen.len();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), count);
}

#[test]
fn no_flipped_bit_and_no_cut_goes_unnoticed() {
    let mut job = Job::new(1);
    job.row(4, &[small(1)]);
    for event in samples::events() {
        let (bytes, _) = round(&job, &job.record(&[small(2), event.clone(), small(3)]));
        for at in 0..bytes.len() {
            assert!(decode_row(Position(10), &bytes[..at]).is_err(), "cut at {at}");
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                let read = decode_row(Position(10), &flipped);
                assert!(read.is_err(), "bit {bit} of byte {at} of {event:?}: {read:?}");
            }
        }
    }
}

#[test]
fn random_bytes_are_refused() {
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..20_000 {
        let mut bytes: Vec<u8> = (0..random.usize(..400)).map(|_| random.u8(..)).collect();
        if let Some(format) = bytes.first_mut() {
            *format = 1;
        }
        assert!(decode_row(Position(1), &bytes).is_err());
        // Lengths in payloads are as hostile as the bytes want them to be.
        for number in 0..45 {
            for version in 1..=2 {
                let _ = payload::get(number, version, &bytes);
            }
        }
    }
}

#[test]
fn random_histories_come_back_as_they_were() {
    let mut random = fastrand::Rng::with_seed(11);
    let samples = samples::events();
    for _ in 0..200 {
        let mut job = Job::new(random.u128(1..));
        let mut position = 1;
        for _ in 0..random.usize(1..6) {
            let mut events = samples.clone();
            random.shuffle(&mut events);
            events.truncate(random.usize(1..9));
            let (before, recorded) = (job.head, job.record(&events));
            let row = job.row(position, &events);
            let read = decode_row(row.position, &row.bytes).unwrap();
            assert_eq!((read.before, &read.events, read.after), (before, &recorded, job.head));
            position += random.u64(8..20);
        }
    }
}

/// Rewrites a row of one small event as a build would that knows more types.
fn newer_row(number: u16, version: u16) -> Vec<u8> {
    let (mut bytes, _) = round(&Job::new(1), &Job::new(1).record(&[small(1)]));
    let record = 113;
    bytes[record + 1..record + 3].copy_from_slice(&number.to_le_bytes());
    bytes[record + 3..record + 5].copy_from_slice(&version.to_le_bytes());
    let mut hashed = Vec::new();
    hashed.extend_from_slice(&1_u128.to_le_bytes());
    hashed.extend_from_slice(&1_u64.to_le_bytes());
    hashed.extend_from_slice(&[0; 32]);
    hashed.extend_from_slice(&bytes[record..]);
    bytes[record - 32..record].copy_from_slice(blake3::hash(&hashed).as_bytes());
    bytes
}

#[test]
fn an_event_that_this_build_does_not_know_is_still_listed() {
    for (number, version, name) in
        [(20, 2, Some("AttemptStarted")), (39, 1, Some("TaskExpanded")), (999, 1, None)]
    {
        let read = decode_row(Position(10), &newer_row(number, version)).unwrap();
        assert_eq!((read.events.len(), read.unknown.len(), read.hashes.len()), (0, 1, 1));
        let unknown = &read.unknown[0];
        assert_eq!((unknown.seq, unknown.number, unknown.version), (1, number, version));
        assert_eq!((unknown.type_name(), read.end()), (name, Position(11)));
        // The rest of the log knows how to live with it.
        let disk = MemoryDisk::new();
        let (job, position, bytes) = (read.job, read.position, newer_row(number, version));
        let row = Row { job, position, events: 1, bytes, values: Vec::new(), ends_values: false };
        disk.open().append(&[row]).unwrap();
        let found = verify(&disk).unwrap();
        assert_eq!((found.events, found.unknown, found.damage), (1, 1, Vec::new()));
        assert_eq!(history(&disk, position, 0).unwrap(), [read]);
    }
}

#[test]
fn a_row_that_lies_elsewhere_is_refused() {
    let (bytes, _) = round(&Job::new(1), &Job::new(1).record(&[small(1)]));
    let error = decode_row(Position(11), &bytes).unwrap_err();
    assert_eq!(error.to_string(), "the row that lies there was written for position 10");
}

#[test]
fn a_row_of_a_newer_format_is_told_from_a_damaged_one() {
    let (mut bytes, _) = round(&Job::new(1), &Job::new(1).record(&[small(1)]));
    bytes[0] = 2;
    assert_eq!(decode_row(Position(1), &bytes), Err(CodecError::Newer { found: 2 }));
}

#[test]
fn a_row_of_the_views_comes_back_as_it_was() {
    let row = samples::job_row();
    let mut bytes = Vec::new();
    v4::put_row(&row, &mut bytes).unwrap();
    assert_eq!(v4::get_row(&bytes).unwrap(), row);
    // As it was before.
    bytes.clear();
    codec::write(&mut bytes, &v1::JobRowV1::from(&row)).unwrap();
    assert_eq!(v4::get_row(&bytes).unwrap(), JobRow { parent: None, ..row });
    let row = samples::purged_row();
    let tombstone = row.purged.as_deref().unwrap();
    bytes.clear();
    codec::write(&mut bytes, &v1::TombstoneV1::of(&row, tombstone)).unwrap();
    assert_eq!(JobRow::from(codec::read::<v1::TombstoneV1<'_>>(&bytes).unwrap()), row);
}
