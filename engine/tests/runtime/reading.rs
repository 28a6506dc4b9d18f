//! The whole log, and histories page by page.

use annals_engine::log::{EventLog, MemoryDisk, PageLimit, Position};
use annals_engine::runtime::{EngineError, LogPage, Logged};
use annals_engine::{Engine, Mode};

use crate::support::{Store, World, kill, plan, submit, within};

const CHAIN: &str = r#"{"id": "a", "kind": "noop"}, {"id": "b", "kind": "noop"}"#;

/// A store in which some jobs have ended.
async fn some_jobs(world: &World, jobs: usize) -> Engine {
    let engine = within(world.engine().loops(2).start()).await.unwrap();
    for _ in 0..jobs {
        within(submit(&engine, plan(CHAIN)).await.ended()).await.unwrap();
    }
    engine
}

fn places(page: &LogPage) -> Vec<u64> {
    page.events.iter().map(|(_, logged)| logged.position.0).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_comes_in_its_order_from_any_place() {
    for store in Store::BOTH {
        let engine = some_jobs(&World::new(store), 40).await;
        let all = within(engine.events(Position(0), PageLimit::events(usize::MAX))).await.unwrap();
        let positions = places(&all);
        assert!(positions.is_sorted() && positions.len() > 200, "{positions:?}");
        assert_eq!(positions.last().copied(), Some(all.upto.0));
        for (at, (job, logged)) in all.events.iter().enumerate() {
            let found = engine.job(*job).history(logged.recorded.seq - 1, 1).await.unwrap();
            assert_eq!(found.first(), Some(logged), "{at}");
        }
        for after in 0..=all.upto.0 {
            let limit = PageLimit { events: 3, bytes: 1 + usize::try_from(after % 600).unwrap() };
            let page = within(engine.events(Position(after), limit)).await.unwrap();
            let rest: Vec<u64> = positions.iter().copied().filter(|at| *at > after).collect();
            let found = places(&page);
            assert!(found.len() <= 3 && rest.starts_with(&found), "{found:?} after {after}");
            assert!(page.upto.0 > after || rest.is_empty(), "nothing after {after}");
            assert_eq!(found.last().copied().unwrap_or(after), page.upto.0);
        }
        let beyond = within(engine.events(Position(u64::MAX), PageLimit::events(1))).await.unwrap();
        assert_eq!((beyond.events, beyond.upto), (vec![], Position(u64::MAX)));
        kill(engine).await;
    }
}

/// Rows that are damaged hide what was in them, and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_read_past_damage_which_is_told_before_what_is_behind_it() {
    let disk = MemoryDisk::new();
    let folder = tempfile::tempdir().unwrap();
    let start = || Engine::open(folder.path()).log(Box::new(disk.open())).mode(Mode::Run).start();
    let engine = within(start()).await.unwrap();
    for _ in 0..40 {
        within(submit(&engine, plan(CHAIN)).await.ended()).await.unwrap();
    }
    let all = within(engine.events(Position(0), PageLimit::events(usize::MAX))).await.unwrap();
    within(engine.shutdown()).await.unwrap();
    let rows = disk.open().reader().rows(Position(1), usize::MAX).unwrap();
    // The first one, two in a row, one alone, and the last one.
    let hit = [0, 20, 21, 30, rows.len() - 1];
    for row in hit {
        disk.damage(rows[row].position, |bytes| *bytes.last_mut().unwrap() ^= 1);
    }
    let lost =
        |at: Position| hit.iter().any(|row| (rows[*row].position..rows[*row].end()).contains(&at));
    let left: Vec<_> =
        all.events.into_iter().filter(|(_, logged)| !lost(logged.position)).collect();

    let engine = within(start()).await.unwrap();
    for limit in [1, 7, usize::MAX] {
        let (mut after, mut read, mut told) = (Position(0), Vec::new(), Vec::new());
        loop {
            let page = within(engine.events(after, PageLimit::events(limit))).await.unwrap();
            if page.upto == after {
                break;
            }
            for damage in &page.damage {
                let at = damage.position.unwrap();
                assert!(read.last().is_none_or(|last: &(_, Logged)| last.1.position < at));
                assert!(page.events.first().is_none_or(|(_, first)| at < first.position));
                told.push(at);
            }
            read.extend(page.events);
            after = page.upto;
        }
        // Whoever waits for more is not woken for what was passed over.
        assert_eq!(after.0 + 1, engine.reader().next_position().0);
        assert_eq!((told, &read), (hit.map(|row| rows[row].position).to_vec(), &left), "{limit}");
    }
    kill(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_in_pages_of_bytes_is_the_whole_history() {
    let engine = some_jobs(&World::in_memory(), 1).await;
    let job = submit(&engine, plan(CHAIN)).await;
    within(job.ended()).await.unwrap();
    let all = job.history(0, usize::MAX).await.unwrap();
    for bytes in [1, 300, 1_000, 100_000] {
        let mut read = Vec::new();
        loop {
            let after = read.len() as u64;
            let page = job.page(after, PageLimit { events: 4, bytes }).await.unwrap();
            if page.is_empty() {
                break;
            }
            read.extend(page);
        }
        assert_eq!(read, all, "{bytes}");
    }
    kill(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_for_the_log_is_woken_by_each_commit_and_by_the_end() {
    let engine = some_jobs(&World::in_memory(), 1).await;
    let writing = tokio::spawn({
        let engine = engine.clone();
        async move {
            let mut last = 0;
            for _ in 0..20 {
                let job = submit(&engine, plan(CHAIN)).await;
                within(job.ended()).await.unwrap();
                last = job.history(0, 100).await.unwrap().last().unwrap().position.0;
            }
            last
        }
    });
    let (mut position, mut seen) = (Position(0), Vec::new());
    // The first job's last event, and those of the twenty others.
    while seen.iter().filter(|name| **name == "JobCompleted").count() < 21 {
        within(engine.appended(position)).await.unwrap();
        let page = within(engine.events(position, PageLimit::events(5))).await.unwrap();
        assert!(!page.events.is_empty(), "woken for nothing");
        seen.extend(page.events.iter().map(|(_, logged)| logged.recorded.event.type_name()));
        position = page.upto;
    }
    assert_eq!(within(writing).await.unwrap(), position.0);
    let follower = tokio::spawn({
        let engine = engine.clone();
        async move { engine.appended(position).await }
    });
    within(engine.shutdown()).await.unwrap();
    let error = within(follower).await.unwrap().unwrap_err();
    assert!(matches!(error, EngineError::Stopped), "{error}");
}
