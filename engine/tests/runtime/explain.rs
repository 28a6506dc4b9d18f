//! Why a job does not move: each reason once, as the engine's own jobs give it, and with commands
//! that the job accepts as it stands.

use std::sync::Arc;
use std::time::{Duration, Instant};

use annals_engine::job::{Command, LossRule, Origin, PauseMode};
use annals_engine::runtime::{Clock, Engine, JobError, JobHandle};
use annals_engine::views::{Explanation, InLine, Reason, Remedy, TASKS_EXPLAINED};
use annals_engine::{Ask, Builder, Mode, Pool};
use annals_tasks_sdk::{JobId, Payload, Progress, TaskContext, TaskError};

use super::support::{
    Gate, HandClock, Tally, World, cancel, counting, kill, nothing, pause, plan, plan_of, resume,
    submit, task, until, until_viewed, within,
};

/// How long something may take to come.
const PATIENCE: Duration = Duration::from_secs(30);

async fn fails(_cx: TaskContext, _input: Payload) -> Result<Payload, TaskError> {
    Err(TaskError::new("broken", "the disk is full"))
}

fn sentences(explanation: &Explanation) -> Vec<String> {
    explanation.reasons.iter().map(|one| one.reason.to_string()).collect()
}

fn verbs(explanation: &Explanation) -> Vec<Vec<&'static str>> {
    explanation.reasons.iter().map(|one| one.remedies.iter().map(Remedy::verb).collect()).collect()
}

/// The explanation, when it says what is wanted. Each command of it would be accepted, and change
/// the job.
async fn says(job: &JobHandle, wanted: &[&str]) -> Explanation {
    let begun = Instant::now();
    loop {
        let now = within(job.explain()).await.expect("it can be explained");
        let found = sentences(&now);
        if found == wanted {
            check_remedies(job, &now).await;
            return now;
        }
        assert!(begun.elapsed() < PATIENCE, "{found:#?} is not {wanted:#?}");
        tokio::task::yield_now().await;
    }
}

async fn check_remedies(job: &JobHandle, explanation: &Explanation) {
    for remedy in explanation.reasons.iter().flat_map(|one| &one.remedies) {
        let ask = Ask { dry_run: true, ..Ask::default() };
        let answer = within(job.command(remedy.command(), ask)).await;
        let events = answer.unwrap_or_else(|error| panic!("{remedy:?}: {error}")).events;
        assert!(!events.is_empty(), "{remedy:?} changes nothing");
    }
}

async fn ask(job: &JobHandle, command: Command, reason: &str) {
    let origin = Origin { reason: Some(reason.into()), ..Origin::actor("ada") };
    within(job.command(command, Ask { origin, ..Ask::default() })).await.expect("it is accepted");
}

fn kinds(engine: Builder, tally: &Tally, gate: &Gate) -> Builder {
    let engine = engine.task(task("held"), counting(tally, gate)).allow_unknown_kinds(true);
    engine.task(task("fails"), fails).task(task("ok"), nothing)
}

/// Tasks, the sentences of their job, and the commands that come with each.
type Case = (&'static str, &'static [&'static str], &'static [&'static [&'static str]]);

const CASES: [Case; 7] = [
    (r#"{"id": "a", "kind": "ok"}"#, &["the job has completed"], &[&[]]),
    (
        r#"{"id": "a", "kind": "fails"}, {"id": "b", "kind": "ok"}"#,
        &["the job has failed: task a failed: the disk is full [broken]"],
        &[&["execute"]],
    ),
    (
        r#"{"id": "a", "kind": "fails", "on_failure": "pause"}"#,
        &[
            "the job was paused 0s ago, when task a failed, whose plan says `on_failure: pause`; \
             it stays paused after a skip, an edit or a retry of the task, until it is resumed",
            "task a has failed: the disk is full [broken]",
        ],
        &[&["resume", "cancel"], &["retry", "skip"]],
    ),
    (
        r#"{"id": "a", "kind": "fails", "retry": {"max_attempts": 3,
        "backoff": {"initial": "8s", "jitter": 0}}}"#,
        &["task a failed 1 of 3 times, and attempt 2 is due in 8s: the disk is full [broken]"],
        &[&["retry", "skip"]],
    ),
    (
        r#"{"id": "a", "kind": "sleep", "input": {"for": "1m"}}, {"id": "b", "kind": "ok"},
               {"id": "c", "kind": "ok", "needs": ["a", "b"]}"#,
        &[
            "task a waits for a time, which comes in 1m",
            "task b waits for a",
            "task c waits for a, b",
        ],
        &[&["skip"], &[], &[]],
    ),
    (
        r#"{"id": "a", "kind": "nobody"}"#,
        &["task a waits for kind nobody, which is not registered here"],
        &[&["skip"]],
    ),
    // What would take an input away from another goes with that.
    (
        r#"{"id": "a", "kind": "nobody"}, {"id": "b", "kind": "ok",
                "input": {"$output": "a"}}"#,
        &["task a waits for kind nobody, which is not registered here", "task b waits for a"],
        &[&["skip"], &[]],
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_move_by_themselves_or_not_at_all_say_why() {
    let (world, clock) = (World::in_memory(), HandClock::new());
    let engine = kinds(world.engine_at(&clock), &Tally::new(), &Gate::new());
    let engine: Engine = within(engine.start()).await.unwrap();
    for (tasks, wanted, commands) in CASES {
        let now = says(&submit(&engine, plan(tasks)).await, wanted).await;
        assert_eq!(verbs(&now), commands, "{wanted:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_holds_or_ends_a_job_is_told_with_the_reason() {
    let (world, clock) = (World::in_memory(), HandClock::new());
    let engine = kinds(world.engine_at(&clock), &Tally::new(), &Gate::new());
    let engine = within(engine.start()).await.unwrap();
    let manual = r#"{"name": "test", "start": "manual", "tasks": [{"id": "a", "kind": "ok"}]}"#;
    let manual = submit(&engine, plan_of(manual)).await;
    let now = says(&manual, &["the job was never executed"]).await;
    assert_eq!(verbs(&now), [["execute", "cancel"]]);
    ask(&manual, Command::Pause { mode: PauseMode::Drain }, "the disk is changed").await;
    clock.advance(Duration::from_secs(90));
    let now = says(&manual, &["the job was paused by ada 1m 30s ago (the disk is changed)"]).await;
    assert_eq!(now.summary(), sentences(&now)[0]);
    ask(&manual, Command::CANCEL, "never mind").await;
    let now = says(&manual, &["the job was cancelled by ada 0s ago (never mind)"]).await;
    assert_eq!(verbs(&now), [["execute"]]);
    ask(&manual, Command::Execute { paused: true }, "later").await;
    says(&manual, &["the job was paused by ada 0s ago (later)"]).await;
    let nobody = engine.job(JobId::from_u128(7));
    assert!(matches!(within(nobody.explain()).await, Err(JobError::NotFound(_))));
}

/// Says how far it is, and waits at the gate.
fn telling(tally: &Tally, gate: &Gate) -> impl annals_tasks_sdk::Task<Payload, Payload> + use<> {
    let (tally, gate) = (tally.clone(), gate.clone());
    move |cx: TaskContext, input: Payload| {
        let (tally, gate) = (tally.clone(), gate.clone());
        async move {
            cx.progress(Progress { done: 3, total: 10 });
            cx.message("unpacking");
            let _inside = tally.enter();
            gate.pass().await;
            Ok(input)
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_are_told_with_their_times_and_what_they_say() {
    let (world, clock) = (World::in_memory(), HandClock::new());
    let (gate, tally) = (Gate::new(), Tally::new());
    let engine = kinds(world.engine_at(&clock), &tally, &gate);
    let engine = engine.task(task("tells"), telling(&tally, &gate)).start();
    let engine = within(engine).await.unwrap();
    let text = r#"{"id": "a", "kind": "tells", "timeout": "30m", "heartbeat_timeout": "5m",
         "cancel_grace": "20s"},
        {"id": "b", "kind": "ok"}, {"id": "f", "kind": "fails", "needs": []}"#;
    let job = submit(&engine, plan(text)).await;
    within(tally.until(|counts| counts.inside == 1)).await;
    let failed = "task f has failed: the disk is full [broken]";
    let behind = "task b waits for a";
    let runs = "attempt 1 of task a runs since 0s, and times out in 30m, and is stopped when \
         nothing is heard of it for 5m: 3 of 10 done, unpacking";
    says(&job, &[runs, failed, behind]).await;
    clock.advance(Duration::from_secs(3));
    let runs = "attempt 1 of task a runs since 3s, and times out in 29m 57s, and is stopped when \
         nothing is heard of it for 5m: 3 of 10 done, unpacking";
    let now = says(&job, &[runs, failed, behind]).await;
    assert_eq!(verbs(&now), [vec!["skip"], vec!["retry", "skip"], vec![]]);
    assert_eq!(now.summary(), format!("{runs} (and 2 more reasons)"));

    pause(&job, PauseMode::Drain).await;
    let pausing = "the job is on its way to be paused by tester 0s ago: 1 attempt is alive";
    let now = says(&job, &[pausing, runs, failed]).await;
    assert_eq!(verbs(&now)[0], ["resume", "pause", "cancel"]);
    assert_eq!(now.reasons[0].remedies[1], Remedy::Interrupt);
    pause(&job, PauseMode::Interrupt).await;
    until(&job, |now| now.live.values().all(|live| live.stopping_since.is_some())).await;
    let stops = "attempt 1 of task a was told to stop 0s ago, since the job is to be paused, and \
         is ended in 20s if it has not ended by then";
    let now = says(&job, &[pausing, stops, failed]).await;
    assert_eq!(verbs(&now)[0], ["resume", "cancel"], "it is interrupted already");
    cancel(&job).await;
    let cancelling = "the job is on its way to be cancelled by tester 0s ago: 1 attempt is alive";
    let stops = "attempt 1 of task a was told to stop 0s ago, since the job is to be cancelled, \
         and is ended in 20s if it has not ended by then";
    let now = says(&job, &[cancelling, stops, failed]).await;
    assert!(verbs(&now).iter().all(Vec::is_empty), "nothing helps but to wait");
    let Reason::Stops { told, grace, .. } = &now.reasons[1].reason else { panic!("{now:?}") };
    assert_eq!(grace.at, told.at.plus(Duration::from_secs(20)));
    gate.open();
    within(job.ended()).await.unwrap();
    says(&job, &["the job was cancelled by tester 0s ago", failed]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_a_slot_is_told_where_it_stands() {
    let (world, clock) = (World::in_memory(), HandClock::new());
    let (gate, tally) = (Gate::new(), Tally::new());
    let engine = kinds(world.engine_at(&clock).loops(2), &tally, &gate).slots(1).start();
    let engine: Engine = within(engine).await.unwrap();
    let held = r#"{"id": "a", "kind": "held"}"#;
    let first = submit(&engine, plan(held)).await;
    within(tally.until(|counts| counts.inside == 1)).await;
    let mut line = Vec::new();
    for _ in 0..3 {
        line.push(submit(&engine, plan(held)).await);
    }
    for (job, place) in line.iter().zip(["first", "second", "third"]) {
        let wanted = format!(
            "task a is {place} of 3 in line for the only slot of pool default, which is taken"
        );
        let now = says(job, &[&wanted]).await;
        let Reason::WantsSlot { line: Some(line), .. } = &now.reasons[0].reason else {
            panic!("{now:?}")
        };
        assert_eq!((&*line.pool, line.slots, line.waiting), ("default", 1, 3));
        assert!(matches!(line.place, InLine::At(1..=3)));
    }
    cancel(&line[0]).await;
    let second = "task a is second of 2 in line for the only slot of pool default, which is taken";
    says(&line[2], &[second]).await;

    // A job has no more than so many places, and no more tasks are told of one.
    let wide: Vec<_> =
        (0..90).map(|n| format!(r#"{{"id": "t{n}", "kind": "held", "needs": []}}"#)).collect();
    let wide = submit(&engine, plan(&wide.join(","))).await;
    let now = within(wide.explain()).await.unwrap();
    assert_eq!((now.reasons.len(), now.more_tasks), (TASKS_EXPLAINED, 70));
    let third = "task t0 is third of 66 in line for the only slot of pool default, which is taken";
    assert_eq!(sentences(&now)[0], third);
    assert!(now.summary().ends_with(" (and 89 more reasons)"), "{}", now.summary());
    // Those before them are passed over.
    for n in 0..64 {
        super::support::skip(&wide, &format!("t{n}")).await;
    }
    let now = within(wide.explain()).await.unwrap();
    assert_eq!((now.reasons.len(), now.more_tasks), (TASKS_EXPLAINED, 6));
    cancel(&wide).await;
    gate.open();
    for job in [first].into_iter().chain(line) {
        within(job.ended()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_of_ones_own_is_named_where_its_slots_are_taken() {
    let (world, gate, tally) = (World::in_memory(), Gate::new(), Tally::new());
    let cpu = Pool::new("cpu").slots(2).kinds(["held"]);
    let engine = within(kinds(world.engine(), &tally, &gate).pool(cpu).start()).await.unwrap();
    let mut jobs = Vec::new();
    for _ in 0..5 {
        jobs.push(submit(&engine, plan(r#"{"id": "a", "kind": "held"}"#)).await);
    }
    let taken = "task a is third of 3 in line for one of the 2 slots of pool cpu, which are all \
                 taken";
    let now = says(&jobs[4], &[taken]).await;
    assert_eq!(verbs(&now), [["skip"]]);
    gate.open();
    within(jobs[4].ended()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_has_no_place_in_line_says_what_it_waits_for() {
    let (world, gate, tally) = (World::in_memory(), Gate::new(), Tally::new());
    let engine = kinds(world.engine(), &tally, &gate).slots(1).start();
    let engine = within(engine).await.unwrap();
    let first = submit(&engine, plan(r#"{"id": "a", "kind": "held"}"#)).await;
    within(tally.until(|counts| counts.inside == 1)).await;
    // The one that has no place is among the first that are told, for its needs are met last.
    let mut tasks = vec![r#"{"id": "late", "kind": "held", "needs": ["gate"]}"#.to_owned()];
    tasks.push(r#"{"id": "gate", "kind": "sleep", "input": {"for": "1ms"}, "needs": []}"#.into());
    tasks.extend((0..70).map(|n| format!(r#"{{"id": "t{n}", "kind": "held", "needs": []}}"#)));
    let wide = submit(&engine, plan(&tasks.join(","))).await;
    until(&wide, |now| super::support::status_of(&now.job, "gate") == "completed").await;
    let now = within(wide.explain()).await.unwrap();
    let wanted = "task late takes a place in line for the only slot of pool default, which is \
         taken when another task of its job leaves that line";
    assert_eq!(sentences(&now)[0], wanted);
    cancel(&wide).await;
    gate.open();
    within(first.ended()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_engine_has_left_is_told_by_one_that_holds_and_by_one_that_runs() {
    let (world, clock) = (World::in_memory(), HandClock::new());
    let (gate, tally) = (Gate::new(), Tally::new());
    let start = || kinds(world.engine_at(&clock), &tally, &gate);
    let engine = within(start().start()).await.unwrap();
    let pauses = r#"{"id": "a", "kind": "held", "on_lost": "pause"}"#;
    let job = submit(&engine, plan(pauses)).await.id();
    let sleeps = r#"{"id": "a", "kind": "sleep", "input": {"for": "1m"}}"#;
    let sleeper = submit(&engine, plan(sleeps)).await.id();
    within(tally.until(|counts| counts.inside == 1)).await;
    kill(engine).await;
    within(tally.until(|counts| counts.inside == 0)).await;

    let engine = within(start().mode(Mode::Hold).start()).await.unwrap();
    let nothing_runs = "no engine runs on this store now: this one records what it is asked and \
         starts nothing";
    let cut_off = "attempt 1 of task a ran when its engine ended";
    says(&engine.job(job), &[nothing_runs, cut_off]).await;
    let waits = "task a waits for a time, which comes in 1m";
    says(&engine.job(sleeper), &[nothing_runs, waits]).await;
    kill(engine).await;

    let engine = within(start().start()).await.unwrap();
    clock.advance(Duration::from_secs(5));
    let lost = "the job was paused 5s ago, since the engine had died while task a ran, whose plan \
         says `on_lost: pause`";
    let now = says(&engine.job(job), &[lost]).await;
    assert_eq!(verbs(&now), [["resume", "cancel"]]);
    resume(&engine.job(job)).await;
    within(tally.until(|counts| counts.inside == 1)).await;
    let ending = engine.clone();
    let ending = tokio::spawn(async move { ending.shutdown().await });
    let ends = "the engine is starting or being shut down, and starts no task meanwhile";
    says(&engine.job(job), &[ends, "attempt 2 of task a runs since 0s"]).await;
    gate.open();
    within(ending).await.unwrap().unwrap();
    assert!(matches!(within(engine.job(job).explain()).await, Err(JobError::Engine(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn suspects_say_which_other_runs() {
    let (world, gate, tally) = (World::in_memory(), Gate::new(), Tally::new());
    let rule = LossRule { suspect_after: 1, fail_after: 100 };
    let start = || kinds(world.engine(), &tally, &gate).losses(rule).start();
    let engine = within(start()).await.unwrap();
    let held = r#"{"id": "a", "kind": "held"}"#;
    let (one, two) =
        (submit(&engine, plan(held)).await.id(), submit(&engine, plan(held)).await.id());
    within(tally.until(|counts| counts.inside == 2)).await;
    kill(engine).await;
    within(tally.until(|counts| counts.inside == 0)).await;
    let engine = within(start()).await.unwrap();
    within(tally.until(|counts| counts.inside == 1)).await;
    let is_live = engine.job(one).snapshot().await.unwrap().job.is_live();
    let (runs, waits) = if is_live { (one, two) } else { (two, one) };
    let wanted = format!(
        "task a is a suspect: the engine died while it ran, and suspects run one at a time; \
         task number 1 of job {runs} runs now, and this one is first in line"
    );
    let now = says(&engine.job(waits), &[&wanted]).await;
    let Reason::Suspect { other, line, .. } = &now.reasons[0].reason else { panic!("{now:?}") };
    assert_eq!((other.map(|other| other.job), line.place), (Some(runs), InLine::At(1)));
    gate.open();
    for job in [one, two] {
        within(engine.job(job).ended()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_cannot_be_read_says_why() {
    let world = World::in_memory();
    let start = || kinds(world.engine(), &Tally::new(), &Gate::new()).views_every(1).start();
    let engine = within(start()).await.unwrap();
    let job =
        submit(&engine, plan(r#"{"id": "a", "kind": "sleep", "input": {"for": "1h"}}"#)).await;
    until_viewed(&engine).await;
    let place = job.history(0, 1).await.unwrap()[0].position;
    let id = job.id();
    within(engine.shutdown()).await.unwrap();
    drop((engine, job));
    world.disk.damage(place, |bytes| *bytes.last_mut().unwrap() ^= 1);
    let engine = within(start()).await.unwrap();
    let now = within(engine.job(id).explain()).await.unwrap();
    assert!(now.snapshot.is_none() && now.job_id == id);
    let [only] = &now.reasons[..] else { panic!("{now:?}") };
    assert_eq!((only.reason.code(), only.remedies.len()), ("unreadable", 0));
    let sentence = only.reason.to_string();
    assert!(sentence.contains(&format!("position {}", place.0)), "{sentence}");
    kill(engine).await;
}

/// Who paused a job is found behind many later events.
#[tokio::test(flavor = "multi_thread")]
async fn a_cause_is_found_however_much_has_happened_since() {
    let world = World::in_memory();
    let engine = kinds(world.engine(), &Tally::new(), &Gate::new()).start();
    let engine = within(engine).await.unwrap();
    let tasks: Vec<_> =
        (0..1_200).map(|n| format!(r#"{{"id": "t{n}", "kind": "ok", "needs": []}}"#)).collect();
    let text = format!(r#"{{"name": "test", "start": "manual", "tasks": [{}]}}"#, tasks.join(","));
    let job = submit(&engine, plan_of(&text)).await;
    ask(&job, Command::Pause { mode: PauseMode::Drain }, "wait for me").await;
    for count in [70, 1_100] {
        let done = job.snapshot().await.unwrap().job.counts().skipped;
        for n in done..count {
            super::support::skip(&job, &format!("t{n}")).await;
        }
        let now = within(job.explain()).await.unwrap();
        let sentence = sentences(&now).remove(0);
        assert!(sentence.starts_with("the job was paused by ada "), "{sentence}");
        assert!(sentence.ends_with(" ago (wait for me)"), "{sentence}");
    }
}

/// What a reader is told is of the same moment as the snapshot that it comes with.
#[tokio::test(flavor = "multi_thread")]
async fn an_explanation_is_of_the_moment_of_its_snapshot() {
    let (world, clock) = (World::in_memory(), HandClock::new());
    let engine = kinds(world.engine_at(&clock), &Tally::new(), &Gate::new()).start();
    let engine = Arc::new(within(engine).await.unwrap());
    let job = submit(&engine, plan(r#"{"id": "a", "kind": "nobody"}"#)).await;
    for n in 0..50_u32 {
        let (mode, other) = (PauseMode::Drain, job.clone());
        let asked = tokio::spawn(async move {
            let command = if n % 2 == 0 { Command::Pause { mode } } else { Command::Resume };
            other.command(command, Ask::default()).await.map(drop)
        });
        let now = within(job.explain()).await.unwrap();
        let status = now.snapshot.as_ref().unwrap().job.status().as_str();
        let code = now.reasons[0].reason.code();
        assert!(matches!((status, code), ("paused", "paused") | ("running", "wants_kind")));
        within(asked).await.unwrap().unwrap();
    }
    assert!(clock.now() > annals_tasks_sdk::Timestamp::default());
}
