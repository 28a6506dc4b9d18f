//! The simulator: the whole engine, its machine, turns, writer and store, on one thread, with a
//! clock, a disk and clients that a seed drives. What goes wrong is up to the seed, too: a seed
//! that fails fails again, step by step.
#![forbid(unsafe_code)]

#[expect(dead_code, reason = "the machine's walks use it all")]
#[path = "../machine/asked.rs"]
mod asked;
mod client;
mod clock;
#[expect(dead_code, reason = "the machine's walks use it all")]
#[path = "../machine/compare.rs"]
mod compare;
mod crowd;
mod disk;
mod dsl;
mod faults;
mod heard;
#[expect(dead_code, reason = "the tests of the store use it all")]
#[path = "../disk/images.rs"]
mod images;
mod jobs;
mod levels;
mod life;
mod limits;
#[path = "../machine/oracle.rs"]
mod oracle;
#[path = "../machine/plans.rs"]
mod plans;
mod profile;
mod request;
mod run;
mod schedules;
mod steps;
#[path = "../machine/table.rs"]
mod table;
mod tasks;
mod tests;
mod trace;
#[path = "../disk/tree.rs"]
mod tree;
mod witness;
mod world;
