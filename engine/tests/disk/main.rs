//! The log and the engine on a disk that fails: every write, every change of a size, every sync
//! and every change of a name goes wrong once, and the machine crashes between any two of them.
//!
//! The disk is in memory, below redb. What was acknowledged before must be there afterwards.

#[expect(dead_code, reason = "the simulator uses it all")]
#[path = "../sim/clock.rs"]
mod clock;
mod crash;
#[expect(dead_code, reason = "the simulator uses it all")]
#[path = "../sim/crowd.rs"]
mod crowd;
mod damage;
mod engine;
mod face;
mod images;
mod ioerr;
#[path = "../../../tests/redb-net/src/net.rs"]
mod net;
mod redb_alone;
mod sim;
mod tree;
mod work;

/// A number from the environment, to run more than the ordinary tests do.
fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}
