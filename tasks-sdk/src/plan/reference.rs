//! References: the places in a template where data is to be put in.

use crate::{Payload, PayloadError, TaskId};

/// What stands in a template in place of a value.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Reference {
    /// `{"$output": TASK, "pointer": POINTER, "default": VALUE}`: a task's output or a part of it.
    Output {
        /// Whose output.
        task: TaskId,
        /// JSON Pointer into it; empty for the whole.
        pointer: Box<str>,
        /// What to take where there is none.
        default: Option<Payload>,
    },
    /// `{"$input": POINTER, "default": VALUE}`: the job's input or a part of it.
    Input {
        /// JSON Pointer into it; empty for the whole.
        pointer: Box<str>,
        /// What to take where there is none.
        default: Option<Payload>,
    },
}

/// A reference and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// JSON Pointer of the reference in its template.
    pub pointer: String,
    /// The reference.
    pub reference: Reference,
}

/// Lists the references of a template, and every object that looks like one and is none.
///
/// An object with a key that begins with `$` is a reference or an error;
/// `{"$literal": VALUE}` stands for `VALUE` as it is.
pub fn references(template: &Payload) -> Result<Vec<Found>, Vec<PayloadError>> {
    let _ = template;
    todo!()
}

/// Puts values in the places of references.
///
/// `find` gives the whole output or input that a reference names, if there is one. Where it, or
/// the part that the pointer names, is missing, the reference's default is taken; without one
/// the reference is given back as the error.
pub fn resolve(
    template: &Payload,
    find: impl Fn(&Reference) -> Option<Payload>,
) -> Result<Payload, Box<Found>> {
    let _ = (template, find);
    todo!()
}
