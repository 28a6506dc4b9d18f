//! What happens to a task, as the oracle takes it in: attempts, waits and results.

use annals_engine::job::{Event, JobStatus, Part, SkippedBy, TaskNumber, TaskStatus, Wait};
use annals_tasks_sdk::Timestamp;
use annals_tasks_sdk::plan::{Decision, OnFailure, OnLost};

use crate::known::{Known, Last, Life, Waits};
use crate::oracle::{Oracle, index};
use crate::told::which;

impl Oracle {
    pub(crate) fn take_in_of_task(&mut self, event: &Event) {
        self.begun |= matches!(event, Event::AttemptStarted { .. } | Event::TaskWaiting { .. });
        match event {
            Event::AttemptStarted { task, attempt } => self.starts(*task, *attempt),
            Event::AttemptFailed { task, attempt, end }
            | Event::AttemptTimedOut { task, attempt, end } => {
                let named = end.exit.code == Some(2) || self.asked.is_final;
                let known = self.over(*task, *attempt);
                known.failures += 1;
                let is_final = !end.retryable || named;
                known.last = if is_final { Last::FinalFailure } else { Last::Failure };
                known.losses = 0;
            }
            Event::AttemptInterrupted { task, attempt, .. } => {
                self.over(*task, *attempt).losses = 0;
            }
            Event::AttemptLost { task, attempt } => {
                assert!(!self.is_overdue(self.time), "a start looks at the deadline first");
                let wants_consent = self.sketch(index(*task)).on_lost != OnLost::Rerun;
                let known = self.over(*task, *attempt);
                (known.losses, known.wants_consent) = (known.losses + 1, wants_consent);
            }
            Event::CheckpointSaved { task, attempt, .. } => {
                let known = &self.tasks[index(*task)];
                assert!(known.is_live() && known.attempts == *attempt);
            }
            Event::StepRecorded { task, attempt, name, value } => {
                self.tasks[index(*task)].records(self.seq, (name, *attempt, *value));
            }
            Event::SkipRequested { task, output } => {
                let known = &mut self.tasks[index(*task)];
                assert!(known.is_engaged() && !known.being_skipped);
                known.being_skipped = true;
                if known.is_live() {
                    known.life = Life::Stopping;
                } else {
                    known.child_stops = true;
                }
                known.gives_nothing = output.is_none();
            }
            Event::TaskWaiting { task, wait } => {
                assert!(self.dispatches() && self.could_start(index(*task)));
                assert!(!self.is_overdue(self.time), "nothing waits for its start any more");
                let known = &mut self.tasks[index(*task)];
                known.status = TaskStatus::Waiting;
                known.waits = Some(match wait {
                    Wait::Timer { until } => Waits::Sleep(until.as_millis()),
                    Wait::Signal { name, until } => Waits::Signal {
                        name: which(name),
                        until: until.map(Timestamp::as_millis),
                        rest: None,
                    },
                    _ => Waits::Kind,
                });
            }
            Event::ChildStarted { .. } | Event::ChildPaused { .. } | Event::ChildEnded { .. } => {
                self.take_in_of_family(event);
            }
            Event::RetryScheduled { task, due } => self.retries(*task, due.as_millis()),
            _ => self.take_in_result(event),
        }
    }

    fn take_in_result(&mut self, event: &Event) {
        match event {
            Event::TaskCompleted { task, attempt, output, .. } => {
                let at = index(*task);
                assert_ne!(self.tasks[at].status, TaskStatus::Completed, "one success");
                let copied = self.is_copy(at);
                if self.part(at) == Part::Tasks && self.sketch(at).undo.is_some() && !copied {
                    self.done.push(at);
                }
                if copied {
                    assert_eq!(*attempt, 0, "no attempt is copied");
                } else if self.answered.take().is_some() {
                    assert!(matches!(self.tasks[at].waits, Some(Waits::Signal { .. })));
                } else if *attempt == 0 && self.tasks[at].waits == Some(Waits::Child) {
                    assert!([JobStatus::Running, JobStatus::Paused].contains(&self.status));
                } else if *attempt == 0 {
                    let Some(Waits::Sleep(due)) = self.tasks[at].waits else { panic!() };
                    assert!(due <= self.time);
                    assert!(self.dispatches() && !self.is_overdue(self.time));
                } else {
                    self.over(*task, *attempt);
                }
                let known = &mut self.tasks[at];
                known.closes(TaskStatus::Completed, Some(output.clone()));
                known.losses = 0;
            }
            Event::TaskFailed { task, .. } if self.copies > 0 => {
                // It may have come to need others after it had failed.
                assert_eq!(self.tasks[index(*task)].status, TaskStatus::Pending);
                let tolerated = self.sketch(index(*task)).on_failure == OnFailure::Continue;
                assert!(tolerated, "what is not settled is not copied");
                self.tasks[index(*task)].status = TaskStatus::Failed;
            }
            Event::TaskFailed { task, error } => self.fails(index(*task), &error.code),
            Event::TaskSkipped { task, by, output } => {
                let at = index(*task);
                self.tasks[at].by_condition = *by == SkippedBy::Condition;
                if *by == SkippedBy::Condition && self.copies == 0 {
                    assert!(self.dispatches() && self.is_ready(at, &self.settled));
                    assert!(!self.is_overdue(self.time) && !self.leads);
                    assert_eq!(self.decides(at), Decision::Skip, "t{at} was to run");
                }
                assert!(
                    !self.settled[at] && !self.tasks[at].is_engaged() && !self.is_passed_over(at)
                );
                self.tasks[at].closes(TaskStatus::Skipped, output.clone());
            }
            Event::TaskRemoved { task } => {
                let at = index(*task);
                let known = &self.tasks[at];
                assert!(
                    !self.settled[at] && !known.is_engaged() && known.status != TaskStatus::Removed
                );
                // It hands on what it needed, wherever it stands from now on.
                self.draft.tasks[at].needs = Some(self.needs(at));
                self.tasks[at].closes(TaskStatus::Removed, None);
            }
            _ => {}
        }
    }

    pub(crate) fn could_start(&self, at: usize) -> bool {
        let known = &self.tasks[at];
        let waits = match known.waits {
            Some(Waits::Retry(due)) => due <= self.time,
            Some(Waits::Kind) => true,
            Some(Waits::Sleep(_) | Waits::Signal { .. } | Waits::Child) | None => false,
        };
        (self.is_ready(at, &self.settled) && self.decides(at) == Decision::Run) || waits
    }

    fn starts(&mut self, task: TaskNumber, attempt: u32) {
        let at = index(task);
        assert!(self.dispatches() && !self.is_overdue(self.time), "nothing starts now");
        assert!(self.could_start(at), "t{at} is not ready");
        let needs = self.needs(at);
        assert!(needs.iter().all(|&need| self.settled[need]), "order holds");
        assert!(!self.undoes_now || self.is_quiet(), "one at a time is undone");
        let known = &mut self.tasks[at];
        assert!(!known.is_live(), "one attempt at a time");
        assert!(!known.wants_consent, "nobody has consented");
        assert_eq!(attempt, known.attempts + 1);
        (known.attempts, known.life, known.waits) = (attempt, Life::Alive, None);
        (known.status, known.last) = (TaskStatus::Running, Last::NoFailure);
    }

    fn over(&mut self, task: TaskNumber, attempt: u32) -> &mut Known {
        let known = &mut self.tasks[index(task)];
        assert!(known.is_live() && known.attempts == attempt, "{task:?}#{attempt} is not current");
        (known.life, known.status) = (Life::None, TaskStatus::Interrupted);
        known
    }

    fn retries(&mut self, task: TaskNumber, due: i64) {
        let at = index(task);
        if self.leads {
            return self.tries_again(at, due);
        }
        assert!(self.status == JobStatus::Running && !self.is_over());
        let max_attempts = self.sketch(at).max_attempts;
        let (time, known) = (self.time, &mut self.tasks[at]);
        assert!(known.last == Last::Failure && !known.being_skipped);
        assert!(known.failures < max_attempts, "the budget is used up");
        let growth = 1 << (known.failures - 1).min(8);
        let least = (5_000 * growth).min(30_000);
        let (asked, most) = (self.asked.wait, least * 3 / 2);
        let waits = least.max(asked)..=most.max(asked);
        assert!(waits.contains(&(due - time)), "a wait of {}", due - time);
        (known.status, known.waits) = (TaskStatus::Waiting, Some(Waits::Retry(due)));
    }

    fn fails(&mut self, at: usize, code: &str) {
        let of_child = ["child_failed", "child_cancelled"].contains(&code);
        assert!(
            self.status == JobStatus::Running || (of_child && self.status == JobStatus::Paused)
        );
        assert!(!self.is_over());
        assert!(!of_child || !self.tasks[at].child_stops, "it was told to end");
        if code == "bad_condition" {
            assert_eq!(self.decides(at), Decision::Bad);
            assert!(self.is_ready(at, &self.settled) && self.dispatches());
        }
        let max_attempts = self.sketch(at).max_attempts;
        let goes_on = self.dispatches() && !self.is_overdue(self.time);
        let known = &mut self.tasks[at];
        assert!(
            !known.is_live()
                && matches!(
                    known.status,
                    TaskStatus::Pending | TaskStatus::Interrupted | TaskStatus::Waiting
                )
        );
        match code {
            "crash_loop" => assert_eq!(known.losses, 6, "three as a suspect"),
            "lost" => assert!(known.wants_consent),
            "timed_out" if known.status == TaskStatus::Waiting => {
                let Some(Waits::Signal { until: Some(until), .. }) = known.waits else { panic!() };
                assert!(until <= self.time && goes_on);
            }
            "missing_output" | "bad" | "bad_request" | "bad_condition" | "held_by_ancestor"
            | "too_deep" | "child_unreadable" => {}
            _ if of_child => {}
            _ => {
                let used_up = known.failures >= max_attempts;
                let is_over = known.last == Last::FinalFailure || used_up;
                assert!(is_over, "task {at} has budget left: {code}, {known:?}");
            }
        }
        (known.status, known.waits) = (TaskStatus::Failed, None);
    }
}
