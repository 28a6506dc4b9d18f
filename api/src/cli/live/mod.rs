//! A job as it moves: lines that stay, what is drawn anew on a terminal, and the last words.

mod fans;
mod moving;
mod screen;
mod show;
mod signals;
mod summary;
mod teller;

pub(super) use moving::Moving;
pub(super) use show::{Seen, Show};
pub(super) use signals::Signals;
pub(super) use summary::{begins, ends};
