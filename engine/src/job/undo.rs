//! Compensation: what a job has done is undone before its run ends, the last task first, one at a
//! time.
//!
//! What undoes a task is a task itself, which the job gets when it comes to that. It needs the one
//! that is undone before it, and its failure keeps nothing from its turn. Once this has begun the
//! work of the job is over for good: a later run only finishes it.

use std::collections::BTreeSet;

use annals_tasks_sdk::TaskId;
use annals_tasks_sdk::plan::{Compensation, JobEnd};

use super::event::{Event, Failure, Part, TaskNumber};
use super::size;
use super::state::{Job, Task, count, index, number};
use super::status::{Intent, JobStatus, TaskStatus};

/// So many tasks are named in a sentence.
const NAMED: usize = 10;

/// That what a job has done is being undone, or was.
#[derive(Debug, Clone, PartialEq)]
pub struct Undoing {
    pub(super) end: JobEnd,
    pub(super) error: Option<Failure>,
    pub(super) is_done: bool,
}

impl Undoing {
    /// How the job is to end when all is undone.
    pub fn end(&self) -> JobEnd {
        self.end
    }

    /// Whether a run has ended with everything undone. Nothing of the job runs any more.
    pub fn is_done(&self) -> bool {
        self.is_done
    }
}

impl Job {
    /// What is known of it being undone; none before that has begun.
    pub fn undoing(&self) -> Option<&Undoing> {
        self.undoing.as_deref()
    }

    /// Whether what it has done has its turn to be undone now.
    pub fn is_being_undone(&self) -> bool {
        self.turn == Part::Undo
    }

    /// Whether a run has ended with everything undone, so that nothing of it runs any more.
    pub(super) fn is_undone(&self) -> bool {
        self.undoing().is_some_and(Undoing::is_done)
    }

    /// The task that undoes another one, once there is one.
    pub fn undo_of(&self, task: &Task) -> Option<(TaskNumber, &Task)> {
        self.undoing.as_ref()?;
        let number = self.find(task.spec.id.derived(Compensation::UNDO).as_str())?;
        Some((number, self.task(number)?))
    }

    /// How many tasks its plan has; what undoes others is not in it.
    pub(crate) fn planned_tasks(&self) -> usize {
        self.tasks.len() - self.undos().count()
    }

    /// The tasks that undo others.
    pub(super) fn undos(&self) -> impl Iterator<Item = &Task> {
        let some = self.tasks.iter().filter(|_| self.undoing.is_some());
        some.filter(|task| task.part == Part::Undo)
    }

    /// A task has completed which says how it is undone. What a fork has copied was done by its
    /// origin, and is undone there.
    pub(super) fn has_done(&mut self, task: TaskNumber) {
        let is_copy = self.forked.as_deref().is_some_and(|forked| self.seq <= forked.copied_to);
        let Some(at) = index(task).filter(|_| !is_copy) else { return };
        // The instances of a task are undone with it.
        let of_work = |task: &Task| {
            task.part == Part::Tasks && !task.is_instance() && task.spec.compensate.is_some()
        };
        if self.tasks.get(at as usize).is_some_and(of_work) {
            self.undoable.push(at);
            self.bytes += size_of::<u32>();
        }
    }

    /// What a run that is about to end so undoes first, if it does.
    pub(super) fn compensates_before(&self, end: &Event) -> Option<Event> {
        let (end, error) = match end {
            Event::JobFailed { error } => (JobEnd::Failed, Some(error.clone())),
            Event::JobCancelled => (JobEnd::Cancelled, None),
            _ => return None,
        };
        let begins = !self.cut_short && self.header.compensate_on.contains(&end);
        let tasks = self.left_to_undo();
        (begins && !tasks.is_empty()).then_some(Event::JobCompensating { end, error, tasks })
    }

    /// The tasks that are still to be undone, in the order in which they are.
    pub(super) fn left_to_undo(&self) -> Box<[TaskNumber]> {
        let last_first = self.undoable.iter().rev().map(|&at| number(at));
        let is_left = |&task: &TaskNumber| {
            let undo = self.task(task).and_then(|task| self.undo_of(task));
            undo.is_none_or(|(_, undo)| !undo.settled && !undo.is_passed_over())
        };
        last_first.filter(is_left).collect()
    }

    /// Whether a run is open in which nothing is left but to finish what has begun to be undone.
    pub(super) fn is_to_go_on_undoing(&self) -> bool {
        let open = match self.status {
            JobStatus::Running => true,
            JobStatus::Paused => self.intent == Some(Intent::Cancel),
            _ => false,
        };
        open && self.undoing.is_some() && self.ending.is_none()
    }

    /// The next event of such a run. Who has cancelled it meanwhile has decided its end anew.
    pub(super) fn goes_on_undoing(&self) -> Event {
        let end = self.end_of_undone();
        let tasks = self.left_to_undo();
        if self.cut_short || tasks.is_empty() {
            return end;
        }
        let (end, error) = match end {
            Event::JobFailed { error } => (JobEnd::Failed, Some(error)),
            _ => (JobEnd::Cancelled, None),
        };
        Event::JobCompensating { end, error, tasks }
    }

    /// How the run ends when its tasks are undone, as far as they are.
    pub(super) fn end_of_undone(&self) -> Event {
        if let Some(error) = self.not_undone() {
            return Event::JobFailed { error };
        }
        let cancelled = self.ending.is_none() && self.intent == Some(Intent::Cancel);
        match self.undoing.as_deref() {
            Some(Undoing { end: JobEnd::Failed, error: Some(error), .. }) if !cancelled => {
                Event::JobFailed { error: error.clone() }
            }
            _ => Event::JobCancelled,
        }
    }

    /// Why what was to be undone is not. It does not hide why the run was to end.
    fn not_undone(&self) -> Option<Failure> {
        let failed: Vec<&Task> =
            self.undos().filter(|task| task.status == TaskStatus::Failed).collect();
        if failed.is_empty() {
            return None;
        }
        let why = |task: &&Task| {
            let error = task.error.as_deref();
            let why = error.map_or_else(String::new, |error| format!(": {}", error.message));
            format!("{}{why}", task.spec.id)
        };
        let mut list: Vec<String> = failed.iter().take(NAMED).map(why).collect();
        list.extend((failed.len() > NAMED).then(|| "...".to_owned()));
        let cause = match self.undoing.as_deref().and_then(|undoing| undoing.error.as_ref()) {
            Some(error) => format!("it was about to fail: {} [{}]", error.message, error.code),
            None => "it was cancelled".to_owned(),
        };
        let message = format!("not all that the job did is undone ({}); {cause}", list.join("; "));
        Some(Failure::new(Failure::COMPENSATION_FAILED, message))
    }

    /// The checks of the event with which tasks begin to be undone.
    pub(super) fn may_be_undone(&self, end: JobEnd, tasks: &[TaskNumber]) -> Result<(), String> {
        let known: BTreeSet<TaskNumber> = self.left_to_undo().into_iter().collect();
        let given: BTreeSet<TaskNumber> = tasks.iter().copied().collect();
        if tasks.is_empty() || given.len() != tasks.len() || !given.is_subset(&known) {
            return Err("it names what is not there to be undone".into());
        }
        if self.undoing.is_none() && !self.header.compensate_on.contains(&end) {
            return Err(format!("the plan undoes nothing when it is {}", end.as_str()));
        }
        Ok(())
    }

    /// From now on what the job has done is undone.
    pub(super) fn begin_to_undo(
        &mut self,
        end: JobEnd,
        error: Option<&Failure>,
        tasks: &[TaskNumber],
    ) {
        self.decide_end(end, error);
        let error = error.cloned();
        self.undoing = Some(Box::new(Undoing { end, error, is_done: false }));
        let of: Vec<u32> = tasks.iter().filter_map(|&task| index(task)).collect();
        self.add_undos(&of);
        self.chain_undos(&of);
        self.turn_to(Part::Undo);
    }

    /// Adds a task that undoes it for each of these that has none.
    fn add_undos(&mut self, of: &[u32]) {
        let of_finally = |at: &u32| self.tasks[*at as usize].part == Part::Finally;
        let place = self.order.iter().position(of_finally).unwrap_or(self.order.len());
        let first = count(self.tasks.len());
        for &at in of {
            if let Some(undo) = self.tasks[at as usize].spec.undo()
                && self.find(undo.id.as_str()).is_none()
            {
                let mut task = Task::new(undo, Part::Undo);
                // It is not its turn yet.
                task.unmet = 1;
                self.bytes += size::of_task(&task);
                self.tasks.push(task);
            }
        }
        let new = first..count(self.tasks.len());
        if new.is_empty() {
            return;
        }
        self.order.splice(place..place, new.clone());
        self.names.extend(new);
        let id = |at: u32| &self.tasks[at as usize].spec.id;
        self.names.sort_unstable_by(|&one, &other| id(one).cmp(id(other)));
        self.rank_anew();
    }

    /// Has each task that undoes one of these need the one before it, and nothing else: those that
    /// are done for stand between them no more.
    fn chain_undos(&mut self, of: &[u32]) {
        let mut before: Option<(u32, TaskId)> = None;
        for &at in of {
            let Some((undo, task)) = self.undo_of(&self.tasks[at as usize]) else { continue };
            let (id, undo) = (task.spec.id.clone(), undo.0 - 1);
            let needed = before.replace((undo, id));
            self.set_needs(undo, needed.iter().map(|(before, _)| *before).collect());
            self.tasks[undo as usize].spec.needs =
                Some(needed.map(|(_, id)| id).into_iter().collect());
        }
    }

    /// The run is over: what could not be undone waits for somebody to say what is to become of it.
    pub(super) fn end_undoing(&mut self) {
        if self.undoing.is_none() {
            return;
        }
        let closed = u32::from(self.turn != Part::Undo);
        let failed = |at: &u32| {
            let task = &self.tasks[*at as usize];
            task.part == Part::Undo && task.status == TaskStatus::Failed && task.settled
        };
        let failed: Vec<u32> = (0..count(self.tasks.len())).filter(failed).collect();
        for &at in &failed {
            let task = &mut self.tasks[at as usize];
            (task.settled, task.unmet) = (false, closed);
            self.counts.tolerated -= 1;
        }
        for at in failed {
            for dependant in self.tasks[at as usize].dependants.clone() {
                self.tasks[dependant as usize].unmet += 1;
            }
        }
        let done = |task: &Task| task.status == TaskStatus::Completed || task.is_passed_over();
        let is_done = self.undos().all(done);
        if let Some(undoing) = &mut self.undoing {
            undoing.is_done = is_done;
        }
    }

    /// In a new run what could not be undone is tried afresh.
    pub(super) fn renew_undoing(&mut self) {
        let failed = |at: &u32| {
            let task = &self.tasks[*at as usize];
            task.part == Part::Undo && task.status == TaskStatus::Failed
        };
        let failed = (0..count(self.tasks.len())).filter(failed).collect();
        self.try_afresh(failed);
    }

    /// The tasks that a fork does anew because they are undone, or are about to be, as far as that
    /// has come. One whose undoing was passed over before it began is as it was.
    pub(super) fn done_anew(&self) -> Vec<u32> {
        let is_open = !self.status.is_ended();
        let anew = |&at: &u32| {
            let undo = self.undo_of(&self.tasks[at as usize]);
            undo.is_some_and(|(_, undo)| {
                let has_begun = undo.status == TaskStatus::Completed || !undo.attempts.is_empty();
                has_begun || (is_open && !undo.is_passed_over())
            })
        };
        self.undoable.iter().copied().filter(anew).collect()
    }

    /// The part of the plan whose tasks people mean when they name none.
    pub(super) fn part_in_question(&self) -> Part {
        if self.undoing.is_some() && self.ending.is_none() { Part::Undo } else { self.turn }
    }
}
