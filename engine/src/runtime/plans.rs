//! Plans that are made and looked at, but not submitted.

use annals_tasks_sdk::plan::{Limits, Plan};
use annals_tasks_sdk::{Payload, near};

use super::builder::Builder;
use super::engine::{Engine, Shared};
use super::error::{CheckError, SubmitError};
use crate::kinds::shell::Shell;

impl Builder {
    /// Finds what the engine that this would start would refuse of a plan; see
    /// [`Engine::check`]. Nothing is started, made or written: there need be no store.
    ///
    /// ```
    /// use annals_engine::Engine;
    /// use annals_tasks_sdk::plan::{Limits, Plan};
    /// let plan = r#"{"name": "p", "tasks": [{"id": "a", "kind": "noop"}]}"#;
    /// let plan = Plan::from_json(plan, &Limits::default())?;
    /// Engine::open("/nowhere").check(&plan)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check(&self, plan: &Plan) -> Result<(), CheckError> {
        self.check_itself()?;
        let registry = self.kinds(Shell::unprepared)?;
        registry.check(plan, self.allow_unknown_kinds)?;
        Ok(plan.check(&self.limits)?)
    }
}

impl Engine {
    /// The limits of plans and payloads.
    pub fn limits(&self) -> &Limits {
        &self.0.shared.settings.limits
    }

    /// The plan that a workflow, known by its name, makes of an input.
    pub fn plan_of(&self, workflow: &str, input: &Payload) -> Result<Plan, SubmitError> {
        self.0.shared.plan_of(workflow, input)
    }
}

impl Shared {
    /// The plan that a workflow, known by its name, makes of an input.
    pub(super) fn plan_of(&self, workflow: &str, input: &Payload) -> Result<Plan, SubmitError> {
        let workflows = &self.registry.workflows;
        let maker = workflows.get(workflow).ok_or_else(|| SubmitError::UnknownWorkflow {
            name: workflow.into(),
            hint: near::hint(workflow, workflows.keys().map(String::as_str)),
        })?;
        Ok(maker.plan(input.clone())?)
    }
}
