//! A program with tasks of its own, served as a process: what a shutdown at any moment does to
//! them, what bad neighbours among them do to the others, and that those with processes of
//! their own may do to these what they like.

mod apart;
#[path = "../common/mod.rs"]
mod common;
mod isolation;
mod shutdown;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use common::Place;
use common::server::Server;

/// The program, built once.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| common::built("own_tasks", &["--example", "own_tasks"]))
}

/// Has the program serve the usual store of a place.
fn serve(place: &Place, args: &[&str]) -> Server {
    let usual = ["serve", "--json", "--listen", "127.0.0.1:0"];
    Server::of(place.command_of(program(), &[&usual, args].concat()))
}
