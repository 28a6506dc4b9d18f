//! What comes in: submissions, commands, questions, and the reports of attempts.

use std::sync::Arc;
use std::time::Duration;

use annals_tasks_sdk::{JobId, Payload, TaskResult};

use super::act::{answer, answer_or_drop, too_late};
use super::attempt::{GRACE, grace_of};
use super::error::{CommandError, EngineError, JobError, SubmitError};
use super::executor::{Entry, Executor, Running};
use super::message::{Answer, Ask, Reply, Snapshot};
use super::turn::{Loop, THIS_TURN};
use crate::job::{
    Command, Event, Illegal, Job, Origin, Report, StepError, TaskNumber, begin, step,
};
use crate::log::{Head, digest};

impl Loop {
    pub(super) fn on_submit(
        &mut self,
        id: JobId,
        events: Vec<Event>,
        origin: Origin,
        reply: Reply<Result<(), SubmitError>>,
    ) {
        let cx = self.context(origin);
        match begin(id, events, &cx) {
            Ok((job, recorded)) => {
                let mut executor = Executor::new(job, Head::default());
                executor.recovered = true;
                executor.add(recorded);
                self.entries.insert(id, Entry::Loaded(Box::new(executor)));
                self.loaded += 1;
                self.touch(id);
                self.after_events_of(id, answer(reply, Ok(())));
            }
            // A checked plan makes a job, so this is a contradiction in the engine itself.
            Err(illegal) => {
                tracing::error!(%illegal, "a submission could not be begun");
                let unreadable = JobError::Unreadable { job: id, why: illegal.to_string() };
                self.after_events_of(id, answer(reply, Err(unreadable.into())));
            }
        }
    }

    pub(super) fn on_command(
        &mut self,
        id: JobId,
        command: Command,
        ask: Ask,
        reply: Reply<Result<Answer, CommandError>>,
    ) {
        if !self.shared.settings.dispatches && !ask.dry_run {
            // A start that runs jobs has done so already.
            match self.shared.end_leftovers() {
                Ok(alive) => alive.into_iter().for_each(|(job, why)| self.break_job(job, why)),
                Err(error) => {
                    let error = EngineError::Leftovers(Arc::new(error));
                    return self.after_events_of(id, answer(reply, Err(error.into())));
                }
            }
        }
        if let Err(error) = self.load(id) {
            return self.after_events_of(id, answer(reply, Err(error.into())));
        }
        let Some(Entry::Loaded(executor)) = self.entries.get(&id) else { return };
        let found = executor.job.seq();
        if let Some(expected) = ask.expected_seq.filter(|&expected| expected != found) {
            let stale = CommandError::Stale { expected, found };
            return self.after_events_of(id, answer(reply, Err(stale)));
        }
        let result = if ask.dry_run {
            self.rehearse(id, command, ask.origin)
        } else {
            self.recover_before_command(id);
            self.carry_out(id, command, ask.origin)
        };
        self.touch(id);
        let action = match result {
            Ok(done) => answer(reply, Ok(done)),
            Err(StepError::Rejected(rejection)) => {
                answer(reply, Err(CommandError::Rejected(rejection)))
            }
            Err(StepError::Illegal(illegal)) => {
                let why = illegal.to_string();
                self.break_job(id, why.clone());
                answer(reply, Err(JobError::Unreadable { job: id, why }.into()))
            }
        };
        self.after_events_of(id, action);
    }

    fn carry_out(
        &mut self,
        id: JobId,
        command: Command,
        origin: Origin,
    ) -> Result<Answer, StepError> {
        let cx = self.context(origin);
        let executor = self.loaded(id)?;
        let events = step(executor.job_mut(), command, &cx)?;
        executor.add(events.clone());
        Ok(Answer { events, snapshot: executor.snapshot() })
    }

    /// Does on a copy what [`Loop::carry_out`] would do.
    fn rehearse(
        &mut self,
        id: JobId,
        command: Command,
        origin: Origin,
    ) -> Result<Answer, StepError> {
        let (engine, cx) = (self.context(Origin::ENGINE), self.context(origin));
        let executor = self.loaded(id)?;
        let mut copy = Job::clone(&executor.job);
        let mut events = Vec::new();
        if !executor.recovered {
            events = step(&mut copy, Report::Recover, &engine)?;
        }
        events.extend(step(&mut copy, command, &cx)?);
        let live = executor.snapshot().live;
        Ok(Answer { events, snapshot: Snapshot { job: Arc::new(copy), live } })
    }

    fn loaded(&mut self, id: JobId) -> Result<&mut Executor, Illegal> {
        match self.entries.get_mut(&id) {
            Some(Entry::Loaded(executor)) => Ok(executor),
            _ => Err(Illegal { job: id, seq: 0, event: "nothing", why: "it is not loaded".into() }),
        }
    }

    /// On a store where nothing runs, a command first declares lost what was alive.
    fn recover_before_command(&mut self, id: JobId) {
        let Some(Entry::Loaded(executor)) = self.entries.get_mut(&id) else { return };
        if !std::mem::replace(&mut executor.recovered, true) && executor.job.is_live() {
            self.report(id, Report::Recover);
        }
    }

    pub(super) fn on_report(&mut self, id: JobId, report: Report) {
        if let Report::Ended { task, attempt, .. } = &report {
            self.attempt_is_over(id, *task, *attempt);
        }
        self.report(id, report);
        self.touch(id);
    }

    fn attempt_is_over(&mut self, id: JobId, task: TaskNumber, attempt: u32) {
        let is_it = |running: &Running| running.task == task && running.attempt == attempt;
        let running = if let Some(Entry::Loaded(executor)) = self.entries.get_mut(&id) {
            let place = executor.running.iter().position(is_it);
            place.map(|place| executor.running.swap_remove(place))
        } else {
            // The job was given up while the attempt ran.
            let place = self.orphans.iter().position(|(job, orphan)| *job == id && is_it(orphan));
            place.map(|place| self.orphans.swap_remove(place).1)
        };
        if let Some(running) = running {
            self.live -= 1;
            self.give_back(running.held);
        }
    }

    pub(super) fn on_checkpoint(
        &mut self,
        id: JobId,
        task: TaskNumber,
        attempt: u32,
        value: &Payload,
        reply: Reply<TaskResult<()>>,
    ) {
        let bytes: Arc<[u8]> = value.as_str().as_bytes().into();
        let report = Report::Checkpoint { task, attempt, value: digest(&bytes) };
        if self.report(id, report) == 0 {
            return self.after_events_of(id, answer_or_drop(reply, too_late()));
        }
        if let Some(Entry::Loaded(executor)) = self.entries.get_mut(&id) {
            executor.values.retain(|(of, _)| *of != task.0);
            executor.values.push((task.0, bytes));
        }
        self.after_events_of(id, answer_or_drop(reply, Ok(())));
    }

    /// What was alive when the engine died is lost; what could start, starts.
    pub(super) fn on_recover(&mut self, reply: Reply<Result<(), EngineError>>) {
        let mut loaded: Vec<JobId> = self
            .entries
            .iter()
            .filter(|(_, entry)| matches!(entry, Entry::Loaded(_)))
            .map(|(&id, _)| id)
            .collect();
        // The oldest jobs queue first.
        loaded.sort_unstable();
        self.dispatching = self.shared.settings.dispatches;
        for id in loaded {
            if !self.dispatching {
                continue;
            }
            if let Some(Entry::Loaded(executor)) = self.entries.get_mut(&id) {
                executor.recovered = true;
            }
            self.report(id, Report::Recover);
            self.touch(id);
        }
        self.queue(THIS_TURN, answer_or_drop(reply, Ok(())));
    }

    pub(super) fn on_quiesce(&mut self, interrupt: Option<Reply<Duration>>, quiet: Reply<()>) {
        self.dispatching = false;
        self.quiet.push(quiet);
        let Some(reply) = interrupt else { return };
        let mut longest = Duration::ZERO;
        for entry in self.entries.values() {
            let Entry::Loaded(executor) = entry else { continue };
            for running in &executor.running {
                running.tell_to_stop(self.now);
                longest = longest.max(executor.job.task(running.task).map_or(GRACE, grace_of));
            }
        }
        // Whoever asked may have stopped waiting.
        let _ = reply.send(longest);
    }
}
