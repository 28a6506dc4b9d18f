//! What may be on a disk after the power went: of what was not synced, anything.

use std::sync::Arc;

use super::tree::{Bytes, Change, FileId, Tree, change_bytes};

/// What becomes of what was not synced.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Loss {
    /// All of it is lost.
    All,
    /// Nothing is, as when only the process dies.
    Nothing,
    /// What came after a moment is lost.
    Late,
    /// Some writes are lost and later ones are not.
    Some,
    /// Some sectors of this size are.
    Sectors(usize),
}

pub(crate) const LOSSES: [Loss; 6] =
    [Loss::All, Loss::Nothing, Loss::Late, Loss::Some, Loss::Sectors(512), Loss::Sectors(4096)];

/// A disk that knows what of it is durable.
#[derive(Default)]
pub(crate) struct Power {
    durable: Tree,
    /// Changes of names that are not durable, in their order.
    names: Vec<Change>,
    /// Changes of each file that are not.
    pending: Vec<Vec<Change>>,
}

impl Power {
    pub(crate) fn on(durable: Tree) -> Self {
        let pending = vec![Vec::new(); durable.files.len()];
        Self { durable, names: Vec::new(), pending }
    }

    /// Takes in what is done to the disk.
    pub(crate) fn step(&mut self, change: &Change) {
        match change {
            Change::Write { file, .. } | Change::SetSize { file, .. } => {
                self.pending[*file].push(change.clone());
            }
            Change::Sync { file } => {
                for change in self.pending[*file].drain(..) {
                    self.durable.apply(&change);
                }
            }
            Change::SyncNames { folder } => {
                let durable = |change: &mut Change| change.folder() == Some(folder);
                for change in self.names.extract_if(.., durable) {
                    self.durable.apply(&change);
                }
            }
            Change::Make { file, .. } => {
                self.reserve(*file);
                self.names.push(change.clone());
            }
            _ => self.names.push(change.clone()),
        }
    }

    fn reserve(&mut self, file: FileId) {
        let count = self.pending.len().max(file + 1);
        self.pending.resize_with(count, Vec::new);
        self.durable.files.resize_with(count, Bytes::default);
    }

    /// What is on the disk if the power goes now.
    pub(crate) fn cut(&self, loss: Loss, random: &mut fastrand::Rng) -> Tree {
        let mut tree = self.durable.clone();
        // File systems keep the order of names.
        let names = match loss {
            Loss::All => 0,
            Loss::Nothing => self.names.len(),
            _ => random.usize(0..=self.names.len()),
        };
        self.names[..names].iter().for_each(|change| tree.apply(change));
        for (bytes, pending) in tree.files.iter_mut().zip(&self.pending) {
            if !pending.is_empty() {
                survive(Arc::make_mut(bytes), pending, loss, random);
            }
        }
        tree
    }
}

/// What is on a disk if the power goes somewhere in what is done to it.
pub(crate) fn cut_somewhere(tree: Tree, journal: &[Change], random: &mut fastrand::Rng) -> Tree {
    let mut power = Power::on(tree);
    let at = random.usize(0..=journal.len());
    journal[..at].iter().for_each(|change| power.step(change));
    power.cut(LOSSES[random.usize(0..LOSSES.len())], random)
}

/// Applies what is not lost.
fn survive(bytes: &mut Vec<u8>, pending: &[Change], loss: Loss, random: &mut fastrand::Rng) {
    let kept = match loss {
        Loss::All => 0,
        Loss::Late => random.usize(0..=pending.len()),
        _ => pending.len(),
    };
    for change in &pending[..kept] {
        match (loss, change) {
            (Loss::Some, _) if random.bool() => {}
            (Loss::Sectors(size), Change::Write { file, offset, bytes: written }) => {
                for (begin, end) in sectors(*offset, written.len(), size) {
                    if random.bool() {
                        let part = written[begin - offset..end - offset].to_vec();
                        let part = Change::Write { file: *file, offset: begin, bytes: part };
                        change_bytes(bytes, &part);
                    }
                }
            }
            (Loss::Sectors(_), Change::SetSize { .. }) if random.u8(0..4) == 0 => {}
            _ => change_bytes(bytes, change),
        }
    }
}

/// The parts of a write that lie in one sector each.
fn sectors(offset: usize, len: usize, size: usize) -> impl Iterator<Item = (usize, usize)> {
    let end = offset + len;
    let first = offset / size;
    let last = end.div_ceil(size);
    (first..last).map(move |sector| (offset.max(sector * size), end.min((sector + 1) * size)))
}
