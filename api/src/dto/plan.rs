//! What is submitted, described. It is read by `tasks-sdk`, which finds more than a shape can say.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// A submission: a plan, or the name of a workflow that makes one.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(untagged)]
pub enum SubmitBody {
    /// A plan.
    Plan(Plan),
    /// A workflow and its input.
    Workflow(WorkflowCall),
}

/// What a job is to do.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Plan {
    /// Free text for people, up to 256 characters.
    #[schema(min_length = 1, max_length = 256)]
    pub name: String,
    /// Free pairs to find jobs by.
    pub labels: Option<BTreeMap<String, String>>,
    /// What the tasks take with `{"$input": POINTER}`.
    pub input: Option<Value>,
    /// When the job starts; `now` where it is left out.
    pub start: Option<Start>,
    /// Of the jobs with the same key one runs at a time; the others wait in the order in which they
    /// started. A paused job keeps the key, and one that is opened again waits anew.
    #[schema(min_length = 1, max_length = 256)]
    pub exclusive: Option<String>,
    /// How long a run may take, time in which the job is paused not counted; then the job fails
    /// with `deadline_exceeded`. Written `48h`, `2h 30m` or `PT48H`.
    pub deadline: Option<String>,
    /// What the job gives, with references; the output of the last task that is not removed where
    /// it is left out.
    pub output: Option<Value>,
    /// The steps; each needs the one before it unless it says otherwise.
    #[schema(min_items = 1)]
    pub tasks: Vec<PlannedTask>,
    /// Whether the first failure that fails the job stops what runs and starts nothing more.
    pub fail_fast: Option<bool>,
    /// The ends before which what the tasks have done is undone, where they say how: the last that
    /// has completed first; `[cancelled]` where it is left out.
    #[schema(min_items = 1)]
    pub compensate_on: Option<Vec<CompensateOn>>,
    /// Steps that run at the end of each run, however it ends, when nothing else of it is alive.
    /// What becomes of them changes nothing of that end.
    pub finally: Option<Vec<PlannedTask>>,
}

/// A registered workflow, and what it makes a plan of.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct WorkflowCall {
    /// Its name.
    pub workflow: String,
    /// Its input, which must be of its type.
    pub input: Option<Value>,
    /// In place of the plan's name, which is that of the workflow.
    pub name: Option<String>,
    /// The job's labels.
    pub labels: Option<BTreeMap<String, String>>,
    /// When the job starts.
    pub start: Option<Start>,
    /// Of the jobs with the same key one runs at a time.
    pub exclusive: Option<String>,
    /// How long a run may take.
    pub deadline: Option<String>,
}

/// When a job starts: `now` (as soon as it is accepted), `manual` (when somebody executes it), or a
/// time such as `2030-01-31T08:00:00Z`, at once where that has passed.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(pattern = r"^(now|manual|[0-9]{4}-[0-9]{2}-[0-9]{2}[T ].+)$")]
pub struct Start(pub String);

/// One step of a plan. Durations are written `30s`, `2h 30m` or `PT1H30M`.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct PlannedTask {
    /// Unique in the plan.
    #[schema(pattern = "^[A-Za-z0-9_][A-Za-z0-9_.:()+@-]{0,127}$")]
    pub id: String,
    /// Free text for people.
    pub title: Option<String>,
    /// Which implementation runs it.
    #[schema(pattern = "^[A-Za-z0-9_][A-Za-z0-9_.:()+@-]{0,127}$")]
    pub kind: String,
    /// What that is given, with references to earlier results: `{"$output": TASK}`.
    pub input: Option<Value>,
    /// The tasks that must be settled first; the one before it where it is left out.
    pub needs: Option<Vec<String>>,
    /// Whether it runs when its turn has come, or is skipped: `{"$output": TASK}` or
    /// `{"$input": POINTER}`, which run it if true, each also with `equals` or `in`;
    /// `{"task": TASK, "status": [WORD, ...]}`, or in `finally` `{"status": [WORD, ...]}`.
    pub when: Option<Value>,
    /// A list, or a reference to one: the task is done for each of its elements, which is
    /// `{"$item": POINTER}` in its input.
    pub for_each: Option<Value>,
    /// How many of its instances may have begun and not be over at a time.
    #[schema(minimum = 1)]
    pub concurrency: Option<u32>,
    /// How long one attempt may take.
    pub timeout: Option<String>,
    /// How long nothing may be heard of an attempt: no output, no progress, no checkpoint, no
    /// recorded step.
    pub heartbeat_timeout: Option<String>,
    /// How long an attempt may take to end once it is told to stop; 10 s where it is left out.
    pub cancel_grace: Option<String>,
    /// Whether and when a failed attempt is followed by another.
    pub retry: Option<Retry>,
    /// What a failure of the task, after its last attempt, means for the job.
    pub on_failure: Option<OnFailure>,
    /// What happens after the engine died while the task ran.
    pub on_lost: Option<OnLost>,
    /// How what it has done is undone.
    pub compensate: Option<Compensation>,
}

/// Fields of a task that are replaced, each whole; `null` takes one back to what it is when it is
/// left out.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct TaskPatch {
    /// Free text for people.
    pub title: Option<String>,
    /// Which implementation runs it.
    #[schema(pattern = "^[A-Za-z0-9_][A-Za-z0-9_.:()+@-]{0,127}$")]
    pub kind: Option<String>,
    /// What that is given, with references to earlier results: `{"$output": TASK}`.
    pub input: Option<Value>,
    /// The tasks that must be settled first; `null` is the one before it.
    pub needs: Option<Vec<String>>,
    /// Whether it runs when its turn has come, or is skipped; `null` runs it.
    pub when: Option<Value>,
    /// A list, or a reference to one, for each element of which the task is done; it stays what it
    /// is once the task has become its instances.
    pub for_each: Option<Value>,
    /// How many of its instances may have begun and not be over at a time.
    #[schema(minimum = 1)]
    pub concurrency: Option<u32>,
    /// How long one attempt may take.
    pub timeout: Option<String>,
    /// For how long an attempt may give no sign of life.
    pub heartbeat_timeout: Option<String>,
    /// How long an attempt may take to end once it is told to stop.
    pub cancel_grace: Option<String>,
    /// Whether and when a failed attempt is followed by another.
    pub retry: Option<Retry>,
    /// What a failure of the task, after its last attempt, means for the job.
    pub on_failure: Option<OnFailure>,
    /// What happens after the engine died while the task ran.
    pub on_lost: Option<OnLost>,
    /// How what it has done is undone.
    pub compensate: Option<Compensation>,
}

/// How what a task has done is undone: by a task that has its id with `~undo` behind it.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Compensation {
    /// Free text for people.
    pub title: Option<String>,
    /// Which implementation undoes it.
    #[schema(pattern = "^[A-Za-z0-9_][A-Za-z0-9_.:()+@-]{0,127}$")]
    pub kind: String,
    /// What that is given, with references: to the output of the task that is undone; to those of
    /// others with a default.
    pub input: Option<Value>,
    /// How long one attempt may take.
    pub timeout: Option<String>,
    /// For how long an attempt may give no sign of life.
    pub heartbeat_timeout: Option<String>,
    /// How long an attempt may take to end once it is told to stop.
    pub cancel_grace: Option<String>,
    /// Whether and when a failed attempt is followed by another.
    pub retry: Option<Retry>,
    /// What happens after the engine died while it ran; not `pause`.
    pub on_lost: Option<OnLost>,
}

/// An end of a run before which what was done may be undone.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CompensateOn {
    /// It fails.
    Failed,
    /// It is cancelled.
    Cancelled,
}

/// Whether and when a failed attempt is followed by another.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Retry {
    /// How many attempts may fail, the first included.
    #[schema(minimum = 1)]
    pub max_attempts: Option<u32>,
    /// No attempt starts when this much has passed since the first one started.
    pub max_elapsed: Option<String>,
    /// How long to wait before the next attempt.
    pub backoff: Option<Backoff>,
    /// Codes of errors after which there is no other attempt.
    pub never: Option<Vec<String>>,
}

/// How long to wait before the next attempt.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Backoff {
    /// Before the second attempt.
    pub initial: Option<String>,
    /// Times what the wait before it was.
    pub factor: Option<f64>,
    /// The longest wait.
    pub max: Option<String>,
    /// By what share a wait is varied at random.
    pub jitter: Option<f64>,
}

/// What a failure of a task means for its job.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// It fails, when nothing else can go on.
    Fail,
    /// Nothing: those that need the task go on.
    Continue,
    /// It is paused.
    Pause,
}

/// What the engine's death means for a task that ran.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnLost {
    /// It runs again.
    Rerun,
    /// It fails.
    Fail,
    /// Its job is paused.
    Pause,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use annals_tasks_sdk::plan::Limits;
    use utoipa::PartialSchema;
    use utoipa::openapi::RefOr;
    use utoipa::openapi::schema::Schema;

    use super::*;

    /// A plan that says everything, in a value that is not the default.
    const WHOLE: &str = r#"{"name": "all", "labels": {"a": "b"}, "input": 1, "start": "manual",
        "exclusive": "host/web-42", "deadline": "2d",
        "fail_fast": true, "compensate_on": ["failed"], "finally": [{"id": "end", "kind": "noop"}],
        "output": {"$output": "one"}, "tasks": [
        {"id": "one", "title": "One", "kind": "noop", "input": 2, "needs": [], "timeout": "1m",
         "when": {"$input": ""}, "for_each": [1], "concurrency": 2,
         "heartbeat_timeout": "5s", "cancel_grace": "1s", "on_failure": "pause", "on_lost": "fail",
         "compensate": {"title": "Undo", "kind": "noop", "input": 3, "timeout": "1m",
            "heartbeat_timeout": "5s", "cancel_grace": "1s", "on_lost": "fail",
            "retry": {"max_attempts": 2}},
         "retry": {"max_attempts": 3, "max_elapsed": "1h", "never": ["bad"],
                   "backoff": {"initial": "2s", "factor": 3, "max": "1m", "jitter": 0.5}}}]}"#;

    #[track_caller]
    fn check<T: PartialSchema>(value: &Value) {
        let RefOr::T(Schema::Object(described)) = T::schema() else { panic!("not an object") };
        let described: BTreeSet<String> = described.properties.keys().cloned().collect();
        let said: BTreeSet<String> =
            value.as_object().expect("an object").keys().cloned().collect();
        assert_eq!(described, said);
    }

    #[test]
    fn plans_are_described_as_they_are_read_and_written() {
        let plan = annals_tasks_sdk::plan::Plan::from_json(WHOLE, &Limits::default()).unwrap();
        let written: Value = serde_json::from_str(plan.to_json().as_str()).unwrap();
        check::<Plan>(&written);
        let task = &written["tasks"][0];
        check::<PlannedTask>(task);
        let mut patch = task.clone();
        let id = patch.as_object_mut().and_then(|fields| fields.remove("id"));
        assert!(id.is_some());
        check::<TaskPatch>(&patch);
        check::<Compensation>(&task["compensate"]);
        check::<Retry>(&task["retry"]);
        check::<Backoff>(&task["retry"]["backoff"]);
    }
}
