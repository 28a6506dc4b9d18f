//! Maps keyed by names that nobody chooses to do harm: job ids, and the program's own kinds.
//!
//! The ids are the engine's own (`UUIDv7`), half of whose bits are random, so a hash that resists
//! chosen keys would only cost time.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use annals_tasks_sdk::JobId;

/// A map keyed by job ids.
pub(super) type JobMap<T> = HashMap<JobId, T, BuildHasherDefault<IdHasher>>;

/// Mixes what it is given by multiplication: fast, and of no use against chosen keys.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        for word in words {
            self.write_u64(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let append = |word, byte: &u8| word << 8 | u64::from(*byte);
            self.write_u64(rest.iter().fold(0, append));
        }
    }

    fn write_u8(&mut self, byte: u8) {
        self.write_u64(u64::from(byte));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(29) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_usize(&mut self, _length: usize) {
        // All ids have one length.
    }

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}
