//! Begin: what the first event makes of nothing.

use annals_tasks_sdk::plan::TaskSpec;
use annals_tasks_sdk::{JobId, Timestamp};

use super::event::{Event, Part, Recorded, Submitted};
use super::evolve::Illegal;
use super::graph;
use super::header::{Counts, Exclusive, Header};
use super::kinds;
use super::linked::Holders;
use super::size;
use super::sorted::Sorted;
use super::state::{Job, Task, count};
use super::status::{JobStatus, TaskStatus};
use super::steps::Steps;

impl Job {
    /// Begins a job from its first event.
    pub fn begin(id: JobId, first: &Recorded) -> Result<Self, Illegal> {
        let illegal =
            |why: String| Illegal { job: id, seq: first.seq, event: first.event.type_name(), why };
        let Event::JobSubmitted(submitted) = &first.event else {
            return Err(illegal("a history begins with JobSubmitted".into()));
        };
        if first.seq != 1 {
            return Err(illegal("the first event has number 1".into()));
        }
        let needs = graph::resolve(&submitted.plan)
            .map_err(|need| illegal(format!("its plan needs the unknown task {need:?}")))?;
        Ok(Self::submitted(id, first.time, submitted, needs))
    }

    fn submitted(id: JobId, time: Timestamp, submitted: &Submitted, needs: Vec<Vec<u32>>) -> Self {
        let Submitted { plan, workflow, source } = submitted;
        let mut tasks: Vec<Task> =
            plan.tasks.iter().map(|spec| Task::new(spec.clone(), Part::Tasks)).collect();
        tasks.extend(plan.finally.iter().map(|spec| Task::new(spec.clone(), Part::Finally)));
        for (task, rank) in tasks.iter_mut().zip(0..) {
            task.rank = rank;
        }
        let by_kind = kinds::assort(&mut tasks);
        let order: Vec<u32> = (0..count(tasks.len())).collect();
        let mut names = order.clone();
        names.sort_unstable_by(|&a, &b| tasks[a as usize].spec.id.cmp(&tasks[b as usize].spec.id));
        let header = Header {
            name: plan.name.clone(),
            labels: plan.labels.clone(),
            input: plan.input.clone(),
            start: plan.start,
            deadline: plan.deadline,
            output: plan.output.clone(),
            fail_fast: plan.fail_fast,
            compensate_on: plan.compensate_on.clone(),
            workflow: workflow.clone(),
            source: source.clone(),
        };
        let mut job = Self {
            seq: 1,
            revision: 1,
            exclusive: plan.exclusive.clone().map(Exclusive::of).map(Box::new),
            tasks,
            order,
            names,
            by_kind,
            ..Self::blank(id, time, header)
        };
        job.link(needs);
        job.bytes = size::of_new(&job);
        job
    }

    /// A job without tasks, of which no event was taken in.
    pub(super) fn blank(id: JobId, time: Timestamp, header: Header) -> Self {
        Self {
            id,
            seq: 0,
            revision: 0,
            time,
            header,
            forked: None,
            parent: None,
            status: JobStatus::Pending,
            intent: None,
            holders: Holders::default(),
            hold: None,
            created: time,
            started: None,
            finished: None,
            ended_at: 0,
            deadline: None,
            error: None,
            ending: None,
            cut_short: false,
            undoing: None,
            undoable: Vec::new(),
            turn: Part::Tasks,
            exclusive: None,
            purged: None,
            tasks: Vec::new(),
            order: Vec::new(),
            names: Vec::new(),
            ready: Sorted::default(),
            expanding: Sorted::default(),
            ripe: Sorted::default(),
            declined: Sorted::default(),
            by_kind: Vec::new(),
            live: Sorted::default(),
            stopping: 0,
            timed: Sorted::default(),
            kindless: Sorted::default(),
            children: Sorted::default(),
            signals: None,
            failed: Vec::new(),
            unsettled: 0,
            counts: Counts::default(),
            bytes: 0,
        }
    }
}

impl Exclusive {
    fn of(key: Box<str>) -> Self {
        Self { key, since: None, taken: false }
    }
}

impl Task {
    pub(super) fn new(spec: TaskSpec, part: Part) -> Self {
        Self {
            spec,
            part,
            rank: 0,
            of: None,
            fan: None,
            kind: 0,
            needs: Vec::new(),
            dependants: Vec::new(),
            unmet: 0,
            settled: false,
            status: TaskStatus::Pending,
            waiting: None,
            awaits: Box::default(),
            attempts: Vec::new(),
            output: None,
            error: None,
            skipped_by: None,
            skip: None,
            checkpoint: None,
            child: None,
            steps: Steps::default(),
            losses: 0,
            failures: 0,
            budget_from: 0,
        }
    }
}
