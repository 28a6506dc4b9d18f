//! Named workflows: typed for those who write them, untyped for the engine that keeps them.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::input::Source;
use super::{Edge, Flow, Wire};
use crate::Payload;
use crate::plan::fault::Faults;
use crate::plan::{Limits, Plan, PlanError, PlanErrors};

/// The name of a workflow with the types of its input and output, declared once as a constant.
pub struct Workflow<I, O> {
    name: &'static str,
    types: PhantomData<fn(I) -> O>,
}

impl<I, O> Workflow<I, O> {
    /// Names a workflow. The plans it makes bear this name.
    pub const fn new(name: &'static str) -> Self {
        Self { name, types: PhantomData }
    }

    /// The name.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl<I, O> Clone for Workflow<I, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I, O> Copy for Workflow<I, O> {}

impl<I, O> fmt::Debug for Workflow<I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Workflow({:?})", self.name)
    }
}

/// A workflow function: `fn(&Flow, Wire<I>) -> Wire<O>`, which may also end in a `Step<'_, O>`.
/// A closure does as well where it names the types of its arguments.
pub trait WorkflowFn<I, O>: Send + Sync + 'static {
    /// Puts the plan together and gives the wire of the job's output.
    fn run(&self, flow: &Flow, input: Wire<I>) -> Wire<O>;
}

impl<I, O, F> WorkflowFn<I, O> for F
where
    F: for<'f> Ends<'f, I, O> + Send + Sync + 'static,
{
    fn run(&self, flow: &Flow, input: Wire<I>) -> Wire<O> {
        self.end(flow, input)
    }
}

/// What a function returns may borrow from its flow, which only a trait with that lifetime can
/// say of all functions at once.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no workflow from `{I}` to `{O}`",
    note = "a workflow is a `fn(&Flow, Wire<{I}>) -> Wire<{O}>`"
)]
pub trait Ends<'f, I, O> {
    /// Runs the function.
    fn end(&self, flow: &'f Flow, input: Wire<I>) -> Wire<O>;
}

impl<'f, I, O, F, R> Ends<'f, I, O> for F
where
    F: Fn(&'f Flow, Wire<I>) -> R,
    R: Edge<O>,
{
    fn end(&self, flow: &'f Flow, input: Wire<I>) -> Wire<O> {
        self(flow, input).wire()
    }
}

/// Why a workflow made no plan. Shown, it names the workflow and has a line for each fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the workflow `{workflow}` makes no valid plan:\n{errors}")]
pub struct FlowErrors {
    /// The workflow's name.
    pub workflow: Box<str>,
    /// The faults, with their places in the plan.
    pub errors: PlanErrors,
}

impl From<FlowErrors> for PlanErrors {
    fn from(error: FlowErrors) -> Self {
        error.errors
    }
}

/// Makes the plan of a job with this input.
///
/// The input must fit `I`. The limits on size are the engine's, and checked where it takes the
/// plan.
pub fn build_plan<I: DeserializeOwned, O>(
    workflow: Workflow<I, O>,
    function: impl WorkflowFn<I, O>,
    input: Payload,
) -> Result<Plan, FlowErrors> {
    let maker = Erased { workflow, function };
    maker.plan(input).map_err(|errors| FlowErrors { workflow: workflow.name.into(), errors })
}

/// A workflow whose types are hidden: what the engine keeps and asks for plans.
pub trait PlanMaker: Send + Sync {
    /// The workflow's name.
    fn name(&self) -> &str;

    /// The plan of a job with this input, which must fit the workflow.
    fn plan(&self, input: Payload) -> Result<Plan, PlanErrors>;

    /// Whether plans can be made at all, whatever the input: two tasks with one id are found
    /// here, before any job is submitted.
    fn check(&self) -> Result<(), PlanErrors> {
        Ok(())
    }
}

/// Hides the types of a workflow.
pub fn erase_workflow<I, O>(
    workflow: Workflow<I, O>,
    function: impl WorkflowFn<I, O>,
) -> Arc<dyn PlanMaker>
where
    I: DeserializeOwned + 'static,
    O: 'static,
{
    Arc::new(Erased { workflow, function })
}

struct Erased<I, O, F> {
    workflow: Workflow<I, O>,
    function: F,
}

impl<I, O, F> PlanMaker for Erased<I, O, F>
where
    I: DeserializeOwned,
    F: WorkflowFn<I, O>,
{
    fn name(&self) -> &str {
        self.workflow.name
    }

    fn plan(&self, input: Payload) -> Result<Plan, PlanErrors> {
        if let Err(error) = input.to::<I>() {
            let detail = format!("the input does not fit `{}`: {error}", self.workflow.name);
            return Err(PlanError { pointer: "/input".into(), detail }.into());
        }
        put_together(self.workflow.name, &self.function, input)
    }

    fn check(&self) -> Result<(), PlanErrors> {
        put_together(self.workflow.name, &self.function, Payload::NULL).map(drop)
    }
}

fn put_together<I, O>(
    name: &str,
    function: &impl WorkflowFn<I, O>,
    input: Payload,
) -> Result<Plan, PlanErrors> {
    let flow = Flow::default();
    let end = function.run(&flow, Wire { source: Source::Job, types: PhantomData });
    let mut faults = Faults::default();
    let plan = flow.0.borrow().plan(name, input, end.source, &mut faults);
    faults.finish()?;
    plan.check(&Limits::NONE)?;
    Ok(plan)
}
