//! A real program built as a chain of steps: bzip2 by the 29 commands of its makefile, which must
//! give what `make` gives, also when a step fails in between and the job goes on.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::Place;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Compilers quote with other characters, and so other numbers of bytes, in other locales.
const LOCALE: &str = "C.UTF-8";
const COMMANDS: usize = 29;
const FILES: usize = 73;
/// The step that compiles `blocksort.c`, with warnings.
const BLOCKSORT: usize = 1;
/// What gcc 12 says of `blocksort.c`, in bytes. Another compiler may say something else.
const WARNINGS: usize = 1_670;

#[test]
fn a_chain_of_steps_builds_what_make_builds() {
    let Some(site) = Site::new() else { return };
    let made = site.make();

    site.fresh();
    site.place.annals(&["run", "plan.json"]).expect(0);
    let job = site.place.newest();
    site.assert_same_files(&made);
    let id = job["id"].as_str().unwrap();
    for (step, bytes) in [(0, 376), (10, 16), (15, 103), (28, 945)] {
        assert_eq!(site.log(id, step, "stdout").len(), bytes, "stdout of step {step}");
    }
    // What make prints is what its commands print, one after the other.
    let all = |stream| (0..COMMANDS).map(|step| site.log(id, step, stream)).collect::<String>();
    assert_eq!(all("stdout"), String::from_utf8_lossy(&made.output.stdout));
    assert_eq!(all("stderr"), String::from_utf8_lossy(&made.output.stderr));
    let warnings = site.log(id, BLOCKSORT, "stderr").len();
    if warnings != WARNINGS {
        println!("this compiler warns in {warnings} bytes, gcc 12 in {WARNINGS}");
    }
    assert_eq!(site.outcomes(id), vec![vec!["completed"]; COMMANDS]);
}

#[test]
fn a_step_that_fails_is_gone_on_with_and_nothing_before_it() {
    let Some(site) = Site::new() else { return };
    let made = site.make();

    site.fresh();
    // Without bzlib.h gcc might find one of the system's; this header is bzip2's alone.
    let (header, away) = (site.work.join("bzlib_private.h"), site.place.path("away.h"));
    fs::rename(&header, &away).unwrap();
    site.place.annals(&["run", "plan.json"]).expect(1);
    let id = site.place.newest_id();
    let failed = &site.place.json(&["show", &id])["tasks"][BLOCKSORT];
    assert_eq!(failed["attempts"][0]["exit_code"], 1, "{failed}");
    assert!(site.log(&id, BLOCKSORT, "stderr").contains("bzlib_private.h"));

    fs::rename(&away, &header).unwrap();
    site.place.annals(&["run", "plan.json"]).expect(0);
    assert_eq!(site.place.newest_id(), id, "it is still the same job");
    let mut outcomes = vec![vec!["completed"]; COMMANDS];
    outcomes[BLOCKSORT] = vec!["failed", "completed"];
    assert_eq!(site.outcomes(&id), outcomes);
    site.assert_same_files(&made);
}

/// A folder in which bzip2 is built, always under the same path, since debug information has it.
struct Site {
    place: Place,
    source: PathBuf,
    work: PathBuf,
}

/// What make has made.
struct Made {
    output: Output,
    files: BTreeMap<String, [u8; 32]>,
}

impl Site {
    /// `None`, said loudly, where there is nothing to build with.
    fn new() -> Option<Self> {
        for program in ["make", "gcc"] {
            if Command::new(program).arg("--version").output().is_err() {
                eprintln!("SKIPPED: there is no `{program}` on this machine, so no bzip2 is built");
                return None;
            }
        }
        let place = Place::new();
        let work = place.path("work");
        let site = Self { place, source: source(), work };
        site.fresh();
        let tasks: Vec<Value> = site.commands().iter().enumerate().map(|(step, command)| {
            let input = json!({
                "argv": ["sh", "-ec", command],
                "cwd": site.work,
                "env": {"LC_ALL": LOCALE},
            });
            json!({"id": format!("step-{step}"), "title": command, "kind": "shell", "input": input})
        }).collect();
        assert_eq!(tasks.len(), COMMANDS);
        let plan = json!({"name": "bzip2", "tasks": tasks});
        site.place.write("plan.json", plan.to_string());
        Some(site)
    }

    /// Puts the sources there as they were shipped.
    fn fresh(&self) {
        if self.work.exists() {
            fs::remove_dir_all(&self.work).unwrap();
        }
        copy(&self.source, &self.work);
    }

    /// The commands that make would run, one each, whatever number of lines it prints them on.
    fn commands(&self) -> Vec<String> {
        let plan = self.run_make("-n").stdout;
        let plan = String::from_utf8(plan).unwrap().replace("\\\n", "");
        plan.lines().map(str::to_owned).collect()
    }

    fn make(&self) -> Made {
        let output = self.run_make("-s");
        Made { output, files: files(&self.work) }
    }

    fn run_make(&self, how: &str) -> Output {
        let mut make = Command::new("make");
        make.arg(how).current_dir(&self.work).env("LC_ALL", LOCALE);
        // Where this test itself runs below a make.
        make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL");
        let output = make.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output
    }

    fn assert_same_files(&self, made: &Made) {
        let files = files(&self.work);
        assert_eq!(made.files.len(), FILES);
        assert_eq!(files, made.files);
    }

    /// What a step has written in its last attempt.
    fn log(&self, id: &str, step: usize, stream: &str) -> String {
        let task = format!("step-{step}");
        self.place.annals(&["logs", id, &task, "--stream", stream]).expect(0).stdout
    }

    /// How the attempts of each step ended.
    fn outcomes(&self, id: &str) -> Vec<Vec<String>> {
        let job = self.place.json(&["show", id]);
        let of = |task: &Value| {
            let attempts = task["attempts"].as_array().unwrap().iter();
            attempts.map(|attempt| attempt["outcome"].as_str().unwrap().to_owned()).collect()
        };
        job["tasks"].as_array().unwrap().iter().map(of).collect()
    }
}

/// Where Cargo keeps bzip2's sources: a crate ships them that is named for that alone.
fn source() -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--format-version=1"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    let metadata = cargo.output().unwrap();
    assert!(metadata.status.success(), "{}", String::from_utf8_lossy(&metadata.stderr));
    let metadata: Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let package = packages.iter().find(|package| package["name"] == "bzip2-sys").unwrap();
    let manifest = Path::new(package["manifest_path"].as_str().unwrap());
    manifest.with_file_name("bzip2-1.0.8")
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        // The sources are one flat folder.
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// The files of a folder by name, and the SHA-256 of each.
fn files(folder: &Path) -> BTreeMap<String, [u8; 32]> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let file = |entry: fs::DirEntry| {
        let hash = Sha256::digest(fs::read(entry.path()).unwrap());
        (entry.file_name().to_string_lossy().into_owned(), hash.into())
    };
    entries.map(file).collect()
}
