//! Families: jobs that have children, and how these and their parents are told of each other.
//!
//! A child is made on a thread of its own, as a submission is; its loop, which is its parent's,
//! takes it over in the turn in which the parent's task comes to wait for it, so that both rows go
//! into one commit. From then on each tells the other what is durable: the parent what it wants of
//! the child, the child that it is quiet or has ended. Both are levels: told again they make no
//! events, so that a start tells everything anew, and nothing has to be remembered.

use std::collections::BTreeMap;
use std::sync::Arc;

use annals_tasks_sdk::plan::{ChildPlan, PlanError};
use annals_tasks_sdk::{JobId, Payload, TaskError, Timestamp};

use super::act::Action;
use super::desk::Desk;
use super::engine::Shared;
use super::error::{JobError, SubmitError};
use super::executor::{Entry, Executor};
use super::message::Message;
use super::panics;
use super::turn::Loop;
use crate::job::{
    ChildEnd, Command, Context, Event, Failure, Job, News, Order, Origin, Parent, Recorded,
    Rejection, Report, Submitted, Task, TaskNumber, Wish, submit,
};

/// What a loop keeps of a job for its parent and its children.
#[derive(Debug, Default)]
pub(super) struct Family {
    /// What its parent has said that it wants.
    wish: Option<Wish>,
    /// What the children were told last.
    told: BTreeMap<TaskNumber, Wish>,
    untold: Untold,
    /// Tasks whose child is being made or looked for.
    preparing: Vec<TaskNumber>,
}

/// Whose children may have to be told something.
#[derive(Debug)]
enum Untold {
    All,
    Of(Vec<TaskNumber>),
}

impl Default for Untold {
    fn default() -> Self {
        Self::Of(Vec::new())
    }
}

impl Family {
    /// Of a job of which nobody was told anything since it was loaded.
    pub(super) fn of(job: &Job) -> Option<Box<Self>> {
        let untold = Untold::All;
        (job.children().len() > 0).then(|| Box::new(Self { untold, ..Self::default() }))
    }

    /// Whether the child of a task is being made or looked for.
    pub(super) fn prepares(&self, task: TaskNumber) -> bool {
        self.preparing.contains(&task)
    }

    /// The tasks whose child is being made or looked for.
    pub(super) fn preparing(&self) -> Vec<TaskNumber> {
        self.preparing.clone()
    }

    /// Whether anything is on its way that this would have to take in.
    pub(super) fn is_idle(&self) -> bool {
        self.preparing.is_empty()
    }

    /// The first task whose child was not told what is wanted of it.
    pub(super) fn forgets(&self, job: &Job) -> Option<TaskNumber> {
        job.children().find(|task| self.told.get(task).copied() != job.wish(*task))
    }

    fn tell(&mut self, task: TaskNumber) {
        if let Untold::Of(tasks) = &mut self.untold {
            tasks.push(task);
        }
    }
}

/// Notes what an event means for what the children of a job are told.
pub(super) fn note(family: &mut Option<Box<Family>>, job: &Job, recorded: &Recorded) {
    if let Event::ChildStarted { task, after, .. } = &recorded.event {
        let family = family.get_or_insert_default();
        if *after == 0 {
            // That it is to run is what a new one knows.
            family.told.insert(*task, Wish { after: 0, order: Order::Go });
        }
        return family.tell(*task);
    }
    let Some(family) = family else { return };
    match &recorded.event {
        Event::TaskCompleted { task, .. } | Event::ChildEnded { task, .. } => {
            family.told.remove(task);
        }
        Event::SkipRequested { task, .. } => family.tell(*task),
        Event::PauseRequested { .. }
        | Event::HoldPlaced { .. }
        | Event::HoldLifted
        | Event::JobResumed
        | Event::CancelRequested { .. }
        | Event::DeadlinePassed { .. } => family.untold = Untold::All,
        Event::TaskFailed { .. } if job.header().fail_fast => family.untold = Untold::All,
        _ => {}
    }
}

/// A child that was made, or why there is none.
pub(super) struct Prepared {
    /// The task's number, and its input as it stood in the plan.
    task: TaskNumber,
    template: Payload,
    /// The child in whose place it is made, since that is not there any more.
    instead: Option<JobId>,
    made: Result<Box<Executor>, TaskError>,
}

/// What there is of a child that a task had before.
#[derive(Debug, Clone)]
pub(super) enum Visited {
    /// The event with which it ended last.
    There(u64),
    Gone,
    Unreadable(String),
}

impl Visited {
    /// What it is that a child cannot be loaded.
    pub(super) fn missing(error: &JobError) -> Self {
        match error {
            JobError::NotFound(_) | JobError::Purged { .. } => Self::Gone,
            other => Self::Unreadable(other.to_string()),
        }
    }
}

/// What is needed to make a child.
struct Making {
    id: JobId,
    parent: Parent,
    input: Payload,
    now: Timestamp,
}

impl Desk<'_> {
    /// A task could start that has a child. Gives whether the job has changed.
    pub(super) fn want_child(&mut self, task: TaskNumber) -> bool {
        let prepares = self.executor.family.as_ref().is_some_and(|family| family.prepares(task));
        let Some(at) = self.executor.job.task(task).filter(|_| !prepares) else { return false };
        let most = self.shared.settings.limits.child_depth;
        if self.executor.job.depth() as usize >= most {
            let message = format!(
                "the job has {most} ancestors, and the limit `child_depth` is {most}: it cannot \
                 have children"
            );
            let error = TaskError::new("too_deep", message).give_up();
            return self.report(Report::Refuse { task, error }) > 0;
        }
        if let Some(child) = at.child_again() {
            let parent = self.id;
            self.executor.family.get_or_insert_default().preparing.push(task);
            let visit = Message::Visit { job: child, parent, task };
            self.after_events(Action::Tell { to: child, message: Box::new(visit) });
            return false;
        }
        self.make_child(task)
    }

    /// Has a new child made. Gives whether the job has changed.
    fn make_child(&mut self, task: TaskNumber) -> bool {
        let job = &self.executor.job;
        let Some(at) = job.task(task) else { return false };
        let (template, instead) = (at.spec.input.clone(), at.child_again());
        let input = match job.input_of(at) {
            Ok(input) => input,
            Err(missing) => {
                let error = TaskError::new(&missing.code, &missing.message).give_up();
                return self.report(Report::Refuse { task, error }) > 0;
            }
        };
        let now = self.now.max(job.time());
        let (id, task_id, depth) = (job.next_child(task, now), at.spec.id.clone(), job.depth() + 1);
        let parent = Parent { job: self.id, task, task_id, depth };
        let making = Making { id, parent, input, now };
        let (shared, home, job) = (Arc::clone(self.shared), self.home, self.id);
        self.executor.family.get_or_insert_default().preparing.push(task);
        self.shared.workers.aside(move || {
            let made = panics::guard(|| shared.begin_child(making)).unwrap_or_else(|panic| {
                Err(TaskError::new("panic", format!("the workflow panicked: {panic}")).give_up())
            });
            let prepared = Box::new(Prepared { task, template, instead, made });
            shared.tell(home, Message::Prepared { job, prepared });
        });
        false
    }

    /// Does what the parent wants. Gives whether the job has changed.
    pub(super) fn obey_parent(&mut self) -> bool {
        let wish = self.executor.family.as_ref().and_then(|family| family.wish);
        wish.is_some_and(|wish| self.report(Report::Wished(wish)) > 0)
    }

    /// Tells the children what is wanted of them, where that is news.
    pub(super) fn lead_children(&mut self) {
        let Some(family) = self.executor.family.as_mut().filter(|_| self.dispatching) else {
            return;
        };
        let tasks = match std::mem::take(&mut family.untold) {
            Untold::Of(tasks) => tasks,
            Untold::All => self.executor.job.children().collect(),
        };
        for task in tasks {
            let job = &self.executor.job;
            let (Some(wish), Some(child)) = (job.wish(task), job.task(task).and_then(Task::child))
            else {
                continue;
            };
            let (child, parent) = (child.job, self.id);
            let Some(family) = self.executor.family.as_mut() else { return };
            if family.told.insert(task, wish) != Some(wish) {
                let wish = Message::Wish { job: child, parent, task, wish };
                self.after_events(Action::Tell { to: child, message: Box::new(wish) });
            }
        }
    }

    /// Takes in that the child of a task was made or found. Gives whether the task may wait for it.
    fn is_prepared(&mut self, task: TaskNumber) -> bool {
        self.touch();
        if let Some(family) = &mut self.executor.family {
            family.preparing.retain(|other| *other != task);
        }
        let may_start = self.dispatching && self.executor.holds_its_key();
        may_start && self.executor.job.is_wanted(task, self.now)
    }
}

impl Loop {
    /// A child was made: its parent's task waits for it from now on, if it is as it was.
    pub(super) fn on_prepared(&mut self, parent: JobId, prepared: Prepared) {
        let Prepared { task, template, instead, made } = prepared;
        let Some(mut desk) = self.desk(parent) else { return };
        let fits = desk.is_prepared(task);
        let job = &desk.executor.job;
        // It may have been edited meanwhile: then another one is made.
        let same = |at: &Task| at.spec.input == template && at.child_again() == instead;
        if !fits || !job.task(task).is_some_and(same) {
            return;
        }
        let made = made.and_then(|child| match self.held_by_ancestor(parent, &child.job) {
            Some(error) => Err(error),
            None => Ok(child),
        });
        match made {
            Err(error) => drop(self.report(parent, Report::Refuse { task, error })),
            Ok(child) => self.adopt_child(parent, task, child),
        }
    }

    fn adopt_child(&mut self, parent: JobId, task: TaskNumber, executor: Box<Executor>) {
        let child = executor.job.id();
        if self.entries.contains_key(&child) || self.broken.contains_key(&child) {
            return;
        }
        if self.report(parent, Report::Spawned { task, child, after: 0 }) == 0 {
            return;
        }
        self.entries.insert(child, Entry::Loaded(executor));
        self.loaded += 1;
        if let Some(mut desk) = self.desk(child) {
            desk.at_once(|_| ());
        }
    }

    /// Why a child would wait for ever: one of its ancestors, which waits for it, has its key.
    fn held_by_ancestor(&self, parent: JobId, child: &Job) -> Option<TaskError> {
        let key = &child.exclusive()?.key;
        let mut next = Some(parent);
        while let Some(id) = next {
            let Some(Entry::Loaded(executor)) = self.entries.get(&id) else { return None };
            if executor.job.exclusive().is_some_and(|own| own.key == *key) {
                let message = format!(
                    "the child would wait for the exclusive key {key:?}, which job {id} holds that \
                     waits for the child"
                );
                return Some(TaskError::new("held_by_ancestor", message).give_up());
            }
            next = executor.job.parent().map(|parent| parent.job);
        }
        None
    }

    /// A parent looks for the child that its task had before.
    pub(super) fn on_visit(&mut self, child: JobId, parent: JobId, task: TaskNumber) {
        let found = match self.at_hand(child) {
            Ok(executor) => Visited::There(executor.job.ended_at()),
            Err(error) => Visited::missing(&error),
        };
        let visited = Message::Visited { job: parent, task, child, found };
        self.after_events_of(child, Action::Tell { to: parent, message: Box::new(visited) });
    }

    /// A parent has found the child that its task had before, or not.
    pub(super) fn on_visited(
        &mut self,
        parent: JobId,
        task: TaskNumber,
        (child, found): (JobId, Visited),
    ) {
        let Some(mut desk) = self.desk(parent) else { return };
        let fits = desk.is_prepared(task);
        let job = &desk.executor.job;
        if !fits || job.task(task).and_then(Task::child_again) != Some(child) {
            return;
        }
        match found {
            Visited::There(after) => {
                desk.report(Report::Spawned { task, child, after });
            }
            Visited::Gone => {
                desk.make_child(task);
            }
            Visited::Unreadable(why) => {
                let message = format!("child job {child} cannot be read: {why}");
                let error = TaskError::new("child_unreadable", message).give_up();
                desk.report(Report::Refuse { task, error });
            }
        }
    }

    /// A parent says what it wants of a child.
    pub(super) fn on_wish(
        &mut self,
        child: JobId,
        (parent, task): (JobId, TaskNumber),
        wish: Wish,
    ) {
        let is_its = |job: &Job| job.parent().is_some_and(|by| (by.job, by.task) == (parent, task));
        match self.at_hand(child).map(|executor| is_its(&executor.job)) {
            Ok(true) => {
                if let Some(mut desk) = self.desk(child) {
                    desk.executor.family.get_or_insert_default().wish = Some(wish);
                    desk.at_once(|_| ());
                }
                self.after_events_of(child, Action::TellParent { child });
            }
            Ok(false) => {}
            Err(error) => self.tell_gone(child, (parent, task), &error),
        }
    }

    fn tell_gone(&mut self, child: JobId, family: (JobId, TaskNumber), error: &JobError) {
        if let Some(action) = gone(child, family, error) {
            self.after_events_of(child, action);
        }
    }

    /// Tells the parent of a job what that has to say, if it is durable.
    pub(super) fn tell_parent(&mut self, id: JobId) {
        let limit = self.shared.settings.limits.payload_bytes;
        let Some(Entry::Loaded(executor)) = self.entries.get_mut(&id) else { return };
        let Some(parent) = executor.job.parent() else { return };
        if executor.durable_seq != executor.job.seq() {
            return;
        }
        let wish = executor.family.as_ref().and_then(|family| family.wish);
        let Some(news) = executor.job.news(wish.as_ref()) else { return };
        let (to, task, seq) = (parent.job, parent.task, executor.job.ended_at());
        if !matches!(news, News::Quiet { .. })
            && let Some(family) = &mut executor.family
        {
            // What it does after its end, it does for itself.
            family.wish = None;
        }
        let news = fitting(news, (id, seq), limit);
        let report = Report::Heard { task, child: id, news };
        self.shared.tell(self.shared.home_of(to), Message::Report { job: to, report });
    }

    /// Why a child is not purged yet: its parent waits for what it gives.
    pub(super) fn parent_waits(&self, job: &Job, command: &Command) -> Option<Rejection> {
        let parent = job.parent().filter(|_| matches!(command, Command::Purge { .. }))?;
        let Some(Entry::Loaded(executor)) = self.entries.get(&parent.job) else { return None };
        let task = executor.job.task(parent.task)?;
        let waits = task.open_child().is_some_and(|child| child.job == job.id());
        waits.then(|| job.is_waited_for(parent))
    }

    /// Jobs whose first events are not to be written, since their parent's are not, which say that
    /// its task waits for them.
    pub(super) fn orphans_of(&self, spoiled: &[JobId], written: &[JobId]) -> Vec<JobId> {
        let is_one = |id: &&JobId| match self.entries.get(*id) {
            Some(Entry::Loaded(executor)) => {
                let parent = executor.job.parent().map(|parent| parent.job);
                executor.head.seq == 0 && parent.is_some_and(|parent| spoiled.contains(&parent))
            }
            _ => false,
        };
        written.iter().filter(is_one).copied().collect()
    }
}

/// What a parent is told whose child is not there; nothing where it only cannot be read now.
pub(super) fn gone(
    child: JobId,
    (parent, task): (JobId, TaskNumber),
    error: &JobError,
) -> Option<Action> {
    if !matches!(Visited::missing(error), Visited::Gone) {
        tracing::error!(job = %child, %error, "a child cannot be told what its parent wants");
        return None;
    }
    let error = Failure::new("child_gone", format!("child job {child} is not there any more"));
    let news = News::Ended { end: ChildEnd::Gone, seq: 0, error };
    let report = Report::Heard { task, child, news };
    let message = Box::new(Message::Report { job: parent, report });
    Some(Action::Tell { to: parent, message })
}

/// The news, where what the child gives is no larger than what a task may give.
fn fitting(news: News, (child, seq): (JobId, u64), limit: usize) -> News {
    let News::Completed { output } = &news else { return news };
    let bytes = output.as_str().len();
    if bytes <= limit {
        return news;
    }
    let message = format!(
        "the output of child job {child} has {bytes} bytes; the limit `payload_bytes` is {limit}"
    );
    News::Ended { end: ChildEnd::Failed, seq, error: Failure::new("output_too_large", message) }
}

impl Shared {
    /// Begins a child, which nobody knows of yet.
    fn begin_child(&self, making: Making) -> Result<Box<Executor>, TaskError> {
        let Making { id, parent, input, now } = making;
        let limits = &self.settings.limits;
        let child =
            ChildPlan::read(&input, limits).map_err(|errors| bad("bad_input", &errors.0))?;
        let (plan, workflow) = match child {
            ChildPlan::Plan(plan) => (*plan, None),
            ChildPlan::Workflow { name, input } => {
                let plan = self.plan_of(&name, &input).map_err(|error| refused(&error))?;
                (plan, Some(name))
            }
            _ => {
                return Err(TaskError::new("bad_input", "it is no child of this version").give_up());
            }
        };
        self.check_kinds(&plan).map_err(|errors| bad("bad_plan", &errors.0))?;
        let submitted = Submitted { plan, workflow, source: None };
        let mut events = submit(submitted, limits).map_err(|errors| bad("bad_plan", &errors.0))?;
        events.insert(1, Event::JobLinked(Box::new(parent)));
        let (origin, losses) = (Origin::ENGINE, self.settings.losses);
        let (random, instances) = (fastrand::f64(), limits.instances);
        let cx = Context { origin, key: None, now, random, losses, instances };
        let begun = Executor::begin(id, events, &cx);
        let begun = begun.map_err(|error| {
            TaskError::new("bad_plan", format!("the child cannot begin: {error}")).give_up()
        });
        begun.map(Box::new)
    }
}

fn bad(code: &str, errors: &[PlanError]) -> TaskError {
    let detail = errors.first().map_or_else(String::new, ToString::to_string);
    TaskError::new(code, format!("the child is not valid: {detail}")).give_up()
}

fn refused(error: &SubmitError) -> TaskError {
    TaskError::new("bad_workflow", format!("the workflow makes no child: {error}")).give_up()
}
