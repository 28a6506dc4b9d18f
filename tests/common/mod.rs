//! The real binary, and a folder of its own for each test.

// Each test program uses its own part of this.
#![allow(dead_code)]

pub(crate) mod process;
pub(crate) mod server;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long anything may take before a test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// The `annals` binary, built once; Cargo says where it is.
pub(crate) fn annals() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| built("annals", &["--package", "annals"]))
}

/// Builds a program of the workspace.
pub(crate) fn built(name: &str, which: &[&str]) -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--message-format=json"]).args(which);
    // What Cargo tells a test about its own package would have crates built anew that ask for it
    // when they are built themselves, and those that need them, here and then again elsewhere.
    for (name, _) in std::env::vars_os() {
        let of_package = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_", "CARGO_BIN_"];
        if of_package.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            cargo.env_remove(name);
        }
    }
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let built = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().expect("cargo runs");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let messages = String::from_utf8(built.stdout).expect("cargo writes UTF-8");
    let messages = messages.lines().filter_map(|line| serde_json::from_str(line).ok());
    let mut paths = messages.filter_map(|message: Value| {
        let ours = message["target"]["name"] == name;
        message["executable"].as_str().filter(|_| ours).map(PathBuf::from)
    });
    paths.next().expect("cargo names the program")
}

/// A folder in which commands run; their store is in it.
pub(crate) struct Place {
    dir: tempfile::TempDir,
}

/// What a command has answered.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Its exit code; `None` where a signal ended it.
    pub(crate) code: Option<i32>,
    /// What it wrote to stdout.
    pub(crate) stdout: String,
    /// What it wrote to stderr.
    pub(crate) stderr: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a temporary folder") }
    }

    /// Leaves the folder to whoever wants to look at it.
    pub(crate) fn keep(self) -> PathBuf {
        self.dir.keep()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.path(name), text).expect("the file is written");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// A command in this folder with an environment that is the same everywhere.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.command_of(annals(), args)
    }

    /// The same of another program.
    pub(crate) fn command_of(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(self.dir.path());
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("USER", "ada").env("TZ", "UTC").stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub(crate) fn annals(&self, args: &[&str]) -> Answer {
        self.command(args).output().expect("annals runs").into()
    }

    /// Starts a command whose output is kept.
    pub(crate) fn start(&self, args: &[&str]) -> Child {
        let mut command = self.command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("annals starts")
    }

    /// Runs a command that must succeed with `--json`, and reads its one document.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let answer = self.annals(&[args, &["--json"]].concat());
        assert_eq!(answer.code, Some(0), "{args:?}: {answer:?}");
        serde_json::from_str(&answer.stdout).expect("one JSON document")
    }

    /// The newest job, as the list shows it.
    pub(crate) fn newest(&self) -> Value {
        self.json(&["list"])["items"][0].clone()
    }

    /// The id of the newest job.
    pub(crate) fn newest_id(&self) -> String {
        self.newest()["id"].as_str().expect("there is a job").to_owned()
    }

    /// Waits until a file is there.
    pub(crate) fn wait_for(&self, name: &str) {
        until(name, || self.path(name).exists());
    }
}

impl Answer {
    /// Asserts the exit code, showing everything where it is another.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}\n{}", self.stdout, self.stderr);
        self
    }
}

impl From<Output> for Answer {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let (stdout, stderr) = (text(output.stdout), text(output.stderr));
        Self { code: output.status.code(), stdout, stderr }
    }
}

/// Waits until something holds.
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a signal to a child.
pub(crate) fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = i32::try_from(child.id()).expect("a pid fits");
    let pid = rustix::process::Pid::from_raw(pid).expect("a pid is not 0");
    rustix::process::kill_process(pid, signal).expect("the child is there");
}

/// Waits for a child's end, for a limited time; one that does not end is killed.
#[track_caller]
pub(crate) fn finish(mut child: Child) -> Answer {
    let begun = Instant::now();
    let mut killed = false;
    while child.try_wait().expect("a child").is_none() {
        if begun.elapsed() > PATIENCE && !std::mem::replace(&mut killed, true) {
            child.kill().expect("a child can be killed");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let answer = child.wait_with_output().expect("a child").into();
    assert!(!killed, "the command did not end: {answer:?}");
    answer
}
