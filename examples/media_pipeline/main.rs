//! A media pipeline that can be killed at any moment and goes on where it was.
//!
//! ```text
//! cargo run --example media_pipeline                    # about 13 s; kill it, and run it again
//! cargo run --example media_pipeline -- DIR FRAMES      # elsewhere, and longer or shorter
//! cargo run --example media_pipeline -- serve           # by HTTP, as workflow `media`
//! ```
//!
//! It draws a film, transcodes it frame by frame with checkpoints, makes stills beside that, and
//! publishes a manifest of what it has checked. The work is real, the files are its own, and no
//! other program is needed. `tasks.rs` is what an author of tasks writes.
#![forbid(unsafe_code)]

mod film;
mod follow;
mod tasks;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use annals::App;
use annals::prelude::*;
use annals_engine::job::Command;
use tasks::{MEDIA, Order, PROBE, PUBLISH, RENDER, Release, THUMBNAILS, TRANSCODE};
use tokio::signal::unix::{SignalKind, signal};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "serve") {
        // All that `annals serve` does, with the tasks of this program.
        return app().run();
    }
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// What this program can do.
fn app() -> App {
    App::new()
        .task(RENDER, tasks::render)
        .task(PROBE, tasks::probe)
        .task(TRANSCODE, tasks::transcode)
        .task(THUMBNAILS, tasks::thumbnails)
        .task(PUBLISH, tasks::publish)
        .workflow(MEDIA, tasks::media)
}

#[tokio::main]
async fn run(arguments: Vec<String>) -> Result<(), Box<dyn Error>> {
    let mut arguments = arguments.into_iter();
    let data = PathBuf::from(arguments.next().unwrap_or_else(|| "media-data".into()));
    let frames = arguments.next().map_or(Ok(240), |frames| frames.parse())?;

    // Before anything runs that a Ctrl-C is to find running.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let engine = app().open(&data).start().await?;
    let job = if let Some(job) = unfinished(&engine).await? {
        println!("goes on with job {}", job.id());
        // What was running when the program ended goes on already; what has failed is asked to.
        job.command(Command::Execute { paused: false }, Ask::default()).await?;
        job
    } else {
        let order = Order { folder: data.join("films"), frames, frames_per_second: 20 };
        let job = engine.submit(MEDIA, &order).await?;
        println!("new job {}", job.id());
        JobHandle::clone(&job)
    };
    tokio::select! {
        ended = follow::follow(&job) => {
            ended?;
            let release = job.output::<Release>().await?;
            println!(
                "{} frames in {} % of their size; {}",
                release.frames, release.percent_of_original, release.manifest.display()
            );
        }
        _ = interrupt.recv() => println!("stopped; the same command goes on"),
    }
    engine.shutdown_now().await?;
    Ok(())
}

/// The newest job of the workflow, unless it has come to a good end.
async fn unfinished(engine: &Engine) -> Result<Option<JobHandle>, Box<dyn Error>> {
    let jobs = engine.jobs(None, 100).await?;
    let newest = jobs.iter().find(|job| job.workflow.as_deref() == Some(MEDIA.name()));
    let open = newest.filter(|job| job.status != JobStatus::Completed);
    Ok(open.map(|row| engine.job(row.job)))
}
