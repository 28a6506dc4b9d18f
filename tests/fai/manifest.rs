//! What is in a root, apart from times, and how two of them differ.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::process::Command;

use sha2::{Digest, Sha256};

/// So many differences are told of.
const TOLD_MAX: usize = 40;
/// So many lines of what differs within a file.
const LINES_MAX: usize = 30;

/// What is said of each path: its type and mode, its owner, and where a link leads, the hash of a
/// file, or the number of a device.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Manifest(BTreeMap<String, String>);

impl Manifest {
    pub(crate) fn of(root: &Path) -> Self {
        let mut entries = BTreeMap::new();
        gather(root, root, &mut entries);
        Self(entries)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

fn gather(root: &Path, folder: &Path, entries: &mut BTreeMap<String, String>) {
    let found =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in found {
        let path = entry.unwrap().path();
        let metadata = fs::symlink_metadata(&path).unwrap();
        let name = path.strip_prefix(root).unwrap().to_str().expect("paths of Debian are UTF-8");
        entries.insert(name.to_owned(), describe(&path, &metadata));
        if metadata.is_dir() {
            gather(root, &path, entries);
        }
    }
}

fn describe(path: &Path, metadata: &Metadata) -> String {
    let kind = metadata.file_type();
    let what = if kind.is_symlink() {
        format!("link to {}", fs::read_link(path).unwrap().display())
    } else if kind.is_file() {
        format!("file {}", sha256(path))
    } else if kind.is_dir() {
        "folder".to_owned()
    } else if kind.is_char_device() || kind.is_block_device() {
        format!("device {:#x}", metadata.rdev())
    } else {
        "other".to_owned()
    };
    format!("{:06o} {}:{} {what}", metadata.mode(), metadata.uid(), metadata.gid())
}

fn sha256(path: &Path) -> String {
    let hash = Sha256::digest(fs::read(path).unwrap());
    hash.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// How two roots differ, for people; nothing where they do not.
pub(crate) fn difference(expected: (&Path, &Manifest), found: (&Path, &Manifest)) -> String {
    let (before, after) = (&expected.1.0, &found.1.0);
    let paths: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let differ = |path: &&&String| before.get(**path) != after.get(**path);
    let differing: Vec<&&String> = paths.iter().filter(differ).collect();
    let mut told = String::new();
    for path in differing.iter().take(TOLD_MAX) {
        let side = |entries: &BTreeMap<String, String>| {
            entries.get(**path).map_or("nothing", String::as_str).to_owned()
        };
        let (expected_is, found_is) = (side(before), side(after));
        let _ = writeln!(told, "{path}\n    expected {expected_is}\n    found    {found_is}");
        if expected_is.contains(" file ") && found_is.contains(" file ") {
            told += &within(&expected.0.join(path), &found.0.join(path));
        }
    }
    if differing.len() > TOLD_MAX {
        let _ = writeln!(told, "... and {} more", differing.len() - TOLD_MAX);
    }
    told
}

/// Lines that differ between two files.
fn within(expected: &Path, found: &Path) -> String {
    let mut diff = Command::new("diff");
    let labels = ["--unified=1", "--label=expected", "--label=found"];
    let Ok(output) = diff.args(labels).arg(expected).arg(found).output() else {
        return String::new();
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().take(LINES_MAX).fold(String::new(), |told, line| told + "    " + line + "\n")
}
