//! The project's own commands: `cargo xtask --help`.

use std::process::{Command, ExitCode};
use std::time::Instant;

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
    },
    /// Processes that write a log, killed at random moments.
    Kill {
        /// How many to kill in each of the two tests.
        #[arg(long, default_value_t = 400)]
        rounds: u32,
    },
}

fn main() -> ExitCode {
    let passed = match Arguments::parse().command {
        Xtask::Slow => slow(),
        Xtask::Walk { commands, seed } => walk(commands, seed),
        Xtask::Kill { rounds } => kill(rounds),
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A slow part, by its name.
type Part = (&'static str, fn() -> bool);

fn slow() -> bool {
    let parts: [Part; 2] = [("walk", || walk(1_000_000, None)), ("kill", || kill(100))];
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

fn walk(commands: u64, seed: Option<u64>) -> bool {
    let mut test = cargo();
    test.args(["test", "--package", "annals-engine", "--test", "machine", "walk"]);
    test.args(["--", "--nocapture"]).env("ANNALS_WALK_COMMANDS", commands.to_string());
    if let Some(seed) = seed {
        test.env("ANNALS_WALK_SEED", seed.to_string());
    }
    test.status().is_ok_and(|status| status.success())
}

fn kill(rounds: u32) -> bool {
    let mut test = cargo();
    test.args(["test", "--package", "annals-engine", "--lib", "log::tests::kill"]);
    test.env("ANNALS_TEST_ROUNDS", rounds.to_string());
    test.status().is_ok_and(|status| status.success())
}

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}
