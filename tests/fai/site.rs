//! A root that is set up twice under the same path: by FAI's runner, and by a server.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value, json};

use crate::common::server::Server;
use crate::common::{Place, until};
use crate::install::{self, FAI};
use crate::manifest::{Manifest, difference};

/// In the order in which FAI runs them, which is that of the classes, and then of their numbers.
pub(crate) const SCRIPTS: [&str; 9] = [
    "FAIBASE/10-misc",
    "FAIBASE/15-root-ssh-key",
    "FAIBASE/20-removable_media",
    "DEBIAN/10-rootpw",
    "DEBIAN/20-capabilities",
    "DEBIAN/30-interface",
    "DEBIAN/40-misc",
    "DEMO/10-misc",
    "LAST/50-misc",
];
const CLASSES: &str = "DEFAULT FAIBASE DEBIAN DEMO demohost LAST";

/// How long the path of the root is, in bytes. Scripts say it in what they write, and so it decides
/// how much that is.
const ROOT_LENGTH: usize = 100;

/// bash runs this before each script: it says on the side which one begins, and has the last one
/// wait until it may.
const BEFORE: &str = r#"
case "$0" in "$FAI"/scripts/*) echo "$ANNALS_TASK $ANNALS_ATTEMPT" >> "$SIDE/begun" ;; esac
while [ "$ANNALS_TASK" = LAST:50-misc ] && [ ! -e "$SIDE/may-end" ]; do sleep 0.05; done
"#;

/// The id of the task that runs a script.
pub(crate) fn task_id(script: &str) -> String {
    script.replace('/', ":")
}

pub(crate) struct Site {
    pub(crate) place: Place,
    archive: PathBuf,
    root: PathBuf,
}

/// What FAI's runner has made.
pub(crate) struct Reference {
    root: PathBuf,
    manifest: Manifest,
    /// All that the scripts wrote.
    log: String,
}

impl Site {
    pub(crate) fn new() -> Self {
        let archive = install::prepare();
        let place = Place::new();
        let short = place.path("root").to_str().expect("a path in UTF-8").to_owned();
        assert!(short.len() <= ROOT_LENGTH, "TMPDIR is too long a path for this test: {short}");
        let root = PathBuf::from(format!("{short:-<ROOT_LENGTH$}"));
        fs::create_dir(place.path("tmp")).unwrap();
        place.write("before.sh", BEFORE);
        Self { place, archive, root }
    }

    /// A fresh root to set up, and a fresh folder for FAI's own logs.
    fn fresh(&self) {
        install::unpack(&self.archive, &self.root);
        let fstab = self.root.join("etc/fstab");
        fs::OpenOptions::new().create(true).append(true).open(fstab).unwrap();
        fs::create_dir(self.place.path("log")).unwrap();
        self.place.write("log/FAI_CLASSES", CLASSES.replace(' ', "\n"));
    }

    /// What the scripts are told, by whichever runner.
    fn environment(&self) -> Map<String, Value> {
        let (root, path) = (&self.root, |name| self.place.path(name));
        let environment = json!({
            "FAI": FAI,
            "FAI_ACTION": "dirinstall",
            "FAI_ROOT": root,
            "target": root,
            "ROOTCMD": format!("chroot {}", root.display()),
            // Without it `ainsl` appends to files of this machine.
            "AINSL_TARGET": root,
            "LOGDIR": path("log"),
            "classes": CLASSES,
            "files": format!("{FAI}/files"),
            "HOSTNAME": "demohost",
            "DOMAIN": "example.org",
            "TIMEZONE": "Europe/Berlin",
            "KEYMAP": "us-latin1",
            "ROOTPW": "$1$kBnWcO.E$djxB128U7dMkrltJHPf6d1",
            // The day on which a password was changed; it might be another for the second root.
            "SOURCE_DATE_EPOCH": 1_700_000_000,
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/root",
            "TMPDIR": path("tmp"),
        });
        environment.as_object().unwrap().clone()
    }

    /// Has FAI's runner set the root up, and moves that aside.
    pub(crate) fn reference(&self) -> Reference {
        self.fresh();
        let mut runner = Command::new("fai-do-scripts");
        runner.arg("-L").arg(self.place.path("log")).arg(format!("{FAI}/scripts")).env_clear();
        for (name, value) in self.environment() {
            runner.env(name, value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        }
        let output = runner.output().expect("fai-do-scripts runs");
        let log = self.place.read("log/scripts.log");
        let said = String::from_utf8_lossy(&output.stdout);
        let lines = SCRIPTS.map(|script| format!("{script:<20} OK.\n")).concat();
        assert_eq!(said, lines, "FAI's own runner does not succeed:\n{log}");
        let (root, logs) = (self.place.path("reference"), self.place.path("reference-log"));
        fs::rename(&self.root, &root).unwrap();
        fs::rename(self.place.path("log"), logs).unwrap();
        let manifest = Manifest::of(&root);
        assert!(manifest.len() > 5_000, "a root has more than {} entries", manifest.len());
        Reference { root, manifest, log }
    }

    /// Has a server set up a fresh root; gives the job's id.
    pub(crate) fn submit(&self, server: &Server) -> String {
        self.fresh();
        let mut environment = self.environment();
        environment.insert("BASH_ENV".into(), json!(self.place.path("before.sh")));
        environment.insert("SIDE".into(), json!(self.place.path("")));
        let task = |script: &&str| {
            let argv = ["bash", &format!("{FAI}/scripts/{script}")];
            let input = json!({"argv": argv, "env": {"$input": "/environment"}});
            json!({"id": task_id(script), "title": script, "kind": "shell", "input": input})
        };
        let plan = json!({
            "name": "FAI's simple configuration",
            "input": {"environment": environment},
            "tasks": scripts().iter().map(|script| task(&&**script)).collect::<Vec<_>>(),
        });
        let accepted = server.post("/api/v1/jobs", &plan).expect(202).json();
        accepted["id"].as_str().unwrap().to_owned()
    }

    /// Lets the last script go on.
    pub(crate) fn let_end(&self) {
        self.place.write("may-end", "");
    }

    /// Which attempts of each task have begun their scripts, as the scripts themselves say.
    pub(crate) fn begun(&self) -> BTreeMap<String, Vec<u64>> {
        let mut begun: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for line in self.place.read("begun").lines() {
            let (task, attempt) = line.split_once(' ').expect("a task and an attempt");
            begun.entry(task.to_owned()).or_default().push(attempt.parse().expect("a number"));
        }
        begun
    }

    pub(crate) fn assert_same_root(&self, reference: &Reference) {
        let found = Manifest::of(&self.root);
        let expected = (&*reference.root, &reference.manifest);
        let told = difference(expected, (&self.root, &found));
        assert!(told.is_empty(), "the roots of FAI's runner and of the server differ:\n{told}");
        assert_eq!(found, reference.manifest);
    }
}

impl Reference {
    /// Each script has said the same to a server as to this runner.
    pub(crate) fn assert_same_logs(&self, server: &Server, job: &str) {
        for script in SCRIPTS {
            let ours = log(server, job, &task_id(script), "");
            // FAI's runner calls them by shorter paths.
            let ours = ours.replace(&format!("{FAI}/scripts/"), "./");
            let (expected, found) = (lines(self.said_by(script)), lines(&ours));
            assert_eq!(found, expected, "what {script} has written");
        }
    }

    /// Its part of the log of FAI's runner.
    fn said_by(&self, script: &str) -> &str {
        let (head, foot) =
            (format!("=====   shell: {script}   =====\n"), format!("{script:<20} OK.\n"));
        let part = self.log.split_once(&head).and_then(|(_, part)| part.split_once(&foot));
        part.unwrap_or_else(|| panic!("{script} is not in the log:\n{}", self.log)).0
    }
}

/// Waits for the end, which must be a good one; gives the job as it is shown.
pub(crate) fn completed(server: &Server, job: &str) -> Value {
    let path = format!("/api/v1/jobs/{job}?wait=10s");
    let mut shown = Value::Null;
    until("the job to end", || {
        shown = server.get(&path).expect(200).json();
        ["completed", "failed", "cancelled"].contains(&shown["status"].as_str().unwrap())
    });
    for task in shown["tasks"].as_array().unwrap() {
        let id = task["id"].as_str().unwrap();
        assert_eq!(
            task["status"],
            "completed",
            "{task:#}\n{id} has written:\n{}",
            log(server, job, id, "")
        );
    }
    assert_eq!(shown["status"], "completed", "{shown:#}");
    assert_eq!(shown["tasks"].as_array().unwrap().len(), SCRIPTS.len());
    shown
}

/// What the last attempt of a task has written.
pub(crate) fn log(server: &Server, job: &str, task: &str, filter: &str) -> String {
    let path = format!("/api/v1/jobs/{job}/tasks/{task}/log?tail=100000{filter}");
    server.get(&path).expect(200).body
}

/// The history has one success of each task, and no attempt that begins behind it.
pub(crate) fn runs_once(server: &Server, job: &str) {
    let path = format!("/api/v1/jobs/{job}/events?limit=1000");
    let events = server.get(&path).expect(200).json();
    let mut completed = Vec::new();
    for event in events["items"].as_array().unwrap() {
        let task = event["data"]["task"].as_str().unwrap_or_default().to_owned();
        match event["type"].as_str().unwrap() {
            "TaskCompleted" => completed.push(task),
            "AttemptStarted" => assert!(!completed.contains(&task), "{event:#}"),
            _ => {}
        }
    }
    assert_eq!(completed, SCRIPTS.map(task_id));
}

/// The lines in an order of their own: how stdout and stderr mix is for chance to say.
fn lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// Finds the scripts as FAI's runner does: of each class those that may be run, by their numbers.
fn scripts() -> Vec<String> {
    let mut found = Vec::new();
    for class in CLASSES.split(' ') {
        let Ok(folder) = fs::read_dir(Path::new(FAI).join("scripts").join(class)) else { continue };
        let entries = folder.map(|entry| entry.unwrap());
        let may_run = |entry: &fs::DirEntry| entry.metadata().unwrap().permissions().mode() & 1 > 0;
        let names = entries.filter(may_run).map(|entry| entry.file_name().into_string().unwrap());
        let mut names: Vec<String> =
            names.filter(|name| name.starts_with(|digit: char| digit.is_ascii_digit())).collect();
        names.sort_unstable();
        found.extend(names.iter().map(|name| format!("{class}/{name}")));
    }
    assert_eq!(found, SCRIPTS, "this version of fai-doc has other scripts");
    found
}
