//! redb alone, below the crashes by which the fault of an old version is found.

use std::time::Instant;

use super::net;
use super::setting;

/// How many images the ordinary test looks at.
const IMAGES: u64 = 200;

#[test]
fn redb_alone_loses_nothing() {
    let images = setting("ANNALS_REDB_IMAGES").unwrap_or(IMAGES);
    let begun = Instant::now();
    let looked = net::look(|looked| looked.images < images);
    println!("{images} images in {:.1} s", begun.elapsed().as_secs_f64());
    println!("redb alone: {} tried, {} failed", looked.images, looked.failed.len());
    assert!(looked.failed.is_empty(), "{}", looked.failed.join("\n"));
}
