//! Plans that are made and looked at, but not submitted.

use annals_tasks_sdk::plan::{Limits, Plan};
use annals_tasks_sdk::{Payload, near};

use super::engine::Engine;
use super::error::SubmitError;

impl Engine {
    /// The limits of plans and payloads.
    pub fn limits(&self) -> &Limits {
        &self.0.shared.settings.limits
    }

    /// The plan that a workflow, known by its name, makes of an input.
    pub fn plan_of(&self, workflow: &str, input: &Payload) -> Result<Plan, SubmitError> {
        let workflows = &self.0.shared.registry.workflows;
        let maker = workflows.get(workflow).ok_or_else(|| SubmitError::UnknownWorkflow {
            name: workflow.into(),
            hint: near::hint(workflow, workflows.keys().map(String::as_str)),
        })?;
        Ok(maker.plan(input.clone())?)
    }
}
