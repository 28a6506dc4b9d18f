//! What comes in: submissions, commands, questions, and the reports of attempts.

use std::sync::Arc;
use std::time::Duration;

use annals_tasks_sdk::{JobId, Payload, TaskResult};

use super::act::{answer, answer_or_drop, too_late};
use super::attempt::{GRACE, grace_of};
use super::error::{CommandError, EngineError, JobError, SubmitError};
use super::executor::{Entry, Executor, Parked, Running};
use super::message::{Answer, Ask, Reply, Snapshot};
use super::recovery;
use super::turn::{Loop, THIS_TURN};
use super::views::Round;
use crate::job::{
    Command, Event, Illegal, Job, Origin, Report, StepError, TaskNumber, begin, step,
};
use crate::log::{Head, JobRow, Position, digest};

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

    pub(super) fn on_snapshot(&mut self, id: JobId, reply: Reply<Result<Snapshot, JobError>>) {
        let action = match self.load(id) {
            Ok(executor) => {
                let snapshot = executor.snapshot();
                answer(reply, Ok(snapshot))
            }
            Err(error) => answer(reply, Err(error)),
        };
        self.after_events_of(id, action);
        // Was it loaded for this question alone, it goes again.
        self.touch(id);
    }

    pub(super) fn on_head(&mut self, id: JobId, reply: Reply<Result<Position, JobError>>) {
        // Events of the present turn are in a row of their own, which is not counted yet.
        let head = self.known_head(id).and_then(|head| head.map_or_else(|| self.head_of(id), Ok));
        self.after_events_of(id, answer(reply, head.map(|head| head.row)));
    }

    pub(super) fn on_changed(
        &mut self,
        id: JobId,
        after: u64,
        reply: Reply<Result<u64, JobError>>,
    ) {
        match self.load(id) {
            Ok(executor) if executor.durable_seq > after => {
                // Later events may be on their way; this rests on none of them.
                let seq = executor.durable_seq;
                self.queue(self.durable, answer(reply, Ok(seq)));
            }
            Ok(executor) => {
                // Whoever asked before may have stopped waiting.
                executor.watchers.retain(|(_, reply)| !reply.is_closed());
                executor.watchers.push((after, reply.without_permit()));
            }
            Err(error) => self.after_events_of(id, answer(reply, Err(error))),
        }
        self.touch(id);
    }

    pub(super) fn on_ended(&mut self, id: JobId, reply: Reply<Result<Snapshot, JobError>>) {
        match self.load(id) {
            Ok(executor)
                if executor.job.status().is_ended()
                    && executor.durable_seq == executor.job.seq() =>
            {
                let snapshot = executor.snapshot();
                self.after_events_of(id, answer(reply, Ok(snapshot)));
            }
            Ok(executor) => {
                executor.end_watchers.retain(|reply| !reply.is_closed());
                executor.end_watchers.push(reply.without_permit());
            }
            Err(error) => self.after_events_of(id, answer(reply, Err(error))),
        }
        self.touch(id);
    }

    /// The newest rows that the views may not have.
    pub(super) fn on_rows(
        &mut self,
        before: Option<JobId>,
        limit: usize,
        reply: Reply<Result<Vec<JobRow>, EngineError>>,
    ) {
        let older = |id: &JobId| before.is_none_or(|before| *id < before);
        let mut ids: Vec<JobId> = self.dirty.iter().copied().filter(older).collect();
        ids.extend(
            self.leaving.0.keys().copied().filter(|id| older(id) && !self.dirty.contains(id)),
        );
        ids.sort_unstable_by(|a, b| b.cmp(a));
        ids.truncate(limit);
        let rows = ids.iter().filter_map(|id| self.row_of(*id)).collect();
        // Some of these may rest on events of the present turn.
        self.queue(THIS_TURN, answer_or_drop(reply, Ok(rows)));
    }

    fn row_of(&self, id: JobId) -> Option<JobRow> {
        match self.entries.get(&id) {
            Some(Entry::Loaded(executor)) => Some(executor.row()),
            _ => self.rows.get(&id).or_else(|| self.leaving.0.get(&id)).cloned(),
        }
    }

    /// Hands rows in for the views. No job has events then that were not given to the writer,
    /// so that a row is never ahead of the records before it.
    pub(super) fn hand_in_views(&mut self) {
        for round in std::mem::take(&mut self.rounds) {
            self.hand_in(&round);
        }
    }

    fn hand_in(&mut self, round: &Round) {
        let dirty = std::mem::take(&mut self.dirty);
        let mut rows: Vec<JobRow> = dirty.iter().filter_map(|id| self.row_of(*id)).collect();
        rows.sort_unstable_by_key(|row| row.job);
        // Until the views have them, rows are kept for those who ask.
        if self.shared.reader.viewed() >= self.leaving.1 {
            self.leaving.0.clear();
        }
        self.leaving.0.extend(rows.iter().map(|row| (row.job, row.clone())));
        self.leaving.1 = round.upto();
        self.rows.clear();
        if round.hand_in(&self.shared.writer, &*self.shared.reader, rows) {
            self.shared.views.reset();
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

    /// The executor of a job, loaded from the log where it must be.
    pub(super) fn load(&mut self, id: JobId) -> Result<&mut Executor, JobError> {
        let known = self.known_head(id)?;
        if !matches!(self.entries.get(&id), Some(Entry::Loaded(_))) {
            let head = known.map_or_else(|| self.head_of(id), Ok)?;
            let job = recovery::load(&*self.shared.reader, id, head)?;
            let mut executor = Executor::new(job, head);
            // What is parked or has ended had nothing alive.
            executor.recovered = self.shared.settings.dispatches;
            self.entries.insert(id, Entry::Loaded(Box::new(executor)));
            self.loaded += 1;
        }
        match self.entries.get_mut(&id) {
            Some(Entry::Loaded(executor)) => Ok(executor),
            _ => Err(JobError::NotFound(id)),
        }
    }

    /// Where the history of an open job stands.
    fn known_head(&self, id: JobId) -> Result<Option<Head>, JobError> {
        if let Some(why) = self.broken.get(&id) {
            return Err(JobError::Unreadable { job: id, why: why.clone() });
        }
        Ok(self.entries.get(&id).map(|entry| match entry {
            Entry::Loaded(executor) => executor.head,
            Entry::Parked(Parked { head }) => *head,
        }))
    }

    /// Where the history of a job stands that is neither loaded nor parked: an ended one.
    fn head_of(&self, id: JobId) -> Result<Head, JobError> {
        let near = self.rows.get(&id).or_else(|| self.leaving.0.get(&id));
        if let Some(row) = near {
            return Ok(row.head);
        }
        let viewed = self.shared.reader.job_row(id).map_err(EngineError::from)?;
        viewed.map(|row| row.head).ok_or(JobError::NotFound(id))
    }
}
