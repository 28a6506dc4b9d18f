//! The handler of the kind.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use annals_tasks_sdk::{
    Done, Handler, JobId, Payload, PayloadError, TaskContext, TaskError, TaskResult,
};
use async_trait::async_trait;

use super::super::fields::References;
use super::account::{self, Account};
use super::folder::{self, Folder};
use super::input::{self, Input, OutputFrom, Run};
use super::outcome::{Outcome, spawn_failed};
use crate::processes::{
    Child, Inherit, Spec, Supervisor, THIS_PROGRAM, can_supervise, cgroups, record_name,
};

/// Where the kind keeps its files, and its limits.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ShellSettings {
    /// The parent of the jobs' folders.
    pub work: PathBuf,
    /// The folder of the records of live attempts; see
    /// [`end_leftovers`](crate::processes::end_leftovers).
    pub live: PathBuf,
    /// Which program supervises attempts.
    pub supervisor: Supervisor,
    /// The longest output of a task, in bytes: 2 MiB.
    pub output_max: u64,
}

impl ShellSettings {
    /// The defaults, with these folders.
    pub fn new(work: impl Into<PathBuf>, live: impl Into<PathBuf>) -> Self {
        Self {
            work: work.into(),
            live: live.into(),
            supervisor: Supervisor::default(),
            output_max: 2 * 1024 * 1024,
        }
    }
}

/// Why the kind cannot be offered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShellError {
    /// This program does not call `isolated_entry`, and no other was named.
    #[error(
        "shell tasks need a supervisor: call annals_engine::isolated_entry() first in main, \
         or name an annals binary as the supervisor"
    )]
    NoSupervisor,
    /// The named supervisor is not there.
    #[error("the supervisor {} for shell tasks is no file", .0.display())]
    NoProgram(PathBuf),
    /// A folder cannot be made.
    #[error("cannot make the folder {} for shell tasks: {error}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why not.
        #[source]
        error: io::Error,
    },
    /// A folder's name cannot be handed to scripts.
    #[error("the folder {} for shell tasks has a name that is not UTF-8", .0.display())]
    NotUtf8(PathBuf),
}

/// The `shell` kind.
#[derive(Debug)]
pub struct Shell {
    settings: ShellSettings,
    program: PathBuf,
    /// Where attempts get cgroups.
    cgroups: Option<PathBuf>,
}

impl Shell {
    /// Makes the folders, and makes sure that there is a supervisor.
    pub fn new(settings: ShellSettings) -> Result<Self, ShellError> {
        let mut shell = Self::unprepared(settings)?;
        // The mode lets the users that scripts run as pass through to their job's folder.
        shell.settings.work = prepare(&shell.settings.work, 0o711)?;
        shell.settings.live = prepare(&shell.settings.live, 0o700)?;
        shell.cgroups = cgroups();
        Ok(shell)
    }

    /// The same without its folders: it can look at inputs, and run none.
    pub(crate) fn unprepared(settings: ShellSettings) -> Result<Self, ShellError> {
        let program = match &settings.supervisor {
            Supervisor::ThisProgram if can_supervise() => PathBuf::from(THIS_PROGRAM),
            Supervisor::ThisProgram => return Err(ShellError::NoSupervisor),
            Supervisor::Program(program) if program.is_file() => program.clone(),
            Supervisor::Program(program) => return Err(ShellError::NoProgram(program.clone())),
        };
        Ok(Self { settings, program, cgroups: None })
    }

    /// The folder with everything that the attempts of a job left behind; it may be missing.
    /// Who purges the job removes it.
    pub fn folder_of(&self, job: JobId) -> PathBuf {
        folder::of_job(&self.settings.work, job)
    }

    fn prepare(&self, cx: &TaskContext, input: &Input) -> TaskResult<(Folder, Spec)> {
        let account = input.user.as_deref().map(account::find).transpose();
        let account = account.map_err(|error| TaskError::new("bad_input", error).give_up())?;
        let failed = |error| spawn_failed(format!("cannot write the script: {error}"));
        let folder = Folder::make(&self.settings.work, cx.attempt(), account.as_ref());
        let folder = folder.map_err(failed)?;
        let script = |name: &str, text: &str| -> TaskResult<Vec<String>> {
            let path = folder.write(name, text).map_err(failed)?;
            let words = input.shell.iter().cloned();
            Ok(words.chain([path.display().to_string()]).collect())
        };
        let unless = input.unless.as_deref().map(|text| script("unless", text)).transpose()?;
        let argv = match &input.run {
            Run::Script(text) => script("script", text)?,
            Run::Argv(argv) => argv.clone(),
        };
        let attempt = cx.attempt();
        let record = record_name(attempt.job, attempt.number, attempt.attempt);
        let spec = Spec {
            unless,
            argv,
            name: None,
            inherit: Inherit::These(inherited(input, account.as_ref())),
            env: environment(cx, input, &folder),
            fallback: fallback(account.as_ref()),
            cwd: folder.work.join(input.cwd.as_deref().unwrap_or("")),
            user: account.as_ref().map(|account| (account.user, account.group)),
            live: self.settings.live.join(record),
            marker: folder.output(),
            cgroups: self.cgroups.clone(),
            memory: None,
        };
        Ok((folder, spec))
    }
}

#[async_trait]
impl Handler for Shell {
    async fn call(&self, cx: TaskContext, input: Payload) -> TaskResult<Done> {
        cx.ensure_live()?;
        let input = match input::parse(&input, References::Resolved) {
            Ok(Some(input)) => input,
            Ok(None) => return Err(bad_input(&[])),
            Err(problems) => return Err(bad_input(&problems)),
        };
        let (folder, spec) = self.prepare(&cx, &input)?;
        let output_max = self.settings.output_max;
        let stdout_max = match input.output {
            OutputFrom::Stdout => usize::try_from(output_max).unwrap_or(usize::MAX),
            OutputFrom::File => 0,
        };
        let child = Child { program: &self.program, spec: &spec, cx: &cx, stdout_max, ties: None };
        let kept = child.run().await;
        let kept = kept.map_err(|error| {
            folder.discard();
            spawn_failed(format!("cannot start the supervisor: {error}"))
        })?;
        let outcome =
            Outcome { input: &input, output_max, written: folder.read_output(output_max) };
        folder.discard();
        outcome.judge(&cx, kept)
    }

    fn check(&self, input: &Payload) -> Result<(), Vec<PayloadError>> {
        input::parse(input, References::Pending).map(drop)
    }

    fn ends_itself(&self) -> bool {
        true
    }

    fn reads_outputs(&self) -> bool {
        false
    }
}

fn bad_input(problems: &[PayloadError]) -> TaskError {
    let sentences: Vec<String> = problems.iter().map(ToString::to_string).collect();
    TaskError::new("bad_input", sentences.join("; ")).give_up()
}

fn prepare(path: &Path, mode: u32) -> Result<PathBuf, ShellError> {
    let fault = |error| ShellError::Folder { path: path.to_owned(), error };
    let path = std::path::absolute(path).map_err(fault)?;
    DirBuilder::new().recursive(true).mode(mode).create(&path).map_err(fault)?;
    if path.to_str().is_none() {
        return Err(ShellError::NotUtf8(path));
    }
    Ok(path)
}

/// What is taken over from the engine's environment.
fn inherited(input: &Input, account: Option<&Account>) -> Vec<String> {
    let home = account.is_none().then_some("HOME");
    let own = ["PATH", "LANG"].into_iter().chain(home).map(str::to_owned);
    own.chain(input.inherit_env.iter().cloned()).collect()
}

/// What is set where the engine's environment has nothing.
fn fallback(account: Option<&Account>) -> Vec<(String, String)> {
    let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let home = account.map_or_else(|| "/".to_owned(), |one| one.home.display().to_string());
    let names = account.into_iter().flat_map(|account| {
        ["USER", "LOGNAME"].map(|variable| (variable.to_owned(), account.name.clone()))
    });
    [("PATH", path.to_owned()), ("LANG", "C.UTF-8".to_owned()), ("HOME", home)]
        .map(|(name, value)| (name.to_owned(), value))
        .into_iter()
        .chain(names)
        .collect()
}

/// The input's variables, and then the engine's own, which nothing overrides.
fn environment(cx: &TaskContext, input: &Input, folder: &Folder) -> Vec<(String, Option<String>)> {
    let attempt = cx.attempt();
    let values = [
        attempt.job.to_string(),
        attempt.task.to_string(),
        attempt.attempt.to_string(),
        folder.output().display().to_string(),
        folder.work.display().to_string(),
        cx.idempotency_key(),
    ];
    let own = input::OWN.into_iter().zip(values);
    let own = own.map(|(name, value)| (name.to_owned(), Some(value)));
    input.env.iter().cloned().chain(own).collect()
}
