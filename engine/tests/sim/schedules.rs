//! Schedules that were found by seeds, step by step.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use annals_engine::job::{Command, JobStatus, Origin, PauseMode};
use annals_engine::log::MemoryDisk;
use annals_engine::runtime::by_hand::Hands;
use annals_engine::{Ask, Engine, Submission};
use annals_tasks_sdk::plan::{Limits, Plan};
use annals_tasks_sdk::{Payload, TaskContext, TaskError, TaskKind};

use crate::clock::SimClock;
use crate::crowd::Crowd;
use crate::run::keep_panics;

const COUNTED: TaskKind<Payload, Payload> = TaskKind::new("counted");

/// An engine in hand, and how often its task was called.
struct Stage {
    engine: Engine,
    hands: Hands,
    crowd: Crowd,
    clock: Arc<SimClock>,
    calls: Arc<AtomicU32>,
}

impl Stage {
    fn new() -> Self {
        keep_panics();
        let (crowd, calls) = (Crowd::default(), Arc::new(AtomicU32::new(0)));
        let tally = Arc::clone(&calls);
        let counted = move |cx: TaskContext, input: Payload| {
            tally.fetch_add(1, Ordering::Relaxed);
            let stops = !input.is_null() && cx.attempt().attempt == 1;
            async move { if stops { Err(TaskError::cancelled()) } else { Ok(input) } }
        };
        let builder =
            Engine::open("/a-simulated-disk/store").log(Box::new(MemoryDisk::default().open()));
        let clock = SimClock::new();
        let builder = builder.clock(clock.clone()).task(COUNTED, counted);
        let (engine, hands) = builder.start_by_hand(Arc::new(crowd.clone())).expect("it starts");
        let mut stage = Self { engine, hands, crowd, clock, calls };
        let engine = stage.engine.clone();
        let resumed = stage.ask(async move { engine.resume().await });
        stage.turn_and_commit();
        stage.answer(&resumed).expect("it resumes");
        stage
    }

    /// Asks something, which waits for turns and commits.
    fn ask<T: Send + 'static>(&self, asking: impl Future<Output = T> + Send + 'static) -> Asked<T> {
        let answer = Arc::new(Mutex::new(None));
        let to = Arc::clone(&answer);
        let member = self.crowd.enter(async move { *to.lock().unwrap() = Some(asking.await) });
        self.crowd.poll(member);
        Asked { member, answer }
    }

    /// Takes the answer to what was asked, and polls nothing else.
    fn answer<T>(&self, asked: &Asked<T>) -> T {
        self.crowd.poll(asked.member);
        asked.answer.lock().unwrap().take().expect("it is answered")
    }

    /// A turn, the commit of what it decided, and the turn that acts on that.
    fn turn_and_commit(&mut self) {
        self.hands.turn(0, usize::MAX);
        self.hands.commit();
        self.hands.turn(0, usize::MAX);
    }

    /// Has everything happen that can without a look at the clock.
    fn settle(&mut self) {
        for _ in 0..8 {
            for member in self.crowd.ready() {
                self.crowd.poll(member);
            }
            self.turn_and_commit();
        }
    }

    /// A job of one task. With an input its first attempt ends as one that was stopped.
    fn submission(input: &str) -> Submission {
        let tasks = format!(r#"[{{"id": "a", "kind": "counted", "input": {input}}}]"#);
        let plan = format!(r#"{{"name": "one", "tasks": {tasks}}}"#);
        let plan = Plan::from_json(&plan, &Limits::default()).expect("a valid plan");
        Submission::new(plan, Origin::ENGINE)
    }
}

struct Asked<T> {
    member: u64,
    answer: Arc<Mutex<Option<T>>>,
}

/// An attempt had been started, and no thread had come to it yet, when its job was cancelled. The
/// client was told so, and then the task's code began.
#[test]
fn a_task_does_not_begin_after_its_cancel_was_acknowledged() {
    let mut stage = Stage::new();
    let engine = stage.engine.clone();
    let asked = stage.ask(async move { engine.submit_plan(Stage::submission("null")).await });
    stage.turn_and_commit();
    let job = stage.answer(&asked).expect("it is accepted");
    assert_eq!(stage.crowd.attempts(), 1);
    let asking = job.clone();
    let asked = stage.ask(async move { asking.command(Command::CANCEL, Ask::default()).await });
    stage.turn_and_commit();
    stage.answer(&asked).expect("it is cancelled");
    for member in stage.crowd.ready() {
        stage.crowd.poll(member);
    }
    assert_eq!(stage.crowd.attempts(), 0, "the attempt is over");
    assert_eq!(stage.calls.load(Ordering::Relaxed), 0, "the task has begun");
    stage.turn_and_commit();
    let asked = stage.ask(async move { job.ended().await });
    let ended = stage.answer(&asked).expect("it is told");
    assert_eq!(ended.job.status(), JobStatus::Cancelled);
}

/// A list that was asked for in the turn in which a job changed showed the job after the change,
/// and said that it was as far as before.
#[test]
fn a_list_says_how_far_the_jobs_are_that_it_shows() {
    let mut stage = Stage::new();
    let (engine, listing) = (stage.engine.clone(), stage.engine.clone());
    let asked = stage.ask(async move { engine.submit_plan(Stage::submission("null")).await });
    let list = stage.ask(async move { listing.jobs(None, 10).await });
    stage.turn_and_commit();
    let job = stage.answer(&asked).expect("it is accepted");
    assert!(!stage.crowd.poll(list.member), "the views are read where that may block");
    stage.crowd.block_next();
    let rows = stage.answer(&list).expect("it is answered");
    let row = rows.iter().find(|row| row.job == job.id()).expect("it is listed");
    let asked = stage.ask(async move { job.snapshot().await });
    stage.hands.turn(0, usize::MAX);
    let snapshot = stage.answer(&asked).expect("it is answered");
    assert_eq!((row.status, row.head.seq), (snapshot.job.status(), snapshot.job.seq()));
}

/// While the commit of a stop was under way the attempt ended by itself, and the next one began:
/// that one is not meant. (No seed of a thousand came to it, so it is told step by step.)
#[test]
fn a_stop_does_not_stop_the_attempt_after_the_one_that_it_is_for() {
    let mut stage = Stage::new();
    let engine = stage.engine.clone();
    let asked = stage.ask(async move { engine.submit_plan(Stage::submission("1")).await });
    stage.turn_and_commit();
    let job = stage.answer(&asked).expect("it is accepted");
    let first = stage.crowd.ready();
    let (pausing, resuming) = (job.clone(), job.clone());
    let pause = Command::Pause { mode: PauseMode::Interrupt };
    let paused = stage.ask(async move { pausing.command(pause, Ask::default()).await });
    stage.hands.turn(0, usize::MAX);
    for member in first {
        stage.crowd.poll(member);
    }
    stage.hands.turn(0, usize::MAX);
    let resumed = stage.ask(async move { resuming.command(Command::Resume, Ask::default()).await });
    stage.turn_and_commit();
    stage.answer(&paused).expect("it is paused");
    stage.answer(&resumed).expect("it goes on");
    let seen = stage.hands.look_at(0);
    let running = &seen.jobs[0].running;
    assert_eq!((running.len(), running[0].attempt), (1, 2), "{running:?}");
    assert!(running[0].started && !running[0].told_to_stop, "{running:?}");
}

/// A job that waited for its key was cancelled and opened again in one turn: it stood in the line
/// twice, and when it had ended the key was given to it once more, for ever. (No seed of thousands
/// came to it.)
#[test]
fn a_job_that_is_opened_again_in_the_turn_of_its_cancel_stands_in_line_once() {
    let mut stage = Stage::new();
    let mut jobs = Vec::new();
    for number in 0..3 {
        if number == 2 {
            // The last comes when the others have ended.
            stage.settle();
        }
        let mut submission = Stage::submission("null");
        submission.plan.exclusive = Some("host".into());
        let engine = stage.engine.clone();
        let asked = stage.ask(async move { engine.submit_plan(submission).await });
        stage.turn_and_commit();
        jobs.push(stage.answer(&asked).expect("it is accepted"));
        if number == 1 {
            stage.clock.pass(10);
            let (cancelling, executing) = (jobs[1].clone(), jobs[1].clone());
            let cancel = async move { cancelling.command(Command::CANCEL, Ask::default()).await };
            let execute = Command::Execute { paused: false };
            let execute = async move { executing.command(execute, Ask::default()).await };
            let (cancelled, executed) = (stage.ask(cancel), stage.ask(execute));
            stage.turn_and_commit();
            stage.answer(&cancelled).expect("it is cancelled");
            stage.answer(&executed).expect("it is opened again");
        }
    }
    stage.settle();
    for job in jobs {
        let asked = stage.ask(async move { job.snapshot().await });
        stage.hands.turn(0, usize::MAX);
        let job = stage.answer(&asked).expect("it is answered").job;
        assert_eq!(job.status(), JobStatus::Completed, "{}", job.id());
    }
}
