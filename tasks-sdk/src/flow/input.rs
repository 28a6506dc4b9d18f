//! What can be put into a task.

use serde::Serialize;

use super::{Flow, Payload, PayloadError, Step, Wire};

/// Where the data of a wire comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// The job's input.
    Job,
    /// The task that was added at this position.
    Task(usize),
    /// The task that was added at this position, or nothing where that gives nothing.
    Optional(usize),
    /// The value that was given at this position.
    Value(usize),
    /// The element that an instance of a task is for.
    Item,
}

/// The input of a task while the ids of the others are not settled.
pub struct Template(pub(super) Node);

pub(super) enum Node {
    Wire(Source),
    Tuple(Vec<Template>),
    Value(Result<Payload, PayloadError>),
    /// The workflow of a child job, and its input.
    Call(&'static str, Box<Template>),
}

mod sealed {
    pub trait Sealed {}
}

use sealed::Sealed;

/// What a task that takes a `T` can be given: a [`Wire`] or [`Step`] of `T`, a [`Value`] of it, or,
/// where `T` is a tuple, a tuple of these.
///
/// ```
/// # use annals_tasks_sdk::prelude::*;
/// const FETCH: TaskKind<String, Vec<u8>> = TaskKind::new("fetch");
/// const STORE: TaskKind<(Vec<u8>, String, u32), ()> = TaskKind::new("store");
///
/// fn mirror(flow: &Flow, url: Wire<String>) -> Wire<()> {
///     let bytes = flow.task(FETCH, url);
///     flow.task(STORE, (bytes, url, Value(3))).wire()
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not give the `{T}` that the task takes",
    label = "the task takes `{T}`",
    note = "a task that takes `{T}` is given a `Wire<{T}>`, a `Step<{T}>` or a `Value({T})`; \
            one that takes a tuple is given a tuple of these"
)]
pub trait Input<T>: Sealed {
    /// The input with the wires in it.
    #[doc(hidden)]
    fn template(self, flow: &Flow) -> Template;
}

/// A value that is known when the plan is made, as the input of a task or a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Value<T>(pub T);

impl<T> Sealed for Wire<T> {}
impl<T> Sealed for Step<'_, T> {}
impl<T> Sealed for Value<T> {}
impl Sealed for () {}

impl<T> Input<T> for Wire<T> {
    fn template(self, _flow: &Flow) -> Template {
        Template(Node::Wire(self.source))
    }
}

impl<T> Input<T> for Step<'_, T> {
    fn template(self, flow: &Flow) -> Template {
        self.wire().template(flow)
    }
}

impl<T: Serialize> Input<T> for Value<T> {
    fn template(self, _flow: &Flow) -> Template {
        Template(Node::Value(Payload::of(&self.0)))
    }
}

/// The input of a task that takes nothing.
impl Input<()> for () {
    fn template(self, _flow: &Flow) -> Template {
        Template(Node::Value(Ok(Payload::NULL)))
    }
}

macro_rules! tuple {
    ($($part:ident $type:ident),+) => {
        impl<$($part),+> Sealed for ($($part,)+) {}

        impl<$($part: Input<$type>, $type),+> Input<($($type,)+)> for ($($part,)+) {
            #[expect(non_snake_case, reason = "the parts are named as their types are")]
            fn template(self, flow: &Flow) -> Template {
                let ($($part,)+) = self;
                Template(Node::Tuple(vec![$($part.template(flow)),+]))
            }
        }
    };
}

tuple!(A TA, B TB);
tuple!(A TA, B TB, C TC);
tuple!(A TA, B TB, C TC, D TD);
tuple!(A TA, B TB, C TC, D TD, E TE);
tuple!(A TA, B TB, C TC, D TD, E TE, F TF);
tuple!(A TA, B TB, C TC, D TD, E TE, F TF, G TG);
tuple!(A TA, B TB, C TC, D TD, E TE, F TF, G TG, H TH);

/// A [`Wire`] or a [`Step`], where only the order counts ([`Step::after`]) or where either will
/// do (the end of a workflow).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no wire of `{T}`",
    note = "a `Wire<{T}>` or a `Step<{T}>` is expected here"
)]
pub trait Edge<T>: Input<T> {
    /// The wire.
    fn wire(self) -> Wire<T>;
}

impl<T> Edge<T> for Wire<T> {
    fn wire(self) -> Wire<T> {
        self
    }
}

impl<T> Edge<T> for Step<'_, T> {
    fn wire(self) -> Wire<T> {
        Step::wire(self)
    }
}
