//! What is wrong with a plan, and where.

use std::fmt;

/// More faults than this are not listed.
const LISTED_MAX: usize = 100;

/// One fault of a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{detail}", place(.pointer))]
pub struct PlanError {
    /// JSON Pointer into the plan as JSON: `/tasks/3/needs/0`; empty for the whole.
    pub pointer: String,
    /// What is wrong, as a sentence.
    pub detail: String,
}

fn place(pointer: &str) -> String {
    if pointer.is_empty() { String::new() } else { format!("{pointer}: ") }
}

/// All that is wrong with a plan, in the order of checking: never empty, at most 100.
/// Shown, it has a line for each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanErrors(pub Vec<PlanError>);

impl fmt::Display for PlanErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for PlanErrors {}

impl From<PlanError> for PlanErrors {
    fn from(error: PlanError) -> Self {
        Self(vec![error])
    }
}

/// Collects faults while a plan is read and checked.
#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<PlanError>);

impl Faults {
    pub(crate) fn add(&mut self, pointer: impl Into<String>, detail: impl Into<String>) {
        if !self.is_full() {
            self.0.push(PlanError { pointer: pointer.into(), detail: detail.into() });
        }
    }

    /// Whether more would not be listed, so that looking for them is wasted work.
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() >= LISTED_MAX
    }

    pub(crate) fn finish(self) -> Result<(), PlanErrors> {
        if self.0.is_empty() { Ok(()) } else { Err(PlanErrors(self.0)) }
    }
}
