//! The power goes between any two operations of the disk, and again while the store is opened.

use std::time::Instant;

use super::images::{LOSSES, Power, cut_somewhere};
use super::ioerr::Tried;
use super::setting;
use super::sim::SimDisk;
use super::tree::{Change, Tree};
use super::work::{Done, Work, open};

/// How many images the ordinary test looks at.
pub(crate) const IMAGES: u64 = 2_000;

/// What was done to the disk, and how far the work was after how many changes.
struct Recording {
    journal: Vec<Change>,
    marks: Vec<(usize, Done)>,
}

impl Recording {
    fn of(work: &Work) -> Self {
        let disk = SimDisk::default();
        disk.record();
        let mut marks = Vec::new();
        let (_, result) = work.run(&disk, |done| marks.push((disk.recorded(), done)));
        result.expect("nothing fails");
        Self { journal: disk.journal(), marks }
    }

    /// How far the work was when this many changes had been made.
    fn done(&self, changes: usize) -> Done {
        let marks = &self.marks[..self.marks.partition_point(|(at, _)| *at <= changes)];
        marks.last().map_or_else(Done::default, |(_, done)| *done)
    }
}

#[test]
fn a_crash_at_any_moment_loses_nothing() {
    let images = setting("ANNALS_CRASH_IMAGES").unwrap_or(IMAGES);
    let seed = setting("ANNALS_CRASH_SEED").unwrap_or(0);
    let (mut tried, begun) = (Tried::new("crash images"), Instant::now());
    for seed in seed.. {
        if tried.cases() >= images {
            break;
        }
        crash_everywhere(seed, images, &mut tried);
    }
    let seconds = begun.elapsed().as_secs_f64().max(0.001);
    println!("{:.0} images in {seconds:.1} s", f64::from(u32::try_from(images).unwrap()));
    tried.end();
}

fn crash_everywhere(seed: u64, images: u64, tried: &mut Tried) {
    let work = Work::new(seed);
    let recording = Recording::of(&work);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut power = Power::default();
    for at in 0..=recording.journal.len() {
        let done = recording.done(at);
        for loss in LOSSES {
            if tried.cases() >= images {
                return;
            }
            let tree = power.cut(loss, &mut random);
            let again = random.u8(0..4) == 0;
            let name = || format!("seed {seed}, after {at} changes, lost: {loss:?}, {again}");
            let run = || {
                let tree = if again { crash_again(tree, &mut random) } else { tree };
                work.check(&SimDisk::holding(tree), done);
            };
            tried.case(name, run);
        }
        if let Some(change) = recording.journal.get(at) {
            power.step(change);
        }
    }
}

/// The power goes again while the store is opened after a crash.
fn crash_again(tree: Tree, random: &mut fastrand::Rng) -> Tree {
    let disk = SimDisk::holding(tree.clone());
    disk.record();
    drop(open(&disk).expect("it opens"));
    cut_somewhere(tree, &disk.journal(), random)
}
