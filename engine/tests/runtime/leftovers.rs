//! What an engine that was killed left running, when it cannot be ended: nothing starts beside it.

use std::path::Path;

use annals_engine::log::MemoryDisk;
use annals_engine::runtime::{Builder, CommandError, Engine, EngineError, JobError, StartError};
use annals_engine::{Ask, Mode, job::Command};
use annals_tasks_sdk::JobId;

use super::support::{kill, plan, status_of, submit, until, within};

fn on(disk: &MemoryDisk, dir: &Path) -> Builder {
    Engine::open(dir).log(Box::new(disk.open()))
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_starts_while_it_is_unknown_what_still_runs() {
    let (disk, dir) = (MemoryDisk::new(), tempfile::tempdir().unwrap());
    let engine = within(on(&disk, dir.path()).start()).await.unwrap();
    let text = r#"{"id": "a", "kind": "sleep", "input": {"for": "1h"}}"#;
    let job = submit(&engine, plan(text)).await.id();
    until(&engine.job(job), |now| status_of(&now.job, "a") == "waiting").await;
    kill(engine).await;
    // A record that cannot be read: a folder in its place.
    let record = dir.path().join(format!("live/{}.1.1", JobId::from_u128(1)));
    std::fs::create_dir_all(&record).unwrap();
    match within(on(&disk, dir.path()).start()).await.map(drop) {
        Err(StartError::Io { .. }) => {}
        other => panic!("{other:?}"),
    }
    let engine = within(on(&disk, dir.path()).mode(Mode::Hold).start()).await.unwrap();
    for _ in 0..2 {
        match within(engine.job(job).command(Command::CANCEL, Ask::default())).await {
            Err(CommandError::Job(JobError::Engine(EngineError::Leftovers(_)))) => {}
            other => panic!("{other:?}"),
        }
    }
    // A look is no command.
    let now = within(engine.job(job).snapshot()).await.unwrap();
    assert_eq!(status_of(&now.job, "a"), "waiting");
    std::fs::remove_dir(&record).unwrap();
    within(engine.job(job).command(Command::CANCEL, Ask::default())).await.unwrap();
    kill(engine).await;
    within(on(&disk, dir.path()).start()).await.map(drop).unwrap();
}
