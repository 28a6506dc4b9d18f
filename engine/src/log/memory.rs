//! A log in memory, for tests: what was appended survives the handle, so that a crash can be
//! played by dropping it and opening the [`MemoryDisk`] again.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use annals_tasks_sdk::JobId;

use super::row::{in_order, reflects};
use super::{Damage, EventLog, Hour, JobRow, KeyRow, Link, LogError, LogReader};
use super::{Position, ReadRow, Row, ValueKey, ViewsLog, ViewsUpdate, decode_row, digest};
use crate::job::ValueDigest;

/// When an append is to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing of it is kept.
    Before,
    /// All of it is kept, but the answer is lost.
    After,
}

/// What outlives a [`MemoryLog`].
#[derive(Debug, Clone, Default)]
pub struct MemoryDisk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    rows: BTreeMap<Position, (u32, Vec<u8>)>,
    values: HashMap<(JobId, ValueKey), Arc<[u8]>>,
    views: BTreeMap<JobId, JobRow>,
    keys: BTreeMap<Hour, Vec<KeyRow>>,
    viewed: Position,
    appends: u64,
    fault: Option<(u64, Fault)>,
}

impl MemoryDisk {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens the log on it.
    pub fn open(&self) -> MemoryLog {
        MemoryLog(Arc::new(Opened { disk: self.clone(), poisoned: AtomicBool::new(false) }))
    }

    /// Makes the `n`-th append from now fail; 1 is the next one.
    pub fn fail_append(&self, n: u64, fault: Fault) {
        let mut state = self.state();
        state.fault = Some((state.appends + n, fault));
    }

    /// Loses the views, as a damaged file of them would.
    pub fn lose_views(&self) {
        let mut state = self.state();
        state.views.clear();
        state.keys.clear();
        state.viewed = Position(0);
    }

    /// Changes the stored bytes of the row at `position`.
    pub fn damage(&self, position: Position, change: impl FnOnce(&mut Vec<u8>)) {
        if let Some((_, bytes)) = self.state().rows.get_mut(&position) {
            change(bytes);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A test that panicked elsewhere must still be able to look at the log.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn next(&self) -> Position {
        let last = self.rows.last_key_value();
        last.map_or(Position(1), |(first, (events, _))| Position(first.0 + u64::from(*events)))
    }

    fn append(&mut self, rows: &[Row]) -> Result<(), LogError> {
        in_order(rows, self.next())?;
        self.appends += 1;
        let fault = self.fault.filter(|(at, _)| *at == self.appends).map(|(_, fault)| fault);
        if fault == Some(Fault::Before) {
            return Err(injected());
        }
        for row in rows {
            self.rows.insert(row.position, (row.events, row.bytes.clone()));
            if row.ends_values {
                self.values.retain(|(job, _), _| *job != row.job);
            }
            let values = row.values.iter();
            self.values.extend(values.map(|(key, value)| ((row.job, *key), value.clone())));
        }
        if fault == Some(Fault::After) { Err(injected()) } else { Ok(()) }
    }
}

fn injected() -> LogError {
    let source = std::io::Error::other("a fault was injected");
    LogError::Io { path: "memory".into(), source }
}

/// An [`EventLog`] on a [`MemoryDisk`].
#[derive(Debug)]
pub struct MemoryLog(Arc<Opened>);

/// What the log and who writes its views share.
#[derive(Debug)]
struct Opened {
    disk: MemoryDisk,
    poisoned: AtomicBool,
}

impl Opened {
    fn write(
        &self,
        change: impl FnOnce(&mut State) -> Result<(), LogError>,
    ) -> Result<(), LogError> {
        if self.poisoned.load(Ordering::Acquire) {
            return Err(LogError::Poisoned);
        }
        let result = change(&mut self.disk.state());
        self.poisoned.fetch_or(result.is_err(), Ordering::AcqRel);
        result
    }
}

impl EventLog for MemoryLog {
    fn append(&mut self, rows: &[Row]) -> Result<(), LogError> {
        self.0.write(|state| state.append(rows))
    }

    fn views(&self) -> Arc<dyn ViewsLog> {
        self.0.clone()
    }

    fn idle(&mut self) -> Result<(), LogError> {
        self.0.write(|_| Ok(()))
    }

    fn reader(&self) -> Arc<dyn LogReader> {
        Arc::new(self.0.disk.clone())
    }

    fn close(self: Box<Self>) -> Result<(), LogError> {
        self.0.write(|_| Ok(()))
    }
}

impl ViewsLog for Opened {
    fn checkpoint(&self, update: &ViewsUpdate) -> Result<(), LogError> {
        self.write(|state| {
            reflects(update.upto, state.next())?;
            state.views.extend(update.rows.iter().map(|row| (row.job, row.clone())));
            state.keys = state.keys.split_off(&update.keys_since);
            for key in update.keys.iter().filter(|key| key.hour >= update.keys_since) {
                state.keys.entry(key.hour).or_default().push(*key);
            }
            state.viewed = update.upto;
            Ok(())
        })
    }
}

fn decode(position: Position, bytes: &[u8]) -> Result<ReadRow, LogError> {
    decode_row(position, bytes)
        .or_else(|error| super::error::undecodable(error, Damage::in_row(position, bytes)))
}

impl LogReader for MemoryDisk {
    fn next_position(&self) -> Position {
        self.state().next()
    }

    fn viewed(&self) -> Position {
        self.state().viewed
    }

    fn row(&self, position: Position) -> Result<Option<ReadRow>, LogError> {
        let state = self.state();
        let Some((first, (_, bytes))) = state.rows.range(..=position).next_back() else {
            return Ok(None);
        };
        Ok(Some(decode(*first, bytes)?).filter(|row| row.end() > position))
    }

    fn bytes(&self, position: Position) -> Result<Option<Vec<u8>>, LogError> {
        Ok(self.state().rows.get(&position).map(|(_, bytes)| bytes.clone()))
    }

    fn link(&self, position: Position) -> Result<Option<Link>, LogError> {
        let state = self.state();
        let Some((_, bytes)) = state.rows.get(&position) else { return Ok(None) };
        let link = super::codec::link(position, bytes).map(Some);
        link.or_else(|error| super::error::undecodable(error, Damage::in_row(position, bytes)))
    }

    fn rows(&self, from: Position, limit: usize) -> Result<Vec<ReadRow>, LogError> {
        let state = self.state();
        let rows = state.rows.range(from..).take(limit);
        rows.map(|(first, (_, bytes))| decode(*first, bytes)).collect()
    }

    fn value(
        &self,
        job: JobId,
        key: ValueKey,
        wanted: &ValueDigest,
    ) -> Result<Option<Vec<u8>>, LogError> {
        let value = self.state().values.get(&(job, key)).cloned();
        Ok(value.filter(|value| digest(value) == *wanted).map(|value| value.to_vec()))
    }

    fn job_row(&self, job: JobId) -> Result<Option<JobRow>, LogError> {
        Ok(self.state().views.get(&job).cloned())
    }

    fn job_rows(&self, before: Option<JobId>, limit: usize) -> Result<Vec<JobRow>, LogError> {
        let state = self.state();
        let older =
            |row: &&JobRow| row.purged.is_none() && before.is_none_or(|before| row.job < before);
        Ok(state.views.values().rev().filter(older).take(limit).cloned().collect())
    }

    fn open_rows(&self) -> Result<Vec<JobRow>, LogError> {
        let state = self.state();
        Ok(state.views.values().filter(|row| row.is_open()).cloned().collect())
    }

    fn keys(&self, since: Hour, take: &mut dyn FnMut(KeyRow)) -> Result<(), LogError> {
        let kept: Vec<KeyRow> =
            self.state().keys.range(since..).flat_map(|(_, keys)| keys).copied().collect();
        kept.into_iter().for_each(take);
        Ok(())
    }
}
