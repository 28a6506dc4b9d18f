//! What the tests share.

mod clock;
mod gate;
mod log;
pub(crate) mod race;
mod reads;
mod world;

pub(crate) use clock::{HandClock, almost};
pub(crate) use gate::{Gate, Tally};
pub(crate) use log::{LogGate, Tampered, Watched, copy, injected};
pub(crate) use reads::{Reads, WatchedReader};
pub(crate) use world::{
    Store, World, cancel, codes, counting, execute, kill, laws, loops, nothing, outcomes, pause,
    plan, plan_of, resume, skip, status_of, submit, task, until, until_listed_as_ended,
    until_viewed, within,
};
