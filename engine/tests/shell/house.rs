//! A folder, a shell and a host for one test.

use std::future::Future;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use annals_engine::kinds::{Shell, ShellSettings};
use annals_engine::steplog::AttemptLog;
use annals_tasks_sdk::cancel::CancellationToken;
use annals_tasks_sdk::context::{Host, Progress, Stream};
use annals_tasks_sdk::steps::StepNames;
use annals_tasks_sdk::{
    AttemptId, Done, Handler, JobId, Payload, TaskContext, TaskError, TaskId, TaskResult,
};

/// One test: its name and what it does.
pub(crate) type Test = (&'static str, fn());

/// How long a test waits for what must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A host that keeps what is logged.
pub(crate) struct Logged {
    attempt: AttemptId,
    stop: CancellationToken,
    step_names: StepNames,
    pub(crate) stdout: Mutex<Vec<u8>>,
    pub(crate) stderr: Mutex<Vec<u8>>,
    /// Takes everything instead, where a test sets it.
    pub(crate) log: OnceLock<AttemptLog>,
}

#[async_trait::async_trait]
impl Host for Logged {
    fn attempt(&self) -> &AttemptId {
        &self.attempt
    }

    fn token(&self) -> &CancellationToken {
        &self.stop
    }

    fn progress(&self, _progress: Option<Progress>, _message: Option<String>) {}

    fn heartbeat(&self) {}

    async fn checkpoint(&self, _value: Payload) -> TaskResult<()> {
        Err(TaskError::new("unsupported", "no checkpoints here"))
    }

    fn step_names(&self) -> &StepNames {
        &self.step_names
    }

    async fn recorded_step(&self, _name: &str) -> TaskResult<Option<Payload>> {
        Err(TaskError::new("unsupported", "no steps here"))
    }

    async fn record_step(&self, _name: &str, _value: Payload) -> TaskResult<()> {
        Err(TaskError::new("unsupported", "no steps here"))
    }

    fn output_of(&self, _task: &str) -> Option<Payload> {
        None
    }

    fn log(&self, stream: Stream, bytes: &[u8]) {
        if let Some(log) = self.log.get() {
            return log.write(stream, bytes);
        }
        let kept = match stream {
            Stream::Stdout => &self.stdout,
            Stream::Stderr => &self.stderr,
        };
        kept.lock().unwrap().extend_from_slice(bytes);
    }
}

pub(crate) struct House {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) shell: Arc<Shell>,
    pub(crate) job: JobId,
    attempts: AtomicU32,
}

/// One attempt in the hands of a test.
pub(crate) struct Attempt {
    pub(crate) host: Arc<Logged>,
    pub(crate) stop: CancellationToken,
    pub(crate) grace_over: CancellationToken,
    pub(crate) marker: String,
    cx: TaskContext,
    shell: Arc<Shell>,
}

impl House {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::in_folder(folder)
    }

    pub(crate) fn in_folder(folder: tempfile::TempDir) -> Self {
        let settings = settings(folder.path());
        let shell = Arc::new(Shell::new(settings).unwrap());
        let number = u128::from(std::process::id()) << 64 | u128::from(fresh());
        Self { folder, shell, job: JobId::from_u128(number), attempts: AtomicU32::new(0) }
    }

    pub(crate) fn attempt(&self) -> Attempt {
        let attempt = self.attempts.fetch_add(1, Ordering::Relaxed) + 1;
        let task = TaskId::new("try").unwrap();
        let attempt = AttemptId { job: self.job, task, number: 1, attempt };
        let output = self.shell.folder_of(self.job).join(format!("1.{}/output", attempt.attempt));
        let (stop, grace_over) = (CancellationToken::new(), CancellationToken::new());
        let host = Arc::new(Logged {
            attempt,
            stop: stop.clone(),
            step_names: StepNames::default(),
            stdout: Mutex::default(),
            stderr: Mutex::default(),
            log: OnceLock::new(),
        });
        let cx = TaskContext::new(host.clone());
        Attempt {
            host,
            stop,
            cx: cx.with_grace_over(grace_over.clone()),
            grace_over,
            marker: format!("ANNALS_OUTPUT={}", output.display()),
            shell: self.shell.clone(),
        }
    }

    /// Runs one attempt to its end.
    pub(crate) fn run(&self, input: &str) -> (TaskResult<Done>, Arc<Logged>) {
        let attempt = self.attempt();
        let result = block_on(attempt.call(input));
        attempt.assert_gone();
        (result, attempt.host)
    }

    /// Runs a script that must succeed and gives what it wrote to standard output.
    pub(crate) fn stdout_of(&self, input: &str) -> String {
        let (result, host) = self.run(input);
        result.unwrap_or_else(|error| panic!("{input}: {error:?}"));
        String::from_utf8_lossy(&host.stdout.lock().unwrap()).into_owned()
    }

    /// Runs a script that must not succeed.
    pub(crate) fn error_of(&self, input: &str) -> TaskError {
        match self.run(input).0 {
            Ok(done) => panic!("{input}: {done:?}"),
            Err(error) => error,
        }
    }
}

impl Attempt {
    pub(crate) fn call(&self, input: &str) -> impl Future<Output = TaskResult<Done>> + 'static {
        let (shell, cx) = (self.shell.clone(), self.cx.clone());
        let input = Payload::parse(input).unwrap();
        async move { shell.call(cx, input).await }
    }

    pub(crate) async fn wait_for_output(&self, text: &str) {
        let text = text.as_bytes();
        let seen = || {
            let stdout = self.host.stdout.lock().unwrap();
            stdout.windows(text.len()).any(|window| window == text)
        };
        until("the output", seen).await;
    }

    pub(crate) fn assert_gone(&self) {
        assert_eq!(marked(&self.marker), Vec::<i32>::new());
    }
}

pub(crate) fn settings(folder: &Path) -> ShellSettings {
    ShellSettings::new(folder.join("work"), folder.join("live"))
}

/// The living processes with this variable in their environment.
pub(crate) fn marked(variable: &str) -> Vec<i32> {
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let carries = |pid: &i32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|one| one == variable.as_bytes())
    };
    pids.filter(carries).collect()
}

pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "waited too long for {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(future)
}

fn fresh() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
