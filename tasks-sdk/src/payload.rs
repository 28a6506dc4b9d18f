//! User data: JSON text that is kept as it was sent.

use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_path_to_error::Segment;

/// A JSON value as text. The digits of numbers stay as they were sent, whatever their size.
///
/// A payload is checked once, where it enters ([`Payload::parse`]), and copied by reference from
/// then on.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Payload(Option<Arc<str>>);

impl Payload {
    /// JSON `null`, which takes no memory of its own.
    pub const NULL: Self = Self(None);

    /// Checks that `text` is one JSON value that every reader will read alike.
    ///
    /// Refused are, besides what is no JSON: an object with the same key twice, a surrogate
    /// escape without its partner, and more than 128 levels of nesting.
    pub fn parse(text: &str) -> Result<Self, PayloadError> {
        crate::json::check(text)?;
        Ok(Self::trusted(text.trim()))
    }

    /// Writes `value` as JSON.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, PayloadError> {
        let text = serde_json::to_string(value).map_err(|error| PayloadError::at_root(&error))?;
        Ok(Self::trusted(&text))
    }

    /// Takes text that is known to be a valid payload, such as text read back from the log.
    pub fn trusted(text: &str) -> Self {
        if text == "null" { Self::NULL } else { Self(Some(text.into())) }
    }

    /// The JSON text.
    pub fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or("null")
    }

    /// Whether this is `null`.
    pub fn is_null(&self) -> bool {
        self.0.is_none()
    }

    /// Reads the value into a type of yours.
    pub fn to<T: DeserializeOwned>(&self) -> Result<T, PayloadError> {
        serde_json::from_str(self.as_str()).map_err(|error| PayloadError {
            pointer: self.misfit_of::<T>().unwrap_or_default(),
            detail: error.to_string(),
        })
    }

    /// Where it does not fit a type. To keep count of the place costs time, so that only what does
    /// not fit is read so.
    fn misfit_of<T: DeserializeOwned>(&self) -> Option<String> {
        let mut reader = serde_json::Deserializer::from_str(self.as_str());
        let error = serde_path_to_error::deserialize::<_, T>(&mut reader).err()?;
        Some(error.path().iter().map(token).collect())
    }

    /// The part that a JSON Pointer (RFC 6901) names, or `None` where there is none.
    /// The empty pointer is the whole value.
    ///
    /// ```
    /// use annals_tasks_sdk::Payload;
    /// let payload = Payload::parse(r#"{"a": [1, 20000000000000000000001]}"#)?;
    /// assert_eq!(payload.pointer("/a/1").unwrap().as_str(), "20000000000000000000001");
    /// assert!(payload.pointer("/b").is_none());
    /// # Ok::<(), annals_tasks_sdk::PayloadError>(())
    /// ```
    pub fn pointer(&self, pointer: &str) -> Option<Self> {
        crate::json::pointer(self.as_str(), pointer).map(Self::trusted)
    }

    /// The texts of its elements as they stand, where it is a list.
    ///
    /// ```
    /// # use annals_tasks_sdk::Payload;
    /// let list = Payload::parse("[1.50, [2]]").unwrap();
    /// assert_eq!(list.elements(), Some(vec!["1.50", "[2]"]));
    /// assert_eq!(Payload::NULL.elements(), None);
    /// ```
    pub fn elements(&self) -> Option<Vec<&str>> {
        match crate::json::level(self.as_str()) {
            Ok(crate::json::Level::Array(elements)) => Some(elements),
            _ => None,
        }
    }

    /// Whether both hold the same value: white space, the order of keys and the spelling of
    /// strings do not count, the digits of numbers do.
    pub fn same_value(&self, other: &Self) -> bool {
        self == other
            || crate::json::same_value(self.as_str(), other.as_str(), crate::json::same_text)
    }

    /// Whether both are equal as values: like [`Payload::same_value`], but numbers are compared by
    /// what they are, exactly, and not by their digits.
    ///
    /// ```
    /// # use annals_tasks_sdk::Payload;
    /// let value = |text| Payload::parse(text).unwrap();
    /// assert!(value("[1, 0.50]").equals(&value("[1.0, 5e-1]")));
    /// assert!(!value("9007199254740993").equals(&value("9007199254740992")));
    /// ```
    pub fn equals(&self, other: &Self) -> bool {
        self == other
            || crate::json::same_value(self.as_str(), other.as_str(), crate::json::same_number)
    }
}

impl Default for Payload {
    fn default() -> Self {
        Self::NULL
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// In JSON a payload is the value itself, so that it can stand in any answer as it is.
impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue =
            serde_json::from_str(self.as_str()).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <Box<RawValue>>::deserialize(deserializer)?;
        Self::parse(raw.get()).map_err(serde::de::Error::custom)
    }
}

/// Why a text is no payload, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{detail}{}", place(.pointer))]
pub struct PayloadError {
    /// JSON Pointer of the value that is at fault; empty for the whole.
    pub pointer: String,
    /// What is wrong, as a sentence.
    pub detail: String,
}

fn place(pointer: &str) -> String {
    if pointer.is_empty() { String::new() } else { format!(" (at {pointer})") }
}

/// A part of a path as one of a JSON Pointer.
fn token(part: &Segment) -> String {
    match part {
        Segment::Seq { index } => format!("/{index}"),
        Segment::Map { key } => format!("/{}", key.replace('~', "~0").replace('/', "~1")),
        // The variant of an enum is a key of the JSON, or stands in it.
        Segment::Enum { variant } => format!("/{variant}"),
        Segment::Unknown => String::new(),
    }
}

impl PayloadError {
    fn at_root(error: &serde_json::Error) -> Self {
        Self { pointer: String::new(), detail: error.to_string() }
    }
}
