//! The check of the crash tests themselves: an old redb, with a fault that they must find.

use std::fs;
use std::time::Instant;

use crate::{cargo, counts};

/// Where the old one is, apart from the workspace, with a lock file of its own.
const OLD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../redb-net/Cargo.toml");
/// Its fault must be found within so many seconds.
const SECONDS: u64 = 60;

/// Looks for the fault in the old redb, and at as many images at least of the one that is used.
pub(crate) fn run(images: u64) -> bool {
    let Some((old, old_failed, seconds)) = old() else {
        println!("redb-net FAILED: 0 tried, the old redb cannot be built");
        return false;
    };
    let images = images.max(old);
    let Some((new, new_failed)) = new(images) else {
        println!("redb-net FAILED: 0 tried, the tests of the store cannot be built");
        return false;
    };
    let found = match old_failed {
        0 => format!("not found in {old} images, {seconds} s"),
        _ => format!("found after {old} images, {seconds} s"),
    };
    let passed = old_failed > 0 && new_failed == 0 && new >= old;
    let outcome = if passed { "passed" } else { "FAILED" };
    let version = version().unwrap_or_else(|| "redb".into());
    println!(
        "redb-net {outcome}: {version} {new} images tried, {new_failed} failed; 4.1.0 {found}"
    );
    passed
}

/// How many images of the old one were looked at, how many were bad, and in how many seconds.
fn old() -> Option<(u64, u64, u64)> {
    let mut build = cargo();
    build.args(["build", "--quiet", "--locked", "--manifest-path", OLD]);
    let target = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/redb-net");
    build.args(["--target-dir", target]);
    if !build.status().ok()?.success() {
        return None;
    }
    let begun = Instant::now();
    let mut look = std::process::Command::new(format!("{target}/debug/redb-net"));
    let output = look.arg(SECONDS.to_string()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}");
    let (tried, failed) = text.lines().find_map(counts)?;
    Some((tried, failed, begun.elapsed().as_secs()))
}

/// The same of the one that is used here.
fn new(images: u64) -> Option<(u64, u64)> {
    let mut test = cargo();
    test.args(["test", "--package", "annals-engine", "--test", "disk"]);
    test.args(["--", "--nocapture", "redb_alone"]).env("ANNALS_REDB_IMAGES", images.to_string());
    let output = test.stderr(std::process::Stdio::inherit()).output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout);
    print!("{said}");
    said.lines().find_map(counts)
}

/// The version of the redb that is used here.
fn version() -> Option<String> {
    let lock = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock")).ok()?;
    let (_, after) = lock.split_once("name = \"redb\"\nversion = \"")?;
    after.split_once('"').map(|(version, _)| version.into())
}
