//! What is asked and reported on a walk: at random first, and then so that the job ends.

use std::time::Duration;

use annals_engine::job::{
    CancelMode, Command, Effect, Input, JobStatus, LogSize, LossRule, Outcome, Part, PauseMode,
    Place, Report, Task, TaskNumber, TaskStatus, ValueDigest, Wait,
};
use annals_tasks_sdk::{Done, Exit, Payload, SignalName, TaskError, TaskId, Timestamp};

use crate::dsl::id;
use crate::kin::child_of;
use crate::plans::{Sketch, Sleeps, place};
use crate::told::{NAMES, signal};
use crate::walk::Walk;

/// No plan grows further.
const MOST_TASKS: usize = 18;

impl Walk {
    pub(crate) fn command(&mut self) -> Command {
        let cascade = self.rng.u8(..4) == 0;
        match self.rng.u8(..23) {
            20..=22 => Command::Signal { name: self.any_signal(), payload: self.any_output() },
            0 | 1 => Command::Execute { paused: self.rng.u8(..3) == 0 },
            2 => Command::Pause { mode: PauseMode::Drain },
            3 => Command::Pause { mode: PauseMode::Interrupt },
            4..=6 => Command::Resume,
            7 if self.rng.u8(..4) == 0 => Command::Cancel { mode: CancelMode::Now },
            7 => Command::CANCEL,
            8..=10 => {
                let task = (self.rng.u8(..3) > 0).then(|| id(&self.any_name()));
                let output = (self.rng.u8(..4) == 0).then(|| self.any_output());
                Command::Skip { task, output, cascade }
            }
            11 | 12 => Command::Remove { task: id(&self.any_name()), cascade },
            13 => self.insert(),
            14 => Command::Move { task: id(&self.any_name()), place: self.any_place() },
            15 | 16 => self.edit(),
            17 => Command::Purge { head: [self.rng.u8(..); 32] },
            _ => Command::Retry { task: id(&self.any_name()) },
        }
    }

    fn insert(&mut self) -> Command {
        let len = self.oracle.tasks.len();
        // Mostly a new one, as long as there is room.
        let new = len < MOST_TASKS && self.rng.u8(..8) > 0;
        let at = if new { len } else { self.rng.usize(..len) };
        let task = Box::new(Sketch::any(&mut self.rng, len).spec(at));
        let needed_by = if self.rng.u8(..3) == 0 { vec![id(&self.any_name())] } else { vec![] };
        Command::Insert { task, place: self.any_place(), needed_by }
    }

    fn edit(&mut self) -> Command {
        let sketch = Sketch::any(&mut self.rng, self.oracle.tasks.len());
        let patch = sketch.patch(&mut self.rng, &["id"]);
        Command::Edit { task: id(&self.any_name()), patch, reset: self.rng.bool() }
    }

    fn any_place(&mut self) -> Place {
        let len = self.oracle.tasks.len();
        place(&mut self.rng, len)
    }

    pub(crate) fn report(&mut self) -> Report {
        let now = Timestamp::from_millis(self.now);
        let effects: Vec<Effect> = self.live.effects(now, LossRule::default()).collect();
        match self.rng.u8(..40) {
            0 => Report::Recover,
            1 => Report::Start { task: self.any_task() },
            2 => Report::Tick,
            3 => Report::Park { task: self.any_task(), wait: Wait::Kind },
            4 => Report::Refuse { task: self.any_task(), error: TaskError::new("bad", "no") },
            5 | 6 => {
                let (task, attempt) = (self.any_task(), self.rng.u32(..4));
                self.report_of(task, attempt)
            }
            26 | 27 if self.oracle.holds.linked || self.oracle.has_children() => {
                self.any_of_family().unwrap_or(Report::Tick)
            }
            7..=25 if self.mood.crashes && self.live.is_live() => Report::Recover,
            _ if effects.is_empty() => self.any_of_family().unwrap_or(Report::Tick),
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
        }
    }

    /// What the runtime makes of a want.
    fn begin(&mut self, task: TaskNumber) -> Report {
        let sleeps = self.oracle.draft.tasks[task.0 as usize - 1].sleeps;
        match self.rng.u8(..16) {
            0 => Report::Park { task, wait: Wait::Kind },
            2..=6 if self.oracle.draft.spawns => {
                Report::Spawned { task, child: child_of(task), after: self.rng.u64(..3) }
            }
            1 => Report::Refuse { task, error: TaskError::new("bad_request", "no") },
            2 => self.await_signal(task),
            _ if sleeps == Some(Sleeps::ForSignal) => self.await_signal(task),
            _ if sleeps == Some(Sleeps::ForTime) => {
                let until = Timestamp::from_millis(self.now + self.rng.i64(-10..30_000));
                Report::Park { task, wait: Wait::Timer { until } }
            }
            _ => Report::Start { task },
        }
    }

    fn await_signal(&mut self, task: TaskNumber) -> Report {
        let until = Timestamp::from_millis(self.now + self.rng.i64(-10..30_000));
        let until = self.rng.bool().then_some(until);
        Report::Park { task, wait: Wait::Signal { name: self.any_signal(), until } }
    }

    pub(crate) fn any_signal(&mut self) -> SignalName {
        signal(NAMES[self.rng.usize(..NAMES.len())])
    }

    fn report_of(&mut self, task: TaskNumber, attempt: u32) -> Report {
        let log = LogSize { bytes: self.rng.u64(..9), lines: 1 };
        let error = self.asking(TaskError::new("error", "it broke"));
        let code = Some(self.rng.i32(1..4));
        let outcome = match self.rng.u8(..[60, 16, 9][usize::from(self.mood.fails)]) {
            0 => {
                let value = ValueDigest { len: 1, hash: [self.rng.u8(..); 32] };
                if self.rng.bool() {
                    return Report::Checkpoint { task, attempt, value };
                }
                let name = format!("s{}", self.rng.u8(..6)).into();
                return Report::Step { task, attempt, name, value };
            }
            1 | 2 => Outcome::Failed(error),
            3 => Outcome::Failed(
                TaskError::new("exit_status", "code").with_exit(Exit { code, signal: None }),
            ),
            4 => Outcome::Failed(TaskError::new("fatal", "no").give_up()),
            5 => Outcome::TimedOut(self.asking(TaskError::cancelled())),
            6 | 7 => Outcome::Interrupted(TaskError::cancelled()),
            _ => Outcome::Completed(Done { output: self.any_output(), exit: Exit::default() }),
        };
        Report::Ended { task, attempt, outcome, log }
    }

    /// Some failures ask for a wait, some have an alias that is never retried.
    fn asking(&mut self, error: TaskError) -> TaskError {
        match self.rng.u8(..6) {
            0 => error.retry_after(Duration::from_millis(self.rng.u64(..120_000))),
            1 => error.with_alias(["busy_1", "busy_2"][self.rng.usize(..2)]),
            _ => error,
        }
    }

    /// Mostly a task of the plan.
    fn any_task(&mut self) -> TaskNumber {
        let len = u32::try_from(self.oracle.tasks.len()).unwrap();
        TaskNumber(self.rng.u32(0..len + 2))
    }

    fn any_name(&mut self) -> String {
        let at = self.rng.usize(..=self.oracle.tasks.len());
        self.oracle.name(at)
    }

    fn any_output(&mut self) -> Payload {
        let output = match self.rng.u8(..8) {
            0 | 1 => "true".to_owned(),
            2 => "false".to_owned(),
            3 => "null".to_owned(),
            4 | 5 => self.rng.u8(..3).to_string(),
            _ => self.rng.u8(..).to_string(),
        };
        Payload::trusted(&output)
    }

    /// From wherever it stands, a job that is let go on, and whose tasks succeed, ends. One that
    /// was purged has.
    pub(crate) fn must_end(&mut self) {
        if self.oracle.purged {
            return;
        }
        let is_undone = |walk: &Self| walk.oracle.undoing.is_some_and(|undoing| undoing.is_done);
        let bound = 20 + self.oracle.tasks.len() * 4;
        for _ in 0..bound {
            let now = Timestamp::from_millis(self.now);
            // What can be done now, before the time goes on to a deadline.
            let ahead = |effect: &Effect| match effect {
                Effect::Run { .. } | Effect::Stop { .. } => 0,
                Effect::Wake { at } if *at <= now => 1,
                Effect::Want { .. } => 2,
                _ => 3,
            };
            let next = self.live.effects(now, LossRule::default()).min_by_key(ahead);
            let input: Input = match (self.live.status(), next) {
                (JobStatus::Completed, _) => return,
                (JobStatus::Cancelled | JobStatus::Failed, _) if is_undone(self) => return,
                (JobStatus::Failed, _) if self.lacks_its_output() => return,
                (JobStatus::Paused | JobStatus::Failed, _) if self.lacks_an_input().is_some() => {
                    let (task, output) = (self.lacks_an_input(), None);
                    Command::Skip { task, output, cascade: true }.into()
                }
                (JobStatus::Paused, _) if self.live.is_held_by_own() => Command::Resume.into(),
                (JobStatus::Running | JobStatus::Paused, _)
                    if self.goes_on_in_its_family().is_some() =>
                {
                    self.goes_on_in_its_family().map_or(Report::Tick, |report| report).into()
                }
                // What nobody tells it would be waited for until its end.
                (JobStatus::Running, None | Some(Effect::Wake { .. }))
                    if self.oracle.awaits_any() && !self.oracle.is_overdue(self.now) =>
                {
                    let name =
                        (0..NAMES.len()).find(|&name| self.oracle.awaits(name).next().is_some());
                    let name = signal(NAMES[name.unwrap()]);
                    Command::Signal { name, payload: self.any_output() }.into()
                }
                (_, Some(Effect::Want { task, .. })) => Report::Start { task }.into(),
                (_, Some(Effect::Run { task, attempt })) => {
                    let done = Done { output: self.any_output(), exit: Exit::default() };
                    let (outcome, log) = (Outcome::Completed(done), LogSize::default());
                    Report::Ended { task, attempt, outcome, log }.into()
                }
                (_, Some(Effect::Wake { at })) => {
                    self.now = self.now.max(at.as_millis());
                    Report::Tick.into()
                }
                _ => Command::Execute { paused: false }.into(),
            };
            assert!(self.give(input).is_ok());
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
                && (self.oracle.undoing.is_none() || task.part() == Part::Undo)
                && task.error().is_some_and(|error| {
                    ["missing_output", "bad_condition"].contains(&&*error.code)
                })
        };
        self.live.tasks().find(|(_, task)| lacks(task)).map(|(_, task)| task.spec.id.clone())
    }
}
