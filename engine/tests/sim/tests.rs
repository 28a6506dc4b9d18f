//! The tests: some seeds each time, all that ever failed, and as many as somebody asks for.
//!
//! `ANNALS_SIM_SEED` runs one seed and tells every step; `ANNALS_SIM_SECONDS` and
//! `ANNALS_SIM_SEEDS` say how long, and how many; `ANNALS_SIM_FROM` says from which on.

use std::time::{Duration, Instant};

use crate::run::{Until, many, seed};

/// How many seeds the ordinary test tries.
const SEEDS: u64 = 32;
/// How many it tries at most to have seen everything.
const SEEDS_MAX: u64 = 400;
/// How many seeds are run twice.
const TWICE: u64 = 20;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect(name))
}

#[test]
fn worlds_obey_the_laws_whatever_goes_wrong() {
    if let Some(number) = setting("ANNALS_SIM_SEED") {
        let told = seed(number, true).unwrap_or_else(|failure| panic!("{failure}"));
        println!("{told:#?}");
        return println!("sim passed: 1 seeds tried, 0 failed");
    }
    let (seconds, seeds) = (setting("ANNALS_SIM_SECONDS"), setting("ANNALS_SIM_SEEDS"));
    let most = if seconds.is_some() { u64::MAX } else { SEEDS };
    let until = Until {
        seeds: seeds.unwrap_or(most),
        time: seconds.map_or(Duration::MAX, Duration::from_secs),
    };
    let (begun, from) = (Instant::now(), setting("ANNALS_SIM_FROM").unwrap_or(1));
    let mut sum = many(from, until);
    let ordinary = seconds.is_none() && seeds.is_none();
    // The ordinary seeds see all of it, or the simulator is not what it says.
    while ordinary && sum.tried < SEEDS_MAX && !sum.unseen().is_empty() {
        sum.join(many(from + sum.tried, until));
    }
    sum.print(begun.elapsed());
    assert!(sum.tried > 0, "no seed was tried");
    assert!(sum.failures.is_empty(), "seeds failed");
    assert!(!ordinary || sum.unseen().is_empty(), "never seen: {:?}", sum.unseen());
}

#[test]
fn seeds_that_failed_once_do_so_no_more() {
    let lines = include_str!("seeds.txt").lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    for line in lines {
        let number = line.parse().unwrap_or_else(|_| panic!("{line:?} is no seed"));
        seed(number, false).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[test]
fn the_same_seed_is_the_same_world() {
    for number in 1..=TWICE {
        let told = [seed(number, false), seed(number, false)]
            .map(|told| told.map_err(|failure| failure.to_string()));
        assert_eq!(told[0], told[1], "seed {number}");
    }
}
