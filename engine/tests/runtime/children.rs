//! Child jobs: a task that waits for a job of its own, whatever is asked of either, and whenever
//! the engine dies.

use std::sync::Arc;
use std::time::Duration;

use annals_engine::Ask;
use annals_engine::job::{Command, Event, Failure, Job, JobStatus, Origin, PauseMode, TaskStatus};
use annals_engine::log::Fault;
use annals_engine::runtime::{CommandError, Engine, JobHandle, Snapshot};
use annals_engine::views::Reason;
use annals_tasks_sdk::plan::TaskPatch;
use annals_tasks_sdk::{JobId, Payload, TaskContext, TaskError, TaskId, TaskResult};

use super::support::{
    Gate, HandClock, Store, Tally, World, cancel, counting, execute, kill, laws, loops, nothing,
    outcomes, pause, plan, plan_of, resume, skip, status_of, submit, task, until, within,
};

/// A parent whose child counts its attempts at a gate, takes something of the parent, and gives
/// that back.
const PARENT: &str = r#"{"name": "parent", "tasks": [
    {"id": "a", "kind": "echo", "input": {"n": 12.50}},
    {"id": "child", "kind": "job", "input": {"name": "child", "input": {"$output": "a"},
        "tasks": [{"id": "b", "kind": "count", "input": {"$input": "/n"}}]}},
    {"id": "c", "kind": "echo", "input": {"$output": "child"}}]}"#;

async fn start(world: &World, tally: &Tally, gate: &Gate, loops: usize) -> Engine {
    let engine = world.engine().loops(loops).task(task("count"), counting(tally, gate));
    let engine = engine.task(task("echo"), nothing).task(task("broken"), broken);
    within(engine.start()).await.unwrap()
}

/// Fails until the file that its input names is there.
async fn broken(_cx: TaskContext, input: Payload) -> TaskResult<Payload> {
    let path: String = input.to()?;
    if std::fs::exists(path)? {
        Ok(input)
    } else {
        Err(TaskError::new("no_file", "it is not there"))
    }
}

/// The child of the task `child`.
fn child_of(job: &Job) -> Option<JobId> {
    let task = job.find("child").and_then(|number| job.task(number))?;
    task.child().map(|child| child.job)
}

/// A parent whose child is at the gate.
async fn begun(engine: &Engine, tally: &Tally, text: &str) -> (JobHandle, JobHandle) {
    let before = tally.now().ever;
    let parent = submit(engine, plan_of(text)).await;
    let waits = until(&parent, |now| child_of(&now.job).is_some()).await;
    within(tally.until(move |counts| counts.ever > before)).await;
    let child = engine.job(child_of(&waits.job).unwrap());
    (parent, child)
}

async fn ended(job: &JobHandle) -> Snapshot {
    within(job.ended()).await.unwrap()
}

/// How often an event of this type stands in a history.
async fn count(job: &JobHandle, name: &str) -> usize {
    let history = within(job.history(0, usize::MAX)).await.unwrap();
    history.iter().filter(|logged| logged.recorded.event.type_name() == name).count()
}

async fn reasons(job: &JobHandle) -> Vec<Reason> {
    let told = within(job.explain()).await.unwrap();
    told.reasons.into_iter().map(|explained| explained.reason).collect()
}

fn error_of(job: &Job, task: &str) -> Option<Failure> {
    job.find(task).and_then(|number| job.task(number))?.error().cloned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_gives_its_child_what_it_takes_and_takes_what_it_gives() {
    for (store, loops) in Store::BOTH.into_iter().zip(loops()) {
        let (world, tally, gate) = (World::new(store), Tally::new(), Gate::new());
        let engine = start(&world, &tally, &gate, loops).await;
        let (parent, child) = begun(&engine, &tally, PARENT).await;
        let waits = within(parent.snapshot()).await.unwrap().job;
        assert_eq!(status_of(&waits, "child"), "waiting");
        assert!(outcomes(&waits, "child").is_empty() && !waits.is_live(), "it holds no slot");
        let of_child = within(child.snapshot()).await.unwrap().job;
        let link = of_child.parent().expect("it names its parent");
        assert_eq!((link.job, link.task_id.as_str(), link.depth), (parent.id(), "child", 1));
        assert!(reasons(&parent).await.iter().any(
            |reason| matches!(reason, Reason::Child { child: named, .. } if *named == child.id())
        ));
        gate.open();
        assert_eq!(ended(&parent).await.job.output().unwrap().unwrap().as_str(), "12.50");
        assert_eq!(ended(&child).await.job.status(), JobStatus::Completed);
        for job in [&parent, &child] {
            laws(job).await;
        }
        within(engine.shutdown()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_engine_goes_on_with_parents_and_children() {
    for (store, loops) in Store::BOTH.into_iter().zip(loops()) {
        let (world, tally, gate) = (World::new(store), Tally::new(), Gate::new());
        let engine = start(&world, &tally, &gate, loops).await;
        let (parent, child) = begun(&engine, &tally, PARENT).await;
        let ids = (parent.id(), child.id());
        drop((parent, child));
        let (parent, child) = ids;
        kill(engine).await;
        // The child ends, and its parent is not there to hear of it.
        gate.open();
        let engine = start(&world, &tally, &gate, loops).await;
        let (parent, child) = (engine.job(parent), engine.job(child));
        assert_eq!(ended(&parent).await.job.status(), JobStatus::Completed);
        assert_eq!(count(&parent, "ChildStarted").await, 1, "it has one child");
        assert_eq!(outcomes(&laws(&child).await, "b"), ["lost", "completed"]);
        laws(&parent).await;
        kill(engine).await;
    }
}

/// With the n-th commit from its submission on, the disk dies.
#[tokio::test(flavor = "multi_thread")]
async fn parent_and_child_are_one_also_where_the_disk_dies_between_any_two_commits() {
    let mut died = 0;
    for (at, fault) in (1..12).flat_map(|at| [(at, Fault::Before), (at, Fault::After)]) {
        let (mut world, tally, gate) = (World::in_memory(), Tally::new(), Gate::new());
        gate.open();
        let engine = start(&world, &tally, &gate, 1).await;
        world.gate.fail(at, fault);
        let submission = annals_engine::Submission::new(plan_of(PARENT), Origin::actor("tester"));
        let id = within(engine.submit_plan(submission)).await.map(|job| job.id());
        if let Ok(id) = id {
            died += usize::from(within(engine.job(id).ended()).await.is_err());
        }
        kill(engine).await;
        world.bury();
        let engine = start(&world, &tally, &gate, 1).await;
        // What was submitted goes on, and has one child.
        for row in within(engine.jobs(None, usize::MAX)).await.unwrap() {
            ended(&engine.job(row.job)).await;
        }
        let rows = within(engine.jobs(None, usize::MAX)).await.unwrap();
        let (mut parents, mut children) = (0, 0);
        for row in rows {
            let job = engine.job(row.job);
            assert_eq!(ended(&job).await.job.status(), JobStatus::Completed, "{at} {fault:?}");
            let job = laws(&job).await;
            children += usize::from(job.parent().is_some());
            parents += usize::from(job.parent().is_none());
        }
        assert!(parents <= 1 && children == parents, "{at} {fault:?}: {parents}, {children}");
        assert!(parents == 1 || id.is_err());
        kill(engine).await;
    }
    assert!(died > 4, "the disk died {died} times after the submission");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pause_of_a_parent_and_of_its_child_are_two_holds() {
    let (world, tally, gate) = (World::in_memory(), Tally::new(), Gate::new());
    let engine = start(&world, &tally, &gate, 2).await;
    let (parent, child) = begun(&engine, &tally, PARENT).await;
    pause(&parent, PauseMode::Interrupt).await;
    until(&parent, |now| now.job.status() == JobStatus::Paused).await;
    let held = within(child.snapshot()).await.unwrap().job;
    assert_eq!((held.status(), held.is_live()), (JobStatus::Paused, false), "quiet before");
    let found = reasons(&child).await;
    assert!(matches!(found[0], Reason::HeldByParent { .. }), "{found:?}");
    // Who resumes the child is told who holds it.
    let refused = within(child.command(Command::Resume, Ask::default())).await.unwrap_err();
    let CommandError::Rejected(refused) = refused else { panic!("{refused}") };
    assert_eq!(refused.code, "held_by_parent");
    // The child's own pause outlasts that of its parent, and the other way round.
    pause(&child, PauseMode::Drain).await;
    resume(&parent).await;
    until(&child, |now| !now.job.is_held_by_parent()).await;
    assert_eq!(within(child.snapshot()).await.unwrap().job.status(), JobStatus::Paused);
    pause(&parent, PauseMode::Drain).await;
    until(&parent, |now| now.job.status() == JobStatus::Paused).await;
    resume(&child).await;
    assert_eq!(within(child.snapshot()).await.unwrap().job.status(), JobStatus::Paused);
    let id = (parent.id(), child.id());
    drop((parent, child));
    kill(engine).await;
    let engine = start(&world, &tally, &gate, 2).await;
    let (parent, child) = (engine.job(id.0), engine.job(id.1));
    assert_eq!(within(child.snapshot()).await.unwrap().job.status(), JobStatus::Paused);
    gate.open();
    resume(&parent).await;
    assert_eq!(ended(&parent).await.job.status(), JobStatus::Completed);
    assert_eq!(outcomes(&laws(&child).await, "b"), ["interrupted", "completed"]);
    laws(&parent).await;
    kill(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_parent_ends_behind_its_child() {
    for now in [false, true] {
        let (world, tally, gate) = (World::in_memory(), Tally::new(), Gate::new());
        let engine = start(&world, &tally, &gate, 1).await;
        let text = PARENT.replace(
            r#""kind": "count", "input": {"$input": "/n"}}]"#,
            r#""kind": "count", "input": {"$input": "/n"}}],
               "finally": [{"id": "end", "kind": "echo"}]"#,
        );
        let (parent, child) = begun(&engine, &tally, &text).await;
        let mode = if now { annals_engine::job::CancelMode::Now } else { <_>::default() };
        within(parent.command(Command::Cancel { mode }, Ask::default())).await.unwrap();
        assert_eq!(ended(&parent).await.job.status(), JobStatus::Cancelled);
        let of_child = within(child.snapshot()).await.unwrap().job;
        assert_eq!(of_child.status(), JobStatus::Cancelled, "it has ended before");
        let end = if now { "pending" } else { "completed" };
        assert_eq!(status_of(&of_child, "end"), end, "the cancel is handed down as it is");
        assert_eq!(status_of(&laws(&parent).await, "child"), "interrupted");
        // It goes on with the same child.
        gate.open();
        execute(&parent).await;
        assert_eq!(ended(&parent).await.job.status(), JobStatus::Completed);
        assert_eq!(child_of(&laws(&parent).await), Some(child.id()));
        assert_eq!(ended(&child).await.job.status(), JobStatus::Completed);
        kill(engine).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_is_cancelled_by_itself_fails_its_task_and_a_retry_executes_it() {
    let (world, tally, gate) = (World::in_memory(), Tally::new(), Gate::new());
    let engine = start(&world, &tally, &gate, 1).await;
    let (parent, child) = begun(&engine, &tally, PARENT).await;
    cancel(&child).await;
    let failed = ended(&parent).await.job;
    assert_eq!(&*error_of(&failed, "child").unwrap().code, Failure::CHILD_CANCELLED);
    // The same child, which was executed and cancelled by itself meanwhile.
    execute(&child).await;
    within(tally.until(|counts| counts.ever == 2)).await;
    cancel(&child).await;
    ended(&child).await;
    gate.open();
    let retry = Command::Retry { task: TaskId::new("child").unwrap() };
    within(parent.command(retry, Ask::default())).await.unwrap();
    assert_eq!(ended(&parent).await.job.status(), JobStatus::Completed);
    let parent = laws(&parent).await;
    assert_eq!(child_of(&parent), Some(child.id()));
    assert_eq!(count(&child, "JobReopened").await, 2);
    kill(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_comes_with_its_cause_and_an_edit_makes_another_child() {
    let (world, tally, gate) = (World::in_memory(), Tally::new(), Gate::new());
    let engine = start(&world, &tally, &gate, 1).await;
    let path = world.folder().with_file_name("there");
    let of = |path: &std::path::Path| {
        let path = serde_json::to_string(path).unwrap();
        format!(
            r#"{{"name": "child", "tasks": [{{"id": "b", "kind": "broken", "input": {path}}}]}}"#
        )
    };
    let text = format!(r#"{{"id": "child", "kind": "job", "input": {}}}"#, of(&path));
    let parent = submit(&engine, plan(&text)).await;
    let failed = ended(&parent).await.job;
    let error = error_of(&failed, "child").unwrap();
    let first = child_of(&failed).unwrap();
    assert_eq!(&*error.code, Failure::CHILD_FAILED);
    for part in [first.to_string().as_str(), "task b", "no_file", "it is not there"] {
        assert!(error.message.contains(part), "{error:?}");
    }
    // Executed again, it is the same one that fails.
    execute(&parent).await;
    assert_eq!(child_of(&ended(&parent).await.job), Some(first));
    assert_eq!(count(&engine.job(first), "JobReopened").await, 1);
    let here = world.folder().parent().unwrap().to_owned();
    let edited = format!(r#"{{"input": {}}}"#, of(&here));
    let edited = TaskPatch::from_json(&edited, engine.limits()).unwrap();
    let edit = Command::Edit { task: TaskId::new("child").unwrap(), patch: edited, reset: false };
    within(parent.command(edit, Ask::default())).await.unwrap();
    execute(&parent).await;
    let done = ended(&parent).await.job;
    assert_eq!(done.status(), JobStatus::Completed);
    assert_ne!(child_of(&done), Some(first), "it has another child");
    laws(&parent).await;
    kill(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skip_a_deadline_and_a_failure_of_another_task_end_the_child() {
    let (world, tally, gate) = (World::in_memory(), Tally::new(), Gate::new());
    let (clock, late) = (HandClock::new(), Gate::new());
    let fails = {
        let late = late.clone();
        move |cx: TaskContext, _: Payload| {
            let late = late.clone();
            async move {
                cx.or_cancelled(late.pass()).await?;
                Err::<Payload, _>(TaskError::new("late", "it comes late, and fails"))
            }
        }
    };
    let engine = world.engine_at(&clock).task(task("count"), counting(&tally, &gate));
    let engine = engine.task(task("echo"), nothing).task(task("late"), fails);
    let engine = within(engine.start()).await.unwrap();
    let (parent, child) = begun(
        &engine,
        &tally,
        r#"{"name": "parent", "tasks": [
        {"id": "child", "kind": "job", "input": {"name": "child",
            "tasks": [{"id": "b", "kind": "count"}]}},
        {"id": "c", "kind": "echo"}]}"#,
    )
    .await;
    skip(&parent, "child").await;
    let done = ended(&parent).await.job;
    assert_eq!((done.status(), status_of(&done, "child")), (JobStatus::Completed, "skipped"));
    assert_eq!(ended(&child).await.job.status(), JobStatus::Cancelled);
    for (fields, status) in
        [(r#""fail_fast": true,"#, "failed"), (r#""deadline": "1h","#, "skipped")]
    {
        let text = format!(
            r#"{{"name": "parent", {fields} "tasks": [{{"id": "child", "kind": "job", "input":
                {{"name": "child", "tasks": [{{"id": "b", "kind": "count"}}]}}}},
                {{"id": "x", "kind": "late", "needs": []}}]}}"#
        );
        let (parent, child) = begun(&engine, &tally, &text).await;
        if status == "failed" {
            late.open();
        } else {
            skip(&parent, "x").await;
            clock.advance(Duration::from_hours(1));
            engine.look();
        }
        let failed = ended(&parent).await.job;
        assert_eq!(failed.status(), JobStatus::Failed, "{fields}");
        assert_eq!(status_of(&failed, "child"), "interrupted");
        assert_eq!(status_of(&failed, "x"), status);
        assert_eq!(ended(&child).await.job.status(), JobStatus::Cancelled, "{fields}");
        laws(&parent).await;
        laws(&child).await;
    }
    kill(engine).await;
}

/// A plan whose child has a child, and so on, so many times.
fn nested(deep: usize) -> String {
    let mut text = r#"{"name": "leaf", "tasks": [{"id": "child", "kind": "noop"}]}"#.to_owned();
    for _ in 0..deep {
        text = format!(
            r#"{{"name": "n", "tasks": [{{"id": "child", "kind": "job", "input": {text}}}]}}"#
        );
    }
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn children_are_sixteen_deep_at_most() {
    let (world, tally, gate) = (World::in_memory(), Tally::new(), Gate::new());
    let engine = start(&world, &tally, &gate, 3).await;
    let parent = submit(&engine, plan_of(&nested(16))).await;
    assert_eq!(ended(&parent).await.job.status(), JobStatus::Completed);
    let mut next = submit(&engine, plan_of(&nested(17))).await;
    for depth in 0..=16 {
        let failed = ended(&next).await.job;
        assert_eq!((failed.status(), failed.depth()), (JobStatus::Failed, depth));
        let error = error_of(&failed, "child").unwrap();
        if depth == 16 {
            assert_eq!((&*error.code, child_of(&failed)), ("too_deep", None));
        } else {
            assert!(error.message.contains("child_depth"), "the cause is told: {error:?}");
            next = engine.job(child_of(&failed).unwrap());
        }
    }
    kill(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_has_children_of_its_own_and_a_purged_child_another_one_follows() {
    let (world, tally, gate) = (World::in_memory(), Tally::new(), Gate::new());
    let engine = start(&world, &tally, &gate, 1).await;
    let (parent, child) = begun(&engine, &tally, PARENT).await;
    let fork = annals_engine::runtime::Fork::new(annals_engine::job::ForkFrom::Task(
        TaskId::new("child").unwrap(),
    ));
    let forked = within(parent.fork(fork, Ask::default())).await.unwrap();
    let annals_engine::runtime::Forked::Accepted(forked) = forked else { panic!("no dry run") };
    let other = until(&forked.job, |now| child_of(&now.job).is_some()).await;
    assert_ne!(child_of(&other.job), Some(child.id()));
    // While its parent waits for it a child is not purged.
    cancel(&child).await;
    ended(&parent).await;
    within(child.command(Command::PURGE, Ask::default())).await.unwrap();
    gate.open();
    execute(&parent).await;
    let done = ended(&parent).await.job;
    assert_eq!(done.status(), JobStatus::Completed);
    assert_ne!(child_of(&done), Some(child.id()), "there is nothing of it to go on with");
    assert_eq!(ended(&forked.job).await.job.status(), JobStatus::Completed);
    kill(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_does_not_wait_for_the_key_of_who_waits_for_it() {
    let (world, tally, gate) = (World::in_memory(), Tally::new(), Gate::new());
    let engine = start(&world, &tally, &gate, 1).await;
    let text = PARENT
        .replace(r#"{"name": "parent""#, r#"{"name": "parent", "exclusive": "host""#)
        .replace(r#"{"name": "child""#, r#"{"name": "child", "exclusive": "host""#);
    let parent = submit(&engine, plan_of(&text)).await;
    let failed = ended(&parent).await.job;
    let error = error_of(&failed, "child").unwrap();
    assert_eq!((&*error.code, child_of(&failed)), ("held_by_ancestor", None), "{error:?}");
    kill(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_ends_also_while_its_parent_is_paused() {
    let (world, tally, gate) = (World::in_memory(), Tally::new(), Gate::new());
    let engine = start(&world, &tally, &gate, 1).await;
    let (parent, child) = begun(&engine, &tally, PARENT).await;
    pause(&parent, PauseMode::Interrupt).await;
    until(&parent, |now| now.job.status() == JobStatus::Paused).await;
    cancel(&child).await;
    let failed = until(&parent, |now| status_of(&now.job, "child") == "failed").await;
    assert_eq!(failed.job.status(), JobStatus::Paused);
    resume(&parent).await;
    assert_eq!(ended(&parent).await.job.status(), JobStatus::Failed);
    laws(&parent).await;
    laws(&child).await;
    kill(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_children_of_one_parent_all_end_it() {
    let (world, tally, gate) = (World::in_memory(), Tally::new(), Gate::new());
    gate.open();
    let engine = start(&world, &tally, &gate, 3).await;
    let task = |n| {
        format!(
            r#"{{"id": "t{n}", "kind": "job", "needs": [], "input": {{"name": "c",
                "tasks": [{{"id": "b", "kind": "count"}}]}}}}"#
        )
    };
    let tasks: Vec<String> = (0..500).map(task).collect();
    let parent = submit(&engine, plan(&tasks.join(","))).await;
    let done = ended(&parent).await.job;
    assert_eq!((done.status(), done.counts().completed), (JobStatus::Completed, 500));
    assert_eq!(tally.now().ever, 500, "each child ran once");
    let history = within(parent.history(0, usize::MAX)).await.unwrap();
    let begun = history.iter().filter_map(|logged| match logged.recorded.event {
        Event::ChildStarted { child, .. } => Some(child),
        _ => None,
    });
    let children: std::collections::BTreeSet<JobId> = begun.collect();
    assert_eq!(children.len(), 500);
    let all: Arc<Job> =
        within(engine.job(*children.first().unwrap()).snapshot()).await.unwrap().job;
    assert!(all.tasks().all(|(_, task)| task.status() == TaskStatus::Completed));
    kill(engine).await;
}
