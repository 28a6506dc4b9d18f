//! Jobs whose kinds the engine does not have: nothing is thrown away, they wait where everybody can
//! see it, and go on when their kind is there again.

use annals_engine::job::{JobStatus, Waiting};
use annals_engine::runtime::Builder;
use annals_engine::views::Reason;
use annals_tasks_sdk::{JobId, KindName, Payload, TaskContext, TaskError, TaskResult};

use super::support::{
    Gate, HandClock, Store, Tally, World, counting, kill, laws, loops, nothing, outcomes, plan,
    status_of, submit, task, until, within,
};

/// How many jobs there are of each sort.
const EACH: usize = 34;

/// Fails the first time.
async fn fails_once(cx: TaskContext, input: Payload) -> TaskResult<Payload> {
    if cx.attempt().attempt == 1 { Err(TaskError::new("busy", "not now")) } else { Ok(input) }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_wait_for_a_kind_that_is_gone_and_go_on_when_it_is_back() {
    for loops in loops() {
        let (world, clock) = (World::new(Store::Disk), HandClock::new());
        let (tally, gate) = (Tally::new(), Gate::new());
        let without = || world.engine_at(&clock).loops(loops).slots(500).task(task("ok"), nothing);
        let with = |engine: Builder| {
            let engine = engine.task(task("long"), counting(&tally, &gate));
            engine.task(task("once"), fails_once)
        };
        let life = within(with(without()).start()).await.unwrap();
        let retry = r#""retry": {"max_attempts": 2, "backoff": {"initial": "1h", "jitter": 0}}"#;
        let sorts = [
            // Next, running, and in back-off when the kind goes.
            r#"{"id": "s", "kind": "sleep", "input": {"for": "1h"}}, {"id": "a", "kind": "long"}"#,
            r#"{"id": "a", "kind": "long"}"#,
            &format!(r#"{{"id": "a", "kind": "once", {retry}}}"#),
        ];
        let mut jobs: Vec<(usize, JobId)> = Vec::new();
        for _ in 0..EACH {
            for (sort, tasks) in sorts.iter().enumerate() {
                jobs.push((sort, submit(&life, plan(tasks)).await.id()));
            }
        }
        for (sort, id) in &jobs {
            let (task, status) = [("s", "waiting"), ("a", "running"), ("a", "waiting")][*sort];
            until(&life.job(*id), |now| status_of(&now.job, task) == status).await;
        }
        kill(life).await;

        let life = within(without().start()).await.unwrap();
        clock.advance(std::time::Duration::from_hours(2));
        for (sort, id) in &jobs {
            let kind = ["long", "long", "once"][*sort];
            let lacks = |job: &annals_engine::job::Job| {
                let task = job.task(job.find("a").unwrap()).unwrap();
                task.waiting() == Some(Waiting::Kind)
            };
            let job = life.job(*id);
            until(&job, |now| lacks(&now.job)).await;
            let why = within(job.explain()).await.unwrap();
            let says = |reason: &Reason| match reason {
                Reason::WantsKind { kind: wanted, .. } => wanted == kind,
                _ => false,
            };
            assert!(why.reasons.iter().any(|one| says(&one.reason)), "{why:?}");
            let missing = within(job.missing_kinds()).await.unwrap();
            assert_eq!(missing.iter().map(KindName::as_str).collect::<Vec<_>>(), [kind]);
        }
        // The others run on.
        let other = submit(&life, plan(r#"{"id": "a", "kind": "ok"}"#)).await;
        assert_eq!(within(other.ended()).await.unwrap().job.status(), JobStatus::Completed);
        drop(other);
        kill(life).await;

        gate.open();
        let life = within(with(without()).start()).await.unwrap();
        for (sort, id) in &jobs {
            within(life.job(*id).ended()).await.unwrap();
            let ended = laws(&life.job(*id)).await;
            assert_eq!(ended.status(), JobStatus::Completed);
            let before: &[_] = [&[][..], &["lost"], &["failed"]][*sort];
            assert_eq!(outcomes(&ended, "a"), [before, &["completed"]].concat());
        }
        within(life.shutdown()).await.unwrap();
    }
}
