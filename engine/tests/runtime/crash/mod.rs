//! Crashes before and after every append.
//!
//! A dozen jobs live through all that can happen to a job, while clients drive them and keep a
//! record of what was acknowledged to them. The n-th append fails, for every n, and the engine is
//! started again on what is left; the first appends after that fail too in some rounds. In the
//! end every job must have come to the end that it was to come to, and the record must hold.

mod client;
mod round;
mod scripts;
mod tasks;

use annals_engine::log::Fault;
use tokio::task::JoinSet;

use super::support::{Store, loops};
use round::{Pace, round};

/// So many rounds at a time: they mostly wait for timers and disks.
const ROUNDS: u64 = 8;

async fn every_append(store: Store, fault: Fault, loops: usize, pace: Pace) {
    let mut first = 1;
    loop {
        let mut rounds = JoinSet::new();
        for n in first..first + ROUNDS {
            rounds.spawn(round(store, Some((n, fault)), loops, pace));
        }
        let crashed = rounds.join_all().await;
        if crashed.contains(&0) {
            // There are no more appends than that.
            assert!(first > ROUNDS, "the jobs take many appends");
            return;
        }
        first += ROUNDS;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_crash_nothing_is_lost() {
    for store in Store::BOTH {
        for loops in loops() {
            for pace in [Pace::Together, Pace::OneByOne] {
                assert_eq!(round(store, None, loops, pace).await, 0);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn before_every_append_in_memory() {
    every_append(Store::Memory, Fault::Before, 1, Pace::Together).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_every_append_in_memory() {
    every_append(Store::Memory, Fault::After, 3, Pace::Together).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn before_every_append_on_disk() {
    every_append(Store::Disk, Fault::Before, 3, Pace::Together).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_every_append_on_disk() {
    every_append(Store::Disk, Fault::After, 1, Pace::Together).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn before_every_append_of_each_job() {
    every_append(Store::Memory, Fault::Before, 3, Pace::OneByOne).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_every_append_of_each_job() {
    every_append(Store::Memory, Fault::After, 1, Pace::OneByOne).await;
}
