//! The workflow and its tasks: plain async functions whose results are typed, and passed on.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use annals::prelude::*;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::film::{self, Film, Mark, Packer};

/// After so many frames the transcoder keeps a checkpoint.
const CHECKPOINT_FRAMES: u64 = 10;

/// What a job is asked for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Order {
    /// Where films lie; each job has a folder of its own in it.
    pub(crate) folder: PathBuf,
    /// How long the film is.
    pub(crate) frames: u64,
    /// How fast it is transcoded at most, so that there is time to watch, and to kill it.
    pub(crate) frames_per_second: u32,
}

/// A packed film.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Packed {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
}

/// What a job gives.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Release {
    pub(crate) manifest: PathBuf,
    pub(crate) frames: u64,
    pub(crate) percent_of_original: u64,
}

// A durable name is a typed constant, declared once.
pub(crate) const RENDER: TaskKind<Order, PathBuf> = TaskKind::new("render");
pub(crate) const PROBE: TaskKind<PathBuf, Film> = TaskKind::new("probe");
pub(crate) const TRANSCODE: TaskKind<(Order, Film), Packed> = TaskKind::new("transcode");
pub(crate) const THUMBNAILS: TaskKind<Film, Vec<PathBuf>> = TaskKind::new("thumbnails");
pub(crate) const PUBLISH: TaskKind<(Film, Packed, Vec<PathBuf>), Release> =
    TaskKind::new("publish");

pub(crate) const MEDIA: Workflow<Order, Release> = Workflow::new("media");

/// The tasks and what they hand on; an edge between wrong types does not compile. Transcoding and
/// thumbnails need the film alone, so they run side by side.
pub(crate) fn media(flow: &Flow, order: Wire<Order>) -> Wire<Release> {
    let source = flow.task(RENDER, order).title("Draw a film");
    let film = flow.task(PROBE, source).title("Read what the film says of itself");
    let packed =
        flow.task(TRANSCODE, (order, film)).title("Soften and pack each frame").attempts(3);
    let stills = flow.task(THUMBNAILS, film).title("Make stills").attempts(3).timeout(minutes(5));
    flow.task(PUBLISH, (film, packed, stills)).title("Check all and write the manifest").wire()
}

pub(crate) async fn render(cx: TaskContext, order: Order) -> TaskResult<PathBuf> {
    let folder = order.folder.join(cx.attempt().job.to_string());
    fs::create_dir_all(&folder)?;
    let path = folder.join("film.y4m");
    film::render(&path, order.frames)?;
    Ok(path)
}

pub(crate) async fn probe(_cx: TaskContext, path: PathBuf) -> TaskResult<Film> {
    let film = Film::probe(path)?;
    if film.frames == 0 {
        // Another attempt would find the same: `?` retries, `.fatal()?` gives up.
        Err(TaskError::new("empty_film", "the film has no frames")).fatal()?;
    }
    Ok(film)
}

/// The long one. Whenever it is killed, the next attempt goes on behind the last checkpoint.
pub(crate) async fn transcode(cx: TaskContext, (order, film): (Order, Film)) -> TaskResult<Packed> {
    let path = film.beside("film.packed");
    let mark: Mark = cx.restore()?.unwrap_or_default();
    if mark.frames > 0 {
        cx.message(format!("goes on at frame {} of {}", mark.frames, film.frames));
    }
    let pace = Duration::from_secs(1) / order.frames_per_second.max(1);
    let mut pace = tokio::time::interval(pace);
    let mut packer = Packer::go_on(&film, &path, mark)?;
    while packer.mark.frames < film.frames {
        packer.frame()?;
        cx.progress(Progress { done: packer.mark.frames, total: film.frames });
        if packer.mark.frames.is_multiple_of(CHECKPOINT_FRAMES) {
            // First the frames are safe, then the checkpoint that counts on them.
            packer.sync()?;
            cx.checkpoint(&packer.mark).await?;
        }
        cx.or_cancelled(pace.tick()).await?;
    }
    packer.sync()?;
    Ok(Packed { path, bytes: packer.mark.bytes })
}

pub(crate) async fn thumbnails(cx: TaskContext, film: Film) -> TaskResult<Vec<PathBuf>> {
    let numbers = [0, film.frames / 2, film.frames - 1];
    let mut paths = Vec::new();
    for number in numbers {
        cx.ensure_live()?;
        let path = film.beside(&format!("still-{number}.ppm"));
        film::thumbnail(&film, number, &path)?;
        paths.push(path);
    }
    Ok(paths)
}

pub(crate) async fn publish(
    _cx: TaskContext,
    (film, packed, stills): (Film, Packed, Vec<PathBuf>),
) -> TaskResult<Release> {
    let sound = film::compare(&film, &packed.path).fatal()?;
    if sound < film.frames {
        let message = format!("frame {sound} of {} is not that of the original", film.frames);
        return Err(TaskError::new("damaged", message)).fatal();
    }
    let mut lines = String::new();
    for path in std::iter::once(&packed.path).chain(&stills) {
        lines.push_str(&checksum(path)?);
    }
    let manifest = film.beside("SHA256SUMS");
    let unfinished = film.beside("SHA256SUMS.unfinished");
    fs::write(&unfinished, lines)?;
    fs::rename(unfinished, &manifest)?;
    let percent_of_original = packed.bytes * 100 / fs::metadata(&film.path)?.len();
    Ok(Release { manifest, frames: film.frames, percent_of_original })
}

/// A line as `sha256sum --check` reads it.
fn checksum(path: &Path) -> TaskResult<String> {
    let mut line = String::new();
    for byte in Sha256::digest(fs::read(path)?) {
        write!(line, "{byte:02x}")?;
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Ok(line + "  " + &name + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use annals_tasks_sdk::testing;

    /// Told to stop in the middle, the transcoder goes on from its checkpoint, and the result is
    /// that of an undisturbed run.
    #[tokio::test]
    async fn a_stopped_transcoder_goes_on_and_packs_the_same_film() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("film.y4m");
        film::render(&path, 25).unwrap();
        let film = Film::probe(path).unwrap();
        let order =
            Order { folder: folder.path().into(), frames: 25, frames_per_second: 1_000_000 };
        let input = (order, film.clone());

        let whole = testing::attempt().run(transcode, input.clone()).await;
        let bytes = fs::read(&whole.output().path).unwrap();
        let marks = whole.checkpoints::<Mark>();
        assert_eq!(marks.iter().map(|mark| mark.frames).collect::<Vec<_>>(), [10, 20]);

        let at_13 = |call: &testing::Call| {
            *call == testing::Call::Progress(Progress { done: 13, total: 25 })
        };
        let stopped = testing::attempt().cancel_when(at_13).run(transcode, input.clone()).await;
        assert!(stopped.error().is_cancelled());
        let resumed = stopped.next_attempt().run(transcode, input).await;
        assert_eq!(resumed.messages(), ["goes on at frame 10 of 25"]);
        assert_eq!(resumed.progress()[0].done, 11);
        assert_eq!(fs::read(&resumed.output().path).unwrap(), bytes);
        assert_eq!(film::compare(&film, &resumed.output().path).unwrap(), 25);
    }

    #[tokio::test]
    async fn an_empty_film_is_not_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("film.y4m");
        film::render(&path, 0).unwrap();
        let run = testing::attempt().run(probe, path).await;
        assert_eq!(run.error().code(), "empty_film");
        assert!(!run.error().is_retryable());
    }
}
