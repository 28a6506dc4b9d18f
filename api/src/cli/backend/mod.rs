//! The two worlds that commands are about, behind one seam: a store that is held, in which
//! nothing runs, or a server. What both give is JSON, the same for the same job.

mod held;
mod seam;
mod server;
mod verb;

pub(super) use held::event;
use seam::aside;
pub(super) use seam::{
    Answered, Backend, Draft, ForAll, Forking, Listing, Order, Page, Said, Settled, Submitted,
    Until,
};
pub(super) use server::Server;
pub(super) use verb::Verb;
