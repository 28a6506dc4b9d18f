//! Idempotency keys: by what a request that is repeated is known again.

/// What is kept of the name that a request was given by whoever sent it, so that to repeat it
/// does nothing twice. Digests alone: neither the name nor what was asked can be read from them.
///
/// An event that begins with an accepted command carries the key of that command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IdempotencyKey {
    /// What the request is known by.
    pub(crate) key: u128,
    /// What was asked.
    pub(crate) body: u128,
}
