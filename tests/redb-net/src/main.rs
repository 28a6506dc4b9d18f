//! Looks for the known fault of an old redb: `redb-net SECONDS`. The last line says how many
//! images were looked at and how many were bad; it ends with the first bad one.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

#[path = "../../../engine/tests/disk/images.rs"]
mod images;
mod net;
#[expect(dead_code, reason = "the tests of the store use it all")]
#[path = "../../../engine/tests/disk/tree.rs"]
mod tree;

fn main() {
    let seconds = std::env::args().nth(1).and_then(|seconds| seconds.parse().ok());
    let limit = Duration::from_secs(seconds.unwrap_or(60));
    // What panics is counted, and told below.
    std::panic::set_hook(Box::new(|_| {}));
    let begun = Instant::now();
    let looked = net::look(|looked| looked.failed.is_empty() && begun.elapsed() < limit);
    for fault in &looked.failed {
        println!("{fault}");
    }
    println!("redb 4.1.0: {} tried, {} failed", looked.images, looked.failed.len());
}
