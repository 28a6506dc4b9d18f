//! What happens to the instances of a task, and what it means for that task.

use annals_tasks_sdk::plan::TaskSpec;
use annals_tasks_sdk::{Payload, Timestamp};

use super::event::{Part, TaskNumber};
use super::fan::{InstanceOf, Items, Standing};
use super::size;
use super::sorted::Sorted;
use super::state::{Job, StopReason, Task, Waiting, count, index};
use super::status::TaskStatus;
use super::steps::Steps;

impl Job {
    /// What an event about a task counts for the job: those about instances count for their parent.
    pub(super) fn counted(&self, task: TaskNumber) -> u32 {
        self.task(task).map_or(0, |task| u32::from(task.of.is_none()))
    }

    /// The task becomes its instances.
    pub(super) fn expand(&mut self, task: TaskNumber, list: &Payload) {
        let Some(at) = index(task) else { return };
        self.expanding.remove(&(self.tasks[at as usize].rank, at));
        let elements = list.elements().unwrap_or_default();
        let start = list.as_str().as_ptr().addr();
        let span = |text: &&str| {
            let from = text.as_ptr().addr() - start;
            (count(from), count(from + text.len()))
        };
        let mut fan = *self.tasks[at as usize].fan.take().unwrap_or_default();
        fan.spans = elements.iter().map(span).collect();
        let total = count(fan.spans.len());
        for place in 0..total {
            let known = fan.instances.get(place as usize).copied();
            let instance = known.unwrap_or_else(|| self.new_instance(at, place));
            if known.is_none() {
                fan.instances.push(instance);
            }
            let spec = self.tasks[at as usize].instance_spec(place);
            let (rank, kind) = (self.tasks[at as usize].rank, self.tasks[at as usize].kind);
            let task = &mut self.tasks[instance as usize];
            // One for its place among those that may have begun, one for its parent.
            (task.spec, task.rank, task.kind, task.unmet) = (spec, rank, kind, 2);
            task.settled = false;
            fan.queue.insert(place);
        }
        fan.counts = Items { total, ..Items::default() };
        (fan.held, fan.open, fan.bytes, fan.children) = (0, false, 0, 0);
        self.bytes += list.as_str().len() + fan.spans.len() * size_of::<(u32, u32, u32)>();
        fan.list = Some(list.clone());
        self.tasks[at as usize].fan = Some(Box::new(fan));
        self.set_status(at, TaskStatus::Pending, None);
        self.admit(at);
    }

    fn new_instance(&mut self, parent: u32, place: u32) -> u32 {
        let of = &self.tasks[parent as usize];
        let mut task = Task::new(of.instance_spec(place), of.part);
        task.of = Some(InstanceOf { parent, place });
        self.bytes += size::of_task(&task);
        self.tasks.push(task);
        count(self.tasks.len() - 1)
    }

    /// Lets instances begin, as many as may.
    fn admit(&mut self, parent: u32) {
        let most = self.tasks[parent as usize].concurrency();
        while let Some(fan) = self.tasks[parent as usize].fan.as_mut()
            && fan.held < most
            && let Some(&place) = fan.queue.first()
        {
            fan.queue.remove(&place);
            fan.held += 1;
            let instance = fan.instances[place as usize];
            self.tasks[instance as usize].unmet -= 1;
            self.refresh(instance);
        }
    }

    /// An instance waits anew for its place among those that may have begun.
    fn queue_anew(&mut self, InstanceOf { parent, place }: InstanceOf) {
        let Some(fan) = self.tasks[parent as usize].fan.as_mut() else { return };
        fan.queue.insert(place);
        let instance = fan.instances[place as usize];
        self.tasks[instance as usize].unmet += 1;
        self.refresh(instance);
    }

    /// What the change of an instance's status means for its parent.
    pub(super) fn instance_moved(&mut self, of: InstanceOf, before: Standing, now: Standing) {
        let InstanceOf { parent, place } = of;
        let Some(fan) = self.tasks[parent as usize].fan.as_mut() else { return };
        if fan.list.is_none() {
            return;
        }
        if let Some(count) = fan.counts.of(before.status) {
            *count -= 1;
        }
        if let Some(count) = fan.counts.of(now.status) {
            *count += 1;
        }
        fan.children += u32::from(now.has_child);
        fan.children -= u32::from(before.has_child);
        let (before, now) = (is_over(before.status), is_over(now.status));
        let mut leaves_queue = None;
        if now && !before {
            // Whoever leaves before it has begun makes no room.
            if fan.queue.contains(&place) {
                fan.queue.remove(&place);
                leaves_queue = Some(fan.instances[place as usize]);
            } else {
                fan.held -= 1;
            }
        }
        let status = fan.counts.status();
        if let Some(instance) = leaves_queue {
            self.tasks[instance as usize].unmet -= 1;
        }
        if self.tasks[parent as usize].is_undecided() {
            self.tasks[parent as usize].status = status;
        }
        self.ripen(parent);
        self.admit(parent);
    }

    /// Brings what a task lets its instances do in line with its state.
    pub(super) fn regate(&mut self, parent: u32) {
        let open = self.tasks[parent as usize].lets_instances_start();
        let Some(fan) = self.tasks[parent as usize].fan.as_mut() else { return };
        if std::mem::replace(&mut fan.open, open) != open {
            for instance in fan.instances().to_vec() {
                self.regate_one(instance, open);
            }
        }
        self.ripen(parent);
    }

    fn regate_one(&mut self, instance: u32, open: bool) {
        let task = &mut self.tasks[instance as usize];
        if open {
            task.unmet -= 1;
        } else {
            task.unmet += 1;
        }
        // What waits for others first begins after that.
        let waits = task.status == TaskStatus::Waiting && task.open_child().is_none();
        if !open && waits {
            self.set_status(instance, TaskStatus::Pending, None);
        } else {
            self.refresh(instance);
        }
    }

    /// Notes whether the end of a task is to be concluded from those of its instances.
    fn ripen(&mut self, parent: u32) {
        if self.is_ripe(&self.tasks[parent as usize]) {
            self.ripe.insert(parent);
        } else {
            self.ripe.remove(&parent);
        }
    }

    fn is_ripe(&self, task: &Task) -> bool {
        let Some(fan) = task.fan().filter(|_| task.is_undecided()) else { return false };
        let skipped = task.skip.is_some() && !fan.is_engaged();
        skipped || fan.is_over() || (fan.counts.failed > 0 && self.would_end_by_failure_of(task))
    }

    /// A task was passed over, and with it what is left of its instances.
    pub(super) fn close_instances(&mut self, parent: u32, status: TaskStatus) {
        let Some(fan) = self.tasks[parent as usize].fan() else { return };
        for instance in fan.instances().to_vec() {
            let task = &self.tasks[instance as usize];
            if !task.settled && task.status != TaskStatus::Failed {
                self.set_status(instance, status, None);
            }
        }
    }

    /// A task is settled, and with it all of its instances.
    pub(super) fn settle_instances(&mut self, parent: u32) {
        let Some(fan) = self.tasks[parent as usize].fan() else { return };
        for instance in fan.instances().to_vec() {
            let task = &mut self.tasks[instance as usize];
            (task.settled, task.steps) = (true, Steps::default());
        }
    }

    /// A task is to be skipped when no attempt of it, or of its instances, is alive any more.
    pub(super) fn skip_requested(&mut self, task: TaskNumber, output: Option<&Payload>) {
        self.bytes += size::of_payload(output);
        let Some(at) = index(task) else { return };
        let task = &mut self.tasks[at as usize];
        task.skip = Some(Box::new(output.cloned()));
        self.stopping += u32::from(task.tell_to_stop(StopReason::Skip));
        if task.fan().is_none() {
            return;
        }
        self.refresh(at);
        for &instance in self.live.iter().chain(&self.children) {
            let task = &mut self.tasks[instance as usize];
            if task.of.is_some_and(|of| of.parent == at) {
                self.stopping += u32::from(task.tell_to_stop(StopReason::Skip));
            }
        }
    }

    /// Failed instances of a task that is to go on are tried afresh.
    pub(super) fn revive_instances(&mut self, parent: u32) {
        let Some(fan) = self.tasks[parent as usize].fan() else { return };
        if fan.counts.failed == 0 {
            return;
        }
        for instance in fan.instances().to_vec() {
            if self.tasks[instance as usize].status == TaskStatus::Failed {
                self.revive(instance);
            }
        }
    }

    fn revive(&mut self, instance: u32) {
        let task = &mut self.tasks[instance as usize];
        task.error = None;
        task.losses = 0;
        task.renew_budget();
        let Some(of) = task.of else { return };
        self.queue_anew(of);
        self.set_status(instance, TaskStatus::Pending, None);
    }

    /// Somebody wants one more try of an instance, or of all that have failed or wait for one.
    pub(super) fn retry_instances(&mut self, at: u32, due: Timestamp) {
        let of = self.tasks[at as usize].of;
        let parent = of.map_or(at, |of| of.parent);
        self.reopen_parent(parent);
        let Some(fan) = self.tasks[parent as usize].fan() else { return };
        let all = if of.is_some() { vec![at] } else { fan.instances().to_vec() };
        for instance in all {
            let task = &self.tasks[instance as usize];
            let waits = matches!(task.waiting, Some(Waiting::Retry { .. }));
            let failed = task.status == TaskStatus::Failed;
            if failed {
                self.revive(instance);
            }
            // An instance comes here also when an attempt of it has just failed.
            let is_meant = failed || waits || of.is_some();
            if is_meant && self.tasks[instance as usize].unmet == 0 {
                let waiting = Waiting::Retry { until: due };
                self.set_status(instance, TaskStatus::Waiting, Some(waiting));
            }
        }
    }

    /// A task that has failed for its instances goes on.
    fn reopen_parent(&mut self, parent: u32) {
        let task = &mut self.tasks[parent as usize];
        if task.status == TaskStatus::Failed && !task.settled {
            task.error = None;
            self.failed.retain(|&other| other != parent);
            self.set_status(parent, TaskStatus::Pending, None);
        }
    }

    /// An instance was skipped. A task that has failed for no other one goes on.
    pub(super) fn instance_skipped(&mut self, task: TaskNumber) {
        let of = self.task(task).and_then(Task::instance_of);
        let Some(InstanceOf { parent, .. }) = of else { return };
        let task = &self.tasks[parent as usize];
        if task.fan().is_some_and(|fan| fan.counts.failed == 0) {
            self.reopen_parent(parent);
        }
    }

    /// What an instance gave counts, as long as its task has not begun anew.
    pub(super) fn instance_gave(&mut self, instance: u32, bytes: usize) {
        if let Some(InstanceOf { parent, .. }) = self.tasks[instance as usize].of
            && let Some(fan) = self.tasks[parent as usize].fan.as_mut()
        {
            fan.bytes += bytes;
        }
    }

    /// The plan says something else of a task than when it became its instances.
    pub(super) fn edit_instances(&mut self, parent: u32, old: &TaskSpec, reset: bool) {
        let Some(fan) = self.tasks[parent as usize].fan() else { return };
        for (instance, place) in fan.instances().to_vec().into_iter().zip(0..) {
            if self.tasks[instance as usize].settled {
                continue;
            }
            let spec = self.tasks[parent as usize].instance_spec(place);
            let begins_anew = self.tasks[instance as usize].begins_anew_with(old, &spec);
            let task = &mut self.tasks[instance as usize];
            if (&task.spec.kind, &task.spec.input) != (&spec.kind, &spec.input) {
                task.outdate_child();
            }
            task.spec = spec;
            if reset {
                (task.checkpoint, task.steps) = (None, Steps::default());
            }
            if begins_anew {
                self.set_status(instance, TaskStatus::Pending, None);
            }
        }
        self.give_places_back(parent);
        self.admit(parent);
    }

    /// Fewer instances may have begun at a time: those that have not wait, the last ones first.
    fn give_places_back(&mut self, parent: u32) {
        let most = self.tasks[parent as usize].concurrency();
        let Some(fan) = self.tasks[parent as usize].fan() else { return };
        let mut left = fan.held.saturating_sub(most);
        for (place, instance) in fan.instances().to_vec().into_iter().enumerate().rev() {
            let place = count(place);
            if left == 0 {
                return;
            }
            let task = &self.tasks[instance as usize];
            let begun = task.status != TaskStatus::Pending || !task.attempts.is_empty();
            let fan = self.tasks[parent as usize].fan.as_mut();
            let Some(fan) = fan.filter(|fan| !begun && !fan.queue.contains(&place)) else {
                continue;
            };
            fan.held -= 1;
            left -= 1;
            self.queue_anew(InstanceOf { parent, place });
        }
    }

    /// The instances stand in the order of the plan where their task does.
    pub(super) fn rank_instances(&mut self) {
        for at in 0..self.tasks.len() {
            if let Some(InstanceOf { parent, .. }) = self.tasks[at].of {
                self.tasks[at].rank = self.tasks[parent as usize].rank;
            }
        }
    }

    /// A task of `finally` begins anew: what it is done for is found anew, too.
    pub(super) fn forget_instances(&mut self, parent: u32) {
        let Some(fan) = self.tasks[parent as usize].fan.as_mut() else { return };
        (fan.list, fan.spans, fan.queue) = (None, Box::default(), Sorted::default());
        for instance in fan.instances.clone() {
            let task = &mut self.tasks[instance as usize];
            (task.output, task.error, task.checkpoint, task.skip) = (None, None, None, None);
            (task.skipped_by, task.steps, task.unmet) = (None, Steps::default(), 2);
            task.outdate_child();
            self.set_status(instance, TaskStatus::Pending, None);
            // Until it is needed again there is no such task.
            self.tasks[instance as usize].settled = true;
        }
        self.ripe.remove(&parent);
    }

    /// Whether the failure of a task would end the job at once.
    fn would_end_by_failure_of(&self, task: &Task) -> bool {
        task.part == Part::Tasks && self.ends_by_failure_of(task)
    }
}

fn is_over(status: TaskStatus) -> bool {
    use TaskStatus::{Completed, Failed, Removed, Skipped};
    matches!(status, Completed | Failed | Skipped | Removed)
}
