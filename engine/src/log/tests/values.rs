//! Values that lie beside rows, on every store.

use std::sync::Arc;

use super::conformance::everywhere;
use super::{Job, fill, small};
use crate::job::{Event, TaskNumber};
use crate::log::{ValueKey, digest, verify};

fn saved(value: &[u8]) -> Event {
    Event::CheckpointSaved { task: TaskNumber(1), attempt: 1, value: digest(value) }
}

#[test]
fn the_last_value_of_a_task_is_kept() {
    everywhere(|place| {
        let mut log = place.open();
        let mut job = Job::new(1);
        let other: Arc<[u8]> = Arc::from(&b"other"[..]);
        for (value, position) in [&b"first"[..], b"second", b""].iter().zip(1..) {
            let values = vec![(saved_by(1), Arc::from(*value)), (saved_by(2), other.clone())];
            log.append(&[job.row_with(position, &[saved(value)], values)]).unwrap();
            let read = log.reader().value(job.id, saved_by(1), &digest(value)).unwrap();
            assert_eq!(read.as_deref(), Some(*value));
        }
        fill(&mut *log, 2, 4..=6);
        drop(log);
        let log = place.open();
        let reader = log.reader();
        let value = |task, value| reader.value(job.id, saved_by(task), &digest(value)).unwrap();
        assert_eq!(value(1, b""), Some(Vec::new()));
        assert_eq!(value(2, b"other"), Some(b"other".to_vec()));
        assert_eq!((value(1, b"never"), value(3, b"other")), (None, None));
        assert_eq!(verify(&*reader).unwrap().values, 1);
        log.close().unwrap();
    });
}

fn saved_by(task: u32) -> ValueKey {
    ValueKey::Checkpoint { task }
}

#[test]
fn the_result_of_every_step_is_kept() {
    everywhere(|place| {
        let mut log = place.open();
        let mut jobs = [Job::new(1), Job::new(2)];
        let result = |at: u64| at.to_string().into_bytes();
        for (job, position) in [0, 1, 0, 0, 1].into_iter().zip(1..) {
            let job: &mut Job = &mut jobs[job];
            let (seq, result) = (job.head.seq + 1, result(position));
            let values = vec![(ValueKey::Step { seq }, Arc::from(&*result))];
            let row = job.row_with(position, &[recorded("charge", &result)], values);
            log.append(&[row]).unwrap();
        }
        drop(log);
        let log = place.open();
        let reader = log.reader();
        let value = |job: usize, seq, result: &[u8]| {
            reader.value(jobs[job].id, ValueKey::Step { seq }, &digest(result)).unwrap()
        };
        for (job, seq, at) in [(0, 1, 1), (1, 1, 2), (0, 2, 3), (0, 3, 4), (1, 2, 5)] {
            assert_eq!(value(job, seq, &result(at)), Some(result(at)));
            assert_eq!(value(job, seq, b"other"), None);
        }
        assert_eq!(value(1, 3, b"5"), None);
        let checkpoint = reader.value(jobs[0].id, saved_by(1), &digest(b"1")).unwrap();
        assert_eq!(checkpoint, None, "a step is no checkpoint");
        let found = verify(&*reader).unwrap();
        assert_eq!((found.values, found.damage), (5, vec![]));
        log.close().unwrap();
    });
}

#[test]
fn a_result_of_a_step_that_is_missing_is_told() {
    everywhere(|place| {
        let mut log = place.open();
        let mut job = Job::new(1);
        log.append(&[job.row(1, &[recorded("charge", b"1")])]).unwrap();
        let found = verify(&*log.reader()).unwrap();
        let [damage] = &found.damage[..] else { panic!("{found:?}") };
        assert_eq!(damage.detail, "the result of the step that event 1 recorded is missing");
        log.close().unwrap();
    });
}

fn recorded(name: &str, value: &[u8]) -> Event {
    let (task, name) = (TaskNumber(1), name.into());
    Event::StepRecorded { task, attempt: 1, name, value: digest(value) }
}

#[test]
fn the_values_of_a_job_go_when_a_row_says_so() {
    everywhere(|place| {
        let mut log = place.open();
        let (mut purged, mut other) = (Job::new(1), Job::new(2));
        let keys = [saved_by(1), saved_by(u32::MAX), ValueKey::Step { seq: 1 }];
        let values = |text: &'static [u8]| keys.map(|key| (key, Arc::from(text))).to_vec();
        log.append(&[purged.row_with(1, &[small(1)], values(b"one"))]).unwrap();
        log.append(&[other.row_with(2, &[small(1)], values(b"two"))]).unwrap();
        let mut last = purged.row(3, &[small(2)]);
        last.ends_values = true;
        log.append(&[last]).unwrap();
        drop(log);
        let log = place.open();
        let value = |id, key, text: &[u8]| log.reader().value(id, key, &digest(text)).unwrap();
        for key in keys {
            assert_eq!(value(purged.id, key, b"one"), None);
            assert_eq!(value(other.id, key, b"two").as_deref(), Some(&b"two"[..]));
        }
    });
}
