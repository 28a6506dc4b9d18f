//! The project's own commands: `cargo xtask --help`.

mod planted;
mod redb_net;

use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use clap::{Parser, Subcommand};

/// The project's own commands.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Xtask,
}

#[derive(Subcommand)]
enum Xtask {
    /// The slow parts of what must pass before a change lands.
    Slow,
    /// Random walks over the job machine.
    Walk {
        /// How many commands and reports to take in all.
        #[arg(long, default_value_t = 1_000_000)]
        commands: u64,
        /// Where the random numbers begin; a new place each time by default.
        #[arg(long)]
        seed: Option<u64>,
        /// Compile for speed.
        #[arg(long)]
        release: bool,
    },
    /// Every state that small jobs can reach, and every command in each of them.
    Reach {
        /// Jobs of so many tasks: 2 or 3.
        #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(2..=3))]
        tasks: u8,
        /// Compile for speed.
        #[arg(long)]
        release: bool,
    },
    /// Processes killed at random moments: servers under load, and writers of a log alone.
    Kill {
        /// How many servers to kill; as many writers, and as many in their first start.
        #[arg(long, default_value_t = 200)]
        rounds: u32,
        /// Where the random numbers begin; the same place each time by default.
        #[arg(long)]
        seed: Option<u64>,
    },
    /// A server on a machine that stops it, runs out of disk, loses its data, sets its clock. Needs
    /// root to mount a small disk; Debian's `faketime` is installed where it is missing.
    Host {
        /// For how many seconds the server is stopped.
        #[arg(long, default_value_t = 60)]
        seconds: u32,
    },
    /// Requests against each other and against what happens at the same moment.
    Race {
        /// How many times each race is run.
        #[arg(long, default_value_t = 1_000)]
        rounds: u32,
    },
    /// Servers that are told to end, twice, or killed, while tasks complete and jobs are cancelled.
    Shutdown {
        /// How many servers to end.
        #[arg(long, default_value_t = 500)]
        rounds: u32,
    },
    /// What a job that panics, floods its log or fails in a loop costs the others: how much longer
    /// they wait, and the server's memory, beside the bounds for both.
    Isolation {
        /// Compile for speed.
        #[arg(long)]
        release: bool,
    },
    /// Requests to httpbin, which is installed from the package index into `target/httpbin`.
    Httpbin,
    /// The set-up of a server by FAI's scripts, beside FAI's own runner. Needs root; Debian's
    /// packages are installed, and a root is made by debootstrap into `target/fai`.
    Fai,
    /// Clients that keep a server waiting, each in its own way.
    Clients {
        /// How many.
        #[arg(long, default_value_t = 2_000)]
        clients: u32,
        /// Compile for speed.
        #[arg(long)]
        release: bool,
    },
    /// Logs and engines on a disk of which every operation fails in turn: full, over its quota or
    /// broken, once or for ever, with or without a part of the operation done.
    Ioerr {
        /// How many different works to do on such disks.
        #[arg(long, default_value_t = 10)]
        rounds: u32,
    },
    /// Closed stores that are damaged, one place at a time: flipped bits, sectors that are lost,
    /// swapped or of long ago, ends that are cut off, files that are gone or older than they should
    /// be. Whole engines on them answer as before, or say what is damaged.
    Damage {
        /// How many cases to try.
        #[arg(long, default_value_t = 10_000)]
        rounds: u64,
        /// Which case is the first; new ones each time by default.
        #[arg(long)]
        seed: Option<u64>,
        /// Compile for speed; the store's own assertions are left out then.
        #[arg(long)]
        release: bool,
    },
    /// An old redb of which some files cannot be opened any more after a crash: the crashes of
    /// these tests must find that within a minute, and find nothing in the redb that is used here.
    RedbNet {
        /// How many images to look at of the redb that is used here; more where it took more to
        /// find the fault of the old one.
        #[arg(long, default_value_t = 5_000)]
        images: u64,
    },
    /// Whole engines on one thread, whose clock, disk, tasks and clients a seed drives: crashes at
    /// any operation, lost and torn writes, errors, full and slow disks, clocks that jump, clients
    /// that race and vanish. A seed that fails fails again, step by step.
    Sim {
        /// Run this seed alone, and tell every step.
        #[arg(long, conflicts_with_all = ["seconds", "seeds", "from"])]
        seed: Option<u64>,
        /// How long to try seeds; 60 where neither this nor --seeds is given.
        #[arg(long)]
        seconds: Option<u64>,
        /// How many seeds to try.
        #[arg(long)]
        seeds: Option<u64>,
        /// Which seed is the first; new ones each time by default.
        #[arg(long)]
        from: Option<u64>,
        /// Compile for speed; assertions of the code itself are left out then.
        #[arg(long)]
        release: bool,
    },
    /// Faults that are planted in a copy of the tree, each switched on by itself, and the nets that
    /// are to catch them: at least 95 of a hundred.
    Planted {
        /// Plant this one alone.
        #[arg(long)]
        only: Option<String>,
    },
    /// Logs whose power goes between any two operations of the disk: what was not synced is lost,
    /// kept, torn or reordered, and in a quarter of the cases the power goes again meanwhile.
    Crash {
        /// How many images of disks to look at; an eighth as many more under a whole engine.
        #[arg(long, default_value_t = 20_000)]
        images: u64,
        /// Where the random numbers begin.
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// Compile for speed; the store's own assertions are left out then.
        #[arg(long)]
        release: bool,
    },
}

fn main() -> ExitCode {
    let passed = match Arguments::parse().command {
        Xtask::Slow => slow(),
        Xtask::Walk { commands, seed, release } => walk(commands, seed, release),
        Xtask::Reach { tasks, release } => reach(tasks, release),
        Xtask::Kill { rounds, seed } => kill(rounds, seed),
        Xtask::Host { seconds } => host(seconds),
        Xtask::Race { rounds } => race(rounds),
        Xtask::Shutdown { rounds } => shutdown(rounds),
        Xtask::Isolation { release } => isolation(release),
        Xtask::Httpbin => ignored("httpbin"),
        Xtask::Fai => ignored("fai"),
        Xtask::Clients { clients, release } => slow_clients(clients, release),
        Xtask::Ioerr { rounds } => ioerr(rounds),
        Xtask::Crash { images, seed, release } => crash(images, seed, release),
        Xtask::Planted { only } => planted::planted(only.as_deref()),
        Xtask::Damage { rounds, seed, release } => damage(rounds, seed, release),
        Xtask::RedbNet { images } => redb_net::run(images),
        Xtask::Sim { seed: Some(seed), release, .. } => replay(seed, release),
        Xtask::Sim { seconds, seeds, from, release, .. } => {
            let seconds = seconds.or(seeds.is_none().then_some(60));
            sim(seconds, seeds, from, release)
        }
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A slow part, by its name.
type Part = (&'static str, fn() -> bool);

fn slow() -> bool {
    let parts: [Part; 15] = [
        ("sim", || sim(Some(180), None, None, false)),
        ("walk", || walk(1_000_000, None, false)),
        ("reach", || reach(2, false)),
        ("kill", || kill(200, None)),
        ("host", || host(60)),
        ("ioerr", || ioerr(1)),
        ("crash", || crash(20_000, 0, false)),
        ("damage", || damage(2_500, None, false)),
        ("redb-net", || redb_net::run(2_000)),
        ("race", || race(1_000)),
        ("shutdown", || shutdown(50)),
        ("isolation", || isolation(false)),
        ("httpbin", || ignored("httpbin")),
        ("fai", || ignored("fai")),
        ("clients", || slow_clients(2_000, false)),
    ];
    let mut failed = Vec::new();
    for (name, part) in parts {
        let start = Instant::now();
        let passed = part();
        let outcome = if passed { "passed" } else { "FAILED" };
        println!("slow part {name} {outcome} in {} s", start.elapsed().as_secs());
        if !passed {
            failed.push(name);
        }
    }
    println!("slow parts: {} tried, {} failed {failed:?}", parts.len(), failed.len());
    failed.is_empty()
}

/// A test of the machine, by a part of its name.
fn machine(name: &str, release: bool) -> Command {
    let mut test = cargo();
    test.args(["test", "--package", "annals-engine", "--test", "machine"]);
    if release {
        test.arg("--release");
    }
    test.args([name, "--", "--nocapture"]);
    test
}

/// Searches all states; the ordinary tests search those of one small plan.
fn reach(tasks: u8, release: bool) -> bool {
    let mut test = machine("reach", release);
    test.env("ANNALS_REACH_TASKS", tasks.to_string());
    counted("reach", &mut [test])
}

fn walk(commands: u64, seed: Option<u64>, release: bool) -> bool {
    let mut test = machine("walk", release);
    test.env("ANNALS_WALK_COMMANDS", commands.to_string());
    if let Some(seed) = seed {
        test.env("ANNALS_WALK_SEED", seed.to_string());
    }
    counted("walk", &mut [test])
}

fn kill(rounds: u32, seed: Option<u64>) -> bool {
    let rounds = rounds.to_string();
    let mut log = cargo();
    log.args(["test", "--package", "annals-engine", "--lib", "log::tests::kill"]);
    log.args(["--", "--nocapture"]).env("ANNALS_TEST_ROUNDS", &rounds);
    let mut server = cargo();
    server.args(["test", "--package", "annals-suite", "--test", "server_kill"]);
    server.args(["--", "--nocapture"]).env("ANNALS_KILL_ROUNDS", &rounds);
    if let Some(seed) = seed {
        server.env("ANNALS_KILL_SEED", seed.to_string());
    }
    counted("kill", &mut [log, server])
}

fn host(seconds: u32) -> bool {
    // Where this fails, so does the test that needs it, and says why.
    if !Command::new("faketime").arg("--version").output().is_ok_and(|said| said.status.success()) {
        let mut install = Command::new("apt-get");
        let _ = install.args(["install", "--yes", "--no-install-recommends", "faketime"]).status();
    }
    let mut test = cargo();
    test.args(["test", "--package", "annals-suite", "--test", "host"]);
    test.env("ANNALS_HOST_ALL", "1").env("ANNALS_STOP_SECONDS", seconds.to_string());
    test.status().is_ok_and(|status| status.success())
}

fn race(rounds: u32) -> bool {
    let mut test = cargo();
    test.args(["test", "--package", "annals", "--test", "http", "race", "--", "--nocapture"]);
    let mut runtime = cargo();
    runtime.args(["test", "--package", "annals-engine", "--test", "runtime", "races"]);
    runtime.args(["--", "--nocapture", "--test-threads", "2"]);
    [test, runtime].iter_mut().all(|test| {
        let status = test.env("ANNALS_RACE_ROUNDS", rounds.to_string()).status();
        status.is_ok_and(|status| status.success())
    })
}

fn shutdown(rounds: u32) -> bool {
    let mut test = cargo();
    test.args(["test", "--test", "own_tasks", "shutdown", "--", "--nocapture"]);
    test.env("ANNALS_SHUTDOWN_ROUNDS", rounds.to_string());
    test.status().is_ok_and(|status| status.success())
}

fn isolation(release: bool) -> bool {
    let mut test = cargo();
    test.args(["test", "--test", "own_tasks"]);
    if release {
        test.arg("--release");
    }
    test.args(["isolation", "--", "--ignored", "--nocapture"]);
    test.status().is_ok_and(|status| status.success())
}

/// Runs tests that are left out otherwise.
fn ignored(name: &str) -> bool {
    let mut test = cargo();
    test.args(["test", "--package", "annals-suite", "--test", name, "--", "--ignored"]);
    test.status().is_ok_and(|status| status.success())
}

fn slow_clients(clients: u32, release: bool) -> bool {
    let mut test = cargo();
    test.args(["test", "--test", "serve"]);
    if release {
        test.arg("--release");
    }
    test.args(["slow", "--", "--nocapture"]).env("ANNALS_SLOW_CLIENTS", clients.to_string());
    test.status().is_ok_and(|status| status.success())
}

fn ioerr(rounds: u32) -> bool {
    let mut test = cargo();
    test.args(["test", "--package", "annals-engine", "--test", "disk"]);
    test.args(["--", "--nocapture"]);
    for other in ["crash", "damage", "redb_alone"] {
        test.args(["--skip", other]);
    }
    test.env("ANNALS_IOERR_ROUNDS", rounds.to_string());
    counted("ioerr", &mut [test])
}

fn crash(images: u64, seed: u64, release: bool) -> bool {
    let mut test = cargo();
    test.args(["test", "--package", "annals-engine", "--test", "disk"]);
    if release {
        test.arg("--release");
    }
    test.args(["--", "--nocapture", "crash"]);
    test.env("ANNALS_CRASH_IMAGES", images.to_string());
    test.env("ANNALS_CRASH_SEED", seed.to_string());
    counted("crash", &mut [test])
}

fn damage(rounds: u64, seed: Option<u64>, release: bool) -> bool {
    let seed = seed.unwrap_or_else(new_seed);
    println!("seeds from {seed} on");
    let mut test = cargo();
    test.args(["test", "--package", "annals-engine", "--test", "disk"]);
    if release {
        test.arg("--release");
    }
    test.args(["--", "--nocapture", "damage"]).env("ANNALS_DAMAGE_ROUNDS", rounds.to_string());
    test.env("ANNALS_DAMAGE_SEED", seed.to_string());
    counted("damage", &mut [test])
}

/// A place in the numbers where nobody has begun before.
fn new_seed() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs() << 16)
}

/// Tries seeds of the simulator. The ordinary tests run those that ever failed.
fn sim(seconds: Option<u64>, seeds: Option<u64>, from: Option<u64>, release: bool) -> bool {
    let from = from.unwrap_or_else(new_seed);
    println!("seeds from {from} on");
    let mut test = simulator(release);
    test.arg("laws").env("ANNALS_SIM_FROM", from.to_string());
    for (name, value) in [("ANNALS_SIM_SECONDS", seconds), ("ANNALS_SIM_SEEDS", seeds)] {
        value.map(|value| test.env(name, value.to_string()));
    }
    last_line_last(&mut test)
}

/// Runs a seed of the simulator again, and tells every step.
fn replay(seed: u64, release: bool) -> bool {
    let mut test = simulator(release);
    last_line_last(test.arg("laws").env("ANNALS_SIM_SEED", seed.to_string()))
}

fn simulator(release: bool) -> Command {
    let mut test = cargo();
    test.args(["test", "--quiet", "--package", "annals-engine", "--test", "sim"]);
    if release {
        test.arg("--release");
    }
    test.args(["--", "--nocapture"]);
    test
}

/// Runs a test that says `sim ...: 12 seeds tried, 0 failed`, and says that in the last line.
fn last_line_last(test: &mut Command) -> bool {
    let Ok(mut test) = test.stdout(Stdio::piped()).spawn() else { return false };
    let lines = test.stdout.take().map(|output| BufReader::new(output).lines());
    let mut last = None;
    for line in lines.into_iter().flatten().map_while(Result::ok) {
        if line.starts_with("sim ") && line.contains(" tried, ") {
            last = Some(line);
        } else {
            println!("{line}");
        }
    }
    let passed = test.wait().is_ok_and(|status| status.success()) && last.is_some();
    println!("{}", last.as_deref().unwrap_or("sim FAILED: 0 seeds tried, 0 failed"));
    passed
}

/// Runs tests that say `...: 12 tried, 0 failed`, and says the sum in the last line.
fn counted(name: &str, tests: &mut [Command]) -> bool {
    let (mut tried, mut failed, mut passed) = (0, 0, true);
    for test in tests {
        let Ok(mut test) = test.stdout(Stdio::piped()).spawn() else { return false };
        let lines = test.stdout.take().map(|output| BufReader::new(output).lines());
        for line in lines.into_iter().flatten().map_while(Result::ok) {
            println!("{line}");
            if let Some(counts) = counts(&line) {
                tried += counts.0;
                failed += counts.1;
            }
        }
        passed &= test.wait().is_ok_and(|status| status.success());
    }
    let outcome = if passed { "passed" } else { "FAILED" };
    println!("{name} {outcome}: {tried} tried, {failed} failed");
    passed && tried > 0
}

fn counts(line: &str) -> Option<(u64, u64)> {
    let (tried, failed) = line.rsplit_once(": ")?.1.split_once(" tried, ")?;
    Some((tried.parse().ok()?, failed.strip_suffix(" failed")?.parse().ok()?))
}

fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // What Cargo tells this program about its own package would have crates built anew that ask
    // for it when they are built themselves.
    for (name, _) in std::env::vars_os() {
        let of_package = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_", "CARGO_BIN_"];
        if of_package.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            cargo.env_remove(name);
        }
    }
    cargo
}
