//! Bundles: one job in one file that stands alone, with its events, values and step logs, and the
//! hashes that prove them.
//!
//! A bundle is text: lines of JSON, of which each says what it is. The rows of the log are in it
//! byte by byte, so that the chain of its events is the one of the store that it came from, up to
//! the hash of its last event. The last line has the hash of all before it. Any build reads the
//! bundles of earlier ones.

mod format;
mod read;
mod replay;
mod write;

pub use read::{Bundle, BundleError};
pub use replay::Difference;
pub use write::{Export, ExportError};
