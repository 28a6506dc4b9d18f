//! Ids by their beginnings.

use std::fmt;
use std::str::FromStr;

use annals_tasks_sdk::JobId;

/// The digits of an id, and where its dashes stand.
const DIGITS: usize = 32;
const DASHES: [usize; 4] = [8, 13, 18, 23];

/// The beginning of a job's id, as people type it: some of its digits, from the first on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beginning {
    digits: String,
}

/// What no id begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an id begins with digits of a UUID, as in 0197f0c2-7b3e")]
pub struct NoBeginning;

impl FromStr for Beginning {
    type Err = NoBeginning;

    fn from_str(text: &str) -> Result<Self, NoBeginning> {
        // Who leaves out all dashes means the same; who sets one elsewhere does not mean an id.
        let dashes = text.char_indices().filter(|(_, c)| *c == '-').map(|(at, _)| at);
        let set = dashes.eq(DASHES.into_iter().filter(|at| *at < text.len()));
        let dashes_fit = set || !text.contains('-');
        let digits: String = text.chars().filter(|c| *c != '-').collect();
        let is_hex = digits.chars().all(|c| c.is_ascii_hexdigit());
        let length = (1..=DIGITS).contains(&digits.len());
        if !is_hex || !length || !dashes_fit {
            return Err(NoBeginning);
        }
        Ok(Self { digits: digits.to_ascii_lowercase() })
    }
}

impl Beginning {
    /// The first and the last id that begins so: ids sort as numbers, so all others lie between.
    pub fn span(&self) -> (JobId, JobId) {
        let filled = |digit: &str| {
            let text = format!("{}{}", self.digits, digit.repeat(DIGITS - self.digits.len()));
            // Digits, and not too many, are a number.
            JobId::from_u128(u128::from_str_radix(&text, 16).unwrap_or_default())
        };
        (filled("0"), filled("f"))
    }

    /// Whether an id begins so.
    pub fn holds(&self, id: JobId) -> bool {
        let (first, last) = self.span();
        (first..=last).contains(&id)
    }
}

/// Without dashes.
impl fmt::Display for Beginning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.digits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_begins_with_each_of_its_parts() {
        let id = "0197f0c2-7b3e-7c11-9f0e-1d2c3b4a5968";
        let job: JobId = id.parse().unwrap();
        let other: JobId = "0197f0c2-7b3e-7c11-9f0e-1d2c3b4a5969".parse().unwrap();
        for end in 1..=id.len() {
            for text in [id[..end].to_owned(), id[..end].replace('-', ""), id[..end].to_uppercase()]
            {
                let beginning: Beginning = text.parse().unwrap();
                assert!(beginning.holds(job), "{text}");
                assert_eq!(beginning.holds(other), end < id.len(), "{text}");
                assert_eq!(beginning.to_string().parse(), Ok(beginning), "{text}");
            }
        }
        assert!(!"0198".parse::<Beginning>().unwrap().holds(job));
    }

    #[test]
    fn what_no_id_begins_with_is_refused() {
        let long = "0197f0c2-7b3e-7c11-9f0e-1d2c3b4a59680";
        for text in ["", "-", "x", "01 97", "0-197", "0197f0c27-b3e", "ü", long] {
            assert_eq!(text.parse::<Beginning>(), Err(NoBeginning), "{text}");
        }
    }
}
