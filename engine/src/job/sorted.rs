//! Small sets in their order.

use std::collections::VecDeque;
use std::collections::vec_deque::Iter;

/// Room that is given back when nothing is left to fill it.
const KEPT: usize = 64;

/// A set in its order, for values of which there mostly are one or two, and which come at the back
/// and leave at the front.
///
/// Such a set keeps its room, so that a chain of tasks that become ready one after the other needs
/// no new memory for each. Of thousands of values one in the middle costs the move of half of them,
/// which is little beside what else happens to a task.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sorted<T>(VecDeque<T>);

impl<T> Default for Sorted<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T: Ord> Sorted<T> {
    /// Adds a value, if it is not there.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn insert(&mut self, value: T) {
        match self.0.back() {
            Some(last) if *last >= value => {
                if let Err(place) = self.0.binary_search(&value) {
                    self.0.insert(place, value);
                }
            }
            _ => self.0.push_back(value),
        }
    }

    /// Takes a value away, if it is there.
    pub(super) fn remove(&mut self, value: &T) {
        if let Ok(place) = self.0.binary_search(value) {
            self.0.remove(place);
            if self.0.is_empty() && self.0.capacity() > KEPT {
                self.0 = VecDeque::new();
            }
        }
    }

    pub(super) fn contains(&self, value: &T) -> bool {
        self.0.binary_search(value).is_ok()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn first(&self) -> Option<&T> {
        self.0.front()
    }

    pub(super) fn iter(&self) -> Iter<'_, T> {
        self.0.iter()
    }
}

impl<'a, T: Ord> IntoIterator for &'a Sorted<T> {
    type Item = &'a T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn it_is_as_a_tree_would_be() {
        let (mut sorted, mut tree) = (Sorted::default(), BTreeSet::new());
        let mut mixed = 7_u32;
        for _ in 0..20_000 {
            mixed = mixed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let value = mixed >> 16 & 0xff;
            if mixed >> 24 < 120 {
                sorted.insert(value);
                tree.insert(value);
            } else {
                sorted.remove(&value);
                tree.remove(&value);
            }
            assert!(sorted.iter().eq(&tree));
            assert_eq!(sorted.first(), tree.first());
            assert_eq!(sorted.contains(&value), tree.contains(&value));
            assert_eq!(sorted.is_empty(), tree.is_empty());
        }
    }

    #[test]
    fn a_set_that_was_large_gives_its_room_back() {
        let mut sorted = Sorted::default();
        (0..10_000).for_each(|value| sorted.insert(value));
        (0..10_000).for_each(|value| sorted.remove(&value));
        assert_eq!(sorted.0.capacity(), 0);
        sorted.insert(1);
        sorted.remove(&1);
        assert!(sorted.0.capacity() > 0, "a small one keeps it");
    }
}
