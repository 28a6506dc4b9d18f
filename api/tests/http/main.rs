//! The API, asked as a service: no sockets, one request in and one answer out.

mod bodies;
mod bulk;
mod contradiction;
mod deadline;
mod description;
mod edge;
mod edits;
mod ends;
#[path = "../../../engine/tests/runtime/support/race.rs"]
mod even;
mod events;
mod explain;
mod export;
mod face;
mod fan;
mod forks;
mod health;
mod list;
mod live;
mod log_damage;
mod logs;
mod metrics;
mod nested;
mod past;
mod purge;
mod race;
mod read;
mod registered;
mod repeat;
mod signals;
mod steer;
mod steps;
mod submit;
mod trouble;
mod wild;
