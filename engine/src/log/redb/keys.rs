//! The tables of idempotency keys in the views' file: one for each hour, so that the keys of an
//! hour are dropped together. What a checkpoint brings is appended to it in chunks; nobody looks
//! for a single key here.

use std::path::Path;

use ::redb::{ReadTransaction, ReadableTable, TableDefinition, TableHandle, WriteTransaction};

use super::file::{Trouble, damaged};
use super::mark::Mark;
use super::seal::{seal, unseal};
use crate::log::key::{get_keys, put_keys};
use crate::log::{Hour, KeyRow};

/// The names of the tables begin with this.
const PREFIX: &str = "keys ";

/// So many keys make a chunk at most, which is read at once.
const CHUNK_MAX: usize = 16 * 1024;

fn name(hour: Hour) -> String {
    format!("{PREFIX}{}", hour.0)
}

/// By the number of the chunk, its keys.
fn table(name: &str) -> TableDefinition<'_, u64, &'static [u8]> {
    TableDefinition::new(name)
}

/// The hours among these tables.
fn hours(tables: impl Iterator<Item = impl TableHandle>) -> Vec<Hour> {
    let hour = |table: &dyn TableHandle| table.name().strip_prefix(PREFIX)?.parse().ok().map(Hour);
    let mut hours: Vec<Hour> = tables.filter_map(|table| hour(&table)).collect();
    hours.sort_unstable();
    hours
}

/// By what a chunk is sealed: it is not taken for another one.
fn place(hour: Hour, chunk: u64) -> u128 {
    u128::from(hour.0.cast_unsigned()) << 64 | u128::from(chunk)
}

/// Appends keys to the tables of their hours, and drops the tables of the hours before `since`.
pub(super) fn put(
    transaction: &WriteTransaction,
    keys: &[KeyRow],
    since: Hour,
) -> Result<(), Trouble> {
    for hour in hours(transaction.list_tables()?) {
        if hour < since {
            transaction.delete_table(table(&name(hour)))?;
        }
    }
    let mut keys: Vec<KeyRow> = keys.iter().filter(|key| key.hour >= since).copied().collect();
    // Stable: of two uses of a key the later one stays the later one.
    keys.sort_by_key(|key| key.hour);
    for of_hour in keys.chunk_by(|one, other| one.hour == other.hour) {
        let hour = of_hour[0].hour;
        let name = name(hour);
        let mut table = transaction.open_table(table(&name))?;
        let last = table.last()?.map(|(chunk, _)| chunk.value());
        for (keys, chunk) in of_hour.chunks(CHUNK_MAX).zip(last.map_or(0, |last| last + 1)..) {
            let sealed = seal(place(hour, chunk), &put_keys(keys));
            table.insert(chunk, sealed.as_slice())?;
        }
    }
    Ok(())
}

/// Gives every key that was used in `since` or later, the oldest first.
pub(super) fn each(
    transaction: &ReadTransaction,
    path: &Path,
    mark: &Mark,
    since: Hour,
    take: &mut dyn FnMut(KeyRow),
) -> Result<(), Trouble> {
    for (&hour, &count) in mark.keys.range(since..) {
        let mut found = 0;
        for entry in transaction.open_table(table(&name(hour)))?.iter()? {
            let (chunk, sealed) = entry?;
            let bytes = unseal(place(hour, chunk.value()), sealed.value());
            let Some(keys) = bytes.and_then(|bytes| get_keys(hour, bytes)) else {
                return Ok(damaged(path, "idempotency keys are damaged")?);
            };
            for key in keys {
                found += 1;
                take(key);
            }
        }
        if found != count {
            damaged(path, format!("they have {found} of {count} idempotency keys of an hour"))?;
        }
    }
    Ok(())
}
