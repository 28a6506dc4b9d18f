//! Faults that are planted one at a time, to see that the nets catch them.
//!
//! They are planted in a copy of the tree, all at once, each behind a switch, so that the copy is
//! compiled once and the code itself knows nothing of them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;

/// So many of a hundred faults must be caught.
const CAUGHT_MIN: usize = 95;
/// A net that takes longer hangs, which is a catch as well.
const PATIENCE: Duration = Duration::from_mins(4);

/// Tells in the copy whether a fault is switched on.
const SWITCH: &str = "//! Switches of planted faults.

pub(crate) fn on(name: &str) -> bool {
    static ON: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    ON.get_or_init(|| std::env::var(\"ANNALS_PLANTED\").unwrap_or_default()) == name
}
";

#[derive(Deserialize)]
struct Faults {
    fault: Vec<Fault>,
}

#[derive(Deserialize)]
struct Fault {
    name: String,
    what: String,
    file: String,
    find: String,
    plant: String,
    /// The net that is cast first, where another would only lose time.
    first: Option<String>,
}

/// A net: a test binary, which of its tests, and its settings.
struct Net {
    name: &'static str,
    binary: &'static str,
    arguments: &'static [&'static str],
    settings: &'static [(&'static str, &'static str)],
    /// Whether it is for the machine alone.
    of_machine: bool,
}

const fn net(
    (name, binary): (&'static str, &'static str),
    arguments: &'static [&'static str],
    settings: &'static [(&'static str, &'static str)],
) -> Net {
    Net { name, binary, arguments, settings, of_machine: false }
}

/// The quick ones first, and those that give a seed or an image before those that do not.
const NETS: [Net; 10] = [
    Net {
        of_machine: true,
        ..net(("walk", "machine"), &["walk"], &[("ANNALS_WALK_COMMANDS", "200000")])
    },
    // What a few steps in one order find, and seeds seldom.
    net(("schedules", "sim"), &["schedules"], &[]),
    net(("sim", "sim"), &["laws"], &[("ANNALS_SIM_SEEDS", "100"), ("ANNALS_SIM_FROM", "1")]),
    net(("crash", "disk"), &["crash"], &[("ANNALS_CRASH_IMAGES", "2000")]),
    net(("damage", "disk"), &["damage"], &[("ANNALS_DAMAGE_ROUNDS", "1500")]),
    net(("sim", "sim"), &["laws"], &[("ANNALS_SIM_SECONDS", "45"), ("ANNALS_SIM_FROM", "1000")]),
    net(
        ("ioerr", "disk"),
        &["--skip", "crash", "--skip", "damage", "--skip", "redb_alone"],
        &[("ANNALS_IOERR_ROUNDS", "1")],
    ),
    Net { of_machine: true, ..net(("table", "machine"), &["--skip", "walk"], &[]) },
    net(("log", "annals_engine"), &["log::"], &[]),
    net(("runtime", "runtime"), &[], &[]),
];

/// Plants every fault, or the one of this name, and tells by which net it is caught.
pub(crate) fn planted(only: Option<&str>) -> bool {
    match Planted::build() {
        Ok(planted) => planted.try_all(only),
        Err(error) => {
            println!("planted FAILED: {error}");
            false
        }
    }
}

struct Planted {
    faults: Vec<Fault>,
    /// The package whose tests are run.
    package: PathBuf,
    logs: PathBuf,
    /// The test binaries by name.
    binaries: Vec<(String, PathBuf)>,
}

impl Planted {
    fn build() -> Result<Self, String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let root = root.canonicalize().map_err(|error| error.to_string())?;
        let faults: Faults =
            toml::from_str(include_str!("faults.toml")).map_err(|error| error.to_string())?;
        let (tree, logs) = (root.join("target/planted/tree"), root.join("target/planted/logs"));
        let copied = fs::create_dir_all(&logs).and_then(|()| copy(&root, &tree, &faults.fault));
        copied.map_err(|error| format!("cannot plant: {error}"))?;
        // The same folder as for the tree itself would mix the two up.
        let binaries = compile(&tree, &root.join("target/planted/target"))?;
        Ok(Self { faults: faults.fault, package: tree.join("engine"), logs, binaries })
    }

    fn try_all(&self, only: Option<&str>) -> bool {
        for net in &NETS {
            if let Some(caught) = self.cast(net, "nothing") {
                println!("planted FAILED: the net {} fails without a fault: {caught}", net.name);
                return false;
            }
        }
        let wanted = |fault: &&Fault| only.is_none_or(|only| only == fault.name);
        let faults: Vec<&Fault> = self.faults.iter().filter(wanted).collect();
        let missed: Vec<&str> =
            faults.iter().filter(|fault| !self.try_one(fault)).map(|fault| &*fault.name).collect();
        let caught = faults.len() - missed.len();
        let passed = !faults.is_empty() && caught * 100 >= CAUGHT_MIN * faults.len();
        let outcome = if passed { "passed" } else { "FAILED" };
        let names = if missed.is_empty() { String::new() } else { format!(" {missed:?}") };
        println!(
            "planted {outcome}: {} tried, {caught} caught, {} missed{names}",
            faults.len(),
            missed.len()
        );
        passed
    }

    fn try_one(&self, fault: &Fault) -> bool {
        let of_machine = fault.file.starts_with("engine/src/job/");
        let begun = Instant::now();
        let first = |net: &&Net| fault.first.as_deref() == Some(net.name);
        let others = NETS.iter().filter(|net| of_machine || !net.of_machine);
        for net in NETS.iter().filter(first).chain(others.filter(|net| !first(net))) {
            if let Some(sign) = self.cast(net, &fault.name) {
                let (name, seconds) = (net.name, begun.elapsed().as_secs());
                println!("{}: caught by {name} after {seconds} s: {sign}", fault.name);
                return true;
            }
        }
        println!("{}: NOT CAUGHT: {}", fault.name, fault.what);
        false
    }

    /// Runs a net with a fault switched on. Gives what it says where it fails.
    fn cast(&self, net: &Net, fault: &str) -> Option<String> {
        let (_, binary) = self.binaries.iter().find(|(name, _)| name == net.binary)?;
        let log = self.logs.join(format!("{fault}-{}.txt", net.name));
        let file = fs::File::create(&log).ok()?;
        let errors = file.try_clone().ok()?;
        let mut test = Command::new(binary);
        test.args(net.arguments).arg("--nocapture").current_dir(&self.package);
        test.envs(net.settings.iter().copied()).env("ANNALS_PLANTED", fault);
        test.env("RUST_BACKTRACE", "0").stdin(Stdio::null()).stdout(file).stderr(errors);
        let mut running = match test.spawn() {
            Ok(running) => running,
            Err(error) => return Some(format!("it cannot be run: {error}")),
        };
        let begun = Instant::now();
        loop {
            match running.try_wait() {
                Ok(Some(status)) if status.success() => return None,
                Ok(Some(_)) => return Some(sign(&log)),
                _ if begun.elapsed() > PATIENCE => {
                    drop(running.kill());
                    drop(running.wait());
                    return Some("it hangs".into());
                }
                _ => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}

/// The line of a failed test that says most.
fn sign(log: &Path) -> String {
    let text = String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned();
    let line = |word: &str| text.lines().find(|line| line.contains(word));
    let found = ["FAILED at step", "_SEED=", "seed ", "image", "panicked at", "FAILED"];
    let found = found.iter().find_map(|word| line(word)).unwrap_or("no word");
    found.trim().chars().take(160).collect()
}

/// Copies the tree with all faults planted in it. What has not changed is not written again, so
/// that it is not compiled again.
fn copy(root: &Path, tree: &Path, faults: &[Fault]) -> io::Result<()> {
    copy_folder(root, tree, &|file| {
        let path = file.strip_prefix(root).unwrap_or(file);
        let mut planted = faults.iter().filter(|fault| Path::new(&fault.file) == path).peekable();
        let lib = path == Path::new("engine/src/lib.rs");
        if !lib && planted.peek().is_none() {
            return fs::read(file);
        }
        let mut text = fs::read_to_string(file)?;
        for fault in planted {
            let switch = format!("crate::planted::on({:?})", fault.name);
            let found = text.matches(&fault.find).count();
            if found != 1 {
                let why = format!("{}: its piece is in {} {found} times", fault.name, fault.file);
                return Err(io::Error::other(why));
            }
            text = text.replace(&fault.find, &fault.plant.replace("PLANTED", &switch));
        }
        if lib {
            text.push_str("\nmod planted;\n");
        }
        Ok(text.into_bytes())
    })?;
    write(&tree.join("engine/src/planted.rs"), SWITCH.as_bytes())
}

fn copy_folder(
    from: &Path,
    to: &Path,
    read: &dyn Fn(&Path) -> io::Result<Vec<u8>>,
) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (name, path) = (entry.file_name(), entry.path());
        let ours = name == ".cargo" || !name.as_encoded_bytes().starts_with(b".");
        if !ours || name == "target" {
            continue;
        }
        if entry.file_type()?.is_dir() {
            copy_folder(&path, &to.join(name), read)?;
        } else if entry.file_type()?.is_file() {
            write(&to.join(name), &read(&path)?)?;
        }
    }
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    fs::write(path, bytes)
}

#[derive(Deserialize)]
struct Message {
    target: Option<Target>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

/// Compiles the tests of the copy. Gives the binaries by name.
fn compile(tree: &Path, target: &Path) -> Result<Vec<(String, PathBuf)>, String> {
    let mut cargo = super::cargo();
    cargo.args(["test", "--no-run", "--message-format=json", "--package", "annals-engine"]);
    cargo.args(["--lib", "--test", "machine", "--test", "sim"]);
    cargo.args(["--test", "disk", "--test", "runtime"]);
    cargo.current_dir(tree).env("CARGO_TARGET_DIR", target).stderr(Stdio::inherit());
    let output = cargo.output().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err("the planted tree cannot be compiled".into());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text.lines().filter_map(|line| serde_json::from_str::<Message>(line).ok());
    let binaries = messages.filter_map(|message| Some((message.target?.name, message.executable?)));
    Ok(binaries.collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_fault_can_be_planted() {
        let Faults { fault: faults } = toml::from_str(include_str!("faults.toml")).unwrap();
        let names: BTreeSet<&str> = faults.iter().map(|fault| &*fault.name).collect();
        assert_eq!(names.len(), faults.len(), "names are unique");
        for fault in &faults {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(&fault.file);
            let text = fs::read_to_string(path).unwrap();
            let Fault { name, file, find, plant, first, .. } = fault;
            assert_eq!(text.matches(find).count(), 1, "{name}: its piece is not once in {file}");
            assert!(plant.contains("PLANTED"), "{name} has no switch");
            let known = |first: &String| NETS.iter().any(|net| net.name == first);
            assert!(first.as_ref().is_none_or(known), "{name}: there is no net {first:?}");
        }
        assert!(faults.len() >= 40);
    }
}
