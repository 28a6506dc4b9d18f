//! What clients ask for, and what they hear.

use std::sync::{Arc, Mutex, PoisonError};

use annals_engine::job::{
    CancelMode, Command, ForkFrom, IdempotencyKey, Origin, PauseMode, Tombstone,
};
use annals_engine::log::{JobRow, PageLimit, Position};
use annals_engine::runtime::{
    Accepted, Answer, CommandError, EngineError, Fork, ForkError, Forked, JobError, LogPage,
    Logged, Snapshot, SubmitError,
};
use annals_engine::{Ask, Engine, Submission};
use annals_tasks_sdk::{JobId, KindName, Payload};
use fastrand::Rng;

use crate::dsl::id;
use crate::plans::{Sketch, name, place};
use crate::tasks::KIND;
use crate::told::{NAMES, signal};

/// No plan grows further.
const MOST_TASKS: usize = 18;

/// What is asked for. Equal ones with one key are one request that is repeated.
#[derive(Debug, Clone)]
pub(crate) enum Request {
    Submit {
        made: usize,
        key: Option<u64>,
    },
    Command {
        job: JobId,
        wish: Wish,
        on: On,
    },
    /// From a task, or from an event; the seed says what is edited, if anything is.
    Fork {
        job: JobId,
        from: From,
        edit: Option<Wish>,
        key: Option<u64>,
    },
    Snapshot(JobId),
    Changed(JobId, u64),
    Ended(JobId),
    History(JobId),
    /// With how many jobs were accepted before.
    List {
        known: usize,
    },
    /// The whole log, behind this position.
    Log {
        after: u64,
    },
}

/// What of a job a fork does anew.
#[derive(Debug, Clone, Copy)]
pub(crate) enum From {
    Task(usize),
    Seq(u64),
}

impl From {
    fn fork_from(self) -> ForkFrom {
        match self {
            Self::Task(task) => ForkFrom::Task(id(&name(task))),
            Self::Seq(seq) => ForkFrom::Seq(seq),
        }
    }
}

/// Under which conditions a command is to be carried out.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct On {
    pub(crate) key: Option<u64>,
    pub(crate) seq: Option<u64>,
    pub(crate) dry_run: bool,
}

/// What is wanted of a job; commands themselves cannot be copied.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wish {
    Execute {
        held: bool,
    },
    Pause {
        interrupt: bool,
    },
    Resume,
    Cancel {
        now: bool,
    },
    Skip {
        task: Option<usize>,
        output: bool,
        cascade: bool,
    },
    Remove {
        task: usize,
        cascade: bool,
    },
    /// The seeds say what is inserted, where, and what is edited.
    Insert {
        task: usize,
        seed: u64,
    },
    Move {
        task: usize,
        seed: u64,
    },
    Edit {
        task: usize,
        seed: u64,
    },
    Retry {
        task: usize,
    },
    Purge,
    /// The name of the signal, by its place.
    Signal {
        name: usize,
    },
}

impl Wish {
    /// For a job of so many tasks.
    pub(crate) fn any(rng: &mut Rng, len: usize) -> Self {
        let (task, cascade, seed) = (rng.usize(..=len), rng.u8(..4) == 0, rng.u64(..));
        match rng.u8(..23) {
            20 => Self::Purge,
            21 | 22 => Self::Signal { name: rng.usize(..NAMES.len()) },
            0 | 1 => Self::Execute { held: rng.u8(..3) == 0 },
            2 => Self::Pause { interrupt: false },
            3 => Self::Pause { interrupt: true },
            4..7 => Self::Resume,
            7 | 8 => Self::Cancel { now: rng.u8(..4) == 0 },
            9..12 => {
                let task = (rng.u8(..3) > 0).then_some(task);
                Self::Skip { task, output: rng.bool(), cascade }
            }
            12 | 13 => Self::Remove { task, cascade },
            14 if len < MOST_TASKS => Self::Insert { task: len, seed },
            14 | 15 => Self::Move { task, seed },
            16 | 17 => Self::Edit { task, seed },
            _ => Self::Retry { task },
        }
    }

    /// What may change a fork, for one of a job of so many tasks.
    pub(crate) fn any_edit(rng: &mut Rng, len: usize) -> Self {
        let (task, seed) = (rng.usize(..len), rng.u64(..));
        match rng.u8(..5) {
            0 if len < MOST_TASKS => Self::Insert { task: len, seed },
            0 | 1 => Self::Move { task, seed },
            2 => Self::Edit { task, seed },
            3 => Self::Remove { task, cascade: rng.bool() },
            _ => Self::Skip { task: Some(task), output: rng.bool(), cascade: true },
        }
    }

    pub(crate) fn command(self) -> Command {
        match self {
            Self::Execute { held } => Command::Execute { paused: held },
            Self::Pause { interrupt: false } => Command::Pause { mode: PauseMode::Drain },
            Self::Pause { interrupt: true } => Command::Pause { mode: PauseMode::Interrupt },
            Self::Resume => Command::Resume,
            Self::Cancel { now: false } => Command::CANCEL,
            Self::Cancel { now: true } => Command::Cancel { mode: CancelMode::Now },
            Self::Skip { task, output, cascade } => {
                let task = task.map(|at| id(&name(at)));
                let output = output.then(|| Payload::trusted("7"));
                Command::Skip { task, output, cascade }
            }
            Self::Remove { task, cascade } => Command::Remove { task: id(&name(task)), cascade },
            Self::Insert { task, seed } => insert(task, &mut Rng::with_seed(seed)),
            Self::Move { task, seed } => {
                let place = place(&mut Rng::with_seed(seed), task + 3);
                Command::Move { task: id(&name(task)), place }
            }
            Self::Edit { task, seed } => edit(task, &mut Rng::with_seed(seed)),
            Self::Retry { task } => Command::Retry { task: id(&name(task)) },
            Self::Purge => Command::PURGE,
            Self::Signal { name } => {
                Command::Signal { name: signal(NAMES[name]), payload: Payload::trusted("true") }
            }
        }
    }
}

fn insert(at: usize, rng: &mut Rng) -> Command {
    let sketch = Sketch { sleeps: None, ..Sketch::any(rng, at) };
    let mut spec = sketch.spec(at);
    spec.kind = KindName::new(KIND).expect("a name");
    if let Some(undo) = &mut spec.compensate {
        undo.kind = spec.kind.clone();
    }
    let needed_by = if rng.u8(..3) == 0 { vec![id(&name(rng.usize(..at)))] } else { Vec::new() };
    Command::Insert { task: Box::new(spec), place: place(rng, at), needed_by }
}

/// No kinds, of which the oracle knows less than there are here.
fn edit(at: usize, rng: &mut Rng) -> Command {
    let sketch = Sketch { sleeps: None, ..Sketch::any(rng, at + 1) };
    Command::Edit {
        task: id(&name(at)),
        patch: sketch.patch(rng, &["id", "kind", "compensate"]),
        reset: rng.bool(),
    }
}

impl Request {
    /// Whether it may be sent again by somebody who has heard nothing.
    pub(crate) fn may_be_repeated(&self) -> bool {
        match self {
            Self::Submit { key, .. } | Self::Fork { key, .. } => key.is_some(),
            Self::Command { on, .. } => on.key.is_some(),
            _ => true,
        }
    }

    fn key(&self, key: Option<u64>) -> Option<IdempotencyKey> {
        let body = format!("{self:?}");
        key.map(|key| IdempotencyKey::new("sim", "/", &key.to_string(), body.as_bytes()))
    }
}

/// What comes back.
pub(crate) enum Reply {
    Accepted(Result<Accepted, SubmitError>),
    Forked(Result<Forked, ForkError>),
    Answered(Result<Answer, CommandError>),
    Shown(Result<Snapshot, JobError>),
    Changed(Result<u64, JobError>),
    Ended(Result<Snapshot, JobError>),
    Read(Result<Vec<Logged>, JobError>),
    Listed(Result<Vec<JobRow>, EngineError>),
    Page(Result<LogPage, EngineError>),
}

impl Reply {
    /// Which job it says was purged, instead of an answer.
    pub(crate) fn purged(&self) -> Option<(JobId, &Tombstone)> {
        match self {
            Self::Accepted(Err(SubmitError::Job(error)))
            | Self::Forked(Err(ForkError::Command(CommandError::Job(error))))
            | Self::Answered(Err(CommandError::Job(error)))
            | Self::Shown(Err(error))
            | Self::Changed(Err(error))
            | Self::Ended(Err(error))
            | Self::Read(Err(error)) => match error {
                JobError::Purged { job, tombstone } => Some((*job, tombstone)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Why the engine could not answer at all.
    pub(crate) fn engine_error(&self) -> Option<&EngineError> {
        match self {
            Self::Accepted(Err(
                SubmitError::Engine(error) | SubmitError::Job(JobError::Engine(error)),
            ))
            | Self::Forked(Err(ForkError::Command(CommandError::Job(JobError::Engine(error)))))
            | Self::Answered(Err(CommandError::Job(JobError::Engine(error))))
            | Self::Shown(Err(JobError::Engine(error)))
            | Self::Changed(Err(JobError::Engine(error)))
            | Self::Ended(Err(JobError::Engine(error)))
            | Self::Read(Err(JobError::Engine(error)))
            | Self::Listed(Err(error))
            | Self::Page(Err(error)) => Some(error),
            _ => None,
        }
    }
}

/// Where a reply is put.
#[derive(Clone, Default)]
pub(crate) struct Letterbox(Arc<Mutex<Option<Reply>>>);

impl Letterbox {
    fn put(&self, reply: Reply) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(reply);
    }

    pub(crate) fn take(&self) -> Option<Reply> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Asks, and puts what comes back into the box.
pub(crate) async fn ask(engine: Engine, request: Request, plan: Option<Submission>, to: Letterbox) {
    let reply = match request.clone() {
        Request::Submit { key, .. } => {
            let mut submission = plan.expect("a submission has a plan");
            submission.key = request.key(key);
            Reply::Accepted(engine.accept(submission).await)
        }
        Request::Command { job, wish, on } => {
            let ask = Ask {
                origin: Origin::actor("sim"),
                expected_seq: on.seq,
                dry_run: on.dry_run,
                key: request.key(on.key),
                ..Ask::default()
            };
            Reply::Answered(engine.job(job).command(wish.command(), ask).await)
        }
        Request::Fork { job, from, edit, key } => {
            let edits = edit.into_iter().map(Wish::command).collect();
            let fork = Fork { edits, ..Fork::new(from.fork_from()) };
            let key = request.key(key);
            let ask = Ask { origin: Origin::actor("sim"), key, ..Ask::default() };
            Reply::Forked(engine.job(job).fork(fork, ask).await)
        }
        Request::Snapshot(job) => Reply::Shown(engine.job(job).snapshot().await),
        Request::Changed(job, after) => Reply::Changed(engine.job(job).changed(after).await),
        Request::Ended(job) => Reply::Ended(engine.job(job).ended().await),
        Request::History(job) => Reply::Read(engine.job(job).history(0, usize::MAX).await),
        Request::List { .. } => Reply::Listed(engine.jobs(None, usize::MAX).await),
        Request::Log { after } => {
            let limit = PageLimit::events(100);
            Reply::Page(engine.events(Position(after), limit).await)
        }
    };
    to.put(reply);
}
