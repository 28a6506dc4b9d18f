//! The mark of the views: which records they reflect, and how much there must be in them. redb
//! does not notice by itself that a part of a table is missing because a page is damaged.

use std::collections::BTreeMap;

use super::seal::{seal, unseal};
use crate::log::{Hour, KeyRow, Position};

/// What the views say of themselves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Mark {
    /// Up to and including which position they reflect the records.
    pub(super) upto: Position,
    /// How many jobs have not ended.
    pub(super) open: u64,
    /// How many idempotency keys each hour has.
    pub(super) keys: BTreeMap<Hour, u64>,
}

impl Mark {
    /// Counts what is added to the keys, and drops what is too old.
    pub(super) fn count(&mut self, keys: &[KeyRow], since: Hour) {
        for key in keys {
            *self.keys.entry(key.hour).or_default() += 1;
        }
        self.keys = self.keys.split_off(&since);
    }

    pub(super) fn seal(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(16 + 16 * self.keys.len());
        bytes.extend_from_slice(&self.upto.0.to_le_bytes());
        bytes.extend_from_slice(&self.open.to_le_bytes());
        for (hour, keys) in &self.keys {
            bytes.extend_from_slice(&hour.0.to_le_bytes());
            bytes.extend_from_slice(&keys.to_le_bytes());
        }
        seal(0, &bytes)
    }

    /// None where these are no bytes of a mark.
    pub(super) fn unseal(sealed: &[u8]) -> Option<Self> {
        let (numbers, rest) = unseal(0, sealed)?.as_chunks::<8>();
        let [upto, open, hours @ ..] = numbers else { return None };
        let (hours, odd) = hours.as_chunks::<2>();
        if !rest.is_empty() || !odd.is_empty() {
            return None;
        }
        let hour = |[hour, keys]: &[[u8; 8]; 2]| {
            (Hour(i64::from_le_bytes(*hour)), u64::from_le_bytes(*keys))
        };
        Some(Self {
            upto: Position(u64::from_le_bytes(*upto)),
            open: u64::from_le_bytes(*open),
            keys: hours.iter().map(hour).collect(),
        })
    }
}
