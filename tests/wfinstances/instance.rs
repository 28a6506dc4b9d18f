//! The files under `tests/real/wfinstances`, as plans.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use annals_tasks_sdk::plan::{Plan, TaskSpec};
use annals_tasks_sdk::{Payload, TaskId};
use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

/// A workflow with what is known of it.
pub(crate) struct Instance {
    pub(crate) name: String,
    pub(crate) text: String,
    /// In the order of the file.
    pub(crate) steps: Vec<Step>,
    pub(crate) expected: Expected,
}

pub(crate) struct Step {
    pub(crate) id: String,
    pub(crate) parents: Vec<String>,
    pub(crate) seconds: f64,
    pub(crate) command: Box<RawValue>,
}

impl Instance {
    fn read(name: String, expected: Expected) -> Self {
        let text = std::fs::read_to_string(folder().join(&name)).unwrap();
        let file: File = serde_json::from_str(&text).unwrap();
        let Flow { specification, execution } = file.workflow;
        let mut executed: HashMap<String, Executed> =
            execution.tasks.into_iter().map(|task| (task.id.clone(), task)).collect();
        let steps = specification.tasks.into_iter().map(|Specified { id, parents }| {
            let Executed { seconds, command, .. } = executed.remove(&id).unwrap();
            Step { id, parents, seconds, command }
        });
        Self { steps: steps.collect(), name, text, expected }
    }

    /// The steps one after the other: always the first in the file of those that could be next.
    pub(crate) fn linear(&self) -> Vec<&Step> {
        let mut left: Vec<&Step> = self.steps.iter().collect();
        let mut taken: Vec<&Step> = Vec::new();
        while !left.is_empty() {
            let is_taken = |id: &String| taken.iter().any(|step| step.id == *id);
            let next = left.iter().position(|step| step.parents.iter().all(is_taken));
            taken.push(left.remove(next.expect("a graph has no cycle")));
        }
        taken
    }

    pub(crate) fn linear_ids(&self) -> Vec<&str> {
        self.linear().into_iter().map(|step| step.id.as_str()).collect()
    }

    pub(crate) fn chain(&self, task: impl Fn(&Step) -> TaskSpec) -> Plan {
        let mut plan = self.plan();
        plan.tasks = self.linear().into_iter().map(task).collect();
        plan
    }

    pub(crate) fn graph(&self, task: impl Fn(&Step) -> TaskSpec) -> Plan {
        let mut plan = self.plan();
        let tasks = self.steps.iter().map(|step| {
            let needs = step.parents.iter().map(|parent| TaskId::new(parent).unwrap());
            TaskSpec { needs: Some(needs.collect()), ..task(step) }
        });
        plan.tasks = tasks.collect();
        plan
    }

    fn plan(&self) -> Plan {
        let mut plan = Plan::new(&self.name);
        plan.input = Payload::of(&self.text).unwrap();
        plan
    }

    /// The longest way through the graph.
    pub(crate) fn critical_path(&self, time: impl Fn(&Step) -> Duration) -> Duration {
        self.spans(time).into_values().map(|span| span.end).max().unwrap_or_default()
    }

    /// Whether two steps would take time at once if each began as soon as its parents had ended.
    pub(crate) fn is_wide(&self, time: impl Fn(&Step) -> Duration) -> bool {
        let mut spans: Vec<Range<Duration>> = self.spans(time).into_values().collect();
        spans.retain(|span| !span.is_empty());
        spans.sort_unstable_by_key(|span| span.start);
        // If any two overlap, so do two neighbours.
        spans.windows(2).any(|pair| pair[1].start < pair[0].end)
    }

    /// When each step would run if it began as soon as its parents had ended.
    fn spans(&self, time: impl Fn(&Step) -> Duration) -> HashMap<&str, Range<Duration>> {
        let mut spans: HashMap<&str, Range<Duration>> = HashMap::new();
        for step in self.linear() {
            let parents = step.parents.iter().map(|parent| spans[parent.as_str()].end);
            let begin = parents.max().unwrap_or_default();
            spans.insert(&step.id, begin..begin + time(step));
        }
        spans
    }
}

/// All instances, checked against what an independent program found in them.
pub(crate) fn instances() -> Vec<Instance> {
    let expected = std::fs::read_to_string(folder().join("EXPECTED.json")).unwrap();
    let expected: BTreeMap<String, Expected> = serde_json::from_str(&expected).unwrap();
    assert_eq!(expected.len(), 12);
    let read = |(name, expected)| {
        let instance = Instance::read(name, expected);
        let order = instance.linear_ids().join("\n") + "\n";
        assert_eq!(
            hex(&Sha256::digest(order)),
            instance.expected.linear_order_sha256,
            "{}",
            instance.name
        );
        let longest = instance.steps.iter().map(|step| step.id.len()).max();
        assert_eq!(longest, Some(instance.expected.max_id_bytes), "{}", instance.name);
        assert_eq!(instance.steps.len(), instance.expected.tasks, "{}", instance.name);
        instance
    };
    expected.into_iter().map(read).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/real/wfinstances")
}

#[derive(Deserialize)]
pub(crate) struct Expected {
    tasks: usize,
    max_id_bytes: usize,
    pub(crate) sum_runtime_s: f64,
    pub(crate) longest_command_bytes: usize,
    linear_order_sha256: String,
}

#[derive(Deserialize)]
struct File {
    workflow: Flow,
}

#[derive(Deserialize)]
struct Flow {
    specification: Tasks<Specified>,
    execution: Tasks<Executed>,
}

#[derive(Deserialize)]
struct Tasks<T> {
    tasks: Vec<T>,
}

#[derive(Deserialize)]
struct Specified {
    id: String,
    parents: Vec<String>,
}

#[derive(Deserialize)]
struct Executed {
    id: String,
    #[serde(rename = "runtimeInSeconds")]
    seconds: f64,
    command: Box<RawValue>,
}
