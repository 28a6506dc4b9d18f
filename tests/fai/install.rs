//! What the test needs of the machine: packages, and a root to set up.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::annals;

/// FAI's runner and helpers, its examples, and what makes a root.
const PACKAGES: [&str; 4] = ["fai-client", "fai-doc", "debootstrap", "debian-archive-keyring"];

/// The examples of `fai-doc`.
pub(crate) const FAI: &str = "/usr/share/doc/fai-doc/examples/simple";

/// What is made by debootstrap.
const SUITE: &str = "bookworm";

/// Names another mirror than Debian's own.
const MIRROR: &str = "ANNALS_DEBIAN_MIRROR";

/// Makes sure that the packages are there, and gives an archive of a fresh root. One that was made
/// once is used again.
pub(crate) fn prepare() -> PathBuf {
    let root = rustix::process::geteuid().is_root();
    assert!(root, "this test unpacks a Debian system and runs chroot in it: run it as root");
    let target = annals().parent().and_then(Path::parent).expect("it is below target");
    let home = target.join("fai");
    fs::create_dir_all(&home).unwrap();
    let lock = fs::File::create(home.join("lock")).unwrap();
    lock.lock().unwrap();
    install();
    let archive = home.join(format!("{SUITE}.tar"));
    if !archive.exists() {
        bootstrap(&home, &archive);
    }
    archive
}

fn install() {
    let missing: Vec<&str> = PACKAGES.into_iter().filter(|name| !is_installed(name)).collect();
    if !missing.is_empty() {
        let get = |args: &[&str]| {
            let mut get = Command::new("apt-get");
            get.env("DEBIAN_FRONTEND", "noninteractive").args(args);
            try_run(&mut get)
        };
        let wanted = [&["install", "--yes", "--no-install-recommends"], &missing[..]].concat();
        // Where nobody has asked for a list yet, there is none.
        let done = get(&wanted).or_else(|_| get(&["update"]).and_then(|()| get(&wanted)));
        let advice = "install them by hand, on Debian or a system like it";
        done.unwrap_or_else(|why| panic!("{missing:?} cannot be installed: {advice}\n{why}"));
    }
    let advice = "does dpkg leave documents out here (/etc/dpkg/dpkg.cfg.d)? Then take that rule \
                  away and say `apt-get install --reinstall fai-doc`";
    assert!(Path::new(FAI).exists(), "fai-doc is installed, but {FAI} is missing: {advice}");
}

fn is_installed(package: &str) -> bool {
    let mut query = Command::new("dpkg-query");
    query.args(["--show", "--showformat=${db:Status-Status}", package]);
    query.output().is_ok_and(|output| output.stdout == b"installed")
}

/// Takes a minute or some, and 200 MB from the mirror and on the disk.
fn bootstrap(home: &Path, archive: &Path) {
    let (root, part) = (home.join("root"), archive.with_extension("part"));
    let _ = fs::remove_dir_all(&root);
    let mut debootstrap = Command::new("debootstrap");
    debootstrap.args(["--variant=minbase", SUITE]).arg(&root).args(std::env::var_os(MIRROR));
    let advice = format!("is the mirror out of reach? {MIRROR} names another, as a URL");
    try_run(&mut debootstrap)
        .unwrap_or_else(|why| panic!("no root of {SUITE} can be made: {advice}\n{why}"));
    run(Command::new("tar")
        .args(["--numeric-owner", "-C"])
        .arg(&root)
        .arg("-cf")
        .arg(&part)
        .arg("."));
    fs::remove_dir_all(&root).unwrap();
    // What has this name is whole.
    fs::rename(part, archive).unwrap();
}

/// Makes a folder of the archive's contents.
pub(crate) fn unpack(archive: &Path, root: &Path) {
    fs::create_dir(root).unwrap();
    run(Command::new("tar").args(["--numeric-owner", "-C"]).arg(root).arg("-xpf").arg(archive));
}

#[track_caller]
fn run(command: &mut Command) {
    try_run(command).unwrap_or_else(|why| panic!("{why}"));
}

/// Runs a command that must succeed; otherwise gives the end of what it said.
fn try_run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?} cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let lines: Vec<&str> = said.lines().collect();
    let end = lines[lines.len().saturating_sub(20)..].join("\n");
    Err(format!("{command:?}: {}\n{end}", output.status))
}
