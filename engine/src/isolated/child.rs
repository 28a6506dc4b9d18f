//! The process of one attempt, seen from inside.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, exit};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::thread;

use annals_tasks_sdk::cancel::CancellationToken;
use annals_tasks_sdk::context::Host;
use annals_tasks_sdk::steps::StepNames;
use annals_tasks_sdk::{
    AttemptId, Done, Handler, Payload, Progress, Stream, TaskContext, TaskError, TaskResult,
};
use async_trait::async_trait;
use rustix::process::{Signal, getpid, kill_process};
use rustix::stdio::dup2_stdin;
use tokio::sync::oneshot;
use tracing::Instrument;

use super::limits::{Limits, hold_memory};
use super::wire::{Assignment, Order, Report};
use super::{frame, layer};
use crate::processes::{THIS_PROGRAM, enter_memory};
use crate::runtime::panics::{Guarded, note_places};

/// What such a process is told that it is called, by which it knows itself.
const NAME: &str = "annals-isolated";

/// The same where it is to become itself anew with so much memory as stands behind this.
const LIMITED: &str = "annals-limited:";

/// The same where it is to enter a cgroup that holds it to so much memory: the path stands behind
/// the bytes and a colon.
const GROUPED: &str = "annals-grouped:";

/// Enough for a loop that reads.
const STACK_BYTES: usize = 256 << 10;

/// More threads than this would take much of a small memory for their stacks.
const THREADS_MAX: usize = 4;

/// What this process is for.
static CHILD: OnceLock<Child> = OnceLock::new();

struct Child {
    assignment: Assignment,
    link: Arc<Link>,
}

/// What a process with these limits is to be told that it is called.
pub(super) fn name(limits: Limits) -> String {
    limits.memory.map_or_else(|| NAME.to_owned(), |bytes| format!("{LIMITED}{bytes}"))
}

/// The same where there is a cgroup for so much memory, whose path is to be put behind it.
pub(super) fn grouped(bytes: u64) -> String {
    format!("{GROUPED}{bytes}:")
}

/// Where this process is that of an attempt, takes what it is given to do, and its limits.
pub(crate) fn enter() {
    let name = std::env::args_os().next().and_then(|name| name.into_string().ok());
    let Some(name) = name else { return };
    let limited = name.strip_prefix(LIMITED).map(|bytes| (bytes, None));
    let grouped = name.strip_prefix(GROUPED).and_then(|rest| rest.split_once(':'));
    let limited = limited.or_else(|| grouped.map(|(bytes, path)| (bytes, Some(Path::new(path)))));
    let limited = limited.and_then(|(bytes, group)| Some((bytes.parse().ok()?, group)));
    let begun = match limited {
        Some((bytes, group)) => Err(become_anew(bytes, group)),
        None if name == NAME => prepare(),
        None => return,
    };
    if let Err(error) = begun {
        eprintln!("the process of an attempt cannot begin: {error}");
        exit(1);
    }
}

/// Begins the program anew, with so much memory: all that it starts together, where a cgroup holds
/// them to that. Returns only with an error.
fn become_anew(memory: u64, group: Option<&Path>) -> io::Error {
    let mut anew = Command::new(THIS_PROGRAM);
    anew.arg0(NAME).args(std::env::args_os().skip(1));
    let is_held = group.is_some_and(|group| enter_memory(group).is_ok());
    match if is_held { Ok(()) } else { hold_memory(memory) } {
        Ok(()) => anew.exec(),
        Err(error) => error,
    }
}

/// Whether this process is that of an attempt.
pub(crate) fn is_one() -> bool {
    CHILD.get().is_some()
}

fn prepare() -> io::Result<()> {
    // The program, and what it starts, has an empty standard input instead.
    let control = io::stdin().as_fd().try_clone_to_owned()?;
    dup2_stdin(File::open("/dev/null")?)?;
    let mut control = UnixStream::from(control);
    let assignment: Assignment =
        frame::read(&mut control)?.ok_or_else(|| io::Error::other("the engine is gone"))?;
    assignment.limits.take()?;
    let link = Arc::new(Link {
        attempt: assignment.id(),
        token: CancellationToken::new(),
        writer: Mutex::new(control.try_clone()?),
        saving: Mutex::default(),
        recalling: Mutex::default(),
        asking: Mutex::default(),
        requests: AtomicU64::new(0),
        step_names: StepNames::default(),
    });
    let answers = Arc::clone(&link);
    thread::Builder::new()
        .name("annals-orders".into())
        .stack_size(STACK_BYTES)
        .spawn(move || answers.listen(&control))?;
    // There is one entry into a process.
    let _ = CHILD.set(Child { assignment, link });
    Ok(())
}

/// Runs the attempt that this process is for, and ends the process. Returns only where it is for
/// none.
pub(crate) fn serve(find: impl FnOnce(&str) -> Option<Arc<dyn Handler>>) {
    let Some(child) = CHILD.get() else { return };
    note_places();
    layer::listen();
    let result = match find(&child.assignment.kind) {
        Some(handler) => child.run(handler),
        None => Err(TaskError::new(
            "spawn_failed",
            format!(
                "the engine that the program starts in the process of an attempt has no kind `{}`",
                child.assignment.kind
            ),
        )),
    };
    // Before the last word: what is behind it may not be read any more.
    let _ = io::stdout().flush();
    child.link.end(result);
    exit(0)
}

impl Child {
    fn run(&self, handler: Arc<dyn Handler>) -> TaskResult<Done> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(cores.min(THREADS_MAX))
            .enable_all()
            .thread_name("annals-task")
            .build()
            .map_err(|error| {
                TaskError::new("spawn_failed", format!("no threads can be had: {error}"))
            })?;
        let assignment = &self.assignment;
        let id = &self.link.attempt;
        let span =
            tracing::info_span!("attempt", job = %id.job, task = %id.task, attempt = id.attempt);
        let checkpoint: Option<Payload> = assignment.checkpoint.clone().into();
        let cx = TaskContext::new(Arc::clone(&self.link) as _);
        let cx = checkpoint.into_iter().fold(cx, TaskContext::with_checkpoint);
        let input = assignment.input.clone();
        self.link.say(&Report::Begun);
        // On a thread of the runtime, not on this one, which may have a small stack.
        let code =
            runtime.spawn(
                async move {
                    Guarded::new(Box::pin(async { handler.call(cx, input).await })).run().await
                }
                .instrument(span),
            );
        let ended = runtime.block_on(code);
        // What the task left behind on it is not waited for.
        runtime.shutdown_background();
        let panicked = |panic| Err(TaskError::new("panic", format!("the task panicked: {panic}")));
        match ended {
            Ok(ended) => ended.unwrap_or_else(panicked),
            Err(error) => panicked(error.to_string()),
        }
    }
}

/// The way to the engine.
struct Link {
    attempt: AttemptId,
    token: CancellationToken,
    writer: Mutex<UnixStream>,
    saving: Mutex<HashMap<u64, oneshot::Sender<TaskResult<()>>>>,
    recalling: Mutex<HashMap<u64, oneshot::Sender<TaskResult<Option<Payload>>>>>,
    asking: Mutex<HashMap<u64, mpsc::Sender<Option<Payload>>>>,
    requests: AtomicU64,
    step_names: StepNames,
}

impl Link {
    /// Takes orders until there will be none. Then nobody waits for the attempt any more.
    fn listen(&self, mut control: &UnixStream) {
        while let Ok(Some(order)) = frame::read(&mut control) {
            match order {
                Order::Stop => self.token.cancel(),
                Order::Saved { request, failure } => {
                    let saved = failure.map_or(Ok(()), |failure| Err(failure.into_error()));
                    let waiting = locked(&self.saving).remove(&request);
                    // The task may have stopped waiting.
                    drop(waiting.map(|waiting| waiting.send(saved)));
                }
                Order::Step { request, recorded, failure } => {
                    let recalled = match failure {
                        None => Ok(recorded.into()),
                        Some(failure) => Err(failure.into_error()),
                    };
                    let waiting = locked(&self.recalling).remove(&request);
                    drop(waiting.map(|waiting| waiting.send(recalled)));
                }
                Order::Output { request, output } => {
                    let waiting = locked(&self.asking).remove(&request);
                    drop(waiting.map(|waiting| waiting.send(output.into())));
                }
            }
        }
        let _ = kill_process(getpid(), Signal::KILL);
    }

    /// Says something. Gives false where that is too long.
    fn say(&self, report: &Report) -> bool {
        let Ok(Some(frame)) = frame::encode(report) else { return false };
        // Where the engine is gone, whoever listens to it ends the process.
        let _ = frame::write(&locked(&self.writer), &frame);
        true
    }

    /// Says the last word.
    fn end(&self, result: TaskResult<Done>) {
        if !self.say(&Report::of(result)) {
            let message = format!("the output has more than {} bytes", frame::FRAME_MAX);
            let error = TaskError::new("output_too_large", message).give_up();
            self.say(&Report::of(Err(error)));
        }
    }

    /// Has a value made durable.
    async fn save(&self, ask: impl FnOnce(u64) -> Report, what: &str) -> TaskResult<()> {
        let (request, (reply, saved)) = (self.request(), oneshot::channel());
        locked(&self.saving).insert(request, reply);
        if !self.say(&ask(request)) {
            locked(&self.saving).remove(&request);
            let message = format!("the {what} has more than {} bytes", frame::FRAME_MAX);
            return Err(TaskError::new(&format!("{what}_too_large"), message).give_up());
        }
        saved.await.unwrap_or_else(|_| Err(TaskError::cancelled()))
    }

    fn request(&self) -> u64 {
        self.requests.fetch_add(1, Ordering::Relaxed)
    }
}

#[async_trait]
impl Host for Link {
    fn attempt(&self) -> &AttemptId {
        &self.attempt
    }

    fn token(&self) -> &CancellationToken {
        &self.token
    }

    fn progress(&self, progress: Option<Progress>, message: Option<String>) {
        self.say(&Report::progress(progress, message));
    }

    fn heartbeat(&self) {
        self.say(&Report::Heartbeat);
    }

    async fn checkpoint(&self, value: Payload) -> TaskResult<()> {
        self.save(|request| Report::Checkpoint { request, value }, "checkpoint").await
    }

    fn step_names(&self) -> &StepNames {
        &self.step_names
    }

    async fn recorded_step(&self, name: &str) -> TaskResult<Option<Payload>> {
        let (request, (reply, recorded)) = (self.request(), oneshot::channel());
        locked(&self.recalling).insert(request, reply);
        // Names are far shorter than a message may be.
        self.say(&Report::RecordedStep { request, name: name.to_owned() });
        recorded.await.unwrap_or_else(|_| Err(TaskError::cancelled()))
    }

    async fn record_step(&self, name: &str, value: Payload) -> TaskResult<()> {
        let name = name.to_owned();
        self.save(|request| Report::RecordStep { request, name, value }, "step").await
    }

    fn output_of(&self, task: &str) -> Option<Payload> {
        let (request, (reply, output)) = (self.request(), mpsc::channel());
        locked(&self.asking).insert(request, reply);
        self.say(&Report::OutputOf { request, task: task.to_owned() });
        // The engine answers without a look at the disk.
        output.recv().ok().flatten()
    }

    fn log(&self, stream: Stream, bytes: &[u8]) {
        // Who reads it is gone only when this process is about to be.
        let _ = match stream {
            Stream::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(bytes).and_then(|()| stdout.flush())
            }
            Stream::Stderr => io::stderr().lock().write_all(bytes),
        };
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
