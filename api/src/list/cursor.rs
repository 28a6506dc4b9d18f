//! Where a list goes on.

use annals_tasks_sdk::JobId;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::filter::Filter;

/// Where a list goes on: behind a job. It holds for the filter that it came with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// The last job that was looked at.
    pub behind: JobId,
}

/// A cursor that cannot be followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadCursor {
    /// It is none.
    #[error("the cursor is none: give back `next_cursor` as it came, or begin without one")]
    Garbage,
    /// It came with another filter.
    #[error("the cursor is of a list with another filter: begin without one")]
    OtherFilter,
}

const ID: usize = 16;
const LENGTH: usize = ID + 8;

impl Cursor {
    /// As clients are given it.
    pub fn to_text(self, filter: &Filter) -> String {
        let mut bytes = [0; LENGTH];
        bytes[..ID].copy_from_slice(&self.behind.as_u128().to_be_bytes());
        bytes[ID..].copy_from_slice(&digest(filter).to_be_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Reads what a client gives back.
    pub fn read(text: &str, filter: &Filter) -> Result<Self, BadCursor> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| BadCursor::Garbage)?;
        let bytes: [u8; LENGTH] = bytes.try_into().map_err(|_| BadCursor::Garbage)?;
        let (id, hash) = bytes.split_at(ID);
        if hash != digest(filter).to_be_bytes() {
            return Err(BadCursor::OtherFilter);
        }
        let id: [u8; ID] = id.try_into().map_err(|_| BadCursor::Garbage)?;
        Ok(Self { behind: JobId::from_u128(u128::from_be_bytes(id)) })
    }
}

/// A number that filters which differ hardly share: FNV-1a. It guards against mistakes alone:
/// whoever makes a cursor by hand gets a list that begins there.
fn digest(filter: &Filter) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut eat = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for (name, value) in filter.parts() {
        eat(name.as_bytes());
        // Lengths keep parts apart that share their bytes.
        eat(&(value.len() as u64).to_be_bytes());
        eat(value.as_bytes());
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(parts: &[(&str, &str)]) -> Filter {
        let mut filter = Filter::default();
        for (name, value) in parts {
            filter.add(name, value).unwrap();
        }
        filter
    }

    #[test]
    fn a_cursor_holds_for_its_filter_alone() {
        let filters = [
            filter(&[]),
            filter(&[("status", "failed")]),
            filter(&[("label", "a:b"), ("label", "c:d")]),
            filter(&[("label", "a:b")]),
            filter(&[("text", "a")]),
            filter(&[("workflow", "a")]),
        ];
        let cursor = Cursor { behind: JobId::from_u128(0x0197_0000_1234) };
        for (at, one) in filters.iter().enumerate() {
            let text = cursor.to_text(one);
            for (other, filter) in filters.iter().enumerate() {
                let expected = if at == other { Ok(cursor) } else { Err(BadCursor::OtherFilter) };
                assert_eq!(Cursor::read(&text, filter), expected, "{at} {other}");
            }
        }
        let order = filter(&[("label", "c:d"), ("label", "a:b"), ("label", "a:b")]);
        assert_eq!(Cursor::read(&cursor.to_text(&filters[2]), &order), Ok(cursor));
    }

    #[test]
    fn garbage_is_no_cursor() {
        let none = filter(&[]);
        let text = Cursor { behind: JobId::from_u128(7) }.to_text(&none);
        for garbage in
            ["", "7", "AAAA", &text[1..], &format!("{text}A"), "ü", "a b", &"A".repeat(99)]
        {
            assert_eq!(Cursor::read(garbage, &none), Err(BadCursor::Garbage), "{garbage}");
        }
    }
}
