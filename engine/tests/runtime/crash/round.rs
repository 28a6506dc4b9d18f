//! One round: all jobs, from their submission to their end, through crashes.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex};

use annals_engine::job::{AttemptOutcome, Command, Event, Origin};
use annals_engine::log::Fault;
use annals_engine::runtime::{
    CommandError, Engine, EngineError, JobError, Logged, StartError, Submission, SubmitError,
};
use annals_engine::{Ask, IdempotencyKey};
use annals_tasks_sdk::JobId;
use tokio::task::JoinSet;

use super::super::support::{Store, World, laws, plan, within};
use super::client::{Client, Shared, drive};
use super::scripts::{Script, all};
use super::tasks::Ledger;

/// What happens in any job that can happen without a crash.
const WITHOUT_CRASH: [&str; 23] = [
    "AttemptFailed",
    "AttemptInterrupted",
    "AttemptStarted",
    "AttemptTimedOut",
    "CancelRequested",
    "CheckpointSaved",
    "JobCancelled",
    "JobCompleted",
    "JobFailed",
    "JobPaused",
    "JobReopened",
    "JobResumed",
    "JobStarted",
    "JobSubmitted",
    "PauseRequested",
    "RetryScheduled",
    "SkipRequested",
    "StepRecorded",
    "TaskCompleted",
    "TaskFailed",
    "TaskRemoved",
    "TaskSkipped",
    "TaskWaiting",
];

/// How the jobs are driven.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// At once, so that appends hold events of many jobs.
    Together,
    /// One after the other, so that there is an append for nearly every turn of a job.
    OneByOne,
}

/// Runs all jobs to their end. Gives how many times the engine died.
pub(super) async fn round(
    store: Store,
    fault: Option<(u64, Fault)>,
    loops: usize,
    pace: Pace,
) -> u32 {
    let mut world = World::new(store);
    let ledger = Ledger::new();
    // Each script with and without keys, in turn.
    let first = fault.map_or(0, |(n, _)| n);
    let client = |(script, n): (Script, u64)| Client::new(script, n % 2 == 0);
    let clients = all().into_iter().zip(first..).map(client);
    let clients: Vec<Shared> = clients.map(|client| Arc::new(Mutex::new(client))).collect();
    if let Some((n, fault)) = fault {
        world.gate.fail(n, fault);
    }
    let mut died = 0;
    loop {
        if life(&world, &ledger, &clients, loops, pace).await {
            break;
        }
        died += 1;
        world.bury();
        if let Some((n, fault)) = fault.filter(|_| died == 1) {
            // The crash of the engine that recovers from the crash.
            world.gate.fail(n % 5 + 1, fault);
        }
    }
    world.gate.heal();
    last_life(&world, &ledger, &clients, loops, died).await;
    died
}

/// One engine, from its start to its death, or until there is nothing left to do.
async fn life(
    world: &World,
    ledger: &Ledger,
    clients: &[Shared],
    loops: usize,
    pace: Pace,
) -> bool {
    let mut builder = ledger.kinds(world.engine()).loops(loops).slots(8).allow_unknown_kinds(true);
    if pace == Pace::OneByOne {
        // Views are written between appends, and jobs are parked whenever they can be.
        builder = builder.views_every(3).resident(0);
        if loops == 1 {
            // And read again whenever they are needed.
            builder = builder.resting_bytes(0);
        }
    }
    let engine = match within(builder.start()).await {
        Ok(engine) => engine,
        Err(StartError::Engine(EngineError::OutcomeUnknown(_))) => return false,
        Err(other) => panic!("{other}"),
    };
    let mut driven = JoinSet::new();
    let mut lives = true;
    for client in clients {
        let (client, engine, ledger) = (Arc::clone(client), engine.clone(), ledger.clone());
        driven.spawn(async move { within(drive(&client, &engine, &ledger)).await.is_ok() });
        if pace == Pace::OneByOne {
            lives &= driven.join_next().await.expect("one is driven").unwrap();
        }
    }
    lives &= driven.join_all().await.into_iter().all(|lives| lives);
    if lives {
        within(engine.shutdown()).await.expect("it ends in good order");
    } else {
        is_dead(&engine, ledger, clients).await;
        within(tokio::task::spawn_blocking(move || drop(engine))).await.unwrap();
    }
    lives
}

/// A dead engine acknowledges nothing, and its attempts are stopped.
async fn is_dead(engine: &Engine, ledger: &Ledger, clients: &[Shared]) {
    let submission = Submission::new(plan(r#"{"id": "a", "kind": "noop"}"#), Origin::ENGINE);
    let refused = within(engine.submit_plan(submission)).await.map(|job| job.id());
    assert!(matches!(refused, Err(SubmitError::Engine(EngineError::OutcomeUnknown(_)))));
    for job in clients.iter().filter_map(|client| client.lock().unwrap().job) {
        let refused = within(engine.job(job).command(Command::Resume, Ask::default())).await;
        let unknown = JobError::Engine;
        match refused {
            Err(CommandError::Job(JobError::Engine(EngineError::OutcomeUnknown(_)))) => {}
            other => panic!("{other:?} but not {:?}", unknown(EngineError::Stopped)),
        }
        assert!(within(engine.job(job).snapshot()).await.is_err());
    }
    within(ledger.alive().until(|counts| counts.inside == 0)).await;
}

/// The engine that has all kinds: the last job ends, and everything is looked at.
async fn last_life(world: &World, ledger: &Ledger, clients: &[Shared], loops: usize, died: u32) {
    let builder = ledger.late_kind(ledger.kinds(world.engine())).loops(loops).slots(8);
    let engine = within(builder.start()).await.expect("it starts");
    let mut seen = BTreeSet::new();
    let mut jobs = HashSet::new();
    let mut started = HashSet::new();
    for client in clients {
        let (id, ends, record, key) = {
            let client = client.lock().unwrap();
            let id = client.job.expect("it was submitted");
            (id, client.script.ends, client.record.clone(), client.key())
        };
        assert!(jobs.insert(id), "each client has a job of its own");
        let job = engine.job(id);
        within(job.ended()).await.expect("it ends");
        let end = laws(&job).await;
        ends(&end);
        let history = within(job.history(0, usize::MAX)).await.unwrap();
        check_keys(&history, key);
        for acknowledged in &record {
            let place = usize::try_from(acknowledged.seq).unwrap() - 1;
            assert_eq!(history[place].recorded, *acknowledged, "what was acknowledged holds");
        }
        seen.extend(history.iter().map(|logged| logged.recorded.event.type_name()));
        started.extend(history.iter().filter_map(|logged| match logged.recorded.event {
            Event::AttemptStarted { task, attempt } => Some((id, task.0, attempt)),
            _ => None,
        }));
        for (number, task) in end.tasks() {
            let attempts = task.attempts().iter();
            let lost = attempts.filter(|at| at.outcome == Some(AttemptOutcome::Lost));
            for (count, attempt) in (1..).zip(lost) {
                assert!(count <= died, "{number:?} lost attempt {} for nothing", attempt.number);
            }
        }
    }
    check_attempts(&started, ledger, &engine).await;
    if died == 0 {
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), WITHOUT_CRASH);
    }
    let listed = within(engine.jobs(None, 1000)).await.unwrap();
    assert_eq!(listed.iter().map(|row| row.job).collect::<HashSet<JobId>>(), jobs, "none twice");
    within(engine.shutdown()).await.expect("it ends in good order");
}

/// The submission has its key, and nothing was done twice under one key.
fn check_keys(history: &[Logged], submitted: Option<IdempotencyKey>) {
    let keys = history.iter().map(|logged| logged.recorded.key.as_deref().copied());
    assert_eq!(keys.clone().next(), Some(submitted));
    let mut seen = HashSet::new();
    for key in keys.flatten() {
        assert!(seen.insert(key), "one key, two events");
    }
}

/// What ran was in the log before; what was in the log ran, was lost, or was told to stop before it
/// had begun.
async fn check_attempts(started: &HashSet<(JobId, u32, u32)>, ledger: &Ledger, engine: &Engine) {
    let ran = ledger.started();
    assert!(ran.is_subset(started), "a start is durable before the task is called");
    for &(job, task, attempt) in started.difference(&ran) {
        let snapshot = within(engine.job(job).snapshot()).await.unwrap();
        let task = snapshot.job.task(annals_engine::job::TaskNumber(task)).unwrap();
        let is_noop = task.spec.kind.as_str() == "noop";
        let attempt = &task.attempts()[attempt as usize - 1];
        let lost = attempt.outcome == Some(AttemptOutcome::Lost);
        let stopped = attempt.outcome == Some(AttemptOutcome::Interrupted);
        let stopped = stopped && attempt.stop.is_some();
        assert!(is_noop || lost || stopped, "it did not run");
    }
}
