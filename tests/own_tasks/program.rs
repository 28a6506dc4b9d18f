//! A program with tasks of its own, which the tests in this folder serve: tasks that keep a
//! journal, and tasks that are bad neighbours.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use annals::prelude::*;
use annals_engine::Builder;
use annals_engine::log::Options;
use serde::Deserialize;

/// As `annals` itself has it: what the memory of a server is depends on it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const NOTE: TaskKind<Note, ()> = TaskKind::new("note");
const PANIC: TaskKind<(), ()> = TaskKind::new("panic");
const FAIL: TaskKind<(), ()> = TaskKind::new("fail");
const CRASH: TaskKind<(), ()> = TaskKind::new("crash");
const HOG: TaskKind<(), ()> = TaskKind::new("hog");

/// What is to be noted, and when.
#[derive(Deserialize)]
struct Note {
    journal: PathBuf,
    after_ms: u64,
}

/// Leaves a line in a journal as its last deed before it succeeds.
async fn note(cx: TaskContext, note: Note) -> TaskResult<()> {
    tokio::time::sleep(Duration::from_millis(note.after_ms)).await;
    let id = cx.attempt();
    let line = format!("{} {} {}\n", id.job, id.task, id.attempt);
    // One write, so that no line is torn, whatever ends the process.
    OpenOptions::new().append(true).create(true).open(note.journal)?.write_all(line.as_bytes())?;
    Ok(())
}

async fn panic(cx: TaskContext, (): ()) -> TaskResult<()> {
    panic!("attempt {} has lost its nerve", cx.attempt().attempt)
}

async fn fail(cx: TaskContext, (): ()) -> TaskResult<()> {
    Err(TaskError::new("no_luck", format!("attempt {} had no luck", cx.attempt().attempt)))
}

/// Ends its process, which had better be its own.
async fn crash(_cx: TaskContext, (): ()) -> TaskResult<()> {
    std::process::abort()
}

/// Takes memory until there is none, which had better be soon.
async fn hog(_cx: TaskContext, (): ()) -> TaskResult<()> {
    let mut taken = Vec::new();
    loop {
        taken.push(std::hint::black_box(vec![1_u8; 1 << 20]));
    }
}

/// Any load fills the store's cache up to its limit. With a small one, what a server grows by
/// is what its jobs hold.
fn with_a_small_cache(engine: Builder) -> Builder {
    engine.store(Options { cache_bytes: 8 << 20, ..Options::default() })
}

fn main() -> std::process::ExitCode {
    let app = annals::App::new().task(NOTE, note).task(PANIC, panic).task(FAIL, fail);
    let app = app.task(CRASH, crash).task(HOG, hog);
    app.engine(with_a_small_cache).run()
}
