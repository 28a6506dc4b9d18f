//! One or more samples of every event that the log can hold.

use std::sync::Arc;
use std::time::Duration;

use annals_tasks_sdk::plan::{
    Backoff, Compensation, Condition, ForEach, JobEnd, OnFailure, OnLost, Plan, Policy,
    PolicyFields, Reference, Retry, Start, TaskEnd, TaskSpec, Test,
};
use annals_tasks_sdk::{Exit, JobId, KindName, Payload, SignalName, TaskId, Timestamp};

use crate::job::{
    AttemptEnd, CancelMode, ChildEnd, Event, Failure, ForkedFrom, Intent, JobStatus, LogSize,
    Origin, Parent, Part, PauseMode, Purged, SkippedBy, Submitted, TaskNumber, Tombstone,
    ValueDigest, Wait,
};
use crate::log::{Head, JobRow, Position};

const TASK: TaskNumber = TaskNumber(3);

fn payload(text: &str) -> Payload {
    Payload::parse(text).unwrap()
}

fn failure() -> Failure {
    Failure::new("exit_status", "exit code 100: no such package – nginx")
}

/// A plan in which nothing has its default.
fn full_plan() -> Plan {
    let mut first =
        TaskSpec::new(TaskId::new("packages").unwrap(), KindName::new("shell").unwrap());
    first.title = Some("Install packages".into());
    first.input = payload(r#"{"script":"apt-get install -y nginx","n":1e400}"#);
    first.needs = Some(Box::new([]));
    first.policy = Policy::new(PolicyFields {
        timeout: Some(Duration::from_mins(30)),
        heartbeat_timeout: Some(Duration::from_mins(5)),
        cancel_grace: Some(Duration::from_millis(1500)),
        retry: Retry {
            max_attempts: 3,
            max_elapsed: Some(Duration::from_hours(1)),
            backoff: Backoff {
                initial: Duration::from_millis(250),
                factor: 1.5,
                max: Duration::from_secs(30),
                jitter: 0.1,
            },
            never: vec!["exit_2".into(), "bad_request".into()],
        },
        on_failure: OnFailure::Continue,
        on_lost: OnLost::Pause,
    });
    let mut second = TaskSpec::new(TaskId::new("report").unwrap(), KindName::new("http").unwrap());
    second.needs = Some(Box::new([first.id.clone()]));
    let policy =
        PolicyFields { on_failure: OnFailure::Pause, on_lost: OnLost::Fail, ..<_>::default() };
    second.policy = Policy::new(policy);
    let third = TaskSpec::new(TaskId::new("end").unwrap(), KindName::new("noop").unwrap());
    let mut plan = Plan::new("init web-42");
    plan.labels = [("env".into(), "prod".into()), ("a".into(), "b".into())].into();
    plan.input = payload(r#"{"host": "web-42"}"#);
    plan.start = Start::Manual;
    plan.deadline = Some(Duration::from_hours(48));
    plan.output = Some(payload(r#"{"$output":"report"}"#));
    plan.tasks = vec![first, second, third];
    plan
}

fn end() -> AttemptEnd {
    AttemptEnd {
        error: failure(),
        retryable: true,
        exit: Exit { code: Some(-1), signal: Some("SIGKILL".into()) },
        output: Some(payload(r#"{"exit_code":100}"#)),
        log: LogSize { bytes: 70_000, lines: 300 },
    }
}

fn bare_end() -> AttemptEnd {
    AttemptEnd {
        error: Failure::new("error", ""),
        retryable: false,
        exit: Exit::default(),
        output: None,
        log: LogSize::default(),
    }
}

/// Every event, with every variant of what is in it.
pub(super) fn events() -> Vec<Event> {
    let mut events = job_events();
    events.extend(attempt_events());
    events.extend(task_events());
    events.extend(child_events());
    events
}

fn job_events() -> Vec<Event> {
    let submitted = |plan, workflow: Option<&str>, source: Option<&str>| {
        let (workflow, source) = (workflow.map(Into::into), source.map(Into::into));
        Event::JobSubmitted(Box::new(Submitted { plan, workflow, source }))
    };
    let forked = |task, copied| Event::JobForked {
        job: JobId::from_u128(0x0197_f0c2_7b3e_7c11_9f0e_1d2c_3b4a_5968),
        seq: 70_000,
        task,
        copied,
    };
    let noop = TaskSpec::new(TaskId::new("a").unwrap(), KindName::new("noop").unwrap());
    let mut small = Plan::new("");
    small.tasks = vec![noop];
    vec![
        submitted(full_plan(), Some("server-init"), Some("/srv/plans/init.yaml")),
        submitted(small.clone(), None, None),
        submitted(Plan { exclusive: Some("host/web-42".into()), ..small.clone() }, None, None),
        submitted(
            Plan { start: Start::At(Timestamp::from_millis(70_000)), ..small.clone() },
            None,
            None,
        ),
        submitted(conditional(small.clone()), None, None),
        submitted(for_each(small.clone()), None, None),
        submitted(compensated(small), None, None),
        Event::JobStarted,
        Event::PauseRequested { mode: PauseMode::Drain },
        Event::PauseRequested { mode: PauseMode::Interrupt },
        Event::JobPaused,
        Event::JobResumed,
        Event::CancelRequested { mode: CancelMode::Orderly },
        Event::CancelRequested { mode: CancelMode::Now },
        Event::SkipRequested { task: TASK, output: None },
        Event::SkipRequested { task: TaskNumber(70_000), output: Some(payload("[1,2]")) },
        Event::JobReopened { held: false },
        Event::JobReopened { held: true },
        Event::JobCompleted,
        Event::JobFailed { error: failure() },
        Event::JobCancelled,
        forked(None, 0),
        forked(Some(TASK), 70_000),
        Event::DeadlinePassed { error: failure() },
        purged(JobStatus::Completed),
        purged(JobStatus::Failed),
        purged(JobStatus::Cancelled),
        Event::JobEnding { end: JobEnd::Completed, error: None },
        Event::JobEnding { end: JobEnd::Failed, error: Some(failure()) },
        Event::JobEnding { end: JobEnd::Cancelled, error: None },
        Event::JobCompensating {
            end: JobEnd::Failed,
            error: Some(failure()),
            tasks: [TaskNumber(70_000), TASK].into(),
        },
        Event::JobCompensating { end: JobEnd::Cancelled, error: None, tasks: [TASK].into() },
    ]
}

fn purged(status: JobStatus) -> Event {
    let head = std::array::from_fn(|at| u8::try_from(at).unwrap());
    Event::JobPurged(Purged { status, events: 70_000, tasks: 300, attempts: 3, head })
}

fn attempt_events() -> Vec<Event> {
    let (task, attempt) = (TASK, 300);
    vec![
        Event::AttemptStarted { task, attempt: 1 },
        Event::AttemptStarted { task, attempt: u32::MAX },
        Event::AttemptFailed { task, attempt, end: end() },
        Event::AttemptFailed { task, attempt, end: bare_end() },
        Event::AttemptTimedOut { task, attempt, end: end() },
        Event::AttemptInterrupted { task, attempt, end: end() },
        Event::AttemptLost { task, attempt },
    ]
}

fn task_events() -> Vec<Event> {
    let task = TASK;
    let until = Timestamp::from_millis(1_700_000_000_123);
    let completed =
        |output, exit, log| Event::TaskCompleted { task, attempt: 2, output, exit, log };
    let exit = Exit { code: Some(0), signal: None };
    vec![
        Event::TaskWaiting { task, wait: Wait::Timer { until } },
        Event::TaskWaiting { task, wait: Wait::Kind },
        Event::TaskWaiting { task, wait: Wait::Signal { name: signal(), until: None } },
        Event::TaskWaiting { task, wait: Wait::Signal { name: signal(), until: Some(until) } },
        Event::SignalReceived { name: signal(), payload: payload(r#"{"by": "ada"}"#) },
        Event::SignalDelivered { task, name: signal(), signal: 70_000 },
        Event::RetryScheduled { task, due: Timestamp::from_millis(-1) },
        completed(payload(r#"{"version": "1.27"}"#), exit, LogSize { bytes: 1, lines: 1 }),
        completed(Payload::NULL, Exit::default(), LogSize::default()),
        Event::TaskFailed { task, error: failure() },
        Event::TaskSkipped { task, by: SkippedBy::Request, output: None },
        Event::TaskSkipped { task, by: SkippedBy::Request, output: Some(Payload::NULL) },
        Event::TaskSkipped { task, by: SkippedBy::Condition, output: None },
        Event::TaskRemoved { task },
        inserted(Part::Tasks, None, &[]),
        inserted(Part::Tasks, Some(TASK), &[TaskNumber(1), TaskNumber(300)]),
        inserted(Part::Finally, Some(TASK), &[]),
        Event::TaskExpanded { task, items: payload(r#"["a",{"n":1e400}]"#) },
        Event::TaskExpanded { task: TaskNumber(70_000), items: payload("[]") },
        Event::TaskMoved { task, after: Some(TaskNumber(70_000)) },
        Event::TaskMoved { task, after: None },
        Event::TaskEdited { task, spec: Box::new(full_plan().tasks.remove(0)), reset: true },
        Event::CheckpointSaved {
            task,
            attempt: 2,
            value: ValueDigest { len: 5, hash: std::array::from_fn(|i| u8::try_from(i).unwrap()) },
        },
        Event::StepRecorded {
            task,
            attempt: 2,
            name: "charge the card \u{fc}".into(),
            value: ValueDigest { len: 2 << 20, hash: [0xa5; 32] },
        },
    ]
}

/// What happens between a job and its children.
fn child_events() -> Vec<Event> {
    let job = JobId::from_u128(0x0197_f0c2_7b3e_7c11_9f0e_1d2c_3b4a_5968);
    let task_id = TaskId::new("packages").unwrap();
    let ended = |end, seq| Event::ChildEnded { task: TASK, end, seq, error: failure() };
    vec![
        Event::JobLinked(Box::new(Parent { job, task: TASK, task_id, depth: 2 })),
        Event::HoldPlaced { mode: PauseMode::Drain },
        Event::HoldPlaced { mode: PauseMode::Interrupt },
        Event::HoldLifted,
        Event::ChildStarted { task: TASK, child: job, after: 0 },
        Event::ChildStarted { task: TASK, child: job, after: 70_000 },
        Event::ChildPaused { task: TASK },
        ended(ChildEnd::Failed, 7),
        ended(ChildEnd::Cancelled, 70_000),
        ended(ChildEnd::Gone, 0),
    ]
}

fn signal() -> SignalName {
    SignalName::new("approved").unwrap()
}

fn inserted(part: Part, after: Option<TaskNumber>, needed_by: &[TaskNumber]) -> Event {
    let spec = Box::new(full_plan().tasks.remove(1));
    Event::TaskInserted { task: TaskNumber(4), spec, part, after, needed_by: needed_by.into() }
}

/// A plan with every sort of condition, and tasks for the end.
fn conditional(plan: Plan) -> Plan {
    let id = |name: &str| TaskId::new(name).unwrap();
    let [pointer, input] = ["/os", "/hosts/0"].map(Into::into);
    let output = Reference::Output { task: id("a"), pointer, default: Some(payload("\"?\"")) };
    let input = Reference::Input { pointer: input, default: None };
    let conditions = [
        Condition::Value { reference: output.clone(), test: Test::IsTrue },
        Condition::Value { reference: input, test: Test::Equals(payload("{\"n\": 1.0}")) },
        Condition::Value {
            reference: output,
            test: Test::In([payload("\"debian\""), Payload::NULL].into()),
        },
        Condition::Task { task: id("a"), ends: [TaskEnd::Failed, TaskEnd::Interrupted].into() },
        Condition::Job { ends: [JobEnd::Failed, JobEnd::Cancelled].into() },
    ];
    let task = |(condition, name): (Condition, char)| {
        let mut task = TaskSpec::new(id(&name.to_string()), KindName::new("noop").unwrap());
        task.when = Some(Box::new(condition));
        task
    };
    let [first, tasks @ .., last] = conditions;
    let mut plan = Plan { fail_fast: true, ..plan };
    plan.tasks.push(task((first, 'b')));
    plan.tasks.extend(tasks.into_iter().zip('c'..).map(task));
    plan.finally = vec![task((last, 'z'))];
    plan
}

/// A plan of which what was done is undone.
fn compensated(plan: Plan) -> Plan {
    let mut plan = Plan { compensate_on: [JobEnd::Failed, JobEnd::Cancelled].into(), ..plan };
    let first = full_plan().tasks.remove(0);
    let mut task = TaskSpec::new(TaskId::new("b").unwrap(), KindName::new("noop").unwrap());
    task.compensate = Some(Box::new(Compensation {
        title: Some("Remove packages".into()),
        kind: first.kind,
        input: payload(r#"{"script":{"$output":"b"}}"#),
        policy: first.policy,
    }));
    plan.tasks.push(task);
    plan
}

/// A plan with tasks that are done for each element of a list.
fn for_each(plan: Plan) -> Plan {
    let each = |name: &str, items: &str, concurrency| {
        let mut task = TaskSpec::new(TaskId::new(name).unwrap(), KindName::new("noop").unwrap());
        task.for_each = Some(Box::new(ForEach { items: payload(items), concurrency }));
        task
    };
    let mut plan = plan;
    plan.tasks.push(each("b", r#"{"$input":"/hosts"}"#, Some(300)));
    plan.finally = vec![each("z", r#"{"$output":"a","default":[]}"#, None)];
    plan
}

/// A row of the views in which nothing is left out.
pub(super) fn job_row() -> JobRow {
    JobRow {
        job: JobId::from_u128(7),
        head: Head { row: Position(9), seq: 3, hash: [5; 32] },
        status: JobStatus::Running,
        intent: Some(Intent::Pause),
        active: true,
        due: Some(Timestamp::from_millis(5)),
        revision: 2,
        name: "init web-42".into(),
        workflow: Some("server-init".into()),
        source: Some("init.yaml".into()),
        labels: [("env".into(), "prod".into())].into(),
        parent: Some(Parent {
            job: JobId::from_u128(9),
            task: TASK,
            task_id: TaskId::new("packages").unwrap(),
            depth: 3,
        }),
        forked_from: Some(ForkedFrom { job: JobId::from_u128(8), seq: 4 }),
        created: Timestamp::from_millis(1),
        started: Some(Timestamp::from_millis(2)),
        finished: Some(Timestamp::from_millis(3)),
        total_tasks: 4,
        completed_tasks: 2,
        skipped_tasks: 1,
        error: Some(failure()),
        purged: None,
    }
}

/// A row of the views of a job that was purged, in which nothing is left out.
pub(super) fn purged_row() -> JobRow {
    let Event::JobPurged(purged) = purged(JobStatus::Failed) else { unreachable!() };
    let text = |text: &str| Some(text.into());
    let origin = Origin { actor: text("ada"), request_id: text("r1"), reason: text("asked for") };
    let tombstone = Tombstone { at: Timestamp::from_millis(6), origin, purged };
    let head = Head { row: Position(90), seq: tombstone.seq(), hash: [4; 32] };
    JobRow::of_tombstone(JobId::from_u128(7), head, Arc::new(tombstone))
}
