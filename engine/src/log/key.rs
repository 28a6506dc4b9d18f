//! Idempotency keys: their digests, and how the views keep them.

use annals_tasks_sdk::{JobId, Timestamp};

use crate::job::IdempotencyKey;

impl IdempotencyKey {
    /// The key named `key` of whoever is known as `scope`, for requests to `path` with exactly
    /// this body. The same name in another scope, or for another path, is another key.
    pub fn new(scope: &str, path: &str, key: &str, body: &[u8]) -> Self {
        let mut named = blake3::Hasher::new();
        for part in [scope, path, key] {
            // With its length before it no part runs into the next one.
            named.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        Self { key: half(&named.finalize()), body: half(&blake3::hash(body)) }
    }

    /// How the log writes it.
    pub(super) fn to_bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&self.key.to_le_bytes());
        bytes[16..].copy_from_slice(&self.body.to_le_bytes());
        bytes
    }

    /// The inverse of [`IdempotencyKey::to_bytes`].
    pub(super) fn from_bytes(bytes: [u8; 32]) -> Self {
        let number =
            |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, &byte| sum << 8 | u128::from(byte));
        Self { key: number(&bytes[..16]), body: number(&bytes[16..]) }
    }
}

/// The first 16 bytes: enough, since nobody gains by two keys of their own that collide.
fn half(hash: &blake3::Hash) -> u128 {
    let mut half = [0; 16];
    half.copy_from_slice(&hash.as_bytes()[..16]);
    u128::from_le_bytes(half)
}

/// An hour of the world's time. Keys are kept, and forgotten, by the hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hour(pub i64);

impl Hour {
    /// The hour that a time is in.
    pub fn of(time: Timestamp) -> Self {
        Self(time.as_millis().div_euclid(3_600_000))
    }

    /// The first hour of which something may be younger than `hours` in this hour.
    pub fn before(self, hours: u32) -> Self {
        Self(self.0.saturating_sub(i64::from(hours)))
    }
}

/// A key of which it is durable what it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyRow {
    /// The hour in which it was used.
    pub hour: Hour,
    /// The key.
    pub key: IdempotencyKey,
    /// The job that it was used on.
    pub job: JobId,
}

/// How many bytes of a chunk belong to each key.
const KEY_BYTES: usize = 48;

/// The bytes of keys that were used in one hour.
pub(super) fn put_keys(keys: &[KeyRow]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(keys.len() * KEY_BYTES);
    for KeyRow { key, job, .. } in keys {
        bytes.extend_from_slice(&key.to_bytes());
        bytes.extend_from_slice(&job.as_u128().to_le_bytes());
    }
    bytes
}

/// The inverse of [`put_keys`]; none where the bytes are none of its.
pub(super) fn get_keys(hour: Hour, bytes: &[u8]) -> Option<impl Iterator<Item = KeyRow> + '_> {
    let (chunks, rest) = bytes.as_chunks::<KEY_BYTES>();
    let row = move |chunk: &[u8; KEY_BYTES]| {
        let (mut key, mut job) = ([0; 32], [0; 16]);
        key.copy_from_slice(&chunk[..32]);
        job.copy_from_slice(&chunk[32..]);
        let job = JobId::from_u128(u128::from_le_bytes(job));
        KeyRow { hour, key: IdempotencyKey::from_bytes(key), job }
    };
    rest.is_empty().then(|| chunks.iter().map(row))
}
