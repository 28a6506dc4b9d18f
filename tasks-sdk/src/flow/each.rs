//! Fan-out in Rust: a task for each element of a list.

use std::marker::PhantomData;

use super::build::Part;
use super::input::Source;
use super::{Flow, Input, Step, Wire};
use crate::TaskKind;

impl Flow {
    /// Adds a task that is done for each element of a list: an instance for each, as many at a time
    /// as [`Step::concurrency`] says. It gives the list of what they gave, in the order of the
    /// elements.
    ///
    /// ```
    /// use annals_tasks_sdk::{Payload, flow, prelude::*};
    ///
    /// const PAGES: TaskKind<String, Vec<String>> = TaskKind::new("pages");
    /// const SCAN: TaskKind<String, u64> = TaskKind::new("scan");
    /// const SUM: TaskKind<Vec<u64>, u64> = TaskKind::new("sum");
    /// const COUNT: Workflow<String, u64> = Workflow::new("count");
    ///
    /// fn count(flow: &Flow, book: Wire<String>) -> Wire<u64> {
    ///     let pages = flow.task(PAGES, book);
    ///     let words = flow.each(SCAN, pages).concurrency(8).attempts(3);
    ///     flow.task(SUM, words).wire()
    /// }
    ///
    /// let plan = flow::build_plan(COUNT, count, Payload::of(&"emma")?)?;
    /// let each = plan.tasks[1].for_each.as_ref().unwrap();
    /// assert_eq!(each.items.as_str(), r#"{"$output":"pages"}"#);
    /// assert_eq!(plan.tasks[1].input.as_str(), r#"{"$item":""}"#);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// What is no list of what the task takes does not compile:
    ///
    /// ```compile_fail,E0277
    /// # use annals_tasks_sdk::prelude::*;
    /// const SCAN: TaskKind<String, u64> = TaskKind::new("scan");
    ///
    /// fn wrong(flow: &Flow, pages: Wire<Vec<u64>>) -> Wire<Vec<u64>> {
    ///     flow.each(SCAN, pages).wire()
    /// }
    /// ```
    pub fn each<I, O>(&self, kind: TaskKind<I, O>, list: impl Input<Vec<I>>) -> Step<'_, Vec<O>> {
        self.each_with(kind, list, |item| item)
    }

    /// The same for a task that takes more than the element: `input` is given the wire of that, and
    /// makes the whole of it.
    ///
    /// ```
    /// # use annals_tasks_sdk::{Payload, flow, prelude::*};
    /// const SEND: TaskKind<(String, String), ()> = TaskKind::new("send");
    /// const TELL: Workflow<String, Vec<()>> = Workflow::new("tell");
    ///
    /// fn tell(flow: &Flow, text: Wire<String>) -> Wire<Vec<()>> {
    ///     let all = vec!["ada".to_owned(), "bob".to_owned()];
    ///     flow.each_with(SEND, Value(all), |one| (one, text)).wire()
    /// }
    ///
    /// let plan = flow::build_plan(TELL, tell, Payload::of(&"hello")?)?;
    /// assert_eq!(plan.tasks[0].input.as_str(), r#"[{"$item":""},{"$input":""}]"#);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn each_with<E, I, O, N: Input<I>>(
        &self,
        kind: TaskKind<I, O>,
        list: impl Input<Vec<E>>,
        input: impl FnOnce(Wire<E>) -> N,
    ) -> Step<'_, Vec<O>> {
        let list = list.template(self);
        let item = Wire { source: Source::Item, types: PhantomData };
        let step = self.add(kind, input(item), Part::Tasks);
        self.0.borrow_mut().tasks[step.index].each = Some(list);
        Step { flow: self, index: step.index, types: PhantomData }
    }
}

impl<T> Step<'_, Vec<T>> {
    /// How many instances of what [`Flow::each`] has added may have begun and not be over at a
    /// time, those included that wait for their next attempt; all of them where nothing is said.
    pub fn concurrency(self, count: u32) -> Self {
        self.flow.0.borrow_mut().tasks[self.index].concurrency = Some(count);
        self
    }

    /// The wire of the list where instances may give nothing: because an operator has skipped them,
    /// or they have failed and the plan goes on. For these it carries `None`.
    pub fn each_optional(self) -> Wire<Vec<Option<T>>> {
        Wire { source: Source::Task(self.index), types: PhantomData }
    }
}
