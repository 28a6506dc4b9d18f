//! The runtime as those who use it meet it: an engine on a log in memory or on disk, with tasks
//! that end, fail, hang and panic when the test says so.
//!
//! Nothing here waits for a fixed time. What must happen is waited for, and a hang is a failure
//! after a minute.

mod audit;
mod child_workflows;
mod children;
mod commands;
mod crash;
mod damage;
mod deadline;
mod deadline_races;
mod durability;
mod exclusive;
mod explain;
mod fan;
mod foreign;
mod forks;
mod keys;
mod leftovers;
mod limits;
mod panics;
mod past;
mod pools;
mod purge;
mod races;
mod reading;
mod residency;
mod shutdown;
mod signals;
mod silence;
mod slots;
mod starts;
mod stats;
mod steps;
mod stops;
mod submit;
mod support;
mod time;
mod typed;
mod views;
