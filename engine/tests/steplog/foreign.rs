//! What a shell task puts into the folders of the logs: nothing behind it is read or changed.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::{Path, PathBuf};

use annals_engine::steplog::{BUDGET, StepLogs};
use annals_tasks_sdk::Stream;

use crate::support::{Begun, all, attempt, begin};

/// A log that somebody else might like to show.
const SECRET: &str = "2026-01-01T00:00:00Z stdout F secret\n";

struct Planted {
    log: Begun,
    /// The folder of the job's logs.
    job: PathBuf,
    /// A file and a folder beside all logs.
    secret: PathBuf,
    outside: PathBuf,
}

fn plant(budget: u64) -> Planted {
    let log = begin(budget);
    let job = log.folder.path().join(format!("logs/{}", log.name.job));
    let (secret, outside) = (log.folder.path().join("secret"), log.folder.path().join("outside"));
    fs::write(&secret, SECRET).unwrap();
    fs::create_dir(&outside).unwrap();
    Planted { log, job, secret, outside }
}

impl Planted {
    /// Makes sure that no way of reading gives anything.
    fn is_refused(&self) {
        let logs = &self.log.logs;
        let name = self.log.name;
        let follow = || logs.follow(name, all()).read().map(drop);
        let ways = [
            logs.read(name, all()).map(drop),
            logs.entries(name, all()).map(drop),
            logs.tail(name, all(), 1).map(drop),
            logs.extent(name, None).map(drop),
            follow(),
        ];
        for (way, number) in ways.into_iter().zip(0..) {
            let kind = way.expect_err(&format!("way {number}")).kind();
            assert!(matches!(kind, ErrorKind::InvalidData | ErrorKind::NotADirectory), "{kind:?}");
        }
    }

    fn is_untouched(&self) {
        assert_eq!(fs::read_to_string(&self.secret).unwrap(), SECRET);
        assert_eq!(fs::read_dir(&self.outside).unwrap().count(), 0);
    }

    fn write_all(&self) -> u64 {
        for _ in 0..1_000 {
            self.log.log.write(Stream::Stdout, &[b'x'; 99]);
            self.log.log.write(Stream::Stdout, b"\n");
        }
        self.log.log.clone().finish().bytes
    }
}

#[test]
fn a_link_in_the_place_of_a_log_is_not_followed() {
    let planted = plant(BUDGET);
    fs::create_dir_all(&planted.job).unwrap();
    symlink(&planted.secret, planted.job.join("1.2.log")).unwrap();
    planted.is_refused();
    assert_eq!(planted.write_all(), 100_000);
    planted.is_untouched();
}

#[test]
fn a_link_to_nowhere_makes_no_file() {
    let planted = plant(BUDGET);
    fs::create_dir_all(&planted.job).unwrap();
    symlink(planted.outside.join("new"), planted.job.join("1.2.log")).unwrap();
    planted.write_all();
    planted.is_untouched();
}

#[test]
fn a_link_in_the_place_of_the_folder_of_a_job_is_not_followed() {
    let planted = plant(BUDGET);
    fs::create_dir_all(planted.job.parent().unwrap()).unwrap();
    fs::copy(&planted.secret, planted.outside.join("1.2.log")).unwrap();
    symlink(&planted.outside, &planted.job).unwrap();
    planted.is_refused();
    planted.write_all();
    assert_eq!(fs::read_to_string(planted.outside.join("1.2.log")).unwrap(), SECRET);
    planted.log.logs.remove(planted.log.name.job).unwrap();
    assert!(planted.outside.join("1.2.log").exists());
}

#[test]
fn links_beside_a_log_are_not_followed() {
    let planted = plant(8 << 10);
    fs::create_dir_all(&planted.job).unwrap();
    symlink(&planted.outside, planted.job.join("1.2.tail")).unwrap();
    symlink(&planted.secret, planted.job.join("1.2.new")).unwrap();
    planted.write_all();
    planted.is_untouched();
    let kept = fs::read_to_string(planted.job.join("1.2.log")).unwrap();
    assert!(kept.starts_with("20") && kept.len() > 4_000, "{kept}");
}

#[test]
fn a_link_in_the_place_of_a_packed_log_is_replaced() {
    let planted = plant(BUDGET);
    fs::create_dir_all(&planted.job).unwrap();
    symlink(&planted.secret, planted.job.join("1.2.new")).unwrap();
    assert_eq!(planted.write_all(), 100_000);
    planted.is_untouched();
    assert_eq!(planted.log.raw(all()).len(), 100_000);
}

#[test]
fn a_link_among_the_last_segments_is_not_followed() {
    let planted = plant(8 << 10);
    planted.log.log.write(Stream::Stdout, &b"long enough for segments\n".repeat(400));
    symlink(&planted.secret, planted.job.join("1.2.tail/9999999999")).unwrap();
    let logs = &planted.log.logs;
    assert!(logs.read(planted.log.name, all()).is_err());
    let mut follower = logs.follow(planted.log.name, all());
    let read: Result<Vec<_>, _> = std::iter::from_fn(|| follower.read().transpose()).collect();
    assert_eq!(read.unwrap_err().kind(), ErrorKind::InvalidData);
}

#[test]
fn a_pipe_in_the_place_of_a_log_is_not_waited_for() {
    let planted = plant(BUDGET);
    fs::create_dir_all(&planted.job).unwrap();
    let path = planted.job.join("1.2.log");
    make_pipe(&path);
    planted.is_refused();
    planted.write_all();
    assert!(fs::symlink_metadata(&path).unwrap().file_type().is_fifo());
}

fn make_pipe(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

#[test]
fn the_folder_of_all_logs_may_be_a_link() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("disk")).unwrap();
    symlink("disk", folder.path().join("logs")).unwrap();
    let logs = StepLogs::new(folder.path().join("logs"), BUDGET);
    let id = attempt(3);
    logs.open(&id).write(Stream::Stdout, b"here\n");
    assert_eq!(logs.extent((&id).into(), None).unwrap().total, 5);
}
