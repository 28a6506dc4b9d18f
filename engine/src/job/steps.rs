//! Steps that the attempts of a task have recorded, as long as the task is not settled.

use std::mem::size_of;
use std::sync::Arc;

use super::event::{TaskNumber, ValueDigest};
use super::state::{Job, Task};

/// A step whose result is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedStep {
    /// Its name, unique in its task.
    pub name: Box<str>,
    /// The event that says so, by which its result is found beside the record.
    pub seq: u64,
    /// The attempt that ran its code.
    pub attempt: u32,
    /// What the log proves about its result.
    pub value: ValueDigest,
}

/// The steps of a task, in the order in which they were recorded. Cloning is cheap.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Steps(Option<Arc<List>>);

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct List {
    steps: Vec<RecordedStep>,
    /// Indices into `steps` in the order of their names.
    names: Vec<u32>,
}

impl List {
    fn place(&self, name: &str) -> Result<usize, usize> {
        let name_of = |&at: &u32| &*self.steps[at as usize].name;
        self.names.binary_search_by(|at| name_of(at).cmp(name))
    }
}

impl Steps {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }

    /// All of them, in the order in which they were recorded.
    pub fn as_slice(&self) -> &[RecordedStep] {
        self.0.as_deref().map_or(&[], |list| &list.steps)
    }

    /// The one with this name.
    pub fn get(&self, name: &str) -> Option<&RecordedStep> {
        let list = self.0.as_deref()?;
        let place = list.place(name).ok()?;
        Some(&list.steps[list.names[place] as usize])
    }

    /// Takes one in whose name is new. Gives about how much memory it takes.
    pub(super) fn push(&mut self, step: RecordedStep) -> usize {
        let list = Arc::make_mut(self.0.get_or_insert_default());
        let bytes = size_of::<RecordedStep>() + size_of::<u32>() + step.name.len();
        if let Err(place) = list.place(&step.name) {
            list.names.insert(place, super::state::count(list.steps.len()));
            list.steps.push(step);
        }
        bytes
    }
}

impl Job {
    /// Takes in that an attempt has recorded a step.
    pub(super) fn step_recorded(
        &mut self,
        task: TaskNumber,
        attempt: u32,
        name: &str,
        value: ValueDigest,
    ) {
        let step = RecordedStep { name: name.into(), seq: self.seq, attempt, value };
        let mut bytes = 0;
        self.on(task, |task| bytes = task.steps.push(step));
        self.bytes += bytes;
    }
}

impl Task {
    /// The steps that its attempts have recorded. A settled task never runs again, and has none.
    pub fn steps(&self) -> &Steps {
        &self.steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_found_by_name_and_listed_in_their_order() {
        let mut steps = Steps::default();
        assert!(steps.is_empty() && steps.get("a").is_none());
        let value = ValueDigest { len: 1, hash: [0; 32] };
        for (name, seq) in [("m", 3), ("b", 4), ("z", 6), ("a", 9), ("b2", 10)] {
            steps.push(RecordedStep { name: name.into(), seq, attempt: 1, value });
        }
        let before = steps.clone();
        steps.push(RecordedStep { name: "c".into(), seq: 11, attempt: 2, value });
        let names = |steps: &Steps| -> Vec<String> {
            steps.as_slice().iter().map(|step| step.name.to_string()).collect()
        };
        assert_eq!(names(&before), ["m", "b", "z", "a", "b2"], "a copy stays as it was");
        assert_eq!(names(&steps), ["m", "b", "z", "a", "b2", "c"]);
        let seq = |name: &str| steps.get(name).map(|step| step.seq);
        assert_eq!(["a", "b", "b2", "c", "m", "z"].map(seq), [9, 4, 10, 11, 3, 6].map(Some));
        assert_eq!((seq(""), seq("b1"), seq("zz")), (None, None, None));
    }
}
