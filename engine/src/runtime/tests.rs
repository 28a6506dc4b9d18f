//! What no caller can bring about from outside: contradictions within the engine.

mod driven;
mod laws;
mod lookout;

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use annals_tasks_sdk::plan::{Limits, Plan};
use annals_tasks_sdk::{JobId, Payload, TaskContext, TaskKind};

use super::act::{Action, answer_or_drop};
use super::engine::{Engine, INBOX_MAX};
use super::error::{CommandError, JobError, SubmitError};
use super::keys::Claimed;
use super::message::{Ask, Commanded, Message, Reply, Shows};
use super::submit::Submission;
use crate::job::{Command, IdempotencyKey, JobStatus, Origin, Submitted, submit};
use crate::log::MemoryDisk;

async fn within<T>(future: impl Future<Output = T>) -> T {
    let limit = Duration::from_mins(1);
    tokio::time::timeout(limit, future).await.expect("it must not hang")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_that_makes_no_job_says_why() {
    let (disk, dir) = (MemoryDisk::new(), tempfile::tempdir().unwrap());
    let engine = Engine::open(dir.path()).log(Box::new(disk.open())).start();
    let engine = within(engine).await.unwrap();
    let (job, origin) = (JobId::from_u128(1), Origin::ENGINE);
    let shared = &engine.0.shared;
    let begun = shared.submit(job, Vec::new(), (origin, None), Shows::Acceptance);
    match within(begun).await.map(drop) {
        Err(SubmitError::Job(JobError::Unreadable { job: found, .. })) => assert_eq!(found, job),
        other => panic!("{other:?}"),
    }
}

fn plan(kind: &str) -> Plan {
    let text = format!(r#"{{"name": "test", "tasks": [{{"id": "a", "kind": "{kind}"}}]}}"#);
    Plan::from_json(&text, &Limits::NONE).unwrap()
}

/// More than fits a row.
fn huge() -> Origin {
    Origin { reason: Some("x".repeat(65 << 20).into()), ..Origin::ENGINE }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fits_no_row_stops_its_job_alone() {
    let (disk, dir) = (MemoryDisk::new(), tempfile::tempdir().unwrap());
    let (started, mut starts) = tokio::sync::mpsc::unbounded_channel();
    let wait = move |cx: TaskContext, input: Payload| {
        started.send(cx.attempt().job).unwrap();
        async move {
            cx.or_cancelled(std::future::pending::<()>()).await?;
            Ok(input)
        }
    };
    let kind = TaskKind::<Payload, Payload>::new("hold");
    let engine = Engine::open(dir.path()).log(Box::new(disk.open())).slots(1).task(kind, wait);
    let engine = within(engine.start()).await.unwrap();
    let submission = Submission::new(plan("hold"), Origin::ENGINE);
    let job = within(engine.submit_plan(submission)).await.unwrap();
    assert_eq!(within(starts.recv()).await, Some(job.id()));
    let other = Submission::new(plan("noop"), Origin::ENGINE);
    let other = within(engine.submit_plan(other)).await.unwrap();
    let (id, shared) = (job.id(), &engine.0.shared);
    let seq = within(job.snapshot()).await.unwrap().job.seq();
    let (command, ask) = (Command::CANCEL, Ask { origin: huge(), ..Ask::default() });
    let claim = None;
    let commanded = |reply| Commanded { job: id, command, ask, claim, reply };
    let refused = shared.ask(0, |reply| Message::Command(Box::new(commanded(reply))));
    // Asked in this order, so that the command finds that somebody watches.
    let asked = async { tokio::join!(job.ended(), job.changed(seq), refused) };
    let (ended, changed, refused) = within(asked).await;
    let refused = match refused.unwrap() {
        Err(CommandError::Job(error)) => Err(error),
        other => panic!("{:?}", other.map(|answer| answer.events.len())),
    };
    for answer in [ended.map(drop), changed.map(drop), refused] {
        match answer {
            Err(JobError::Unreadable { job, why }) => assert!(job == id && why.contains("larger")),
            other => panic!("{other:?}"),
        }
    }
    // Its slot is free again.
    assert_eq!(within(other.ended()).await.unwrap().job.status(), JobStatus::Completed);
    let submitted = Submitted { plan: plan("noop"), workflow: None, source: None };
    let events = submit(submitted, &Limits::NONE).unwrap();
    let (new, origin) = (JobId::from_u128(7), huge());
    let refused = shared.submit(new, events, (origin, None), Shows::Acceptance);
    let refused = within(refused).await.map(drop);
    assert!(matches!(refused, Err(SubmitError::Job(JobError::Unreadable { .. }))), "{refused:?}");
    within(engine.shutdown()).await.unwrap();
    drop((job, other, engine));
    // The next engine knows nothing of what was not acknowledged.
    let kind = TaskKind::<Payload, Payload>::new("hold");
    let wait = async |_cx: TaskContext, input: Payload| Ok(input);
    let engine = Engine::open(dir.path()).log(Box::new(disk.open())).task(kind, wait);
    let engine = within(engine.start()).await.unwrap();
    let end = within(engine.job(id).ended()).await.unwrap();
    assert_eq!(end.job.status(), JobStatus::Completed);
    let unknown = within(engine.job(new).snapshot()).await.map(drop);
    assert!(matches!(unknown, Err(JobError::NotFound(_))), "{unknown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_counts_until_it_is_answered_and_a_watch_does_not() {
    let (disk, dir) = (MemoryDisk::new(), tempfile::tempdir().unwrap());
    let engine = Engine::open(dir.path()).log(Box::new(disk.open())).start();
    let engine = within(engine).await.unwrap();
    let text = r#"{"name": "m", "start": "manual", "tasks": [{"id": "a", "kind": "noop"}]}"#;
    let plan = Plan::from_json(text, &Limits::NONE).unwrap();
    let submission = Submission::new(plan, Origin::ENGINE);
    let job = within(engine.submit_plan(submission)).await.unwrap();
    let admission = &engine.0.shared.admission;
    let all = admission.available_permits();
    assert_eq!(all, INBOX_MAX);
    let mut watch = std::pin::pin!(job.ended());
    let asked = async {
        tokio::select! {
            biased;
            _ = &mut watch => panic!("it has not started"),
            now = job.snapshot() => now.map(drop),
        }
    };
    // Asked after the watch, so that the loop has that by then.
    within(asked).await.unwrap();
    assert_eq!(admission.available_permits(), all);
    let permit = Arc::clone(admission).acquire_owned().await.ok();
    let (reply, answer) = Reply::new(permit);
    let prepared = answer_or_drop(reply, 7);
    assert_eq!(admission.available_permits(), all - 1);
    let Action::Answer(send) = prepared else { panic!("it is an answer") };
    send(None);
    assert_eq!((admission.available_permits(), within(answer).await), (all, Ok(7)));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_watches_a_job_does_not_keep_it_loaded() {
    let (disk, dir) = (MemoryDisk::new(), tempfile::tempdir().unwrap());
    let engine = Engine::open(dir.path()).log(Box::new(disk.open())).resident(0).start();
    let engine = within(engine).await.unwrap();
    let ended = within(engine.submit_plan(Submission::new(plan("noop"), Origin::ENGINE)));
    let ended = ended.await.unwrap();
    let seq = within(ended.ended()).await.unwrap().job.seq();
    let text = r#"{"name": "m", "start": "manual", "tasks": [{"id": "a", "kind": "noop"}]}"#;
    let held = Submission::new(Plan::from_json(text, &Limits::NONE).unwrap(), Origin::ENGINE);
    let held = within(engine.submit_plan(held)).await.unwrap();
    let (mut change, mut end) = (pin!(ended.changed(seq)), pin!(held.ended()));
    let shown = Ask { dry_run: true, ..Ask::default() };
    for job in [&ended, &held] {
        // Asked after the watches, so that the loop has those by then.
        let asked = async {
            tokio::select! {
                biased;
                _ = &mut change => panic!("nothing has happened"),
                _ = &mut end => panic!("it has not started"),
                shown = job.command(Command::CANCEL, shown.clone()) => drop(shown),
            }
        };
        within(asked).await;
        let rests = async {
            while engine.0.shared.resting.get(job.id()).is_none() {
                tokio::task::yield_now().await;
            }
        };
        within(rests).await;
    }
    within(held.command(Command::Execute { paused: false }, Ask::default())).await.unwrap();
    assert_eq!(within(end).await.unwrap().job.status(), JobStatus::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_first_of_equal_requests_gives_up_the_next_one_takes_its_place() {
    let (disk, dir) = (MemoryDisk::new(), tempfile::tempdir().unwrap());
    let engine = Engine::open(dir.path()).log(Box::new(disk.open())).start();
    let engine = within(engine).await.unwrap();
    let key = Some(IdempotencyKey::new("tester", "/jobs", "key", b""));
    let submission = || Submission { key, ..Submission::new(plan("noop"), Origin::ENGINE) };
    let mut nobody = Context::from_waker(Waker::noop());
    // While there are no permits a request waits before any loop has heard of it.
    let admission = Arc::clone(&engine.0.shared.admission);
    let all = admission.acquire_many(u32::try_from(INBOX_MAX).unwrap()).await.unwrap();
    let mut waiting: Vec<_> = (0..5).map(|_| Box::pin(engine.accept(submission()))).collect();
    for request in &mut waiting {
        assert!(request.as_mut().poll(&mut nobody).is_pending());
    }
    // The first gives up, and so does one that would be next, before it knows that it is.
    drop(waiting.remove(0));
    drop(waiting.remove(0));
    for request in &mut waiting {
        assert!(request.as_mut().poll(&mut nobody).is_pending());
    }
    drop(waiting.remove(2));
    drop(all);
    let mut replayed = Vec::new();
    for request in waiting {
        replayed.push(within(request).await.unwrap().replayed);
    }
    assert_eq!(replayed, [false, true]);
    let rows = within(engine.jobs(None, 10)).await.unwrap();
    assert_eq!(rows.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_of_what_fits_no_row_is_free_again() {
    let (disk, dir) = (MemoryDisk::new(), tempfile::tempdir().unwrap());
    let engine = Engine::open(dir.path()).log(Box::new(disk.open())).start();
    let engine = within(engine).await.unwrap();
    let key = IdempotencyKey::new("tester", "/jobs", "key", b"");
    let shared = &engine.0.shared;
    let Ok(Claimed::Mine(claim)) = within(shared.keys.claim(key)).await else {
        panic!("nobody has it");
    };
    let submitted = Submitted { plan: plan("noop"), workflow: None, source: None };
    let events = submit(submitted, &Limits::NONE).unwrap();
    let (job, origin, shows) = (JobId::from_u128(7), huge(), Shows::Snapshot);
    let refused = shared.submit(job, events, (origin, Some(claim)), shows);
    let refused = within(refused).await.map(drop);
    assert!(matches!(refused, Err(SubmitError::Job(JobError::Unreadable { .. }))), "{refused:?}");
    let submission = Submission { key: Some(key), ..Submission::new(plan("noop"), Origin::ENGINE) };
    assert!(!within(engine.accept(submission)).await.unwrap().replayed);
}
