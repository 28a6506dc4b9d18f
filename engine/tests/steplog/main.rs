//! Step logs: what comes back of them, how they are followed, and what they never touch.

mod followed;
mod foreign;
mod support;
mod written;
