//! The laws of [`EventLog`], checked on every store.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use annals_tasks_sdk::JobId;

use super::samples;
use super::{Job, fill, small, viewing};
use crate::job::JobStatus;
use crate::log::redb::{Options, RedbLog};
use crate::log::{
    Damage, EventLog, Fault, JobRow, LogError, LogReader, MemoryDisk, PageLimit, Position, ReadRow,
    Waypoints, history, history_page, verify,
};

/// A place where a log lives.
pub(super) trait Place {
    /// Opens the log; the one that was opened before is gone.
    fn open(&self) -> Box<dyn EventLog>;
}

impl Place for MemoryDisk {
    fn open(&self) -> Box<dyn EventLog> {
        Box::new(Self::open(self))
    }
}

struct Folder {
    dir: tempfile::TempDir,
    roll_bytes: u64,
}

impl Place for Folder {
    fn open(&self) -> Box<dyn EventLog> {
        let options = Options { roll_bytes: self.roll_bytes, ..Options::default() };
        Box::new(RedbLog::open(&self.store(), &options).unwrap())
    }
}

impl Folder {
    fn store(&self) -> PathBuf {
        self.dir.path().join("store")
    }
}

/// Runs a law on all stores; in the last one nearly every row begins a new file.
pub(super) fn everywhere(law: impl Fn(&dyn Place)) {
    law(&MemoryDisk::new());
    for roll_bytes in [128 << 20, 300] {
        law(&Folder { dir: tempfile::tempdir().unwrap(), roll_bytes });
    }
}

#[test]
fn what_was_appended_is_read_back_and_outlives_the_handle() {
    everywhere(|place| {
        let mut log = place.open();
        assert_eq!(log.reader().next_position(), Position(1));
        let (mut one, mut two) = (Job::new(1), Job::new(2));
        log.append(&[one.row(1, &[small(1), small(2)]), two.row(3, &[small(1)])]).unwrap();
        log.append(&[]).unwrap();
        // Positions need not be dense.
        log.append(&[one.row(10, &samples::events())]).unwrap();
        let reader = log.reader();
        let before = reader.rows(Position(1), 10).unwrap();
        let next = reader.next_position();
        assert_eq!(next, Position(10 + samples::events().len() as u64));
        drop(log);
        let log = place.open();
        let reader = log.reader();
        assert_eq!(reader.next_position(), next);
        assert_eq!(reader.rows(Position(1), 10).unwrap(), before);
        let places: Vec<u64> = before.iter().map(|row| row.position.0).collect();
        assert_eq!(places, [1, 3, 10]);
        let jobs: Vec<JobId> = before.iter().map(|row| row.job).collect();
        assert_eq!(jobs, [one.id, two.id, one.id]);
        log.close().unwrap();
        drop(reader);
    });
}

#[test]
fn a_row_is_found_by_any_of_its_positions() {
    everywhere(|place| {
        let mut log = place.open();
        let mut job = Job::new(1);
        let row = job.row(1, &[small(1), small(2)]);
        log.append(&[row, job.row(5, &[small(3), small(4)])]).unwrap();
        let reader = log.reader();
        let row = |at| reader.row(Position(at)).unwrap().map(|row| row.position.0);
        let found: Vec<_> = (0..9).map(row).collect();
        let (one, five) = (Some(1), Some(5));
        assert_eq!(found, [None, one, one, None, None, five, five, None, None]);
        let rows = |from, limit| -> Vec<u64> {
            let rows = reader.rows(Position(from), limit).unwrap();
            rows.iter().map(|row| row.position.0).collect()
        };
        assert_eq!(rows(0, 9), [1, 5]);
        assert_eq!(rows(2, 9), [5]);
        assert_eq!(rows(1, 1), [1]);
        assert!(rows(6, 9).is_empty());
        assert!(rows(1, 0).is_empty());
        log.close().unwrap();
    });
}

#[test]
fn rows_out_of_order_are_refused_and_poison_the_handle() {
    everywhere(|place| {
        let mut log = place.open();
        fill(&mut *log, 1, 1..=3);
        let mut job = Job::new(2);
        let wrong = [job.row(4, &[small(1), small(2)]), job.row(5, &[small(3)])];
        let error = log.append(&wrong).unwrap_err();
        assert!(matches!(error, LogError::OutOfOrder { found: 5, due: 6 }), "{error}");
        let again = log.append(&[Job::new(3).row(9, &[small(1)])]);
        assert!(matches!(again, Err(LogError::Poisoned)));
        assert!(matches!(log.idle(), Err(LogError::Poisoned)));
        assert!(matches!(log.checkpoint(&viewing(&[], Position(1))), Err(LogError::Poisoned)));
        // What was durable before can still be read.
        assert_eq!(log.reader().rows(Position(1), 10).unwrap().len(), 3);
        assert!(matches!(log.close(), Err(LogError::Poisoned)));
        let mut log = place.open();
        assert_eq!(log.reader().next_position(), Position(4));
        log.append(&[Job::new(4).row(4, &[small(1)])]).unwrap();
        log.close().unwrap();
    });
}

#[test]
fn what_was_purged_is_in_no_list_and_is_known_all_the_same() {
    everywhere(|place| {
        let mut log = place.open();
        let jobs: Vec<Job> = (1..=3).map(|id| fill(&mut *log, id, id_range(id))).collect();
        let rows: Vec<_> = jobs.iter().map(|job| job.view(JobStatus::Completed)).collect();
        log.checkpoint(&viewing(&rows, Position(5))).unwrap();
        let mut purged = JobRow { job: jobs[1].id, ..samples::purged_row() };
        log.checkpoint(&viewing(std::slice::from_ref(&purged), Position(6))).unwrap();
        let known = |log: &dyn EventLog, purged: &JobRow, open: &[JobRow]| {
            let reader = log.reader();
            let list = [rows[2].clone(), rows[0].clone()];
            assert_eq!(reader.job_rows(None, 10).unwrap(), list);
            assert_eq!(reader.job_rows(None, 1).unwrap(), list[..1]);
            assert_eq!(reader.job_row(purged.job).unwrap().as_ref(), Some(purged));
            assert_eq!(
                [1, 2, 3, 4].map(|id| reader.is_purged(JobId::from_u128(id)).unwrap()),
                [false, true, false, false]
            );
            // Files may be left of it, or not.
            assert_eq!(reader.open_rows().unwrap(), open);
        };
        known(&*log, &purged, &[purged.clone()]);
        drop(log);
        let mut log = place.open();
        known(&*log, &purged, &[purged.clone()]);
        purged.active = false;
        log.checkpoint(&viewing(std::slice::from_ref(&purged), Position(6))).unwrap();
        known(&*log, &purged, &[]);
        drop(log);
        known(&*place.open(), &purged, &[]);
    });
}

#[test]
fn views_are_replaced_and_know_the_open_jobs() {
    everywhere(|place| {
        let mut log = place.open();
        let jobs: Vec<Job> = (1..=3).map(|id| fill(&mut *log, id, id_range(id))).collect();
        assert_eq!(log.reader().viewed(), Position(0));
        let rows: Vec<_> = jobs.iter().map(|job| job.view(JobStatus::Running)).collect();
        log.checkpoint(&viewing(&rows, Position(5))).unwrap();
        log.checkpoint(&viewing(&[jobs[1].view(JobStatus::Completed)], Position(6))).unwrap();
        drop(log);
        let mut log = place.open();
        let reader = log.reader();
        assert_eq!(reader.viewed(), Position(6));
        let ids = |rows: Vec<crate::log::JobRow>| -> Vec<u128> {
            rows.iter().map(|row| row.job.as_u128()).collect()
        };
        assert_eq!(ids(reader.open_rows().unwrap()), [1, 3]);
        assert_eq!(ids(reader.job_rows(None, 10).unwrap()), [3, 2, 1]);
        assert_eq!(ids(reader.job_rows(Some(jobs[2].id), 1).unwrap()), [2]);
        assert_eq!(reader.job_row(jobs[0].id).unwrap(), Some(rows[0].clone()));
        assert_eq!(reader.job_row(JobId::from_u128(9)).unwrap(), None);
        // A job that is executed again is open again.
        log.checkpoint(&viewing(&[jobs[1].view(JobStatus::Pending)], Position(6))).unwrap();
        assert_eq!(ids(reader.open_rows().unwrap()), [1, 2, 3]);
        // Views that are ahead of the records are refused.
        let ahead = log.checkpoint(&viewing(&[], Position(7))).unwrap_err();
        assert!(matches!(ahead, LogError::Ahead { upto: 7, next: 7 }), "{ahead}");
    });
}

#[test]
fn views_are_written_by_another_thread_while_rows_are_appended() {
    everywhere(|place| {
        let mut log = place.open();
        let mut job = Job::new(1);
        log.append(&[job.row(1, &[small(1)])]).unwrap();
        let (views, reader, row) = (log.views(), log.reader(), job.view(JobStatus::Running));
        let viewing_all = std::thread::spawn(move || {
            while reader.viewed() < Position(100) {
                let upto = Position(reader.next_position().0 - 1);
                views.checkpoint(&viewing(std::slice::from_ref(&row), upto)).unwrap();
            }
        });
        for position in 2..=100 {
            log.append(&[job.row(position, &[small(1)])]).unwrap();
        }
        viewing_all.join().unwrap();
        drop(log);
        let log = place.open();
        assert_eq!(log.reader().viewed(), Position(100));
        assert_eq!(log.reader().open_rows().unwrap().len(), 1);
    });
}

fn id_range(id: u128) -> std::ops::RangeInclusive<u64> {
    let first = u64::try_from(id).unwrap() * 2 - 1;
    first..=first + 1
}

#[test]
fn a_history_is_read_backwards_as_far_as_it_is_wanted() {
    everywhere(|place| {
        let mut log = place.open();
        let (mut one, mut two) = (Job::new(1), Job::new(2));
        for position in (1..20).step_by(4) {
            log.append(&[
                one.row(position, &[small(1), small(2)]),
                two.row(position + 2, &[small(1)]),
            ])
            .unwrap();
        }
        let reader = log.reader();
        let rows = history(&*reader, one.head.row, 0).unwrap();
        assert_eq!(rows.iter().map(|row| row.after.seq).collect::<Vec<_>>(), [2, 4, 6, 8, 10]);
        let tail = history(&*reader, one.head.row, 7).unwrap();
        assert_eq!(tail, rows[3..]);
        assert_eq!(history(&*reader, one.head.row, 10).unwrap(), []);
        assert_eq!(history(&*reader, Position(0), 0).unwrap(), []);
        let missing = history(&*reader, Position(90), 0).unwrap_err();
        assert!(matches!(missing, LogError::Damaged(_)), "{missing}");
        assert_eq!((rows[1].position_of(4), rows[1].hash_of(4)), (Position(6), rows[1].after.hash));
        log.close().unwrap();
    });
}

#[test]
fn a_page_of_a_history_is_a_part_of_it_and_no_longer_than_it_must_be() {
    everywhere(|place| {
        let mut log = place.open();
        let mut job = Job::new(1);
        for position in (1..20).step_by(4) {
            log.append(&[job.row(position, &[small(1), small(2)])]).unwrap();
        }
        let (reader, head) = (log.reader(), job.head.row);
        let all = history(&*reader, head, 0).unwrap();
        for row in &all {
            assert_eq!(reader.link(row.position).unwrap(), Some(row.link()));
            assert_eq!(reader.link(row.position_of(row.after.seq)).unwrap(), None);
        }
        let waypoints = Waypoints::default();
        let page_of = |head, after, events| {
            let limit = PageLimit::events(events);
            history_page(&*reader, &waypoints, (job.id, head), after, limit)
        };
        for (after, limit) in (0..12).flat_map(|after| (0..12).map(move |limit| (after, limit))) {
            let page = page_of(head, after, limit).unwrap();
            let first = usize::try_from(after / 2).unwrap().min(all.len());
            // The first row may hold one event that is not wanted.
            let odd = usize::from(limit > 0 && after % 2 == 1);
            let last = (first + (limit + odd).div_ceil(2)).min(all.len());
            assert_eq!(page, all[first..last], "{limit} after {after}");
        }
        assert_eq!(page_of(head, 0, usize::MAX).unwrap(), all);
        assert_eq!(page_of(Position(0), 0, 1).unwrap(), []);
        let missing = page_of(Position(90), 0, 1).unwrap_err();
        assert!(matches!(missing, LogError::Damaged(_)), "{missing}");
        log.close().unwrap();
    });
}

#[test]
fn an_audit_counts_what_there_is() {
    everywhere(|place| {
        let mut log = place.open();
        let one = fill(&mut *log, 1, 1..=40);
        let two = fill(&mut *log, 2, 50..=60);
        log.checkpoint(&viewing(
            &[one.view(JobStatus::Running), two.view(JobStatus::Failed)],
            Position(60),
        ))
        .unwrap();
        let found = verify(&*log.reader()).unwrap();
        assert_eq!((found.rows, found.events, found.jobs, found.free), (51, 51, 2, 9));
        assert_eq!(found.damage, []);
        log.close().unwrap();
    });
}

#[test]
fn an_audit_finds_rows_that_are_missing() {
    everywhere(|place| {
        let mut log = place.open();
        let mut job = fill(&mut *log, 1, 1..=2);
        let lost = job.row(3, &[small(1)]);
        let after = job.row(4, &[small(1)]);
        log.append(&[after]).unwrap();
        let mut other = fill(&mut *log, 2, 5..=6);
        other.row(7, &[small(1)]);
        log.checkpoint(&viewing(&[other.view(JobStatus::Running)], Position(6))).unwrap();
        let found = verify(&*log.reader()).unwrap();
        let places: Vec<_> =
            found.damage.iter().map(|damage| (damage.position, damage.job)).collect();
        let at = |position, job: JobId| (Some(Position(position)), Some(job));
        assert_eq!(places, [at(4, lost.job), at(7, other.id)]);
        assert!(history(&*log.reader(), Position(4), 0).is_err());
        log.close().unwrap();
    });
}

#[test]
fn a_failed_append_is_there_or_not_but_never_answered() {
    for (fault, kept) in [(Fault::Before, 1), (Fault::After, 2)] {
        let disk = MemoryDisk::new();
        let mut log = disk.open();
        disk.fail_append(2, fault);
        let mut job = Job::new(1);
        log.append(&[job.row(1, &[small(1)])]).unwrap();
        log.append(&[job.row(2, &[small(2)])]).unwrap_err();
        assert!(matches!(log.append(&[]), Err(LogError::Poisoned)));
        let log = disk.open();
        assert_eq!(log.reader().rows(Position(1), 9).unwrap().len(), kept);
    }
}

#[test]
fn an_audit_goes_on_behind_damage() {
    let disk = MemoryDisk::new();
    fill(&mut disk.open(), 1, 1..=600);
    disk.damage(Position(300), |bytes| *bytes.last_mut().unwrap() ^= 1);
    let found = verify(&disk).unwrap();
    assert_eq!(found.rows, 599);
    let places: Vec<_> = found.damage.iter().map(|damage| damage.position).collect();
    // The row itself, and the one that no longer continues anything.
    assert_eq!(places, [Some(Position(300)), Some(Position(301))]);
    let text = Damage::to_string(&found.damage[0]);
    assert!(text.starts_with("the log is damaged at position 300 (job "), "{text}");
}

#[test]
fn readers_follow_while_the_log_grows() {
    everywhere(|place| {
        let mut log = place.open();
        let follow = |reader: Arc<dyn LogReader>| {
            let mut seen = 0;
            while seen < 120 {
                let durable = reader.next_position().0 - 1;
                let rows = reader.rows(Position(1), 1_000).unwrap();
                let places: Vec<u64> = rows.iter().map(|row| row.position.0).collect();
                assert_eq!(places, (1..=rows.len() as u64).collect::<Vec<_>>());
                assert!(rows.len() as u64 >= durable.max(seen));
                seen = rows.len() as u64;
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..2 {
                let reader = log.reader();
                scope.spawn(move || follow(reader));
            }
            fill(&mut *log, 1, 1..=120);
        });
        log.close().unwrap();
    });
}

/// Random appends, checkpoints and reopenings, compared with a list of what must be there.
#[test]
fn random_use_keeps_everything() {
    everywhere(|place| {
        let mut random = fastrand::Rng::with_seed(23);
        let mut log = place.open();
        let mut jobs: BTreeMap<u128, Job> = BTreeMap::new();
        let mut expected: Vec<ReadRow> = Vec::new();
        for _ in 0..60 {
            let mut next = log.reader().next_position().0 + random.u64(..3);
            let mut rows = Vec::new();
            for id in 1..=random.u128(1..5) {
                let job = jobs.entry(id).or_insert_with(|| Job::new(id));
                let events: Vec<_> = (0..random.u32(1..4)).map(small).collect();
                rows.push(job.row(next, &events));
                next += events.len() as u64;
            }
            log.append(&rows).unwrap();
            let read =
                |row: &crate::log::Row| crate::log::decode_row(row.position, &row.bytes).unwrap();
            expected.extend(rows.iter().map(read));
            match random.u8(..10) {
                0 => log = place.open_after(log),
                1 => log.idle().unwrap(),
                2 => {
                    let rows: Vec<_> =
                        jobs.values().map(|job| job.view(JobStatus::Running)).collect();
                    log.checkpoint(&viewing(&rows, Position(next - 1))).unwrap();
                }
                _ => {}
            }
        }
        let reader = log.reader();
        assert_eq!(reader.rows(Position(1), 1000).unwrap(), expected);
        assert_eq!(verify(&*reader).unwrap().damage, []);
        for job in jobs.values() {
            let mine: Vec<_> = expected.iter().filter(|row| row.job == job.id).cloned().collect();
            assert_eq!(history(&*reader, job.head.row, 0).unwrap(), mine);
        }
        log.close().unwrap();
    });
}

impl dyn Place + '_ {
    fn open_after(&self, log: Box<dyn EventLog>) -> Box<dyn EventLog> {
        drop(log);
        self.open()
    }
}
