//! Values that lie beside the rows of a record file.

use std::borrow::Borrow;
use std::path::Path;
use std::sync::Arc;

use ::redb::{Key, ReadTransaction, TableDefinition, TableError, WriteTransaction};
use annals_tasks_sdk::JobId;

use super::file::Trouble;
use crate::job::ValueDigest;
use crate::log::{Damage, Row, ValueKey};

/// By job and task number, the hash of a checkpoint and the checkpoint.
const VALUES: TableDefinition<'_, (u128, u32), &[u8]> = TableDefinition::new("values");

/// By job and the seq of the event that recorded it, the hash of the result of a step and the
/// result. The table is made when it is needed first.
const STEPS: TableDefinition<'_, (u128, u64), &[u8]> = TableDefinition::new("steps");

/// Makes the table that every file has.
pub(super) fn create(transaction: &WriteTransaction) -> Result<(), Trouble> {
    transaction.open_table(VALUES)?;
    Ok(())
}

/// Writes the values that lie beside these rows.
pub(super) fn put<'a>(transaction: &WriteTransaction, rows: &'a [Row]) -> Result<(), Trouble> {
    let values = || {
        let beside = |row: &'a Row| row.values.iter().map(|value| (row.job.as_u128(), value));
        rows.iter().flat_map(beside)
    };
    let checkpoints = values().filter_map(|(job, (key, value))| match *key {
        ValueKey::Checkpoint { task } => Some(((job, task), value)),
        ValueKey::Step { .. } => None,
    });
    insert(transaction, VALUES, checkpoints)?;
    let steps = values().filter_map(|(job, (key, value))| match *key {
        ValueKey::Step { seq } => Some(((job, seq), value)),
        ValueKey::Checkpoint { .. } => None,
    });
    insert(transaction, STEPS, steps)?;
    drop_ended(transaction, rows)
}

/// Drops the values of jobs that want none any more. What lies in closed files stays there.
fn drop_ended(transaction: &WriteTransaction, rows: &[Row]) -> Result<(), Trouble> {
    let ended = rows.iter().filter(|row| row.ends_values).map(|row| row.job.as_u128());
    let mut ended = ended.peekable();
    if ended.peek().is_none() {
        return Ok(());
    }
    let (mut checkpoints, mut steps) =
        (transaction.open_table(VALUES)?, transaction.open_table(STEPS)?);
    for job in ended {
        checkpoints.retain_in((job, 0)..=(job, u32::MAX), |_, _| false)?;
        steps.retain_in((job, 0)..=(job, u64::MAX), |_, _| false)?;
    }
    Ok(())
}

fn insert<'v, K>(
    transaction: &WriteTransaction,
    table: TableDefinition<'_, K, &[u8]>,
    values: impl Iterator<Item = (K, &'v Arc<[u8]>)>,
) -> Result<(), Trouble>
where
    K: Key + for<'k> Borrow<K::SelfType<'k>> + 'static,
{
    let mut values = values.peekable();
    if values.peek().is_none() {
        return Ok(());
    }
    let mut table = transaction.open_table(table)?;
    for (key, value) in values {
        let sealed = [blake3::hash(value).as_bytes(), &value[..]].concat();
        table.insert(key, sealed.as_slice())?;
    }
    Ok(())
}

/// The value in one file, if it is there.
pub(super) fn get(
    transaction: &ReadTransaction,
    path: &Path,
    (job, key): (JobId, ValueKey),
    digest: &ValueDigest,
) -> Result<Option<Vec<u8>>, Trouble> {
    let sealed = match key {
        ValueKey::Checkpoint { task } => {
            transaction.open_table(VALUES)?.get((job.as_u128(), task))?
        }
        ValueKey::Step { seq } => match transaction.open_table(STEPS) {
            Err(TableError::TableDoesNotExist(_)) => None,
            table => table?.get((job.as_u128(), seq))?,
        },
    };
    let Some(sealed) = sealed else { return Ok(None) };
    let value = unseal(sealed.value(), digest).or_else(|why| {
        let (file, detail) = (Some(path.into()), format!("{key} {why}"));
        Damage { file, job: Some(job), detail, ..Damage::default() }.error()
    })?;
    Ok(value)
}

/// The value, if it is sound and the one that is asked for. It lies under its own hash, so that
/// one that was replaced by a later one can be told from one that is damaged.
fn unseal(sealed: &[u8], digest: &ValueDigest) -> Result<Option<Vec<u8>>, &'static str> {
    let Some((hash, value)) = sealed.split_at_checked(32) else { return Err("is cut short") };
    if blake3::hash(value).as_bytes() != hash {
        return Err("does not have the hash that was stored with it");
    }
    let same = digest.hash == hash && digest.len as usize == value.len();
    Ok(same.then(|| value.to_vec()))
}
