//! Packing a log whose attempt is over.
//!
//! LZ4 in its frame format: text with a time in each line shrinks to a fifth or less, at a cost
//! that is small against writing it, and other tools can read it. Small logs stay as they are:
//! they would save less than a block of the file system.

use std::fs::{self, File};
use std::io;

use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};

use super::{Place, read};

/// Logs below this stay plain.
const PLAIN_MAX: u64 = 32 * 1024;

/// How a packed file begins; a line of a log begins with a year.
pub(super) const MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];

pub(super) fn pack(place: &Place) -> io::Result<()> {
    let head = place.head();
    if fs::metadata(&head)?.len() <= PLAIN_MAX && !place.tail().exists() {
        return Ok(());
    }
    let Some(mut plain) = read::plain(place)? else { return Ok(()) };
    let packed = head.with_extension("new");
    let info = FrameInfo::new()
        .block_mode(BlockMode::Linked)
        .block_size(BlockSize::Max256KB)
        .content_checksum(true);
    let mut encoder = FrameEncoder::with_frame_info(info, File::create(&packed)?);
    io::copy(&mut plain, &mut encoder)?;
    encoder.finish().map_err(io::Error::other)?;
    // It takes the place of the head, so that at every moment the log is there once: a reader
    // that finds a packed head looks for no tail.
    fs::rename(&packed, &head)?;
    match fs::remove_dir_all(place.tail()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
