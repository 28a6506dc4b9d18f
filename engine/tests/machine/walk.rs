//! Random walks: random plans, random commands and reports, beside the oracle.
//!
//! `ANNALS_WALK_COMMANDS` sets how many commands there are, `ANNALS_WALK_SEED` walks one seed.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use annals_engine::job::{
    Command, Context, Effect, Event, Job, JobStatus, LogSize, LossRule, Origin, Outcome, PauseMode,
    Recorded, Rejection, Report, StepError, Submitted, Task, TaskNumber, TaskStatus, ValueDigest,
    Wait, begin, step, submit,
};
use annals_tasks_sdk::plan::Limits;
use annals_tasks_sdk::{Done, Exit, JobId, Payload, TaskError, TaskId, Timestamp};
use fastrand::Rng;

use crate::compare;
use crate::dsl::{id, replay};
use crate::oracle::Oracle;
use crate::plans::{draft, name};
use crate::table::{Cell, Column, TABLE, cell, row};

const COMMANDS: u64 = 100_000;
const FIRST_SEED: u64 = 1;

/// One job and all that watches it.
struct Walk {
    rng: Rng,
    live: Job,
    /// The job as its events alone make it, one by one.
    replayed: Job,
    oracle: Oracle,
    history: Vec<Recorded>,
    now: i64,
    revision: u64,
    commands: u64,
    seen: BTreeSet<(usize, Column)>,
    /// Whether it prints what it does.
    loud: bool,
}

impl Walk {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let draft = draft(&mut rng);
        let submitted = Submitted { plan: draft.plan(), workflow: None, source: None };
        let events = submit(submitted, &Limits::default()).unwrap();
        let mut oracle = Oracle::new(draft);
        let cx = context(&mut rng, 0);
        let (live, history) = begin(JobId::from_u128(1), events, &cx).unwrap();
        let mut replayed = Job::begin(JobId::from_u128(1), &history[0]).unwrap();
        oracle.take_in(&history[0]);
        for event in &history[1..] {
            oracle.take_in(event);
            replayed.evolve(event).unwrap();
        }
        assert_eq!(replayed, live);
        compare::after_event(&live, &oracle, 0);
        let (now, revision, commands, seen) = (0, 1, 0, BTreeSet::new());
        let loud = setting("ANNALS_WALK_SEED").is_some();
        if loud {
            println!("{:#?}", oracle.draft);
        }
        Self { rng, live, replayed, oracle, history, now, revision, commands, seen, loud }
    }

    fn run(&mut self) {
        for _ in 0..self.rng.u32(10..120) {
            self.turn();
        }
        self.must_end();
        assert_eq!(replay(&self.history), self.live, "replay of the whole equals live");
    }

    fn turn(&mut self) {
        match self.rng.u8(..20) {
            0 => self.now += self.rng.i64(1..4_000),
            1 => self.now += self.rng.i64(1..60_000),
            2 => self.now -= self.rng.i64(0..2_000),
            _ => {}
        }
        let command = if self.rng.u8(..5) == 0 { self.command() } else { self.report() };
        let _ = self.give(command);
    }

    /// Gives the machine a command, and checks all that must hold of what follows.
    fn give(&mut self, command: Command) -> Result<Vec<Recorded>, Rejection> {
        self.commands += 1;
        let column = Column::of(self.live.status(), self.live.intent());
        let cell = cell(&command, column);
        self.seen.extend(row(&command).map(|row| (row, column)));
        let told = format!("{command:?}");
        let edit = Edit::of(&command);
        let cx = context(&mut self.rng, self.now);
        let dry = (self.rng.u8(..16) == 0).then(|| self.live.clone());
        let answer = match step(&mut self.live, command, &cx) {
            Ok(events) => Ok(events),
            Err(StepError::Rejected(rejection)) => Err(rejection),
            Err(illegal) => panic!("{told}: {illegal}"),
        };
        match (cell, &answer) {
            (Some(Cell::Acts), Ok(events)) => assert!(!events.is_empty(), "{told}"),
            (Some(Cell::Idle), Ok(events)) => assert!(events.is_empty(), "{told}"),
            (Some(Cell::No), Err(refusal)) => assert_eq!(refusal.code, "not_in_this_status"),
            (Some(Cell::Free) | None, _) => {}
            (cell, answer) => panic!("{told} while {column:?}: {cell:?}, but {answer:?}"),
        }
        if self.loud {
            print(&told, &answer);
        }
        if let Some(edit) = edit.filter(|_| cell == Some(Cell::Free)) {
            edit.check(&self.oracle, &answer);
        }
        self.follow(&answer, cell.is_some());
        if let (Some(mut dry), Ok(events)) = (dry, &answer) {
            // A dry run is a step on a copy: taking its events in again gives the same.
            for event in events {
                dry.evolve(event).unwrap();
            }
            assert_eq!(dry, self.live);
        }
        answer
    }

    fn follow(&mut self, answer: &Result<Vec<Recorded>, Rejection>, of_command: bool) {
        let events = answer.as_deref().unwrap_or_default();
        for event in events {
            self.replayed.evolve(event).unwrap();
            self.oracle.take_in(event);
            compare::after_event(&self.replayed, &self.oracle, self.now);
            if matches!(event.event, Event::TaskRemoved { .. }) {
                compare::needs(&self.replayed, &self.oracle);
            }
        }
        self.history.extend_from_slice(events);
        self.revision += u64::from(of_command && !events.is_empty());
        assert_eq!(self.live, self.replayed, "replay equals live, and a refusal changes nothing");
        assert_eq!(self.live.revision(), self.revision);
        compare::after_command(&self.live, &self.oracle, self.now);
    }

    fn command(&mut self) -> Command {
        let cascade = self.rng.u8(..4) == 0;
        match self.rng.u8(..13) {
            0 | 1 => Command::Execute { paused: self.rng.u8(..3) == 0 },
            2 => Command::Pause { mode: PauseMode::Drain },
            3 => Command::Pause { mode: PauseMode::Interrupt },
            4..=6 => Command::Resume,
            7 => Command::Cancel,
            8..=10 => {
                let task = (self.rng.u8(..3) > 0).then(|| id(&self.any_name()));
                let output = (self.rng.u8(..4) == 0).then(|| self.any_output());
                Command::Skip { task, output, cascade }
            }
            _ => Command::Remove { task: id(&self.any_name()), cascade },
        }
    }

    fn report(&mut self) -> Command {
        let now = Timestamp::from_millis(self.now);
        let effects: Vec<Effect> = self.live.effects(now, LossRule::default()).collect();
        let report = match self.rng.u8(..40) {
            0 => Report::Recover,
            1 => Report::Start { task: self.any_task() },
            2 => Report::Tick,
            3 => Report::Park { task: self.any_task(), wait: Wait::Kind },
            4 => Report::Refuse { task: self.any_task(), error: TaskError::new("bad", "no") },
            5 | 6 => {
                let (task, attempt) = (self.any_task(), self.rng.u32(..4));
                self.report_of(task, attempt)
            }
            7 if self.live.is_live() && self.rng.u8(..2) == 0 => Report::Recover,
            _ if effects.is_empty() => Report::Tick,
            _ => match effects[self.rng.usize(..effects.len())] {
                Effect::Want { task, .. } => self.begin(task),
                Effect::Run { task, attempt } | Effect::Stop { task, attempt, .. } => {
                    self.report_of(task, attempt)
                }
                Effect::Wake { at } => {
                    self.now = self.now.max(at.as_millis());
                    Report::Tick
                }
                _ => Report::Tick,
            },
        };
        Command::Report(report)
    }

    /// What the runtime makes of a want.
    fn begin(&mut self, task: TaskNumber) -> Report {
        let sleeps = self.oracle.draft.tasks[task.0 as usize - 1].sleeps;
        match self.rng.u8(..16) {
            0 => Report::Park { task, wait: Wait::Kind },
            1 => Report::Refuse { task, error: TaskError::new("bad_request", "no") },
            _ if sleeps => {
                let until = Timestamp::from_millis(self.now + self.rng.i64(-10..30_000));
                Report::Park { task, wait: Wait::Timer { until } }
            }
            _ => Report::Start { task },
        }
    }

    fn report_of(&mut self, task: TaskNumber, attempt: u32) -> Report {
        let log = LogSize { bytes: self.rng.u64(..9), lines: 1 };
        let error = TaskError::new("error", "it broke");
        let code = Some(self.rng.i32(1..4));
        let outcome = match self.rng.u8(..14) {
            0 => {
                let value = ValueDigest { len: 1, hash: [self.rng.u8(..); 32] };
                return Report::Checkpoint { task, attempt, value };
            }
            1 | 2 => Outcome::Failed(error),
            3 => Outcome::Failed(
                TaskError::new("exit_status", "code").with_exit(Exit { code, signal: None }),
            ),
            4 => Outcome::Failed(TaskError::new("fatal", "no").give_up()),
            5 => Outcome::TimedOut(TaskError::cancelled()),
            6 | 7 => Outcome::Interrupted(TaskError::cancelled()),
            _ => Outcome::Completed(Done { output: self.any_output(), exit: Exit::default() }),
        };
        Report::Ended { task, attempt, outcome, log }
    }

    /// Mostly a task of the plan.
    fn any_task(&mut self) -> TaskNumber {
        let len = u32::try_from(self.oracle.tasks.len()).unwrap();
        TaskNumber(self.rng.u32(0..len + 2))
    }

    fn any_name(&mut self) -> String {
        name(self.rng.usize(..=self.oracle.tasks.len()))
    }

    fn any_output(&mut self) -> Payload {
        Payload::trusted(&self.rng.u8(..).to_string())
    }

    /// From wherever it stands, a job that is let go on, and whose tasks succeed, ends.
    fn must_end(&mut self) {
        let bound = 20 + self.oracle.tasks.len() * 4;
        for _ in 0..bound {
            let now = Timestamp::from_millis(self.now);
            let next = self.live.effects(now, LossRule::default()).next();
            let command = match (self.live.status(), next) {
                (JobStatus::Completed, _) => return,
                (JobStatus::Failed, _) if self.lacks_its_output() => return,
                (JobStatus::Paused | JobStatus::Failed, _) if self.lacks_an_input().is_some() => {
                    let (task, output) = (self.lacks_an_input(), None);
                    Command::Skip { task, output, cascade: true }
                }
                (JobStatus::Paused, _) => Command::Resume,
                (_, Some(Effect::Want { task, .. })) => Command::Report(Report::Start { task }),
                (_, Some(Effect::Run { task, attempt })) => {
                    let done = Done { output: self.any_output(), exit: Exit::default() };
                    let (outcome, log) = (Outcome::Completed(done), LogSize::default());
                    Command::Report(Report::Ended { task, attempt, outcome, log })
                }
                (_, Some(Effect::Wake { at })) => {
                    self.now = self.now.max(at.as_millis());
                    Command::Report(Report::Tick)
                }
                _ => Command::Execute { paused: false },
            };
            assert!(self.give(command).is_ok());
        }
        panic!("the job does not end");
    }

    /// Whether it failed although all is settled: the plan's own output is missing.
    fn lacks_its_output(&self) -> bool {
        self.live.unsettled() == 0
            && self.live.error().is_some_and(|(error, _)| &*error.code == "missing_output")
    }

    /// A task that failed because it takes what a tolerated failure never gave: no run mends that.
    fn lacks_an_input(&self) -> Option<TaskId> {
        let lacks = |task: &Task| {
            task.status() == TaskStatus::Failed
                && !task.is_settled()
                && task.error().is_some_and(|error| &*error.code == "missing_output")
        };
        self.live.tasks().find(|(_, task)| lacks(task)).map(|(_, task)| task.spec.id.clone())
    }
}

fn print(command: &str, answer: &Result<Vec<Recorded>, Rejection>) {
    match answer {
        Ok(events) => {
            println!("{command}");
            events.iter().for_each(|event| println!("    {} {:?}", event.seq, event.event));
        }
        Err(refusal) => println!("{command}\n    refused: {refusal}"),
    }
}

fn context(rng: &mut Rng, now: i64) -> Context {
    let (now, random) = (Timestamp::from_millis(now), rng.f64());
    Context { origin: Origin::actor("walk"), now, random, losses: LossRule::default() }
}

/// A skip or removal of a named task, as far as it decides whether it must be accepted.
struct Edit {
    task: String,
    removes: bool,
    substituted: bool,
    cascade: bool,
}

impl Edit {
    fn of(command: &Command) -> Option<Self> {
        match command {
            Command::Skip { task: Some(task), output, cascade } => Some(Self {
                task: task.to_string(),
                removes: false,
                substituted: output.is_some(),
                cascade: *cascade,
            }),
            Command::Remove { task, cascade } => Some(Self {
                task: task.to_string(),
                removes: true,
                substituted: false,
                cascade: *cascade,
            }),
            _ => None,
        }
    }

    /// `oracle` is as it was before the command.
    fn check(&self, oracle: &Oracle, answer: &Result<Vec<Recorded>, Rejection>) {
        let code = answer.as_ref().err().map(|refusal| refusal.code);
        let Some(at) = (0..oracle.tasks.len()).find(|&at| name(at) == self.task) else {
            return assert_eq!(code, Some("no_such_task"));
        };
        let (known, settled) = (&oracle.tasks[at], oracle.settled());
        if oracle.is_passed_over(at) && (!self.removes || known.status == TaskStatus::Removed) {
            return assert!(matches!(code, None | Some("task_is_settled")), "{code:?}");
        }
        if known.being_skipped && !self.removes {
            return assert!(matches!(code, None | Some("task_is_settled")), "{code:?}");
        }
        if settled[at] {
            return assert!(
                matches!(code, Some("task_is_settled" | "output_is_taken")),
                "{code:?}"
            );
        }
        let takers = takers(oracle, at, &settled);
        if !takers.is_empty() && !self.cascade && !self.substituted {
            assert_eq!(code, Some("output_is_taken"));
            let listed = &answer.as_ref().unwrap_err().dependants;
            let listed: Vec<_> = listed.iter().map(|one| one.task.clone()).collect();
            assert_eq!(listed, takers, "each dependant is listed");
        } else if self.removes {
            let known = ["task_is_live", "would_be_a_circle", "would_lose_order"];
            assert!(code.is_none_or(|code| known.contains(&code)), "{code:?}");
            assert_eq!(code == Some("task_is_live"), oracle.tasks[at].live);
        } else {
            assert_eq!(code, None, "nothing speaks against the skip");
        }
    }
}

/// Who takes an output without a default, as the plan has it; `None` is the plan's own output.
fn takers(oracle: &Oracle, from: usize, settled: &[bool]) -> Vec<Option<String>> {
    let mut takers = Vec::new();
    for at in (0..oracle.tasks.len()).filter(|&at| oracle.is_to_run(at, settled)) {
        let takes = &oracle.draft.tasks[at].takes;
        takers.extend(takes.iter().filter(|&&take| take == (from, false)).map(|_| Some(name(at))));
    }
    takers.extend((oracle.draft.output == Some((from, false))).then_some(None));
    takers
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect(name))
}

/// Walks one seed; on a failure it says how to see it again.
fn walk(seed: u64) -> Walk {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut walk = Walk::new(seed);
        walk.run();
        walk
    }));
    outcome.unwrap_or_else(|panic| {
        eprintln!("ANNALS_WALK_SEED={seed} cargo test -p annals-engine --test machine walk");
        resume_unwind(panic)
    })
}

#[test]
fn random_walks_obey_the_laws() {
    if let Some(seed) = setting("ANNALS_WALK_SEED") {
        walk(seed);
        return;
    }
    let goal = setting("ANNALS_WALK_COMMANDS").unwrap_or(COMMANDS);
    let began = std::time::Instant::now();
    let (mut commands, mut events, mut seen, mut walks) = (0, 0, BTreeSet::new(), 0);
    for seed in FIRST_SEED.. {
        let walk = walk(seed);
        (commands, events) = (commands + walk.commands, events + walk.history.len());
        seen.extend(walk.seen);
        walks += 1;
        if commands >= goal {
            break;
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    println!("{walks} walks, {commands} commands, {events} events in {seconds:.1} s");
    for (row, (command, _)) in TABLE.iter().enumerate() {
        for column in Column::ALL {
            assert!(seen.contains(&(row, column)), "{command} while {column:?} never happened");
        }
    }
}

#[test]
fn the_same_seed_is_the_same_walk() {
    for seed in FIRST_SEED..FIRST_SEED + 50 {
        let (one, two) = (walk(seed), walk(seed));
        assert_eq!(one.history, two.history, "seed {seed}");
        assert_eq!(one.live, two.live);
    }
}
