//! A program with tasks and workflows of its own, as a command line and as a server.

use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use annals_engine::{Builder, Engine};
use annals_tasks_sdk::flow::{PlanMaker, WorkflowFn, erase_workflow};
use annals_tasks_sdk::{Handler, Task, TaskKind, Workflow};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::http::{self, AppState};

/// A program that does all that `annals` does, with tasks and workflows of its own.
///
/// ```no_run
/// use annals::prelude::*;
///
/// const GREET: TaskKind<String, String> = TaskKind::new("greet");
/// async fn greet(_cx: TaskContext, name: String) -> TaskResult<String> {
///     Ok(format!("hello, {name}"))
/// }
///
/// const WELCOME: Workflow<String, String> = Workflow::new("welcome");
/// fn welcome(flow: &Flow, name: Wire<String>) -> Wire<String> {
///     flow.task(GREET, name).wire()
/// }
///
/// fn main() -> std::process::ExitCode {
///     annals::App::new().task(GREET, greet).workflow(WELCOME, welcome).run()
/// }
/// ```
///
/// `program serve` then serves these by HTTP: a job of the workflow is submitted with
/// `{"workflow": "welcome", "input": "Ada"}`, and `GET /api/v1/kinds` lists `greet`. `program
/// --help` shows what else there is.
#[derive(Default)]
pub struct App {
    kinds: Vec<(String, Arc<dyn Handler>)>,
    workflows: Vec<Arc<dyn PlanMaker>>,
    changes: Vec<Change>,
}

type Change = Box<dyn Fn(Builder) -> Builder + Send + Sync>;

impl App {
    /// A program with the built-in kinds only, which is what `annals` is.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a task under the name and with the types of its kind.
    pub fn task<I, O, T>(self, kind: TaskKind<I, O>, task: T) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        T: Task<I, O>,
    {
        self.handler(kind.name(), Arc::new(annals_tasks_sdk::task::erase(task)))
    }

    /// Registers a task whose types are hidden.
    pub fn handler(mut self, kind: &str, handler: Arc<dyn Handler>) -> Self {
        self.kinds.push((kind.to_owned(), handler));
        self
    }

    /// Registers a workflow: a function that makes a plan of an input.
    pub fn workflow<I, O>(mut self, workflow: Workflow<I, O>, plan: impl WorkflowFn<I, O>) -> Self
    where
        I: DeserializeOwned + 'static,
        O: 'static,
    {
        self.workflows.push(erase_workflow(workflow, plan));
        self
    }

    /// Changes something else of each engine that is started: limits, what losses mean, loops.
    /// What settings say of it, such as `slots`, is done before, so that this has the last word.
    pub fn engine(mut self, change: impl Fn(Builder) -> Builder + Send + Sync + 'static) -> Self {
        self.changes.push(Box::new(change));
        self
    }

    /// Does what the command line says, and gives the exit code. To be called first in `main`,
    /// because the process may be the supervisor of a task, or that of an attempt in an isolated
    /// pool, and does not come back then.
    pub fn run(self) -> ExitCode {
        annals_engine::isolated_entry();
        self.run_with(std::env::args_os())
    }

    /// Does what these arguments say, the first of which is the program's name; for programs whose
    /// `main` has called [`isolated_entry`](crate::isolated_entry) and does more than this.
    pub fn run_with(self, arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
        crate::cli::main(self, arguments)
    }

    /// An engine on a store with everything that is registered here, for programs that do more
    /// than the command line does.
    pub fn open(&self, store: impl AsRef<Path>) -> Builder {
        self.builder(store.as_ref(), |engine| engine)
    }

    /// The same; `settings` is what the command wants of it.
    pub(crate) fn builder(
        &self,
        store: &Path,
        settings: impl FnOnce(Builder) -> Builder,
    ) -> Builder {
        let mut builder = settings(Engine::open(store));
        for (kind, handler) in &self.kinds {
            builder = builder.handler(kind, Arc::clone(handler));
        }
        for workflow in &self.workflows {
            builder = builder.plan_maker(Arc::clone(workflow));
        }
        self.changes.iter().fold(builder, |builder, change| change(builder))
    }
}

/// The API of a running engine as a router, for an axum application of one's own.
///
/// It may be nested under any path: what it answers leads back there. `/api/v1`, `/readyz`,
/// `/metrics` and the others lie below that path then. What is allowed is as
/// [`http::Settings`] has it by default, so plans with `shell` tasks are
/// refused; [`http::router`] takes other settings, and a token that ends
/// streams and long waits when the application is about to end. They end with the engine, too.
///
/// Whoever reaches the router may do everything: put it behind what tells callers apart.
///
/// ```
/// use annals::prelude::*;
/// use axum::Router;
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// # let folder = tempfile::tempdir()?;
/// # let data = folder.path().join("annals-data");
/// let engine = Engine::open(data).start().await?;
/// let app: Router = Router::new().nest("/annals", annals::router(engine.clone()));
/// // axum::serve(listener, app).with_graceful_shutdown(...).await?;
/// engine.shutdown().await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn router(engine: Engine) -> axum::Router {
    http::router(AppState::ready(engine, http::Settings::default()))
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<_> = self.kinds.iter().map(|(kind, _)| kind).collect();
        let workflows: Vec<_> = self.workflows.iter().map(|workflow| workflow.name()).collect();
        f.debug_struct("App")
            .field("kinds", &kinds)
            .field("workflows", &workflows)
            .finish_non_exhaustive()
    }
}
