//! The lines of a bundle. Each is a JSON object with one member, which says what it is.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// The version of bundles that this build writes, and the newest that it reads.
pub(super) const VERSION: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    /// The first line.
    AnnalsBundle(Header),
    /// A row of the log, as it was appended.
    Row(Row),
    /// A value that lies beside the log.
    Value(Value),
    /// A part of what an attempt has written.
    Log(Log),
    /// The job as the build that wrote the bundle made it of the events: a snapshot.
    State(Box<RawValue>),
    /// The last line.
    End(End),
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) version: u32,
    pub(super) job_id: String,
    pub(super) name: String,
    pub(super) head_seq: u64,
    pub(super) head_hash: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) position: u64,
    pub(super) bytes: Base64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Value {
    /// What it belongs to: the number of a task with a checkpoint...
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) checkpoint: Option<u32>,
    /// ...or the event that recorded a step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) step: Option<u64>,
    pub(super) bytes: Base64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Log {
    pub(super) task: String,
    pub(super) attempt: u32,
    pub(super) entries: Vec<Box<RawValue>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct End {
    /// How many lines come before this one.
    pub(super) lines: u64,
    /// The BLAKE3 hash of all bytes before this line.
    pub(super) hash: String,
}

/// Bytes, as text in JSON.
#[derive(Debug)]
pub(super) struct Base64(pub(super) Vec<u8>);

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map(Self).map_err(D::Error::custom)
    }
}
