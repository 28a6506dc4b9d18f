//! Successes: which tasks of a job have succeeded, for the laws.

use super::laws::Law;
use crate::job::TaskNumber;

/// The tasks that have succeeded, a bit for each number.
#[derive(Debug, Default)]
pub(super) struct Successes {
    first: u64,
    /// Of tasks from number 64 on.
    more: Box<[u64]>,
}

impl Successes {
    /// Adds a task, which must not be there.
    pub(super) fn add(&mut self, TaskNumber(task): TaskNumber) -> Result<(), Law> {
        let (word, bit) = (task as usize / 64, 1 << (task % 64));
        let bits = match word.checked_sub(1) {
            None => &mut self.first,
            Some(place) => {
                if place >= self.more.len() {
                    self.grow(place + 1);
                }
                &mut self.more[place]
            }
        };
        let is_news = *bits & bit == 0;
        *bits |= bit;
        if is_news { Ok(()) } else { Err(Law::OneSuccess) }
    }

    /// Makes room for so many words, and as many again: tasks succeed one after the other.
    fn grow(&mut self, words: usize) {
        let mut more = std::mem::take(&mut self.more).into_vec();
        more.resize(2 * words, 0);
        self.more = more.into_boxed_slice();
    }
}
