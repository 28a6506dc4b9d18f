//! The job state machine from outside: tables of what follows from what, and random walks beside
//! a second, simple implementation.
#![forbid(unsafe_code)]

mod answers;
mod asked;
mod changes;
mod children;
mod compare;
mod compensation;
mod conditions;
mod copied;
mod damage;
mod deadline;
mod driver;
mod dsl;
mod edits;
mod failures;
mod family;
mod fan;
mod finally;
mod flow;
mod forks;
mod kin;
mod known;
mod lifecycle;
mod lives;
mod looks;
mod losses;
mod oracle;
mod plans;
mod published;
mod purge;
mod purged;
mod reach;
mod replan;
mod signals;
mod small;
mod speed;
mod table;
mod told;
mod undone;
mod walk;
mod wanted;
