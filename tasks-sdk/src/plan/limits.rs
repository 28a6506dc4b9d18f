//! How large a plan may be.

/// How large a plan may be. Each limit is a setting, and is named when it is hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Tasks in one plan.
    pub tasks: usize,
    /// Bytes of the whole plan as JSON.
    pub plan_bytes: usize,
    /// Bytes of each input, output and default as JSON.
    pub payload_bytes: usize,
    /// How many ancestors a child job may have.
    pub child_depth: usize,
    /// Instances of one task that is done for each element of a list.
    pub instances: usize,
}

impl Limits {
    /// No limits: for plans that are checked against the engine's limits later.
    pub const NONE: Self = Self {
        tasks: usize::MAX,
        plan_bytes: usize::MAX,
        payload_bytes: usize::MAX,
        child_depth: usize::MAX,
        instances: usize::MAX,
    };
}

impl Default for Limits {
    /// 10,000 tasks, 16 MiB a plan, 2 MiB a payload, children 16 deep, 10,000 instances of a task.
    fn default() -> Self {
        Self {
            tasks: 10_000,
            plan_bytes: 16 << 20,
            payload_bytes: 2 << 20,
            child_depth: 16,
            instances: 10_000,
        }
    }
}
