//! What lies on a disk, and what changes it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The bytes of a file; a disk that is copied shares them until they change.
pub(crate) type Bytes = Arc<Vec<u8>>;

/// The number of a file, which it keeps when it is renamed.
pub(crate) type FileId = usize;

/// Something that changes what is on a disk, or makes it durable.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    Write { file: FileId, offset: usize, bytes: Vec<u8> },
    SetSize { file: FileId, size: usize },
    Sync { file: FileId },
    Make { path: PathBuf, file: FileId },
    MakeFolder { path: PathBuf },
    Rename { from: PathBuf, to: PathBuf },
    Remove { path: PathBuf },
    SyncNames { folder: PathBuf },
}

impl Change {
    /// A change of this kind that was interrupted in its middle.
    pub(crate) fn half(&self) -> Self {
        match self {
            Self::Write { file, offset, bytes } => {
                let bytes = bytes[..bytes.len() / 2].to_vec();
                Self::Write { file: *file, offset: *offset, bytes }
            }
            // A size or a name is changed or is not, whatever the system says of it.
            other => other.clone(),
        }
    }

    /// The folder whose names it changes.
    pub(crate) fn folder(&self) -> Option<&Path> {
        match self {
            Self::Make { path, .. } | Self::MakeFolder { path } | Self::Remove { path } => {
                path.parent()
            }
            Self::Rename { to, .. } => to.parent(),
            _ => None,
        }
    }
}

/// Names and bytes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tree {
    pub(crate) folders: BTreeSet<PathBuf>,
    pub(crate) names: BTreeMap<PathBuf, FileId>,
    pub(crate) files: Vec<Bytes>,
}

impl Tree {
    pub(crate) fn file(&self, path: &Path) -> io::Result<FileId> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(crate) fn in_folder(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        if !self.folders.contains(folder) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let paths = self.names.keys().chain(&self.folders);
        let inside = paths.filter(|path| path.parent() == Some(folder));
        Ok(inside.filter_map(|path| path.file_name()).map(Into::into).collect())
    }

    pub(crate) fn apply(&mut self, change: &Change) {
        match change {
            Change::Write { file, .. } | Change::SetSize { file, .. } => {
                change_bytes(Arc::make_mut(&mut self.files[*file]), change);
            }
            Change::Sync { .. } | Change::SyncNames { .. } => {}
            Change::Make { path, file } => {
                self.files.resize_with(self.files.len().max(file + 1), Bytes::default);
                self.names.insert(path.clone(), *file);
            }
            Change::MakeFolder { path } => {
                self.folders.insert(path.clone());
            }
            Change::Rename { from, to } => {
                if let Some(file) = self.names.remove(from) {
                    self.names.insert(to.clone(), file);
                }
            }
            Change::Remove { path } => {
                self.names.remove(path);
            }
        }
    }
}

/// Changes the bytes of one file. A write behind its end is lost.
pub(crate) fn change_bytes(all: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write { offset, bytes, .. } => {
            let begin = all.len().min(*offset);
            let end = all.len().min(offset + bytes.len());
            all[begin..end].copy_from_slice(&bytes[..end - begin]);
        }
        Change::SetSize { size, .. } => all.resize(*size, 0),
        _ => {}
    }
}
