//! The simulator: the whole engine, its machine, turns, writer and store, on one thread, with a
//! clock, a disk and clients that a seed drives. What goes wrong is up to the seed, too: a seed
//! that fails fails again, step by step (`cargo xtask sim --seed N`).
//!
//! What is simulated: threads (each step is taken in an order of the seed's), time, the disk, what
//! tasks do, and clients. Everything else is the code that runs in production, redb included.
//!
//! What goes wrong: the power goes at any operation of the disk, also while an engine starts, and
//! of what was not synced some writes are lost, torn or reordered; the process is killed between
//! any two steps; writes and reads fail once or for ever, also half done; the disk is full, or
//! slow; the file of the views is gone; the wall clock is set forward and back; tasks fail, panic,
//! hang, are deaf to their stop, end late, and report twice; clients race, ask again under their
//! key, use a key twice, and vanish; what the engine tells itself is lost, late or doubled.
//!
//! What must hold, and where that is checked:
//!
//! | law | where |
//! | --- | --- |
//! | the log has no hole, and no durable row is ever lost or changed | `witness.rs` |
//! | every history is one that the oracle of the machine's walks allows | `witness.rs` |
//! | replay equals live, and what anybody is shown | `levels.rs`, `heard.rs` |
//! | nothing is taken for durable, or answered, before it is | `levels.rs`, `heard.rs` |
//! | no answer shows less than was shown before it was asked for | `heard.rs` |
//! | a fork has what its origin had, and nothing more, in one row | `witness.rs` |
//! | a key stands for one request, and is used once | `witness.rs`, `heard.rs` |
//! | commands are answered as the machine's table says | `heard.rs` |
//! | every effect of every job is being brought about: no wake-up is lost | `levels.rs` |
//! | every slot that is taken is held by somebody, and no task runs without one | `levels.rs` |
//! | an attempt runs once, recorded before, alone, from the last checkpoint | `tasks.rs` |
//! | a step is durable when it returns, and none that is recorded runs again | `witness.rs` |
//! | its recorded output is what it gave; it does not time out early | `witness.rs` |
//! | no task begins after its cancel was acknowledged | `heard.rs` |
//! | behind the answer to a purge nobody is told anything else of the job | `heard.rs` |
//! | once the faults stop, every job that is not held ends in its time | `limits.rs` |
//! | in the end lists and counts agree with the log, and its audit finds nothing | `world.rs` |
#![forbid(unsafe_code)]

#[expect(dead_code, reason = "the machine's walks use it all")]
#[path = "../machine/asked.rs"]
mod asked;
#[path = "../machine/changes.rs"]
mod changes;
mod client;
mod clock;
#[expect(dead_code, reason = "the machine's walks use it all")]
#[path = "../machine/compare.rs"]
mod compare;
#[expect(dead_code, reason = "the machine's walks use it all")]
#[path = "../machine/copied.rs"]
mod copied;
mod crowd;
mod disk;
mod dsl;
mod explained;
#[path = "../disk/face.rs"]
mod face;
#[path = "../machine/family.rs"]
mod family;
mod faults;
mod heard;
#[expect(dead_code, reason = "the tests of the store use it all")]
#[path = "../disk/images.rs"]
mod images;
mod jobs;
#[path = "../machine/known.rs"]
mod known;
mod levels;
mod life;
mod limits;
#[path = "../machine/lives.rs"]
mod lives;
#[path = "../machine/looks.rs"]
mod looks;
#[path = "../machine/oracle.rs"]
mod oracle;
#[expect(dead_code, reason = "the machine's walks use it all")]
#[path = "../machine/plans.rs"]
mod plans;
mod profile;
#[path = "../machine/purged.rs"]
mod purged;
mod request;
mod run;
mod schedules;
mod steps;
#[path = "../machine/table.rs"]
mod table;
mod tasks;
mod tests;
#[expect(dead_code, reason = "the machine's walks use it all")]
#[path = "../machine/told.rs"]
mod told;
mod trace;
#[path = "../disk/tree.rs"]
mod tree;
#[expect(dead_code, reason = "the machine's walks use it all")]
#[path = "../machine/undone.rs"]
mod undone;
mod witness;
mod world;
