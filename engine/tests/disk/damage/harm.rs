//! What disks do to files: flipped bits, sectors that are lost, swapped or of long ago, ends that
//! are cut off, whole files that are gone or older than they should be.

use std::path::Path;
use std::sync::Arc;

use super::house::STORE;
use super::stored::Stored;
use crate::tree::{FileId, Tree};

const SECTORS: [usize; 2] = [512, 4096];

/// A store that something was done to.
pub(crate) struct Harmed {
    pub(crate) tree: Tree,
    /// What was done.
    pub(crate) how: String,
}

/// Does something to a file, or to two; the random numbers say what.
pub(crate) fn harm(stored: &Stored, random: &mut fastrand::Rng) -> Harmed {
    let files: Vec<_> = stored.tree.names.iter().collect();
    // Some ways change nothing here and there, such as a swap of empty sectors.
    loop {
        let (path, file) = files[random.usize(..files.len())];
        let (other, of_other) = files[random.usize(..files.len())];
        let mut harm = Harm { stored, tree: stored.tree.clone(), file: *file };
        let size = SECTORS[random.usize(..2)];
        let how = match random.u8(..16) {
            0..5 => harm.flip(random),
            5..7 => harm.zero(size, random),
            7..9 if random.bool() => harm.swap((*file, *file), size, random),
            7..9 => harm
                .swap((*file, *of_other), size, random)
                .map(|how| format!("{how} of {}", name(other))),
            9..11 => Some(harm.cut(random)),
            11..14 => harm.old_sector(size, random),
            14 => harm.old_file(random),
            _ => Some(harm.lose(path)),
        };
        if let Some(how) = how {
            return Harmed { tree: harm.tree, how: format!("{}: {how}", name(path)) };
        }
    }
}

fn name(path: &Path) -> String {
    path.strip_prefix(STORE).unwrap_or(path).display().to_string()
}

struct Harm<'s> {
    stored: &'s Stored,
    tree: Tree,
    file: FileId,
}

impl Harm<'_> {
    fn bytes(&mut self) -> &mut Vec<u8> {
        Arc::make_mut(&mut self.tree.files[self.file])
    }

    /// One bit; those of bytes that hold something are tried more often.
    fn flip(&mut self, random: &mut fastrand::Rng) -> Option<String> {
        let anywhere = random.u8(..4) == 0;
        let bytes = self.bytes();
        let begin = random.usize(..bytes.len());
        let used = (begin..bytes.len()).chain(0..begin).find(|at| bytes[*at] != 0)?;
        let (at, bit) = (if anywhere { begin } else { used }, random.u8(..8));
        bytes[at] ^= 1 << bit;
        Some(format!("bit {bit} of byte {at} is flipped"))
    }

    fn zero(&mut self, size: usize, random: &mut fastrand::Rng) -> Option<String> {
        let at = random.usize(..self.bytes().len()) / size * size;
        let end = self.bytes().len().min(at + size);
        let sector = &mut self.bytes()[at..end];
        let changes = sector.iter().any(|byte| *byte != 0);
        sector.fill(0);
        changes.then(|| format!("{size} bytes at {at} are zero"))
    }

    fn swap(
        &mut self,
        (one, other): (FileId, FileId),
        size: usize,
        random: &mut fastrand::Rng,
    ) -> Option<String> {
        let sectors = |file: FileId| self.tree.files[file].len() / size;
        if sectors(one) == 0 || sectors(other) == 0 {
            return None;
        }
        let (at, to) = (random.usize(..sectors(one)) * size, random.usize(..sectors(other)) * size);
        let first = self.tree.files[one][at..at + size].to_vec();
        let second = self.tree.files[other][to..to + size].to_vec();
        Arc::make_mut(&mut self.tree.files[one])[at..at + size].copy_from_slice(&second);
        Arc::make_mut(&mut self.tree.files[other])[to..to + size].copy_from_slice(&first);
        (first != second).then(|| format!("{size} bytes at {at} are swapped with those at {to}"))
    }

    fn cut(&mut self, random: &mut fastrand::Rng) -> String {
        let mut len = random.usize(..self.bytes().len());
        if random.bool() {
            len = len / SECTORS[1] * SECTORS[1];
        }
        self.bytes().truncate(len);
        format!("it is cut to {len} bytes")
    }

    /// A sector as it was some time before.
    fn old_sector(&mut self, size: usize, random: &mut fastrand::Rng) -> Option<String> {
        let (age, old) = self.older(random)?;
        let shared = old.len().min(self.bytes().len()) / size;
        let new = self.bytes().clone();
        let span = |sector: usize| sector * size..(sector + 1) * size;
        let changed: Vec<_> =
            (0..shared).filter(|sector| old[span(*sector)] != new[span(*sector)]).collect();
        let sector = *changed.get(random.usize(..changed.len().max(1)))?;
        self.bytes()[span(sector)].copy_from_slice(&old[span(sector)]);
        Some(format!("{size} bytes at {} are those of copy {age}", sector * size))
    }

    fn old_file(&mut self, random: &mut fastrand::Rng) -> Option<String> {
        let (age, old) = self.older(random)?;
        let changes = *old != **self.bytes();
        *self.bytes() = old;
        changes.then(|| format!("it is as it was in copy {age}"))
    }

    /// The file as it was in one of the older copies.
    fn older(&self, random: &mut fastrand::Rng) -> Option<(usize, Vec<u8>)> {
        let age = random.usize(..self.stored.older.len());
        let tree = &self.stored.older[age];
        let has_name = tree.names.values().any(|file| *file == self.file);
        has_name.then(|| (age, tree.files[self.file].to_vec()))
    }

    fn lose(&mut self, path: &Path) -> String {
        self.tree.names.remove(path);
        "it is gone".into()
    }
}
