//! Records of live attempts: one file each, locked by its supervisor for as long as it lives.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::tree::Stat;
use super::wire::Spec;

/// Which folder this is, whatever its path: the device and the number in it. It stays when the
/// folder is moved, and a copy has another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    pub(crate) fn of(folder: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(folder)?;
        Ok(Self { device: metadata.dev(), inode: metadata.ino() })
    }
}

/// Who supervises an attempt, said so that no other process can be mistaken for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Supervised {
    /// The supervisor's process id, and the session of what it started.
    pub(crate) pid: i32,
    /// When it started, in clock ticks since the machine did.
    pub(crate) start: u64,
    /// The value of the marker in the environment of what it started.
    pub(crate) marker: PathBuf,
    /// The cgroup of all this, which is not there where it could not be made.
    pub(crate) cgroup: Option<PathBuf>,
    /// The same of the one that holds its memory.
    #[serde(default)]
    pub(crate) memory: Option<PathBuf>,
}

impl Supervised {
    /// What the process `pid` supervises; `None` where it is gone.
    pub(crate) fn by(pid: i32, spec: &Spec) -> Option<Self> {
        let start = Stat::of(pid)?.start;
        // The name is of this process alone, so it can be told before the cgroup is made.
        let name = format!("annals-{pid}-{start}");
        let cgroup = spec.cgroups.as_ref().map(|all| all.join(&name));
        let memory = spec.memory.as_ref().map(|limit| limit.place.of(&name));
        Some(Self { pid, start, marker: spec.marker.clone(), cgroup, memory })
    }

    /// Whether the supervisor is still there.
    pub(crate) fn is_alive(&self) -> bool {
        Stat::of(self.pid).is_some_and(|stat| stat.start == self.start && stat.is_alive())
    }
}

/// What a supervisor leaves for the engine's next start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    #[serde(flatten)]
    pub(crate) supervised: Supervised,
    /// Which start of the machine its process id and its time are of.
    pub(crate) boot: String,
    /// The folder that the record was written in. Where a store was copied, the records in the
    /// copy name attempts of the original, which may be alive and are none of the copy's.
    pub(crate) folder: Identity,
}

impl Record {
    /// Reads a record; `None` where its writer did not get that far, and so started nothing.
    pub(crate) fn read(path: &Path) -> io::Result<Option<Self>> {
        Ok(serde_json::from_slice(&fs::read(path)?).ok())
    }
}

/// A record and the lock on it, held by a supervisor.
pub(crate) struct Held {
    path: PathBuf,
    pub(crate) supervised: Supervised,
    _locked: File,
}

impl Held {
    /// Leaves a record of this process.
    pub(crate) fn leave(spec: &Spec) -> io::Result<Self> {
        let path = &spec.live;
        let pid = i32::try_from(std::process::id()).map_err(io::Error::other)?;
        let supervised = Supervised::by(pid, spec).ok_or(io::ErrorKind::Unsupported)?;
        let folder = Identity::of(path.parent().unwrap_or(Path::new("/")))?;
        let record = Record { supervised, boot: boot()?, folder };
        let mut file = File::create(path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        file.write_all(&serde_json::to_vec(&record)?)?;
        Ok(Self { path: path.clone(), supervised: record.supervised, _locked: file })
    }

    /// Removes the record: nothing of the attempt lives.
    pub(crate) fn remove(self) {
        // One that stays is found and removed at the engine's next start.
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether a living supervisor holds the record.
pub(crate) fn is_locked(path: &Path) -> io::Result<bool> {
    let file = File::open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(false),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// The id of this start of the machine.
pub(crate) fn boot() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}
