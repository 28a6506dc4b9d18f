//! The bytes of a row, and the one place that names bincode.
//!
//! ```text
//! row     format u8 | job u128 | first seq u64 | events u32 | position u64 | position of the
//!         job's previous row u64 | check u32 | hash before [32] | hash after [32] | record...
//! record  flags u8 | type u16 | version u16 | time i64 | payload length u32
//!         | length u32 and text of actor, of request id, of reason, each only with its flag
//!         | digests of the idempotency key and of its body [16] + [16], only with their flag
//!         | payload
//! hash    BLAKE3(job u128 | seq u64 | hash of the job's event before | record)
//! ```
//!
//! Everything is little-endian. A record is unambiguous because every part of variable length
//! follows its length. No hash covers a position, so that a copy of the log elsewhere keeps its
//! chain; `check` covers the two positions in the row. A row whose hashes hold can be listed and
//! counted by every build, whatever its events are.

use std::sync::Arc;

use annals_tasks_sdk::{JobId, Timestamp};
use bincode::config::{Configuration, Limit, LittleEndian, Varint};
use bincode::error::EncodeError;
use serde::{Deserialize, Serialize};

use super::{Head, Link, Position, ReadRow, Row, UnknownEvent, ValueKey, payload, types};
use crate::job::{Event, IdempotencyKey, Origin, Recorded, ValueDigest};

/// The format that this build writes, and the newest that it reads.
pub const FORMAT: u8 = 1;

const ROW_HEADER: usize = 113;
const COUNT: std::ops::Range<usize> = 25..29;
const POSITIONS: std::ops::Range<usize> = 29..45;
const RECORD_HEADER: usize = 17;
/// Most records fit so many bytes.
const ROOM: usize = 96;
const ACTOR: u8 = 1;
const REQUEST_ID: u8 = 2;
const REASON: u8 = 4;
/// Set on the first event of an accepted command.
const LEADS: u8 = 8;
const KEY: u8 = 16;

/// More is not written: a plan has at most 16 MiB, a payload 2 MiB.
const PAYLOAD_MAX: usize = 64 << 20;

/// What decoding may claim; more than [`PAYLOAD_MAX`], because small integers claim more than
/// they occupy.
const CONFIG: Configuration<LittleEndian, Varint, Limit<{ 256 << 20 }>> =
    bincode::config::standard().with_limit();

/// Why a row cannot be written or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The bytes are not what was written.
    #[error("{0}")]
    Damaged(String),
    /// A later build wrote the row.
    #[error("the row has format {found}, this build reads up to {FORMAT}; use a newer build")]
    Newer {
        /// The row's format.
        found: u8,
    },
    /// An event is larger than the log takes.
    #[error("an event of {len} bytes is larger than the log takes ({PAYLOAD_MAX} bytes)")]
    TooLarge {
        /// Its size.
        len: usize,
    },
    /// An event cannot be said in the log's format.
    #[error("an event cannot be encoded: {0}")]
    Encode(String),
}

fn damaged<T>(detail: impl Into<String>) -> Result<T, CodecError> {
    Err(CodecError::Damaged(detail.into()))
}

/// What the log proves about a value that lies beside a record.
pub fn digest(value: &[u8]) -> ValueDigest {
    let len = u32::try_from(value.len()).unwrap_or(u32::MAX);
    ValueDigest { len, hash: *blake3::hash(value).as_bytes() }
}

/// Encodes what one turn appends to one job, and hashes it.
///
/// `before` is the job's head so far; `events` are at least one and continue its seq. Gives the
/// row, which [`Writer::submit`](super::Writer::submit) places, and the hash of its last event.
pub fn encode_row(
    job: JobId,
    before: &Head,
    events: &[Recorded],
    values: Vec<(ValueKey, Arc<[u8]>)>,
) -> Result<(Row, [u8; 32]), CodecError> {
    debug_assert!(!events.is_empty());
    debug_assert!(events.iter().zip(before.seq + 1..).all(|(event, due)| event.seq == due));
    let mut draft = Draft::new(job, before);
    draft.push(events)?;
    Ok(draft.finish(values))
}

/// A row that is being encoded. It can be begun before the turn that appends it, and elsewhere.
#[derive(Debug)]
pub struct Draft {
    bytes: Vec<u8>,
    chain: Chain,
    events: u32,
}

impl Draft {
    /// A row without events as yet, which continues the job's history so far.
    pub fn new(job: JobId, before: &Head) -> Self {
        let mut bytes = Vec::with_capacity(ROW_HEADER + 2 * ROOM);
        bytes.push(FORMAT);
        bytes.extend_from_slice(&job.as_u128().to_le_bytes());
        bytes.extend_from_slice(&(before.seq + 1).to_le_bytes());
        bytes.extend_from_slice(&[0; 4 + 8]);
        bytes.extend_from_slice(&before.row.0.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&before.hash);
        bytes.extend_from_slice(&[0; 32]);
        Self { bytes, chain: Chain { job, seq: before.seq, hash: before.hash }, events: 0 }
    }

    /// Encodes and hashes the next events. They get the numbers behind that of the head: that these
    /// are theirs is for the caller to see to.
    pub fn push(&mut self, events: &[Recorded]) -> Result<(), CodecError> {
        let count = self.events().saturating_add(events.len());
        self.events = u32::try_from(count).map_err(|_| CodecError::TooLarge { len: count })?;
        self.bytes.reserve(events.iter().map(|recorded| room_for(&recorded.event)).sum());
        for recorded in events {
            let start = self.bytes.len();
            put_record(recorded, &mut self.bytes)?;
            self.chain.push(&self.bytes[start..]);
        }
        Ok(())
    }

    /// How many events it has.
    pub fn events(&self) -> usize {
        self.events as usize
    }

    /// The hash of its last event; that of the head where it has none.
    pub fn hash(&self) -> [u8; 32] {
        self.chain.hash
    }

    /// The row, as [`encode_row`] gives it.
    pub fn finish(mut self, values: Vec<(ValueKey, Arc<[u8]>)>) -> (Row, [u8; 32]) {
        let Self { chain: Chain { job, hash, .. }, events, .. } = self;
        self.bytes[COUNT].copy_from_slice(&events.to_le_bytes());
        self.bytes[ROW_HEADER - 32..ROW_HEADER].copy_from_slice(&hash);
        let (position, bytes) = (Position(0), self.bytes);
        (Row { job, position, events, bytes, values, ends_values: false }, hash)
    }
}

/// About what a record takes at most, unless it brings payloads or texts.
fn room_for(event: &Event) -> usize {
    match event {
        Event::JobSubmitted(submitted) => ROOM + ROOM * submitted.plan.all_tasks().count(),
        _ => ROOM,
    }
}

fn put_record(recorded: &Recorded, out: &mut Vec<u8>) -> Result<(), CodecError> {
    let Origin { actor, request_id, reason } = &recorded.origin;
    let texts = [(actor, ACTOR), (request_id, REQUEST_ID), (reason, REASON)];
    let flags = texts.iter().filter(|(text, _)| text.is_some()).fold(0, |all, (_, bit)| all | bit);
    let key = recorded.key.as_deref();
    let leads = if recorded.leads { LEADS } else { 0 };
    out.push(flags | leads | if key.is_some() { KEY } else { 0 });
    out.extend_from_slice(&types::number(&recorded.event).to_le_bytes());
    out.extend_from_slice(&payload::version(&recorded.event).to_le_bytes());
    out.extend_from_slice(&recorded.time.as_millis().to_le_bytes());
    let length = out.len();
    out.extend_from_slice(&[0; 4]);
    for text in texts.iter().filter_map(|(text, _)| text.as_deref()) {
        out.extend_from_slice(&small(text.len())?.to_le_bytes());
        out.extend_from_slice(text.as_bytes());
    }
    if let Some(key) = key {
        out.extend_from_slice(&key.to_bytes());
    }
    let start = out.len();
    payload::put(&recorded.event, out)?;
    let written = small(out.len() - start)?;
    out[length..length + 4].copy_from_slice(&written.to_le_bytes());
    Ok(())
}

fn small(len: usize) -> Result<u32, CodecError> {
    let fits = u32::try_from(len).ok().filter(|_| len <= PAYLOAD_MAX);
    fits.ok_or(CodecError::TooLarge { len })
}

/// Writes a row's position into it.
pub(super) fn place(row: &mut [u8], position: Position) {
    let (positions, rest) = row[POSITIONS.start..].split_at_mut(POSITIONS.len());
    positions[..8].copy_from_slice(&position.0.to_le_bytes());
    rest[..4].copy_from_slice(&check(positions).to_le_bytes());
}

/// FNV-1a: one flipped bit anywhere changes it, and that is all that it is for.
fn check(positions: &[u8]) -> u32 {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    positions.iter().fold(0x811c_9dc5, step)
}

/// A job's chain of hashes.
#[derive(Debug)]
struct Chain {
    job: JobId,
    seq: u64,
    hash: [u8; 32],
}

impl Chain {
    fn push(&mut self, record: &[u8]) {
        self.seq += 1;
        let mut head = [0; 56];
        head[..16].copy_from_slice(&self.job.as_u128().to_le_bytes());
        head[16..24].copy_from_slice(&self.seq.to_le_bytes());
        head[24..].copy_from_slice(&self.hash);
        // A short input in one piece is hashed twice as fast as one in two.
        let whole = head.len() + record.len();
        self.hash = if whole <= 512 {
            let mut buffer = [0; 512];
            buffer[..56].copy_from_slice(&head);
            buffer[56..whole].copy_from_slice(record);
            *blake3::hash(&buffer[..whole]).as_bytes()
        } else {
            *blake3::Hasher::new().update(&head).update(record).finalize().as_bytes()
        };
    }
}

/// What a row's header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RowHeader {
    pub(super) job: JobId,
    pub(super) events: u32,
    position: Position,
    first: u64,
    before: Head,
    hash: [u8; 32],
}

/// A record whose place in the chain is proved, not yet decoded.
struct RawRecord<'a> {
    seq: u64,
    number: u16,
    version: u16,
    time: Timestamp,
    origin: Origin,
    leads: bool,
    key: Option<Box<IdempotencyKey>>,
    payload: &'a [u8],
}

/// Reads the header of a row without its events.
pub(super) fn row_header(bytes: &[u8]) -> Result<RowHeader, CodecError> {
    header(&mut Input(bytes))
}

/// Reads where a row stands in its job's chain; its events are neither read nor proved.
pub(super) fn link(position: Position, bytes: &[u8]) -> Result<Link, CodecError> {
    let RowHeader { job, events, first, before, hash, .. } =
        header_at(position, &mut Input(bytes))?;
    let after = Head { row: position, seq: first - 1 + u64::from(events), hash };
    Ok(Link { job, position, before, after })
}

/// Reads a header, and sees that it lies where it was written for.
fn header_at(position: Position, input: &mut Input<'_>) -> Result<RowHeader, CodecError> {
    let header = header(input)?;
    if header.position != position {
        let found = header.position.0;
        return damaged(format!("the row that lies there was written for position {found}"));
    }
    Ok(header)
}

fn header(input: &mut Input<'_>) -> Result<RowHeader, CodecError> {
    match input.u8()? {
        FORMAT => {}
        found if found > FORMAT => return Err(CodecError::Newer { found }),
        found => return damaged(format!("there is no row format {found}")),
    }
    let job = JobId::from_u128(u128::from_le_bytes(input.array()?));
    let (first, events) = (input.u64()?, input.u32()?);
    let positions: [u8; 16] = input.array()?;
    if input.u32()? != check(&positions) {
        return damaged("the positions in the row's header are damaged");
    }
    let mut positions = Input(&positions);
    let (position, row) = (Position(positions.u64()?), Position(positions.u64()?));
    let before = Head { row, seq: first.wrapping_sub(1), hash: input.array()? };
    let sound = first > 0 && events > 0 && first.checked_add(u64::from(events)).is_some();
    if !sound || (first == 1) != (before == Head::default()) {
        return damaged("the row's header contradicts itself");
    }
    Ok(RowHeader { job, events, position, first, before, hash: input.array()? })
}

/// Decodes a row and verifies its hashes.
pub fn decode_row(position: Position, bytes: &[u8]) -> Result<ReadRow, CodecError> {
    let mut input = Input(bytes);
    let header = header_at(position, &mut input)?;
    let mut chain = Chain { job: header.job, seq: header.first - 1, hash: header.before.hash };
    // The count is not proved yet: it must not decide how much memory is taken.
    let room = (header.events as usize).min(bytes.len() / RECORD_HEADER);
    let (mut records, mut hashes) = (Vec::with_capacity(room), Vec::with_capacity(room));
    for _ in 0..header.events {
        let start = input.0;
        records.push(raw_record(chain.seq + 1, &mut input)?);
        chain.push(&start[..start.len() - input.0.len()]);
        hashes.push(chain.hash);
    }
    if !input.0.is_empty() {
        return damaged("bytes are left over behind the row's last event");
    }
    if chain.hash != header.hash {
        return damaged("the hash of the row's events is not the one that was stored");
    }
    let after = Head { row: position, seq: chain.seq, hash: chain.hash };
    let (job, before) = (header.job, header.before);
    let mut row = ReadRow {
        job,
        position,
        before,
        after,
        events: Vec::with_capacity(records.len()),
        unknown: Vec::new(),
        hashes,
        bytes: bytes.len(),
    };
    for record in records {
        sort_in(record, &mut row)?;
    }
    Ok(row)
}

fn raw_record<'a>(seq: u64, input: &mut Input<'a>) -> Result<RawRecord<'a>, CodecError> {
    let flags = input.u8()?;
    if flags & !(ACTOR | REQUEST_ID | REASON | LEADS | KEY) != 0 {
        return damaged(format!("event {seq} has flags that do not exist"));
    }
    let (number, version) = (input.u16()?, input.u16()?);
    let time = Timestamp::from_millis(i64::from_le_bytes(input.array()?));
    let len = input.u32()?;
    let actor = input.text(flags & ACTOR)?;
    let request_id = input.text(flags & REQUEST_ID)?;
    let origin = Origin { actor, request_id, reason: input.text(flags & REASON)? };
    let key = match flags & KEY {
        0 => None,
        _ => Some(Box::new(IdempotencyKey::from_bytes(input.array()?))),
    };
    let payload = input.take(len as usize)?;
    let leads = flags & LEADS != 0;
    Ok(RawRecord { seq, number, version, time, origin, leads, key, payload })
}

fn sort_in(record: RawRecord<'_>, row: &mut ReadRow) -> Result<(), CodecError> {
    let RawRecord { seq, number, version, time, origin, leads, key, payload } = record;
    match payload::get(number, version, payload)? {
        Some(event) => row.events.push(Recorded { seq, time, origin, leads, key, event }),
        None => row.unknown.push(UnknownEvent {
            seq,
            time,
            origin,
            key,
            number,
            version,
            payload: payload.into(),
        }),
    }
    Ok(())
}

/// The bytes that are still to be read.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], CodecError> {
        let Some((taken, rest)) = self.0.split_at_checked(len) else {
            return damaged("the row ends in the middle of an event");
        };
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], CodecError> {
        let taken = self.take(N)?;
        taken.try_into().or_else(|_| damaged("the row ends in the middle of an event"))
    }

    fn u8(&mut self) -> Result<u8, CodecError> {
        self.array().map(u8::from_le_bytes)
    }

    fn u16(&mut self) -> Result<u16, CodecError> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, CodecError> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, CodecError> {
        self.array().map(u64::from_le_bytes)
    }

    fn text(&mut self, flag: u8) -> Result<Option<Arc<str>>, CodecError> {
        if flag == 0 {
            return Ok(None);
        }
        let len = self.u32()? as usize;
        let text = std::str::from_utf8(self.take(len)?);
        text.map(|text| Some(text.into())).or_else(|_| damaged("a text is not UTF-8"))
    }
}

struct Append<'a>(&'a mut Vec<u8>);

impl bincode::enc::write::Writer for Append<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

/// Appends a value in bincode.
pub(super) fn write<T: Serialize>(out: &mut Vec<u8>, value: &T) -> Result<(), CodecError> {
    bincode::serde::encode_into_writer(value, Append(out), CONFIG)
        .map_err(|error| CodecError::Encode(error.to_string()))
}

/// Reads a value in bincode that must fill all of `bytes`.
pub(super) fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, CodecError> {
    match bincode::serde::borrow_decode_from_slice(bytes, CONFIG) {
        Ok((value, read)) if read == bytes.len() => Ok(value),
        Ok(_) => damaged("bytes are left over behind a payload"),
        Err(error) => damaged(format!("a payload cannot be decoded: {error}")),
    }
}
