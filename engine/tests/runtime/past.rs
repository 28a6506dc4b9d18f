//! A job as it was: at each of its events, at any time, and step by step.

use std::time::Duration;

use annals_engine::job::{Command, Job, JobStatus, Recorded};
use annals_engine::log::PageLimit;
use annals_engine::runtime::{JobError, Moment};
use annals_engine::{Ask, JobHandle};

use crate::support::{Store, World, kill, plan, submit, within};

/// A job with a task that fails, one that is skipped and one that completes afterwards.
async fn lived(world: &World) -> (annals_engine::Engine, JobHandle) {
    let engine = within(world.engine().start()).await.unwrap();
    let tasks = r#"{"id": "a", "kind": "noop"}, {"id": "b", "kind": "noop",
        "input": {"$output": "a", "pointer": "/y"}}, {"id": "c", "kind": "noop"}"#;
    let job = submit(&engine, plan(tasks)).await;
    assert_eq!(within(job.ended()).await.unwrap().job.status(), JobStatus::Failed);
    let skip = Command::Skip { task: None, output: None, cascade: false };
    within(job.command(skip, Ask::default())).await.unwrap();
    within(job.command(Command::Execute { paused: false }, Ask::default())).await.unwrap();
    assert_eq!(within(job.ended()).await.unwrap().job.status(), JobStatus::Completed);
    (engine, job)
}

fn fold<'e>(job: &JobHandle, events: impl IntoIterator<Item = &'e Recorded>) -> Option<Job> {
    let mut made: Option<Job> = None;
    for event in events {
        match &mut made {
            None => made = Some(Job::begin(job.id(), event).unwrap()),
            Some(job) => job.evolve(event).unwrap(),
        }
    }
    made
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_can_be_seen_as_it_was_at_any_moment() {
    for store in Store::BOTH {
        let world = World::new(store);
        let (engine, job) = lived(&world).await;
        let history = job.history(0, usize::MAX).await.unwrap();
        let events: Vec<Recorded> = history.into_iter().map(|logged| logged.recorded).collect();
        assert!(events.len() > 10);
        for (place, event) in events.iter().enumerate() {
            let then = within(job.at(Moment::Seq(event.seq))).await.unwrap();
            assert_eq!(Some(&*then), fold(&job, &events[..=place]).as_ref(), "{place}");
            let then = within(job.at(Moment::Time(event.time))).await.unwrap();
            let by_then = events.iter().filter(|other| other.time <= event.time);
            assert_eq!(Some(&*then), fold(&job, by_then).as_ref(), "{place}");
        }
        let (first, last) = (&events[0], events.last().unwrap());
        let later = within(job.at(Moment::Time(last.time.plus(Duration::from_hours(1))))).await;
        assert_eq!(later.unwrap().seq(), last.seq);
        for none in [0, last.seq + 1, u64::MAX] {
            let refused = within(job.at(Moment::Seq(none))).await;
            let Err(JobError::NoSuchEvent { seq, last: end, .. }) = refused else {
                panic!("{refused:?}")
            };
            assert_eq!((seq, end), (none, last.seq));
        }
        let before = annals_tasks_sdk::Timestamp::from_millis(first.time.as_millis() - 1);
        let refused = within(job.at(Moment::Time(before))).await;
        assert!(matches!(refused, Err(JobError::NotYet { .. })), "{refused:?}");
        kill(engine).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_shows_the_job_before_and_behind_each_event() {
    let world = World::new(Store::Disk);
    let (engine, job) = lived(&world).await;
    let history = job.history(0, usize::MAX).await.unwrap();
    let events: Vec<Recorded> = history.into_iter().map(|logged| logged.recorded).collect();
    for from in 0..=events.len() {
        let limit = PageLimit::events(3);
        let after = from as u64;
        let step = |step: annals_engine::runtime::Replayed<'_>| {
            (step.before.cloned(), step.logged.recorded.clone(), step.after.clone())
        };
        let steps = within(job.replay(after, limit, step)).await.unwrap();
        assert_eq!(steps.len(), 3.min(events.len() - from));
        for (place, (before, event, now)) in (from..).zip(steps) {
            assert_eq!(event, events[place]);
            assert_eq!(before, fold(&job, &events[..place]));
            assert_eq!(Some(now), fold(&job, &events[..=place]));
        }
    }
    within(job.purge(Ask::default())).await.unwrap();
    for refused in [
        within(job.at(Moment::Seq(1))).await.map(|_| ()),
        within(job.replay(0, PageLimit::events(1), |_| ())).await.map(|_| ()),
    ] {
        assert!(matches!(refused, Err(JobError::Purged { .. })), "{refused:?}");
    }
    kill(engine).await;
}
