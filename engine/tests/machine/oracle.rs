//! A second, simple implementation: what a history means, computed from scratch at each event.
//!
//! It keeps no sets and counts nothing ahead of time; whether a task is settled or ready is found
//! anew whenever it is asked. It shares no code with the machine.

use annals_engine::job::{
    CancelMode, Event, Intent, JobStatus, Part, Recorded, TaskNumber, TaskStatus,
};
use annals_tasks_sdk::Payload;
use annals_tasks_sdk::plan::{JobEnd, OnFailure};

use crate::asked::Asked;
use crate::family::Holds;
pub(crate) use crate::known::{Known, Life, NEW, Waits};
use crate::plans::{Draft, Sketch};
use crate::told::Kept;
use crate::undone::Undoing;

/// A job as its history tells.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a thing that histories tell")]
pub(crate) struct Oracle {
    pub(crate) draft: Draft,
    pub(crate) tasks: Vec<Known>,
    /// Tasks in the order of the plan.
    pub(crate) order: Vec<usize>,
    pub(crate) status: JobStatus,
    pub(crate) intent: Option<Intent>,
    /// What the failure that is being reported asks for, which no event says.
    pub(crate) asked: Asked,
    pub(crate) started: bool,
    pub(crate) holds: Holds,
    pub(crate) purged: bool,
    /// The end that is decided, while what is done at the end has its turn.
    pub(crate) ending: Option<JobEnd>,
    /// Whether what the job has done has its turn to be undone.
    pub(crate) undoes_now: bool,
    /// What is known of that, once it has begun.
    pub(crate) undoing: Option<Undoing>,
    /// Tasks that have completed here and can be undone, in that order.
    pub(crate) done: Vec<usize>,
    /// Whether nothing more of the run is to start.
    pub(crate) cut: bool,
    /// Whether anything of the run has begun.
    pub(crate) begun: bool,
    /// When the deadline of the run passes...
    pub(crate) until: Option<i64>,
    /// ...or what is left of it, while it stands still.
    pub(crate) rest: Option<i64>,
    pub(crate) seq: u64,
    pub(crate) time: i64,
    /// Whether a command begins with the event.
    pub(crate) leads: bool,
    pub(crate) settled: Vec<bool>,
    /// Signals that no task was given, in the order in which they came.
    pub(crate) kept: Vec<Kept>,
    /// The task that was given one, and what it is about to give.
    pub(crate) answered: Option<(usize, Payload)>,
    /// So many copies of what was settled in the origin are still to come.
    pub(crate) copies: u32,
    /// By the number in its name, which task a fork has; empty where these are the same.
    pub(crate) renamed: Vec<usize>,
}

impl Oracle {
    pub(crate) fn new(draft: Draft) -> Self {
        let len = draft.tasks.len();
        let (tasks, settled, order) = (vec![NEW; len], vec![false; len], (0..len).collect());
        let (status, intent) = (JobStatus::Pending, None);
        let (asked, started, seq, time, leads) = (Asked::default(), false, 0, i64::MIN, false);
        let (until, rest) = (None, None);
        let (copies, renamed) = (0, Vec::new());
        let (ending, cut, begun) = (None, false, false);
        Self {
            draft,
            tasks,
            order,
            status,
            intent,
            asked,
            started,
            holds: Holds::default(),
            purged: false,
            ending,
            undoes_now: false,
            undoing: None,
            done: Vec::new(),
            cut,
            begun,
            until,
            rest,
            seq,
            time,
            leads,
            settled,
            kept: Vec::new(),
            answered: None,
            copies,
            renamed,
        }
    }

    pub(crate) fn sketch(&self, at: usize) -> &Sketch {
        &self.draft.tasks[at]
    }

    /// What a task directly needs, removed ones passed over where its place says so.
    pub(crate) fn needs(&self, at: usize) -> Vec<usize> {
        if let Some(needs) = &self.sketch(at).needs {
            return needs.clone();
        }
        let before = self.order.iter().take_while(|&&other| other != at);
        let present = |&&other: &&usize| {
            let removed = self.tasks[other].status == TaskStatus::Removed;
            !removed && self.part(other) == self.part(at)
        };
        before.filter(present).last().into_iter().copied().collect()
    }

    /// What a task needs, directly or through others.
    pub(crate) fn all_needs(&self, at: usize) -> Vec<bool> {
        let (mut seen, mut work) = (vec![false; self.tasks.len()], self.needs(at));
        while let Some(next) = work.pop() {
            if !std::mem::replace(&mut seen[next], true) {
                work.extend(self.needs(next));
            }
        }
        seen
    }

    pub(crate) fn is_passed_over(&self, at: usize) -> bool {
        matches!(self.tasks[at].status, TaskStatus::Skipped | TaskStatus::Removed)
    }

    /// Which tasks are settled, from the definition alone: the smallest set that holds.
    pub(crate) fn settled(&self) -> Vec<bool> {
        let mut settled: Vec<bool> = (0..self.tasks.len())
            .map(|at| match self.tasks[at].status {
                TaskStatus::Completed => true,
                TaskStatus::Failed if self.is_undo(at) => self.settles_now(at),
                TaskStatus::Failed => {
                    self.is_at_end(at) || self.sketch(at).on_failure == OnFailure::Continue
                }
                _ => self.tasks[at].done_at_end,
            })
            .collect();
        loop {
            let next = (0..self.tasks.len()).find(|&at| {
                !settled[at]
                    && self.is_passed_over(at)
                    && self.settles_now(at)
                    && self.needs(at).iter().all(|&need| settled[need])
            });
            match next {
                Some(at) => settled[at] = true,
                None => return settled,
            }
        }
    }

    pub(crate) fn is_ready(&self, at: usize, settled: &[bool]) -> bool {
        matches!(self.tasks[at].status, TaskStatus::Pending | TaskStatus::Interrupted)
            && self.part(at) == self.turn()
            && self.needs(at).iter().all(|&need| settled[need])
    }

    pub(crate) fn dispatches(&self) -> bool {
        let goes_on = if self.ending.is_some() { !self.cut } else { self.is_unbroken() };
        self.status == JobStatus::Running && goes_on
    }

    fn is_unbroken(&self) -> bool {
        self.intent.is_none() && self.undoing.is_none()
    }

    /// Whether the deadline has passed, and nobody has noticed.
    pub(crate) fn is_overdue(&self, now: i64) -> bool {
        self.until.is_some_and(|until| until <= now.max(self.time))
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.intent.is_some_and(|intent| intent != Intent::Pause)
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.tasks.iter().all(|task| !task.is_live())
    }

    /// Tasks whose input is still to be made.
    pub(crate) fn is_to_run(&self, at: usize, settled: &[bool]) -> bool {
        !settled[at] && !self.is_passed_over(at)
    }

    /// Takes the next event in, and asserts all that must hold of it and after it.
    pub(crate) fn take_in(&mut self, next: &Recorded) {
        assert_eq!(next.seq, self.seq + 1, "a seq has no gap");
        let time = next.time.as_millis();
        assert!(time >= self.time, "no event is before its predecessor");
        (self.seq, self.time, self.leads) = (next.seq, time, next.leads);
        let ended = self.status.is_ended();
        if ended {
            let (plan_only, reopens) =
                (self.is_plan_only(&next.event), self.may_leave(&next.event));
            // What takes no signal is looked at below.
            let is_told = matches!(next.event, Event::SignalReceived { .. });
            assert!(plan_only || reopens || is_told, "{:?} after the end", next.event.type_name());
        }
        self.take_in_signal(&next.event);
        self.take_in_of_job(&next.event);
        self.take_in_of_task(&next.event);
        self.one_copy_less(&next.event);
        if is_change(&next.event) {
            self.change(&next.event);
        }
        self.fails_fast();
        self.keeps_what_is_settled(matches!(next.event, Event::JobReopened { .. }));
    }

    fn is_plan_only(&self, event: &Event) -> bool {
        let edit = matches!(event, Event::TaskSkipped { .. } | Event::TaskRemoved { .. });
        let edit = edit || is_change(event);
        edit && self.status != JobStatus::Completed
    }

    fn may_leave(&self, event: &Event) -> bool {
        match event {
            Event::JobReopened { .. } => self.status != JobStatus::Completed,
            Event::JobCancelled => self.status == JobStatus::Failed,
            _ => false,
        }
    }

    fn keeps_what_is_settled(&mut self, reopened: bool) {
        let settled = self.settled();
        self.settled.resize(settled.len(), false);
        for (at, (&before, &now)) in self.settled.iter().zip(&settled).enumerate() {
            let not_undone = self.is_undo(at) && self.tasks[at].status == TaskStatus::Failed;
            let anew = (reopened && self.is_at_end(at)) || (not_undone && self.status.is_ended());
            assert!(now || !before || anew, "task t{at} is no longer settled");
        }
        for (at, &settled) in settled.iter().enumerate() {
            self.tasks[at].done_at_end = settled && self.part(at) != Part::Tasks;
        }
        self.settled = settled;
    }

    fn take_in_of_job(&mut self, event: &Event) {
        match event {
            Event::JobSubmitted(_) => assert_eq!(self.seq, 1),
            Event::JobForked { copied, .. } => self.becomes_fork(*copied),
            Event::JobStarted => {
                assert_eq!((self.status, self.copies), (JobStatus::Pending, 0));
                let due = self.draft.start_at.is_none_or(|at| at <= self.time);
                assert!(due || self.leads, "it starts before its time");
                (self.status, self.started, self.begun) = (JobStatus::Running, true, false);
                self.until = self.draft.deadline.map(|limit| self.time + limit);
            }
            Event::PauseRequested { mode } => {
                let held = self.status == JobStatus::Paused && !self.holds.own;
                assert!(self.status == JobStatus::Running || held);
                assert!(matches!(self.intent, None | Some(Intent::Pause)));
                self.holds.own = true;
                self.is_to_be_quiet(*mode);
            }
            Event::JobPaused => {
                assert!(self.is_quiet() && !self.has_loud_children(), "paused means quiet");
                let held = self.status == JobStatus::Pending || self.intent == Some(Intent::Pause);
                assert!(held);
                if self.status == JobStatus::Running {
                    let held = self.can_go_on() || self.wants_operator() || self.has_finally();
                    assert!(held || self.undoes_before(JobEnd::Failed), "it has nothing to pause");
                }
                (self.status, self.intent) = (JobStatus::Paused, None);
                self.holds.own |= !self.holds.parent;
                assert!(!self.is_overdue(self.time), "the clock stops too late");
                self.rest = self.until.take().map(|until| until - self.time);
            }
            Event::JobResumed => self.resumed(),
            Event::CancelRequested { mode } => {
                let now = *mode == CancelMode::Now;
                assert!(matches!(self.status, JobStatus::Running | JobStatus::Paused));
                assert!(!self.is_ending() || (now && !self.cut));
                if !self.is_ending() {
                    self.intent = Some(Intent::Cancel);
                }
                (self.cut, self.until, self.rest) = (self.cut || now, None, None);
                self.status = JobStatus::Running;
                self.is_held_no_more();
                self.stop_all();
            }
            Event::JobCompensating { end, tasks, .. } => self.begins_to_undo(*end, tasks),
            Event::JobEnding { end, .. } => self.begins_to_end(*end),
            Event::DeadlinePassed { error } => {
                assert_eq!((self.status, self.is_ending()), (JobStatus::Running, false));
                assert!(self.is_overdue(self.time) && !self.leads);
                assert_eq!(&*error.code, "deadline_exceeded");
                (self.intent, self.until) = (Some(Intent::Fail), None);
                self.is_held_no_more();
                self.stop_all();
            }
            Event::JobLinked(_) | Event::HoldPlaced { .. } | Event::HoldLifted => {
                self.take_in_of_family(event);
            }
            Event::JobReopened { held } => self.reopened(*held),
            _ => self.take_in_end(event),
        }
    }

    fn take_in_end(&mut self, event: &Event) {
        match event {
            Event::JobCompleted => {
                self.may_end_so(JobEnd::Completed);
                let mut work = (0..self.tasks.len()).filter(|&at| !self.is_at_end(at));
                assert!(work.all(|at| self.settled[at]), "all is settled");
                self.ended(JobStatus::Completed);
            }
            Event::JobFailed { error } if self.ends_undone() => {
                self.may_end_undone(JobEnd::Failed);
                assert!(self.cut || !self.has_finally(), "what is done at the end has had no turn");
                let failed = &*error.code == "compensation_failed";
                assert!(
                    failed || self.undoing.is_some_and(|undoing| undoing.end == JobEnd::Failed)
                );
                self.ended(JobStatus::Failed);
            }
            Event::JobCancelled if self.ends_undone() => {
                self.may_end_undone(JobEnd::Cancelled);
                assert!(self.cut || !self.has_finally(), "what is done at the end has had no turn");
                self.ended(JobStatus::Cancelled);
            }
            Event::JobFailed { error } if self.intent == Some(Intent::Fail) => {
                self.may_end_so(JobEnd::Failed);
                let fast = self.draft.fail_fast || self.ending.is_some();
                assert!(fast || &*error.code == "deadline_exceeded", "{error:?}");
                self.ended(JobStatus::Failed);
            }
            Event::JobFailed { .. } => {
                self.may_end_so(JobEnd::Failed);
                assert!(!self.can_go_on(), "something could still run");
                assert!(!self.wants_operator(), "an operator was asked for");
                assert!(self.intent.is_none_or(|intent| intent == Intent::Pause));
                self.ended(JobStatus::Failed);
            }
            Event::JobCancelled => {
                let asked = self.intent == Some(Intent::Cancel);
                if asked {
                    self.may_end_so(JobEnd::Cancelled);
                }
                assert!(asked || !self.started || self.status == JobStatus::Failed);
                self.ended(JobStatus::Cancelled);
            }
            _ => {}
        }
    }

    /// When it starts by itself.
    pub(crate) fn starts_at(&self) -> Option<i64> {
        self.draft.start_at.filter(|_| self.status == JobStatus::Pending)
    }

    pub(crate) fn can_go_on(&self) -> bool {
        (0..self.tasks.len()).any(|at| {
            self.is_ready(at, &self.settled) || self.tasks[at].status == TaskStatus::Waiting
        })
    }

    /// Whether a failure that pauses its job has not been dealt with.
    pub(crate) fn wants_operator(&self) -> bool {
        self.tasks.iter().zip(&self.draft.tasks).any(|(task, sketch)| {
            task.status == TaskStatus::Failed && sketch.on_failure == OnFailure::Pause
        })
    }

    pub(crate) fn stop_all(&mut self) {
        self.stops_attempts();
        for task in self.tasks.iter_mut().filter(|task| task.waits == Some(Waits::Child)) {
            task.child_stops = true;
        }
    }

    pub(crate) fn stops_attempts(&mut self) {
        for task in self.tasks.iter_mut().filter(|task| task.is_live()) {
            task.life = Life::Stopping;
        }
    }

    fn resumed(&mut self) {
        assert!(self.status == JobStatus::Paused || self.intent == Some(Intent::Pause));
        assert!(self.holds.own, "nobody has paused it");
        self.holds.own = false;
        self.goes_on();
        if self.undoing.is_some() {
            return;
        }
        for (task, sketch) in self.tasks.iter_mut().zip(&self.draft.tasks) {
            (task.losses, task.wants_consent) = (0, false);
            if task.status == TaskStatus::Failed && sketch.on_failure == OnFailure::Pause {
                task.status = TaskStatus::Pending;
                task.failures = 0;
            }
        }
    }

    fn reopened(&mut self, held: bool) {
        self.status = if held { JobStatus::Paused } else { JobStatus::Running };
        (self.started, self.begun) = (true, false);
        (self.holds.own, self.holds.parent) = (held, false);
        let limit = self.draft.deadline.filter(|_| self.undoing.is_none());
        self.until = limit.filter(|_| !held).map(|limit| self.time + limit);
        self.rest = limit.filter(|_| held);
        self.renews_finally();
        if self.undoing.is_some() {
            return self.reopened_to_undo();
        }
        for at in 0..self.tasks.len() {
            let settled = self.settled[at] && !self.is_at_end(at);
            let task = &mut self.tasks[at];
            task.wants_consent = false;
            if !settled {
                (task.losses, task.failures) = (0, 0);
                if task.status == TaskStatus::Failed {
                    task.status = TaskStatus::Pending;
                }
            }
        }
    }

    fn ended(&mut self, status: JobStatus) {
        assert!(self.is_quiet(), "an attempt is alive");
        assert!(!self.has_children(), "a child has not ended");
        self.is_held_no_more();
        self.ends_undoing();
        (self.status, self.intent, self.until, self.rest) = (status, None, None, None);
        (self.ending, self.cut) = (None, false);
        self.interrupts_what_waits();
    }

    pub(crate) fn interrupts_what_waits(&mut self) {
        for task in self.tasks.iter_mut().filter(|task| task.status == TaskStatus::Waiting) {
            task.status = TaskStatus::Interrupted;
            task.waits = None;
        }
    }
}

/// Whether the plan says something else afterwards.
fn is_change(event: &Event) -> bool {
    matches!(event, Event::TaskInserted { .. } | Event::TaskMoved { .. } | Event::TaskEdited { .. })
}

pub(crate) fn index(task: TaskNumber) -> usize {
    task.0 as usize - 1
}
