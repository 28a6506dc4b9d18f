//! The audit of one job.

use annals_engine::log::{EventLog, MemoryDisk, Position};
use annals_engine::{Engine, Mode};
use annals_tasks_sdk::JobId;

use crate::support::{Store, World, kill, plan, submit, within};

const CHAIN: &str = r#"{"id": "a", "kind": "noop"}, {"id": "b", "kind": "noop"}"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_sound_job_is_proved_up_to_its_last_event() {
    for store in Store::BOTH {
        let world = World::new(store);
        let engine = within(world.engine().start()).await.unwrap();
        for tasks in [CHAIN, r#"{"id": "a", "kind": "sleep", "input": {"for": "1h"}}"#] {
            let job = submit(&engine, plan(tasks)).await;
            let is_over = tasks == CHAIN;
            if is_over {
                within(job.ended()).await.unwrap();
            }
            let audited = within(job.verify()).await.unwrap();
            let history = job.history(0, usize::MAX).await.unwrap();
            let last = &history[usize::try_from(audited.head.seq).unwrap() - 1];
            assert_eq!(audited.head.hash, last.hash);
            assert_eq!(audited.found.events, audited.head.seq);
            assert_eq!(audited.found.damage, []);
            assert!(!is_over || audited.head.seq == last.recorded.seq);
        }
        let nobody = within(engine.job(JobId::from_u128(7)).verify()).await;
        assert!(matches!(nobody, Err(annals_engine::runtime::JobError::NotFound(_))));
        kill(engine).await;
    }
}

/// Whichever row of a job is bad, the first of its bad events is named, and no other job's audit
/// is concerned.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_bad_event_is_named() {
    let disk = MemoryDisk::new();
    let folder = tempfile::tempdir().unwrap();
    let start = || Engine::open(folder.path()).log(Box::new(disk.open())).mode(Mode::Run).start();
    let engine = within(start()).await.unwrap();
    let (bad, good) = (submit(&engine, plan(CHAIN)).await, submit(&engine, plan(CHAIN)).await);
    within(bad.ended()).await.unwrap();
    within(good.ended()).await.unwrap();
    within(engine.shutdown()).await.unwrap();
    let (bad, good) = (bad.id(), good.id());
    let rows = disk.open().reader().rows(Position(1), usize::MAX).unwrap();
    let of_bad: Vec<Position> =
        rows.iter().filter(|row| row.job == bad).map(|row| row.position).collect();
    let engine = within(start()).await.unwrap();
    // From the last to the first: each time one more is bad, which is the first.
    for place in of_bad.iter().rev() {
        disk.damage(*place, |bytes| *bytes.last_mut().unwrap() ^= 1);
        let found = within(engine.job(bad).verify()).await.unwrap().found;
        let first = found.damage.first().expect("there is damage");
        assert_eq!((first.position, first.job), (Some(*place), Some(bad)), "{found:?}");
        let found = within(engine.job(good).verify()).await.unwrap().found;
        assert_eq!(found.damage, []);
    }
    kill(engine).await;
}
