//! Fan-out: the instances of a task that is done for each element of a list.
//!
//! An instance is a task of its own, with a number, attempts and retries, that stands in no order
//! and needs nothing. Whether it may start is up to the task that it is of, its parent: that must
//! have all that it needs, and so many instances at a time may have begun as the plan allows. Both
//! count as unmet needs of the instance. The parent has no attempts; where it stands follows from
//! its instances, and how it ends is concluded from theirs.

use annals_tasks_sdk::Payload;
use annals_tasks_sdk::plan::TaskSpec;

use super::event::TaskNumber;
use super::sorted::Sorted;
use super::state::{Job, Task, Waiting, count, number};
use super::status::TaskStatus;

/// Of which task one is an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InstanceOf {
    /// Its index.
    pub(super) parent: u32,
    /// The place of the instance's element in the list.
    pub(super) place: u32,
}

/// The instances of a task.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Fan {
    /// The list, where the task has become its instances; of one that begins anew at each end of
    /// its job they are remembered until it does so again.
    pub(super) list: Option<Payload>,
    /// Where each element stands in the text of the list.
    pub(super) spans: Box<[(u32, u32)]>,
    /// By place, the indices of the instances: at least as many as there are elements.
    pub(super) instances: Vec<u32>,
    pub(super) counts: Items,
    /// How many instances wait for children.
    pub(super) children: u32,
    /// Places of those that have not begun, and must wait until fewer have that are not over.
    pub(super) queue: Sorted<u32>,
    /// How many are not over and do not wait for that.
    pub(super) held: u32,
    /// Whether the parent has all that it needs, and is to go on.
    pub(super) open: bool,
    /// Bytes of what the instances have given.
    pub(super) bytes: usize,
}

/// Where an instance stands, as far as its task keeps count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) status: TaskStatus,
    pub(super) has_child: bool,
}

impl Standing {
    pub(super) fn of(task: &Task) -> Self {
        Self { status: task.status, has_child: task.waiting == Some(Waiting::Job) }
    }
}

/// How many instances of a task stand where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Items {
    /// All of them.
    pub total: u32,
    /// Completed ones.
    pub completed: u32,
    /// Failed ones.
    pub failed: u32,
    /// Skipped ones.
    pub skipped: u32,
    /// Those with a live attempt.
    pub running: u32,
    /// Those that wait, such as for their next attempt.
    pub waiting: u32,
    /// Those that were stopped.
    pub interrupted: u32,
}

impl Items {
    /// How many are over: nothing of them is to run.
    pub fn over(&self) -> u32 {
        self.completed + self.failed + self.skipped
    }

    /// Those that have not begun.
    pub fn pending(&self) -> u32 {
        self.total - self.over() - self.running - self.waiting - self.interrupted
    }

    pub(super) fn of(&mut self, status: TaskStatus) -> Option<&mut u32> {
        match status {
            TaskStatus::Completed => Some(&mut self.completed),
            TaskStatus::Failed => Some(&mut self.failed),
            TaskStatus::Skipped | TaskStatus::Removed => Some(&mut self.skipped),
            TaskStatus::Running => Some(&mut self.running),
            TaskStatus::Waiting => Some(&mut self.waiting),
            TaskStatus::Interrupted => Some(&mut self.interrupted),
            TaskStatus::Pending => None,
        }
    }

    /// Where the task stands whose instances these are, while it is not over.
    pub(super) fn status(&self) -> TaskStatus {
        match self {
            Self { running: 1.., .. } => TaskStatus::Running,
            Self { waiting: 1.., .. } => TaskStatus::Waiting,
            Self { interrupted: 1.., .. } => TaskStatus::Interrupted,
            _ => TaskStatus::Pending,
        }
    }
}

impl Fan {
    /// The list.
    pub(super) fn list(&self) -> &Payload {
        self.list.as_ref().unwrap_or(&Payload::NULL)
    }

    /// The element at a place.
    pub(super) fn item(&self, place: u32) -> Option<Payload> {
        let &(from, to) = self.spans.get(place as usize)?;
        self.list().as_str().get(from as usize..to as usize).map(Payload::trusted)
    }

    /// The indices of the instances, by place.
    pub(super) fn instances(&self) -> &[u32] {
        self.instances.get(..self.spans.len()).unwrap_or(&self.instances)
    }

    pub(super) fn counts(&self) -> Items {
        self.counts
    }

    /// Whether an attempt of an instance is alive, or a child that one waits for may be.
    pub(super) fn is_engaged(&self) -> bool {
        self.counts.running > 0 || self.children > 0
    }

    /// Bytes of what the instances have given.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether nothing of the instances is to run.
    pub(super) fn is_over(&self) -> bool {
        self.counts.over() == self.counts.total
    }
}

impl Task {
    /// What it is an instance of, where it is one.
    pub(super) fn instance_of(&self) -> Option<InstanceOf> {
        self.of
    }

    /// Whether it is an instance of a task that is done for each element of a list.
    pub fn is_instance(&self) -> bool {
        self.of.is_some()
    }

    /// Its instances, where it has become them.
    pub(super) fn fan(&self) -> Option<&Fan> {
        self.fan.as_deref().filter(|fan| fan.list.is_some())
    }

    /// How many of its instances stand where, where it has become them.
    pub fn items(&self) -> Option<Items> {
        self.fan().map(Fan::counts)
    }

    /// Whether it is still to become its instances, instead of running itself.
    pub(super) fn is_to_expand(&self) -> bool {
        self.spec.for_each.is_some() && self.fan().is_none()
    }

    /// Whether it may be in a state that follows from its instances.
    pub(super) fn is_undecided(&self) -> bool {
        use TaskStatus::{Interrupted, Pending, Running, Waiting};
        !self.settled && matches!(self.status, Pending | Running | Waiting | Interrupted)
    }

    /// Whether its instances may start, as far as it goes.
    pub(super) fn lets_instances_start(&self) -> bool {
        self.is_undecided() && self.unmet == 0 && self.skip.is_none()
    }

    /// Whether the plan would say of it that it is done for the same list.
    pub(super) fn keeps_list(&self, spec: &TaskSpec) -> bool {
        let items = |spec: &TaskSpec| spec.for_each.as_ref().map(|each| each.items.clone());
        items(&self.spec) == items(spec)
    }

    /// What the plan says of an instance of it.
    pub(super) fn instance_spec(&self, place: u32) -> TaskSpec {
        TaskSpec {
            input: self.spec.input.clone(),
            policy: self.spec.policy.clone(),
            ..TaskSpec::new(self.spec.id.derived(&place.to_string()), self.spec.kind.clone())
        }
    }

    pub(super) fn concurrency(&self) -> u32 {
        self.spec.for_each.as_ref().and_then(|each| each.concurrency).unwrap_or(u32::MAX)
    }
}

impl Job {
    /// All tasks, instances included, in the order of their numbers.
    pub fn numbered_tasks(&self) -> impl ExactSizeIterator<Item = (TaskNumber, &Task)> {
        self.tasks.iter().enumerate().map(|(at, task)| (number(count(at)), task))
    }

    /// Whether any task has become instances.
    pub(crate) fn has_instances(&self) -> bool {
        self.tasks.len() > self.order.len()
    }

    /// The instances of a task, in the order of their elements.
    pub fn instances(
        &self,
        task: &Task,
    ) -> impl ExactSizeIterator<Item = (TaskNumber, &Task)> + use<'_> {
        let instances = task.fan().map_or_else(Vec::new, |fan| fan.instances().to_vec());
        instances.into_iter().map(|at| (number(at), &self.tasks[at as usize]))
    }

    /// The task of which one is an instance.
    pub fn parent_of(&self, task: &Task) -> Option<(TaskNumber, &Task)> {
        let parent = task.of?.parent;
        Some((number(parent), &self.tasks[parent as usize]))
    }

    /// The element that a task is an instance for.
    pub fn item_of(&self, task: &Task) -> Option<Payload> {
        let InstanceOf { parent, place } = task.of?;
        self.tasks[parent as usize].fan()?.item(place)
    }

    /// Finds an instance by its id.
    pub(super) fn find_instance(&self, id: &str) -> Option<TaskNumber> {
        let (of, place) = id.split_once('~')?;
        let digits = place.bytes().all(|byte| byte.is_ascii_digit());
        let place = place.parse::<usize>().ok().filter(|at| digits && at.to_string() == place)?;
        let parent = self.task(self.find(of)?)?;
        parent.fan()?.instances().get(place).map(|&at| number(at))
    }
}
