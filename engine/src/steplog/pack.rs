//! Packing a log whose attempt is over.
//!
//! LZ4 in its frame format: text with a time in each line shrinks to a fifth or less, at a cost
//! that is small against writing it, and other tools can read it. Small logs stay as they are:
//! they would save less than a block of the file system.

use std::io;

use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};

use super::files::{Folder, Place, room_for};
use super::read;

/// Logs below this stay plain.
const PLAIN_MAX: u64 = 32 * 1024;

/// How a packed file begins; a line of a log begins with a year.
pub(super) const MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];

pub(super) fn pack(place: &Place, reserve: u64) -> io::Result<()> {
    let Some(folder) = place.job()? else { return Ok(()) };
    let Some(head) = folder.open(&place.head())? else { return Ok(()) };
    let length = head.metadata()?.len();
    if length <= PLAIN_MAX && folder.folder(&place.tail())?.is_none() {
        return Ok(());
    }
    // For a moment the log is there twice.
    room_for(&head, length, reserve)?;
    if let Err(error) = pack_into(&folder, place) {
        folder.remove(&place.packed())?;
        return Err(error);
    }
    // It takes the place of the head, so that at every moment the log is there once: a reader
    // that finds a packed head looks for no tail.
    folder.rename(&place.packed(), &place.head())?;
    folder.remove_folder(&place.tail())
}

fn pack_into(folder: &Folder, place: &Place) -> io::Result<()> {
    let Some(mut plain) = read::plain(place)? else { return Err(io::ErrorKind::NotFound.into()) };
    let info = FrameInfo::new()
        .block_mode(BlockMode::Linked)
        .block_size(BlockSize::Max256KB)
        // Each block proves itself: nothing that is damaged is shown before that is noticed.
        .block_checksums(true)
        .content_checksum(true);
    let packed = folder.create(&place.packed())?;
    let mut encoder = FrameEncoder::with_frame_info(info, packed);
    io::copy(&mut plain, &mut encoder)?;
    encoder.finish().map_err(io::Error::other)?;
    Ok(())
}
