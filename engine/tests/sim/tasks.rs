//! What tasks do in a simulated world: they succeed, fail, panic, hang, ignore that they are to
//! stop, and end late. What each does is up to the seed, the job, the task and the attempt.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use annals_engine::runtime::Clock;
use annals_tasks_sdk::context::AttemptId;
use annals_tasks_sdk::{Done, Exit, Handler, JobId, Payload, Progress};
use annals_tasks_sdk::{TaskContext, TaskError, TaskResult};
use async_trait::async_trait;
use fastrand::Rng;
use tokio::sync::watch;

use crate::clock::SimClock;
use crate::crowd::give_way;

/// The kind of the tasks that do this.
pub(crate) const KIND: &str = "work";
/// The same, where some engines lack it.
pub(crate) const LATE_KIND: &str = "late";

/// The longest that a task takes that behaves, in milliseconds.
pub(crate) const WORK_MAX: u64 = 1_000;
/// The longest that one takes to end that ends late.
const LATE_MAX: u64 = 12_000;

/// An attempt by job, number of the task, and its own number.
pub(crate) type Name = (JobId, u32, u32);

/// A call of a task's code.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) attempt: Name,
    /// The checkpoint that it found.
    pub(crate) restored: Option<Payload>,
    /// Whether it was told to stop before it began.
    pub(crate) told_to_stop: bool,
}

/// What became of a step.
#[derive(Debug, Clone)]
pub(crate) struct StepSeen {
    pub(crate) attempt: Name,
    pub(crate) name: String,
    /// What it has returned; nothing where its code has just begun.
    pub(crate) returned: Option<u64>,
}

/// What the tasks of a world have done, which no crash makes undone.
#[derive(Default)]
pub(crate) struct Ledger(Mutex<Book>);

#[derive(Default)]
struct Book {
    /// Since somebody looked.
    calls: Vec<Call>,
    steps: Vec<StepSeen>,
    /// Every call there was, and when it began.
    called: BTreeMap<Name, i64>,
    /// When each was heard of last; who was not has only begun.
    heard: BTreeMap<Name, i64>,
    gave: BTreeMap<Name, Payload>,
    /// Tasks whose code runs, or stands where an engine left it.
    inside: BTreeMap<(JobId, u32), u32>,
    faults: Vec<String>,
}

impl Ledger {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The calls since this was asked last.
    pub(crate) fn calls(&self) -> Vec<Call> {
        let mut book = self.book();
        assert!(book.faults.is_empty(), "{:?}", book.faults);
        std::mem::take(&mut book.calls)
    }

    /// What became of steps since this was asked last.
    pub(crate) fn steps(&self) -> Vec<StepSeen> {
        std::mem::take(&mut self.book().steps)
    }

    /// What an attempt gave, if it did.
    pub(crate) fn gave(&self, attempt: &Name) -> Option<Payload> {
        self.book().gave.get(attempt).cloned()
    }

    /// When an attempt began, if it did, by the time that has passed.
    pub(crate) fn began(&self, attempt: &Name) -> Option<i64> {
        self.book().called.get(attempt).copied()
    }

    /// When an attempt was heard of last, be it that it began.
    pub(crate) fn heard(&self, attempt: &Name) -> Option<i64> {
        let heard = self.book().heard.get(attempt).copied();
        heard.or_else(|| self.began(attempt))
    }

    /// How many attempts are inside their task's code.
    pub(crate) fn inside(&self) -> usize {
        self.book().inside.len()
    }

    fn enter(self: &Arc<Self>, cx: &TaskContext, now: i64) -> Inside {
        let AttemptId { job, number, attempt, .. } = *cx.attempt();
        let name = (job, number, attempt);
        let mut book = self.book();
        if book.called.insert(name, now).is_some() {
            book.faults.push(format!("{name:?} was called twice"));
        }
        if let Some(other) = book.inside.insert((job, number), attempt) {
            book.faults.push(format!("{name:?} was called while attempt {other} was running"));
        }
        let restored = cx.restore::<u64>().expect("it was saved as a number");
        let restored = restored.map(|value| Payload::trusted(&value.to_string()));
        let told_to_stop = cx.token().is_cancelled();
        book.calls.push(Call { attempt: name, restored, told_to_stop });
        Inside { ledger: Arc::clone(self), task: (job, number) }
    }
}

/// Counts as inside until it is dropped.
struct Inside {
    ledger: Arc<Ledger>,
    task: (JobId, u32),
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.ledger.book().inside.remove(&self.task);
    }
}

/// The task.
#[derive(Clone)]
pub(crate) struct Work {
    pub(crate) seed: u64,
    pub(crate) clock: Arc<SimClock>,
    pub(crate) ledger: Arc<Ledger>,
    /// Whether all tasks behave from now on.
    pub(crate) calm: watch::Receiver<bool>,
}

/// What an attempt does.
#[derive(Debug, Clone, Copy)]
enum Deed {
    Succeed,
    /// In so many steps of so many milliseconds, which are recorded, and with checkpoints.
    Steps(u32, u64),
    /// Gives way to others so often.
    Busy(u32),
    Fail(u64),
    GiveUp,
    ExitTwo,
    /// Says that it was cancelled, which nobody asked for.
    Cancelled,
    Panic(u64),
    Hang,
    /// Does not hear that it is to stop.
    Deaf(u64),
    /// Ends, and well, so long after it was told to stop.
    Late(u64),
}

impl Deed {
    fn any(rng: &mut Rng) -> Self {
        let span = rng.u64(1..4_000);
        match rng.u8(..32) {
            0..6 => Self::Succeed,
            6..12 => Self::Steps(rng.u32(1..4), span),
            12..14 => Self::Busy(rng.u32(1..6)),
            14..18 => Self::Fail(if rng.bool() { 0 } else { span }),
            18 => Self::GiveUp,
            19 => Self::ExitTwo,
            20 => Self::Cancelled,
            21..24 => Self::Panic(if rng.bool() { 0 } else { span }),
            24..26 => Self::Hang,
            26..28 => Self::Deaf(rng.u64(1..60_000)),
            28..30 => Self::Late(rng.u64(..LATE_MAX)),
            _ => Self::Steps(1, 20_000),
        }
    }
}

impl Work {
    fn rng(&self, cx: &TaskContext) -> Rng {
        let mut hasher = DefaultHasher::new();
        let AttemptId { job, number, attempt, .. } = *cx.attempt();
        (self.seed, job, number, attempt).hash(&mut hasher);
        Rng::with_seed(hasher.finish())
    }

    async fn sleep(&self, millis: u64) {
        self.clock.sleep(Duration::from_millis(millis)).await;
    }

    async fn calm(&self) {
        let mut calm = self.calm.clone();
        calm.wait_for(|calm| *calm).await.expect("the world lives longer");
    }

    /// Gives a sign of life, of one sort or the other.
    fn says(&self, cx: &TaskContext, sort: u64) {
        match sort % 4 {
            0 => cx.heartbeat(),
            1 => cx.message("still here"),
            2 => cx.progress(Progress { done: 1, total: 2 }),
            _ => return,
        }
        self.is_heard(cx);
    }

    /// Notes that the engine hears of an attempt now.
    fn is_heard(&self, cx: &TaskContext) {
        let AttemptId { job, number, attempt, .. } = *cx.attempt();
        self.ledger.book().heard.insert((job, number, attempt), self.clock.passed());
    }

    async fn steps(&self, cx: &TaskContext, steps: u32, millis: u64) -> TaskResult<()> {
        for step in 0..u64::from(steps) {
            cx.or_cancelled(self.sleep(millis)).await?;
            self.says(cx, step + millis);
            if step % 2 == 0 {
                self.is_heard(cx);
                cx.checkpoint(&(u64::from(cx.attempt().attempt) * 100 + step)).await?;
            }
            self.step(cx, step).await?;
        }
        Ok(())
    }

    async fn step(&self, cx: &TaskContext, step: u64) -> TaskResult<()> {
        let AttemptId { job, number, attempt, .. } = *cx.attempt();
        let name = format!("s{step}");
        let seen = |returned| {
            let step = StepSeen { attempt: (job, number, attempt), name: name.clone(), returned };
            self.ledger.book().steps.push(step);
        };
        self.is_heard(cx);
        let code = async {
            seen(None);
            Ok(u64::from(attempt) * 100 + step)
        };
        seen(Some(cx.step(&name, code).await?));
        Ok(())
    }

    async fn act(&self, cx: &TaskContext, deed: Deed) -> TaskResult<()> {
        match deed {
            Deed::Succeed => Ok(()),
            Deed::Steps(steps, millis) => self.steps(cx, steps, millis).await,
            Deed::Busy(times) => {
                for _ in 0..times {
                    give_way().await;
                    cx.ensure_live()?;
                }
                Ok(())
            }
            Deed::Fail(millis) => {
                self.sleep(millis).await;
                Err(TaskError::new("broken", "it broke"))
            }
            Deed::GiveUp => Err(TaskError::new("hopeless", "it is of no use").give_up()),
            Deed::ExitTwo => {
                let exit = Exit { code: Some(2), signal: None };
                Err(TaskError::new("exit_status", "it exited").with_exit(exit))
            }
            Deed::Cancelled => Err(TaskError::cancelled()),
            Deed::Panic(millis) => {
                self.sleep(millis).await;
                panic!("the task panics");
            }
            Deed::Hang => cx.or_cancelled(self.calm()).await,
            Deed::Deaf(millis) => {
                tokio::select! { biased; () = self.sleep(millis) => {}, () = self.calm() => {} }
                Ok(())
            }
            Deed::Late(millis) => {
                tokio::select! { biased; () = cx.cancelled() => {}, () = self.calm() => {} }
                self.sleep(millis).await;
                Ok(())
            }
        }
    }
}

#[async_trait]
impl Handler for Work {
    async fn call(&self, cx: TaskContext, _input: Payload) -> TaskResult<Done> {
        let _inside = self.ledger.enter(&cx, self.clock.passed());
        let mut rng = self.rng(&cx);
        let calm = *self.calm.borrow();
        let deed = if calm { Deed::Steps(1, WORK_MAX) } else { Deed::any(&mut rng) };
        self.act(&cx, deed).await?;
        let AttemptId { job, number, attempt, .. } = *cx.attempt();
        // Conditions look at some of them.
        let output = match rng.u8(..8) {
            0 | 1 => "true".to_owned(),
            2 => "false".to_owned(),
            3 => rng.u8(..3).to_string(),
            _ => format!("[{number},{attempt},{}]", rng.u32(..)),
        };
        let output = Payload::trusted(&output);
        self.ledger.book().gave.insert((job, number, attempt), output.clone());
        Ok(Done { output, exit: Exit::default() })
    }
}
