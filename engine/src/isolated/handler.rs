//! The handler of a kind whose attempts run in processes of their own.

use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use annals_tasks_sdk::cancel::CancellationToken;
use annals_tasks_sdk::{Done, Handler, Payload, PayloadError, TaskContext, TaskResult};
use async_trait::async_trait;
use tokio::net::UnixStream;

use super::child::{grouped, name};
use super::limits::Limits;
use super::outcome::{judge, spawn_failed};
use super::talk::Talk;
use super::wire::Assignment;
use crate::processes::{
    Child, Inherit, MARKER, MemoryLimit, MemoryPlace, Spec, THIS_PROGRAM, Ties, can_supervise,
    cgroups, memory_place, record_name,
};

/// Why no attempt can be isolated here.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum NotIsolated {
    #[error(
        "its tasks run in processes of this program, which needs to call \
         annals::isolated_entry() first in main"
    )]
    NotEntered,
    #[error("its tasks run in processes of this program, whose arguments are not UTF-8")]
    Arguments,
    #[error("the folder {} of its processes has a name that is not UTF-8", .0.display())]
    Folder(PathBuf),
    #[error("its tasks run in processes, which needs the folder that this one runs in: {0}")]
    Cwd(String),
}

/// What all kinds of an isolated pool have in common.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    limits: Limits,
    /// The folder of the records of live attempts.
    live: PathBuf,
    /// The program as it was called, and where.
    argv: Vec<String>,
    cwd: PathBuf,
    cgroups: Option<PathBuf>,
    /// Where the memory of an attempt can be limited as a whole, if there is a limit.
    memory: Option<MemoryPlace>,
}

impl Setup {
    /// Looks whether attempts can be isolated.
    pub(crate) fn new(live: &Path, limits: Limits) -> Result<Self, NotIsolated> {
        if !can_supervise() {
            return Err(NotIsolated::NotEntered);
        }
        let cwd = std::env::current_dir().map_err(|error| NotIsolated::Cwd(error.to_string()))?;
        let live = cwd.join(live);
        let not_utf8 = |path: &PathBuf| path.to_str().is_none().then(|| path.clone());
        if let Some(path) = not_utf8(&live).or_else(|| not_utf8(&cwd)) {
            return Err(NotIsolated::Folder(path));
        }
        let arguments = std::env::args_os().skip(1).map(std::ffi::OsString::into_string);
        let argv = std::iter::once(Ok(THIS_PROGRAM.to_owned())).chain(arguments);
        let argv = argv.collect::<Result<_, _>>().map_err(|_| NotIsolated::Arguments)?;
        let memory = limits.memory.and_then(|_| memory_place());
        if limits.memory.is_some() && memory.is_none() {
            tracing::info!(
                "no cgroup that holds memory can be made here: the limit of an isolated pool is \
                 one of each process of an attempt, not of all together"
            );
        }
        Ok(Self { limits, live, argv, cwd, cgroups: cgroups(), memory })
    }
}

/// A kind whose attempts run in processes of their own.
pub(crate) struct Isolated {
    kind: String,
    inner: Arc<dyn Handler>,
    setup: Setup,
}

impl Isolated {
    pub(crate) fn new(kind: &str, inner: Arc<dyn Handler>, setup: Setup) -> Self {
        Self { kind: kind.to_owned(), inner, setup }
    }

    fn spec(&self, cx: &TaskContext) -> Spec {
        let Setup { limits, live, argv, cwd, cgroups, memory } = &self.setup;
        let memory = memory.clone().zip(limits.memory);
        let attempt = cx.attempt();
        let record = live.join(record_name(attempt.job, attempt.number, attempt.attempt));
        // Of this attempt alone, which is all that is asked of a mark.
        let mark = (MARKER.to_owned(), record.to_str().map(str::to_owned));
        Spec {
            unless: None,
            argv: argv.clone(),
            name: Some(name(*limits)),
            inherit: Inherit::Everything,
            env: vec![mark],
            fallback: Vec::new(),
            cwd: cwd.clone(),
            user: None,
            marker: record.clone(),
            live: record,
            cgroups: cgroups.clone(),
            memory: memory.map(|(place, bytes)| MemoryLimit { place, bytes, name: grouped(bytes) }),
        }
    }

    fn assignment(&self, cx: &TaskContext, input: Payload) -> Assignment {
        let attempt = cx.attempt();
        Assignment {
            kind: self.kind.clone(),
            job: attempt.job,
            task: attempt.task.clone(),
            number: attempt.number,
            attempt: attempt.attempt,
            input,
            checkpoint: cx.restore().ok().flatten().into(),
            limits: self.setup.limits,
        }
    }
}

#[async_trait]
impl Handler for Isolated {
    async fn call(&self, cx: TaskContext, input: Payload) -> TaskResult<Done> {
        cx.ensure_live()?;
        let assignment = self.assignment(&cx, input);
        let failed = |error| spawn_failed(&format!("cannot start the process: {error}"));
        make_folder(&self.setup.live).map_err(failed)?;
        let (ours, theirs) = BlockingStream::pair().map_err(failed)?;
        ours.set_nonblocking(true).map_err(failed)?;
        let ours = UnixStream::from_std(ours).map_err(failed)?;
        let (kill, spec) = (CancellationToken::new(), self.spec(&cx));
        let child = Child {
            program: Path::new(THIS_PROGRAM),
            spec: &spec,
            cx: &cx,
            stdout_max: 0,
            ties: Some(Ties { input: Some(theirs.into()), kill: &kill }),
        };
        let talk = Talk::new(ours, &cx, &kill).run(&assignment);
        // When no process has the other end of the socket any more, the talk is over.
        let (kept, heard) = tokio::join!(child.run(), talk);
        judge(&cx, self.setup.limits, heard, &kept.map_err(failed)?)
    }

    fn check(&self, input: &Payload) -> Result<(), Vec<PayloadError>> {
        self.inner.check(input)
    }

    fn ends_itself(&self) -> bool {
        true
    }

    fn reads_outputs(&self) -> bool {
        self.inner.reads_outputs()
    }
}

/// The engine makes it for `shell`, which it may not have.
fn make_folder(live: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(live)
}
