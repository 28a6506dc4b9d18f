//! Seals of what the views hold: a version and a checksum before its bytes.

/// Another version is no error: the views are rebuilt.
const VERSION: u8 = 1;

/// Seals bytes. The checksum covers the key as well, so that nothing is taken for another thing.
pub(super) fn seal(key: u128, bytes: &[u8]) -> Vec<u8> {
    let mut sealed = Vec::with_capacity(9 + bytes.len());
    sealed.push(VERSION);
    sealed.extend_from_slice(&checksum(key, bytes));
    sealed.extend_from_slice(bytes);
    sealed
}

/// The bytes that were sealed under this key; none where these are others.
pub(super) fn unseal(key: u128, sealed: &[u8]) -> Option<&[u8]> {
    let (head, bytes) = sealed.split_at_checked(9)?;
    (head[0] == VERSION && head[1..] == checksum(key, bytes)).then_some(bytes)
}

fn checksum(key: u128, bytes: &[u8]) -> [u8; 8] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&[VERSION]).update(&key.to_le_bytes()).update(bytes);
    let mut sum = [0; 8];
    sum.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    sum
}
