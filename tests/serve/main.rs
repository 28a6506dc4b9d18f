//! `annals serve` as a process: how it starts, what it refuses, how it ends, and what clients
//! that keep it waiting can do to it.

#[path = "../common/mod.rs"]
mod common;

mod clients;
mod ends;
mod idle;
mod logs;
mod settings;
mod slow;
mod starts;
