//! Child jobs: what a job keeps of the children of its tasks, and a child of its parent.
//!
//! A task of kind `job` waits for its child as others wait for a time: it holds no slot, and no
//! attempt of it is alive. What the parent wants of the child is a level, as effects are: it is
//! told until the child has taken it in, and after a restart again. What the child has to say to
//! its parent is its own state, told in the same way. Who takes in what he knows makes no events.

use annals_tasks_sdk::{JobId, Payload, TaskId, Timestamp};

use super::attempts::StopReason;
use super::event::{CancelMode, Event, Failure, PauseMode, SkippedBy, TaskNumber};
use super::rejection::Rejection;
use super::state::{Job, Task, Waiting, index, number};
use super::status::TaskStatus;

/// The bits of an id that a child has of its parent, so that both live in one loop, and one commit
/// can hold rows of both.
pub(crate) const FAMILY: u128 = 0xffff;

/// The bits of a `UUIDv7` that stand for a time, and those that say that it is one.
const TIME_BITS: u32 = 48;
const VERSION_7: u128 = 0x7 << 76;
const VARIANT: u128 = 0b10 << 62;

/// Whose child a job is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parent {
    /// The parent.
    pub job: JobId,
    /// The task of it that waits for the child.
    pub task: TaskNumber,
    /// That task's id.
    pub task_id: TaskId,
    /// How many ancestors the child has.
    pub depth: u32,
}

/// The child of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Child {
    /// The child.
    pub job: JobId,
    /// Its last end that is no news: an end that has come later ends the task.
    pub(super) after: u64,
    /// How many children the task has had.
    pub(super) generation: u32,
    /// Why it is to end before its time, if it is.
    pub(super) stop: Option<StopReason>,
    /// Whether it has said that it is quiet, since the parent was to be paused.
    pub(super) quiet: bool,
    /// Whether the task is to have another one the next time: what it says of its child was edited,
    /// or the child is gone.
    pub(super) outdated: bool,
}

impl Child {
    /// Why it is to end before its time, if it is.
    pub fn stop(&self) -> Option<StopReason> {
        self.stop
    }

    /// Whether it has said that it is quiet, since its parent was to be paused.
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }
}

/// How a child ended without success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildEnd {
    /// It failed.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// It was purged, or the store does not hold it.
    Gone,
}

impl ChildEnd {
    /// The word for it that is used everywhere.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Gone => "gone",
        }
    }
}

/// What a parent wants of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wish {
    /// An end up to this event of the child is no news: the child is to go on from it.
    pub after: u64,
    /// What it is to do.
    pub order: Order,
}

/// What a child is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// To run to its end.
    Go,
    /// To be quiet until its parent goes on.
    Hold {
        /// How it treats live attempts.
        mode: PauseMode,
        /// The parent's event that asks for it; the answer names it, too.
        since: u64,
    },
    /// To end.
    Stop {
        /// What it lets run before.
        mode: CancelMode,
    },
}

/// What a child has to say to its parent.
#[derive(Debug, Clone, PartialEq)]
pub enum News {
    /// It is quiet, as the parent's event `since` asked for.
    Quiet {
        /// That event.
        since: u64,
    },
    /// It has completed.
    Completed {
        /// What it gives.
        output: Payload,
    },
    /// It has ended otherwise.
    Ended {
        /// How.
        end: ChildEnd,
        /// The child's event with which it did.
        seq: u64,
        /// Why.
        error: Failure,
    },
}

/// That a job is to be quiet, and its children with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) mode: PauseMode,
    /// The event that asks for it.
    pub(super) since: u64,
}

/// The id of a task's child: the same whenever the same parent makes it for the same task at the
/// same time. In order of time, as all ids are.
pub(crate) fn child_id(parent: JobId, task: TaskNumber, generation: u32, now: Timestamp) -> JobId {
    let mut hash = blake3::Hasher::new();
    hash.update(&parent.as_u128().to_be_bytes());
    hash.update(&task.0.to_be_bytes());
    hash.update(&generation.to_be_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.finalize().as_bytes()[..16]);
    // A clock that stands before 1970 cannot be written into an id.
    let millis = u128::from(u64::try_from(now.as_millis()).unwrap_or_default());
    let time = (millis & ((1 << TIME_BITS) - 1)) << 80;
    let marks = (0xf << 76) | (0b11 << 62);
    let below = u128::from_be_bytes(bytes) & ((1 << 80) - 1) & !marks & !FAMILY;
    JobId::from_u128(time | VERSION_7 | VARIANT | below | (parent.as_u128() & FAMILY))
}

impl Job {
    /// The tasks that wait for children.
    pub fn children(&self) -> impl ExactSizeIterator<Item = TaskNumber> {
        self.children.iter().map(|&at| number(at))
    }

    /// What it wants of the child that a task waits for.
    pub fn wish(&self, task: TaskNumber) -> Option<Wish> {
        let child = self.task(task)?.open_child()?;
        let order = match (child.stop, self.hold) {
            (Some(_), _) if self.cut_short => Order::Stop { mode: CancelMode::Now },
            (Some(_), _) => Order::Stop { mode: CancelMode::Orderly },
            (None, Some(Hold { mode, since })) => Order::Hold { mode, since },
            (None, None) => Order::Go,
        };
        Some(Wish { after: child.after, order })
    }

    /// The id of the next new child of a task.
    pub(crate) fn next_child(&self, task: TaskNumber, now: Timestamp) -> JobId {
        let before = self.task(task).and_then(|task| task.child.as_deref());
        child_id(self.id, task, before.map_or(0, |child| child.generation), now)
    }

    /// Why a child is not purged: its parent has not taken in how it ended.
    pub(crate) fn is_waited_for(&self, parent: &Parent) -> Rejection {
        let message = format!(
            "task {} of its parent {} waits for the job, and has not taken in how it ended",
            parent.task_id, parent.job
        );
        super::decide::rejection(self, "parent_waits", message)
    }

    /// Whether tasks wait for children that are not quiet.
    pub(super) fn has_loud_children(&self) -> bool {
        self.children.iter().any(|&at| {
            let child = self.tasks[at as usize].child.as_deref();
            child.is_some_and(|child| !child.quiet)
        })
    }

    /// Takes in what happens between a task and its child.
    pub(super) fn take_in_of_child(&mut self, event: &Event) {
        match event {
            Event::ChildStarted { task, child, after } => self.child_opened(*task, *child, *after),
            Event::ChildPaused { task } => self.child_quiet(*task),
            Event::ChildEnded { task, end, seq, .. } => self.child_ended(*task, *end, *seq),
            _ => {}
        }
    }

    /// A task waits for a child from now on.
    pub(super) fn child_opened(&mut self, task: TaskNumber, job: JobId, after: u64) {
        let Some(at) = index(task) else { return };
        if let Some(own) = &mut self.exclusive {
            own.taken = true;
        }
        let task = &mut self.tasks[at as usize];
        let before = task.child.take();
        let generation = match before.as_deref() {
            Some(before) if before.job == job => before.generation,
            Some(before) => before.generation + 1,
            None => 1,
        };
        let (stop, quiet, outdated) = (None, false, false);
        if before.is_none() {
            self.bytes += size_of::<Child>();
        }
        let child = Child { job, after, generation, stop, quiet, outdated };
        self.tasks[at as usize].child = Some(Box::new(child));
        self.set_status(at, TaskStatus::Waiting, Some(Waiting::Job));
    }

    /// A child says that it is quiet.
    pub(super) fn child_quiet(&mut self, task: TaskNumber) {
        let at = index(task).and_then(|at| self.tasks.get_mut(at as usize));
        if let Some(child) = at.and_then(|task| task.child.as_deref_mut()) {
            child.quiet = true;
        }
    }

    /// A child has ended without success: what becomes of its task is said by the next event.
    pub(super) fn child_ended(&mut self, task: TaskNumber, end: ChildEnd, seq: u64) {
        let Some(at) = index(task) else { return };
        if let Some(child) = self.tasks[at as usize].child.as_deref_mut() {
            child.after = child.after.max(seq);
            child.outdated |= end == ChildEnd::Gone;
        }
        self.set_status(at, TaskStatus::Interrupted, None);
    }

    /// The children are to be quiet, or so in another way than before.
    pub(super) fn hold_children(&mut self, mode: PauseMode) {
        let hardens = |hold: Hold| hold.mode == PauseMode::Drain && mode == PauseMode::Interrupt;
        if self.hold.is_some_and(|hold| !hardens(hold)) {
            return;
        }
        self.hold = Some(Hold { mode, since: self.seq });
        self.all_children(|child| child.quiet = false);
    }

    /// The children may go on.
    pub(super) fn release_children(&mut self) {
        self.hold = None;
        self.all_children(|child| child.quiet = false);
    }

    pub(super) fn stop_children(&mut self, reason: StopReason) {
        if reason != StopReason::Pause {
            self.all_children(|child| {
                child.stop.get_or_insert(reason);
            });
        }
    }

    fn all_children(&mut self, mut change: impl FnMut(&mut Child)) {
        for &at in &self.children {
            if let Some(child) = self.tasks[at as usize].child.as_deref_mut() {
                change(child);
            }
        }
    }

    /// What the news of a task's child make happen. `fail` says what a failure of the task does.
    pub(super) fn hear_of_child(
        &self,
        task: TaskNumber,
        job: JobId,
        news: News,
        fail: impl FnOnce(Failure) -> Vec<Event>,
    ) -> Vec<Event> {
        let Some(at) = self.task(task) else { return Vec::new() };
        let Some(child) = at.open_child().filter(|child| child.job == job) else {
            return Vec::new();
        };
        match news {
            News::Quiet { since } => {
                let asked = self.hold.is_some_and(|hold| hold.since == since);
                let is_news = asked && !child.quiet && child.stop.is_none();
                is_news.then_some(Event::ChildPaused { task }).into_iter().collect()
            }
            News::Completed { output } => vec![Event::completed_without_attempt(task, output)],
            News::Ended { end, seq, .. }
                if end != ChildEnd::Gone && seq <= child.after && child.stop.is_none() =>
            {
                Vec::new()
            }
            News::Ended { end, seq, error } => {
                let over = Event::ChildEnded { task, end, seq, error: error.clone() };
                let next = if let Some(output) = at.skip.as_deref() {
                    let (by, output) = (SkippedBy::Request, output.clone());
                    vec![Event::TaskSkipped { task, by, output }]
                } else if child.stop.is_some() || end == ChildEnd::Gone {
                    Vec::new()
                } else {
                    fail(error)
                };
                [over].into_iter().chain(next).collect()
            }
        }
    }
}

impl Task {
    /// Its child, where it had one: the last.
    pub fn child(&self) -> Option<&Child> {
        self.child.as_deref()
    }

    /// The child that it is to wait for when its turn has come, where it had one before and is to
    /// go on with that.
    pub(crate) fn child_again(&self) -> Option<JobId> {
        self.child.as_deref().filter(|child| !child.outdated).map(|child| child.job)
    }

    /// The child that it waits for.
    pub fn open_child(&self) -> Option<&Child> {
        self.child.as_deref().filter(|_| self.waiting == Some(Waiting::Job))
    }

    pub(super) fn stop_child(&mut self, reason: StopReason) {
        if self.waiting == Some(Waiting::Job)
            && let Some(child) = &mut self.child
        {
            child.stop.get_or_insert(reason);
        }
    }

    /// The next time it has another child.
    pub(super) fn outdate_child(&mut self) {
        if let Some(child) = &mut self.child {
            child.outdated = true;
        }
    }

    /// Whether an attempt of it, or of one of its instances, is alive, or a child that it waits for
    /// may be.
    pub fn is_engaged(&self) -> bool {
        self.waiting == Some(Waiting::Job)
            || self.live_attempt().is_some()
            || self.fan().is_some_and(super::fan::Fan::is_engaged)
    }
}

impl Event {
    /// A task has completed that needed no attempt.
    pub(super) fn completed_without_attempt(task: TaskNumber, output: Payload) -> Self {
        let (exit, log) = (annals_tasks_sdk::Exit::default(), super::event::LogSize::default());
        Self::TaskCompleted { task, attempt: 0, output, exit, log }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_follows_from_parent_task_and_time() {
        let parent = JobId::from_u128(0x0197_f0c2_7b3e_7c11_9f0e_1d2c_3b4a_5968);
        let now = Timestamp::from_millis(1_800_000_000_000);
        let id = |task, generation, now| child_id(parent, TaskNumber(task), generation, now);
        let child = id(1, 0, now);
        assert_eq!(child, id(1, 0, now));
        for other in
            [id(2, 0, now), id(1, 1, now), id(1, 0, now.plus(std::time::Duration::from_millis(1)))]
        {
            assert_ne!(child, other);
        }
        let bits = child.as_u128();
        assert_eq!(bits >> 80, 1_800_000_000_000);
        assert_eq!((bits >> 76 & 0xf, bits >> 62 & 0b11), (0x7, 0b10));
        assert_eq!(bits & FAMILY, parent.as_u128() & FAMILY);
        let early = id(1, 0, Timestamp::from_millis(-5));
        assert_eq!(early.as_u128() >> 80, 0);
    }
}
