//! How attempts in processes of their own are stopped, and that nothing of them is left.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use annals_engine::Engine;
use annals_engine::job::{AttemptOutcome, Job, JobStatus};
use annals_tasks_sdk::{JobId, Payload, TaskContext, TaskResult};

use crate::house::{
    PATIENCE, Test, cancel, ended, error_of, in_house, kinds, start, submit, until, within,
};

pub(crate) const TESTS: &[Test] = &[
    ("who_obeys_ends_by_itself", who_obeys_ends_by_itself),
    ("who_does_not_obey_is_killed_with_all_that_it_started", who_does_not_obey_is_killed),
    ("a_timeout_kills_too", a_timeout_kills_too),
    ("a_killed_engine_leaves_no_process", a_killed_engine_leaves_no_process),
];

/// The argument by which this program is an engine.
pub(crate) const ENGINE: &str = "--be-an-engine";

/// Notes its process and one that it starts, and blocks for ever, whatever it is told.
pub(crate) async fn blocks(_cx: TaskContext, note: Payload) -> TaskResult<Payload> {
    let note: PathBuf = note.to()?;
    let child = Command::new("sleep").arg("1000").spawn()?;
    let pids = format!("{} {}\n", std::process::id(), child.id());
    // In one piece: who looks must not see half of it.
    let part = note.with_extension("part");
    std::fs::write(&part, pids)?;
    std::fs::rename(&part, &note)?;
    loop {
        std::thread::park();
    }
}

/// Fails as soon as it is told to stop.
pub(crate) async fn obeys(cx: TaskContext, _input: Payload) -> TaskResult<Payload> {
    cx.message("here");
    cx.or_cancelled(std::future::pending()).await
}

fn task(kind: &str, note: &Path, more: &str) -> String {
    let note = note.to_str().expect("it is UTF-8");
    format!(r#"{{"id": "a", "kind": "{kind}", "input": "{note}"{more}}}"#)
}

/// The processes that a task has noted, as soon as it has.
fn noted(note: &Path) -> Vec<u32> {
    let begun = Instant::now();
    while !note.exists() {
        assert!(begun.elapsed() < PATIENCE, "it notes nothing");
        std::thread::sleep(Duration::from_millis(2));
    }
    let text = std::fs::read_to_string(note).expect("a note");
    text.split_whitespace().map(|pid| pid.parse().expect("a number")).collect()
}

/// Whether a process runs; a zombie does not.
fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

fn outcome(job: &Job) -> Option<AttemptOutcome> {
    let task = job.find("a").and_then(|number| job.task(number)).expect("the task");
    task.attempts().last().and_then(|attempt| attempt.outcome)
}

fn who_obeys_ends_by_itself() {
    in_house(|folder| async move {
        let engine = start(&folder).await;
        let job = submit(&engine, &task("obeys", &folder, "")).await;
        until(&job, |now| now.live.values().any(|live| live.message.is_some())).await;
        cancel(&job).await;
        let end = ended(&job).await;
        assert_eq!(end.status(), JobStatus::Cancelled);
        assert_eq!(outcome(&end), Some(AttemptOutcome::Interrupted));
        assert_eq!(error_of(&end, "a").0, "cancelled");
        within(engine.shutdown()).await.unwrap();
    });
}

fn who_does_not_obey_is_killed() {
    in_house(|folder| async move {
        let (engine, note) = (start(&folder).await, folder.join("note"));
        let job = submit(&engine, &task("blocks", &note, r#", "cancel_grace": "50ms""#)).await;
        let pids = noted(&note);
        assert!(pids.iter().all(|pid| is_alive(*pid)));
        cancel(&job).await;
        let end = ended(&job).await;
        assert!(!pids.iter().any(|pid| is_alive(*pid)), "it counts as over when nothing lives");
        assert_eq!(end.status(), JobStatus::Cancelled);
        assert_eq!(outcome(&end), Some(AttemptOutcome::Interrupted));
        assert_eq!(error_of(&end, "a").0, "grace_over");
        within(engine.shutdown()).await.unwrap();
    });
}

fn a_timeout_kills_too() {
    in_house(|folder| async move {
        let (engine, note) = (start(&folder).await, folder.join("note"));
        let more = r#", "timeout": "2s", "cancel_grace": "0s""#;
        let job = submit(&engine, &task("blocks", &note, more)).await;
        let end = ended(&job).await;
        assert_eq!(outcome(&end), Some(AttemptOutcome::TimedOut));
        assert_eq!((end.status(), &*error_of(&end, "a").0), (JobStatus::Failed, "timed_out"));
        assert!(!note.exists() || !noted(&note).iter().any(|pid| is_alive(*pid)));
        within(engine.shutdown()).await.unwrap();
    });
}

/// Runs the jobs of a store until it is killed. Attempts come here, too.
pub(crate) fn be_an_engine() {
    let folder = std::env::args_os().nth(2).expect("a folder");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let _engine = start(Path::new(&folder)).await;
        std::future::pending::<()>().await;
    });
}

fn a_killed_engine_leaves_no_process() {
    in_house(|folder| async move {
        let note = folder.join("note");
        let engine = kinds(Engine::open(folder.join("store"))).mode(annals_engine::Mode::Hold);
        let engine = within(engine.start()).await.unwrap();
        let id = submit(&engine, &task("blocks", &note, r#", "cancel_grace": "0s""#)).await.id();
        within(engine.shutdown()).await.unwrap();
        let mut killed = Command::new(std::env::current_exe().expect("this program has a path"));
        killed.arg(ENGINE).arg(&folder).stdout(Stdio::null());
        let mut killed = killed.spawn().expect("it starts");
        let pids = noted(&note);
        assert!(pids.iter().all(|pid| is_alive(*pid) && *pid != killed.id()));
        killed.kill().expect("it can be killed");
        killed.wait().expect("it ends");
        let begun = Instant::now();
        while pids.iter().any(|pid| is_alive(*pid)) {
            assert!(begun.elapsed() < PATIENCE, "they live on without their engine");
            std::thread::sleep(Duration::from_millis(2));
        }
        std::fs::remove_file(&note).expect("a note");
        goes_on(&folder, id, &note).await;
    });
}

/// The next engine declares the attempt lost, and runs the task again.
async fn goes_on(folder: &Path, id: JobId, note: &Path) {
    let engine = start(folder).await;
    let job = engine.job(id);
    let again = noted(note);
    let now = job.snapshot().await.unwrap().job;
    let task = now.task(now.find("a").unwrap()).unwrap();
    let outcomes: Vec<_> = task.attempts().iter().map(|attempt| attempt.outcome).collect();
    assert_eq!(outcomes, [Some(AttemptOutcome::Lost), None]);
    cancel(&job).await;
    ended(&job).await;
    assert!(!again.iter().any(|pid| is_alive(*pid)));
    within(engine.shutdown()).await.unwrap();
}
