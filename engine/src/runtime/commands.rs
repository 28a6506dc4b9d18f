//! What comes in: submissions, commands, questions, and the reports of attempts.

use std::sync::Arc;
use std::time::Duration;

use annals_tasks_sdk::JobId;

use super::act::{answer, answer_and_settle, answer_or_drop};
use super::attempt::{GRACE, grace_of};
use super::error::{CommandError, EngineError, JobError, SubmitError};
use super::executor::{Entry, Executor};
use super::keys::Claim;
use super::laws::BrokenLaw;
use super::lives::Running;
use super::message::{Answer, Ask, Commanded, Reply, Shows, Snapshot};
use super::turn::{Loop, THIS_TURN};
use crate::job::{
    Command, Context, IdempotencyKey, Illegal, Job, Origin, Report, StepError, TaskNumber, step,
};

/// A submission on its way to its answer.
pub(super) struct Accepting {
    pub(super) job: JobId,
    pub(super) claim: Option<Box<Claim>>,
    pub(super) shows: Shows,
    pub(super) reply: Reply<Result<Option<Snapshot>, SubmitError>>,
}

impl Loop {
    pub(super) fn on_submit(&mut self, accepting: Accepting, executor: Box<Executor>) {
        let id = accepting.job;
        self.entries.insert(id, Entry::Loaded(executor));
        self.loaded += 1;
        if let Some(mut desk) = self.desk(id) {
            desk.at_once(|_| ());
        }
        self.accepted.push(accepting);
    }

    /// Prepares the answers to the turn's submissions. They come this late so that who is shown
    /// the job holds it as the turn leaves it: before that it would be copied to be changed.
    pub(super) fn answer_submissions(&mut self) {
        for Accepting { job, claim, shows, reply } in std::mem::take(&mut self.accepted) {
            let shown = shows == Shows::Snapshot && !self.broken.contains_key(&job);
            let Some(Entry::Loaded(executor)) = self.entries.get(&job) else { continue };
            let (snapshot, created) = (shown.then(|| executor.snapshot()), executor.job.created());
            let action = match claim {
                None => answer(reply, Ok(snapshot)),
                Some(claim) => answer_and_settle(reply, snapshot, claim, (job, created)),
            };
            self.after_events_of(job, action);
        }
    }

    pub(super) fn on_command(&mut self, commanded: Commanded) {
        let Commanded { job: id, command, ask, claim, reply } = commanded;
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
        let stale = match self.commanded(id, &command) {
            Ok(executor) => {
                let job = Arc::clone(&executor.job);
                let refused = || {
                    let waits = self.parent_waits(&job, &command);
                    let refused = waits.or_else(|| self.shared.refuses(&job, &command));
                    refused.map(CommandError::Rejected)
                };
                stale(&job, &ask).or_else(refused)
            }
            Err(error) => return self.after_events_of(id, answer(reply, Err(error.into()))),
        };
        if let Some(stale) = stale {
            return self.after_events_of(id, answer(reply, Err(stale)));
        }
        let cx = Context { key: key_of(claim.as_deref()), ..self.context(ask.origin) };
        let result = if ask.dry_run {
            self.rehearse(id, command, &cx)
        } else {
            self.recover_before_command(id);
            self.carry_out(id, command, &cx)
        };
        self.touch(id);
        let action = match (result, claim) {
            (Ok(done), None) => answer(reply, Ok(done)),
            (Ok(done), Some(claim)) => {
                let time = done.events.first().map_or(self.now, |first| first.time);
                answer_and_settle(reply, done, claim, (id, time))
            }
            (Err(error), _) => answer(reply, Err(self.refused(id, error))),
        };
        self.after_events_of(id, action);
    }

    fn refused(&mut self, id: JobId, error: StepError) -> CommandError {
        match error {
            StepError::Rejected(rejection) => CommandError::Rejected(rejection),
            StepError::Illegal(illegal) => {
                let why = illegal.to_string();
                self.shared.note_broken_law(self.index, &BrokenLaw::from(&illegal));
                self.break_job(id, why.clone());
                JobError::Unreadable { job: id, why }.into()
            }
        }
    }

    fn carry_out(
        &mut self,
        id: JobId,
        command: Command,
        cx: &Context,
    ) -> Result<Answer, StepError> {
        let executor = self.loaded(id)?;
        let command = executor.complete(command);
        let events = step(executor.job_mut(), command, cx)?;
        executor.add(events.clone());
        Ok(Answer { events, snapshot: executor.snapshot(), replayed: false })
    }

    /// Does on a copy what [`Loop::carry_out`] would do.
    fn rehearse(&mut self, id: JobId, command: Command, cx: &Context) -> Result<Answer, StepError> {
        let engine = self.context(Origin::ENGINE);
        let executor = self.loaded(id)?;
        let command = executor.complete(command);
        let mut copy = Job::clone(&executor.job);
        let mut events = Vec::new();
        if !executor.recovered {
            events = step(&mut copy, Report::Recover, &engine)?;
        }
        events.extend(step(&mut copy, command, cx)?);
        let snapshot = Snapshot { job: Arc::new(copy), ..executor.snapshot() };
        Ok(Answer { events, snapshot, replayed: false })
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
        // What a child says is said again until it is known to be taken in.
        let repeats = matches!(report, Report::Heard { .. });
        let over = match &report {
            Report::Ended { task, attempt, .. } => Some((*task, *attempt)),
            _ => None,
        };
        let made = if let Some(mut desk) = self.desk(id) {
            if let Some((task, attempt)) = over {
                desk.attempt_is_over(task, attempt);
            }
            // Where nothing else runs, nothing else will report in this turn.
            if desk.executor.running.is_empty() {
                desk.at_once(|desk| desk.report(report))
            } else {
                desk.touch();
                desk.report(report)
            }
        } else {
            if let Some((task, attempt)) = over {
                self.orphan_is_over(id, task, attempt);
            }
            0
        };
        if made == 0 && !repeats {
            self.counters.late();
        }
    }

    /// Takes in that an attempt is over whose job was given up while it ran.
    fn orphan_is_over(&mut self, id: JobId, task: TaskNumber, attempt: u32) {
        let is_it = |(job, orphan): &(JobId, Running)| {
            *job == id && orphan.task == task && orphan.attempt == attempt
        };
        if let Some(place) = self.orphans.iter().position(is_it) {
            let (_, orphan) = self.orphans.swap_remove(place);
            self.live -= 1;
            self.give_back(orphan.held);
        }
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
            for running in executor.running.iter() {
                running.own.tell_to_stop(self.now);
                longest = longest.max(executor.job.task(running.task).map_or(GRACE, grace_of));
            }
        }
        // Whoever asked may have stopped waiting.
        let _ = reply.send(longest);
    }
}

fn key_of(claim: Option<&Claim>) -> Option<Box<IdempotencyKey>> {
    claim.map(|claim| Box::new(claim.key()))
}

/// Whether the job is not where the caller thought.
pub(super) fn stale(job: &Job, ask: &Ask) -> Option<CommandError> {
    let other = |expected: Option<u64>, found| expected.filter(|&expected| expected != found);
    let (seq, revision) = (job.seq(), job.revision());
    if let Some(expected) = other(ask.expected_revision, revision) {
        return Some(CommandError::StaleRevision { expected, found: revision });
    }
    let expected = other(ask.expected_seq, seq)?;
    Some(CommandError::Stale { expected, found: seq })
}
