//! Effects: what the runtime must do for a job now. They are levels, computed from the state and
//! reconciled by task and attempt, so a restart needs no path of its own.

use annals_tasks_sdk::Timestamp;
use annals_tasks_sdk::plan::Start;

use super::command::LossRule;
use super::event::TaskNumber;
use super::state::{Job, StopReason, Task, number};
use super::status::JobStatus;
use super::waiting::Waiting;

/// What the runtime must do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// This attempt is to be alive.
    Run {
        /// The task.
        task: TaskNumber,
        /// The attempt.
        attempt: u32,
    },
    /// This live attempt is to end.
    Stop {
        /// The task.
        task: TaskNumber,
        /// The attempt.
        attempt: u32,
        /// Why.
        reason: StopReason,
    },
    /// This task wants a slot.
    Want {
        /// The task.
        task: TaskNumber,
        /// Whether it may run only while no other suspect does.
        suspect: bool,
    },
    /// The job has something to do at this time, which may have passed.
    Wake {
        /// When.
        at: Timestamp,
    },
}

impl Effect {
    fn is_stop(&self) -> bool {
        matches!(self, Self::Stop { .. })
    }
}

impl Job {
    /// What must be done for this job at `now`.
    pub fn effects(&self, now: Timestamp, rule: LossRule) -> impl Iterator<Item = Effect> {
        let live = self.live.iter().flat_map(|&at| self.live_effects(at));
        debug_assert_eq!(self.stopping(), live.clone().filter(Effect::is_stop).count());
        let open = self.starts_tasks(now);
        let wants = self.wanted(now).take_while(move |_| open).map(move |at| Effect::Want {
            task: number(at),
            suspect: self.is_suspect(number(at), rule),
        });
        let wake = self.wake(now).map(|at| Effect::Wake { at });
        live.chain(wake).chain(wants)
    }

    /// When the job has something to do next, which may have passed.
    pub(crate) fn wake(&self, now: Timestamp) -> Option<Timestamp> {
        // By the time of its events the deadline may have passed while the clock, which was set
        // back, is before it.
        let late = self.is_overdue(now);
        let deadline = self.deadline_at().map(|at| if late { at.min(now) } else { at });
        let moves = self.next_move(now).into_iter().chain(self.starts_at());
        moves.chain(deadline).min()
    }

    /// Whether this attempt of a task is alive and is to end.
    pub(crate) fn is_to_end(&self, task: TaskNumber, attempt: u32) -> bool {
        let live = self.task(task).and_then(Task::live_attempt);
        live.is_some_and(|live| live.number == attempt && live.stop.is_some())
    }

    /// How many live attempts are to end.
    pub(crate) fn stopping(&self) -> usize {
        self.stopping as usize
    }

    /// When the job starts by itself; `None` where its plan has no time for that, once it has
    /// started, and while it is held.
    pub fn starts_at(&self) -> Option<Timestamp> {
        match self.header.start {
            Start::At(time) if self.status == JobStatus::Pending => Some(time),
            _ => None,
        }
    }

    /// Whether tasks may start at `now`.
    pub(super) fn starts_tasks(&self, now: Timestamp) -> bool {
        self.dispatches() && !self.is_overdue(now)
    }

    fn live_effects(&self, at: u32) -> impl Iterator<Item = Effect> + Clone {
        let task = number(at);
        let attempt = self.tasks[at as usize].live_attempt();
        let run = attempt.map(|live| Effect::Run { task, attempt: live.number });
        let stop = attempt.and_then(|live| {
            live.stop.map(|reason| Effect::Stop { task, attempt: live.number, reason })
        });
        run.into_iter().chain(stop)
    }

    /// Tasks that could start at `now`: ready ones in the order of the plan, those whose back-off
    /// is over, and those whose kind was missing, since the runtime knows whether it still is.
    fn wanted(&self, now: Timestamp) -> impl Iterator<Item = u32> {
        let ready = self.ready.iter().map(|&(_, at)| at);
        let due = self.timed.iter().take_while(move |&&(due, _)| due <= now).map(|&(_, at)| at);
        let retries = due
            .filter(|&at| matches!(self.tasks[at as usize].waiting, Some(Waiting::Retry { .. })));
        ready.chain(retries).chain(self.kindless.iter().copied())
    }

    /// The first time at which something is to happen that no want already says; the deadline of
    /// the run, which only ends it, is left out.
    pub(crate) fn next_move(&self, now: Timestamp) -> Option<Timestamp> {
        let is_retry =
            |at: u32| matches!(self.tasks[at as usize].waiting, Some(Waiting::Retry { .. }));
        let mut timed = self.timed.iter().filter(|_| self.dispatches());
        timed.find(|&&(due, at)| due > now || !is_retry(at)).map(|&(due, _)| due)
    }

    /// Whether the engine keeps dying under a task.
    pub(crate) fn is_suspect(&self, task: TaskNumber, rule: LossRule) -> bool {
        self.task(task).is_some_and(|task| task.losses >= rule.suspect_after)
    }

    /// Whether the runtime may start this task at `now`.
    pub(crate) fn is_wanted(&self, task: TaskNumber, now: Timestamp) -> bool {
        let Some(at) = super::state::index(task) else { return false };
        let Some(task) = self.tasks.get(at as usize) else { return false };
        let due = match task.waiting {
            None => self.ready.contains(&(task.rank, at)),
            Some(Waiting::Retry { until }) => until <= now,
            Some(Waiting::Timer { .. } | Waiting::Signal { .. } | Waiting::Job) => false,
            Some(Waiting::Kind) => true,
        };
        due && self.starts_tasks(now)
    }

    /// Timers that have gone off by `now`.
    pub(super) fn due_timers(&self, now: Timestamp) -> impl Iterator<Item = TaskNumber> {
        let due = self.timed.iter().take_while(move |&&(due, _)| due <= now);
        due.filter(|&&(_, at)| {
            matches!(self.tasks[at as usize].waiting, Some(Waiting::Timer { .. }))
        })
        .map(|&(_, at)| number(at))
    }

    /// When the job must be looked at again if nothing else happens; `None` when nothing of it
    /// waits for a time, or it is held.
    pub fn due(&self) -> Option<Timestamp> {
        let timed = self.timed.first().filter(|_| self.dispatches()).map(|&(due, _)| due);
        timed.into_iter().chain(self.deadline_at()).chain(self.starts_at()).min()
    }

    /// Whether the job has something to do at once: attempts alive, an intent on its way, or tasks
    /// that could start. A kind that was missing may be there by now, so those count. So does a
    /// key that it holds: others may wait for it; and a child, which may have ended meanwhile.
    pub fn is_active(&self) -> bool {
        let startable = !(self.ready.is_empty() && self.kindless.is_empty());
        let holds = self.exclusive().is_some_and(|own| own.taken);
        let waits = !self.children.is_empty();
        self.is_live()
            || self.intent.is_some()
            || (self.dispatches() && startable)
            || holds
            || waits
    }
}
