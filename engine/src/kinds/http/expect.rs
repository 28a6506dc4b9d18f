//! Which statuses are a success.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::fields::Fields;

/// Ranges of statuses, both ends included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Expect(Vec<(u16, u16)>);

impl Default for Expect {
    fn default() -> Self {
        Self(vec![(200, 299)])
    }
}

/// What may stand in `expect`, and in a list there.
#[derive(Deserialize)]
#[serde(untagged)]
enum Part {
    Number(u16),
    Text(String),
}

const WHAT: &str = "a status, a text such as \"200-299,404\", or a list of these";

impl Expect {
    pub(super) fn contains(&self, status: u16) -> bool {
        self.0.iter().any(|(first, last)| (*first..=*last).contains(&status))
    }

    /// Reads the field. References in a list are passed over while they are pending.
    pub(super) fn take(fields: &mut Fields<'_>) -> Self {
        let Some(raw) = fields.raw("expect") else { return Self::default() };
        let parts = if raw.starts_with('[') {
            serde_json::from_str::<Vec<&RawValue>>(raw).unwrap_or_default()
        } else {
            serde_json::from_str::<&RawValue>(raw).into_iter().collect()
        };
        if parts.is_empty() {
            fields.problem(&["expect"], format!("expect must be {WHAT}"));
        }
        let mut ranges = Vec::with_capacity(parts.len());
        for part in parts.into_iter().map(RawValue::get) {
            if fields.is_pending(part) {
                continue;
            }
            let read = match serde_json::from_str(part) {
                Ok(Part::Number(status)) => range(&status.to_string()).map(|range| vec![range]),
                Ok(Part::Text(text)) => text.split(',').map(range).collect(),
                Err(_) => Err(WHAT.to_owned()),
            };
            match read {
                Ok(read) => ranges.extend(read),
                Err(must) => fields.problem(&["expect"], format!("expect must be {must}")),
            }
        }
        Self(ranges)
    }
}

fn range(text: &str) -> Result<(u16, u16), String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range = (status(first)?, status(last)?);
    if range.0 > range.1 {
        return Err(format!("a range that begins before it ends, not {text:?}"));
    }
    Ok(range)
}

/// Those below 200 are on the way to an answer, and none themselves.
fn status(text: &str) -> Result<u16, String> {
    let text = text.trim();
    let digits = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
    let status = text.parse().ok().filter(|status| digits && (200..600).contains(status));
    status.ok_or_else(|| {
        let shown: String = text.chars().take(32).collect();
        format!("{WHAT}; {shown:?} is no status from 200 to 599")
    })
}
