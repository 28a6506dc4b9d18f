//! Positions that no row holds, which need not be: but where they are is written down, so that
//! rows that are gone with a damaged page are missed. redb does not notice by itself that a part
//! of a table cannot be reached any more, or is one of long ago.

use std::path::Path;

use ::redb::{ReadOnlyTable, ReadTransaction, TableDefinition, TableError};
use ::redb::{TableHandle, WriteTransaction};

use super::file::Trouble;
use crate::log::{Damage, LogError, Position, Row, codec};

/// By the first position of a hole, the one behind it. The table is made with the first hole.
const HOLES: TableDefinition<'_, u64, u64> = TableDefinition::new("holes");

/// Writes down where these rows leave positions free, of which `due` is the first one.
pub(super) fn put(
    transaction: &WriteTransaction,
    rows: &[Row],
    mut due: Position,
) -> Result<(), Trouble> {
    for row in rows {
        if row.position != due {
            transaction.open_table(HOLES)?.insert(due.0, row.position.0)?;
        }
        due = row.end();
    }
    Ok(())
}

/// The part of the log that a file holds.
#[derive(Clone, Copy)]
pub(super) struct Span {
    /// Its first position...
    pub(super) first: Position,
    /// ...and the one behind it: rows must go up to there.
    pub(super) end: Position,
}

/// The rows of a file, as far as they were read.
pub(super) struct Passage<'t> {
    transaction: &'t ReadTransaction,
    path: &'t Path,
    span: Span,
    /// From where on rows are wanted.
    from: Position,
    /// What comes next; not looked for as long as a row begins where rows are wanted.
    due: Option<Position>,
}

impl<'t> Passage<'t> {
    /// The rows that begin at or after `from`.
    pub(super) fn new(
        transaction: &'t ReadTransaction,
        path: &'t Path,
        span: Span,
        from: Position,
    ) -> Self {
        Self { transaction, path, span, from: from.max(span.first), due: None }
    }

    /// From where on rows are wanted.
    pub(super) fn from(&self) -> Position {
        self.from
    }

    /// A row begins at `at`. An error where others before it are missing.
    pub(super) fn reach(
        &mut self,
        table: &ReadOnlyTable<u64, &[u8]>,
        (at, row): (Position, &[u8]),
    ) -> Result<(), Trouble> {
        if self.due.is_none() && at == self.from {
            return Ok(());
        }
        let due = self.due_in(table)?;
        if due == at || (at > due && self.is_hole(due, at)?) {
            return Ok(());
        }
        // Where it is the key that is damaged, nobody knows how far it goes.
        let lies_there = (due..self.span.end).contains(&at) && codec::link(at, row).is_ok();
        self.missing(due, if lies_there { at } else { self.span.end })
    }

    /// What was reached goes up to `end`.
    pub(super) fn pass(&mut self, end: Position) {
        self.due = Some(end);
    }

    /// The row at `at` is damaged. How many events it has is not known then, but where the next
    /// one begins.
    pub(super) fn cannot_pass(
        &self,
        table: &ReadOnlyTable<u64, &[u8]>,
        at: Position,
        error: LogError,
    ) -> LogError {
        let LogError::Damaged(mut damage) = error else { return error };
        let behind = (at.0 + 1)..self.span.end.0.max(at.0 + 1);
        let next = table.range(behind).ok().and_then(|mut rows| rows.next()?.ok());
        let next = next.map_or(self.span.end.0, |(next, _)| next.value());
        damage.upto = Some(Position((next - 1).max(at.0)));
        LogError::Damaged(damage)
    }

    /// There are no more rows. An error where there must be.
    pub(super) fn end(&mut self, table: &ReadOnlyTable<u64, &[u8]>) -> Result<(), Trouble> {
        let (due, end) = (self.due_in(table)?, self.span.end);
        if due.max(self.from) >= end { Ok(()) } else { self.missing(due, end) }
    }

    fn due_in(&self, table: &ReadOnlyTable<u64, &[u8]>) -> Result<Position, Trouble> {
        if let Some(due) = self.due {
            return Ok(due);
        }
        // The place may be in the middle of a row. One whose header is damaged was told, or is
        // not wanted.
        let Some(entry) = table.range(self.span.first.0..self.from.0)?.next_back() else {
            return Ok(self.span.first);
        };
        let (first, bytes) = entry?;
        // In a damaged file, redb may find what was not asked for: what is wanted is missing.
        if first.value() >= self.from.0 {
            return Ok(self.from);
        }
        let header = codec::row_header(bytes.value()).ok();
        let end = header.map(|header| Position(first.value() + u64::from(header.events)));
        Ok(end.unwrap_or(self.from))
    }

    fn is_hole(&self, due: Position, upto: Position) -> Result<bool, Trouble> {
        match self.transaction.open_table(HOLES) {
            Ok(holes) => Ok(holes.get(due.0)?.is_some_and(|found| found.value() == upto.0)),
            Err(TableError::TableDoesNotExist(name)) if name == HOLES.name() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn missing(&self, due: Position, next: Position) -> Result<(), Trouble> {
        let position = due.max(self.from);
        let last = Position(next.0.saturating_sub(1).max(position.0));
        let detail = format!("rows are missing up to position {}", last.0);
        let damage = Damage {
            file: Some(self.path.into()),
            upto: Some(last),
            ..Damage::at(position, detail)
        };
        Ok(damage.error()?)
    }
}
