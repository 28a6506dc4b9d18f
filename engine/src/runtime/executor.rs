//! An executor: what drives one open job. A value, not a thread.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use annals_tasks_sdk::{JobId, Payload, TaskId, Timestamp};

use super::attempt::Attempt;
use super::error::JobError;
use super::exclusives::Turn;
use super::family::{self, Family};
use super::ids::JobMap;
use super::laws::{BrokenLaw, Written};
use super::lives::{Lives, Running};
use super::message::Snapshot;
use super::pool::{Place, PoolId};
use super::purges::Files;
use super::registry::KindId;
use crate::job::{
    Command, Context, Event, Exclusive, Job, JobStatus, Recorded, Report, StepError, Task,
    TaskNumber, Tombstone, begin, step_into,
};
use crate::log::{CodecError, Draft, Head, JobRow, Row, Ticket, ValueKey};

/// What drives one open job.
pub(super) struct Executor {
    /// The job, with events that may not be durable yet.
    pub(super) job: Arc<Job>,
    /// Where its history stands, events of the present turn not counted.
    pub(super) head: Head,
    /// What the laws of histories know of what was written.
    written: Written,
    /// Events of the present turn.
    pub(super) fresh: Vec<Recorded>,
    /// The row of the first of them, so far as they are encoded.
    draft: Option<Draft>,
    /// Values that go with them.
    pub(super) values: Vec<(ValueKey, Arc<[u8]>)>,
    /// The commit in which its last events are.
    pub(super) ticket: Ticket,
    /// The job's seq that is durable.
    pub(super) durable_seq: u64,
    /// Attempts that are alive, or are about to be when their start is durable.
    pub(super) running: Lives,
    /// Tasks that wait for a slot, and the one they hold already.
    pub(super) wanting: Vec<Wanting>,
    /// The outputs that attempts may ask for, once one that does has started.
    outputs: Option<Arc<Outputs>>,
    /// Tasks whose outputs are not durable yet, with the seq of their event.
    unshown: VecDeque<(u64, TaskNumber)>,
    /// Whether what was alive when the engine started has been declared lost.
    pub(super) recovered: bool,
    /// Whether it is known to have changed since the views had its row.
    pub(super) changed: bool,
    pub(super) touched: Touched,
    /// Where it stands with its exclusive key.
    pub(super) turn: Turn,
    /// The status under which it is counted; none before its submission is written.
    pub(super) counted: Option<JobStatus>,
    /// The exclusive key of one that is purged, which it may have to give back.
    left_key: Option<Box<Exclusive>>,
    /// What there is of its files.
    pub(super) files: Files,
    /// What is kept for its parent and its children, where it has some.
    pub(super) family: Option<Box<Family>>,
}

/// Whether the present turn has touched a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Touched {
    No,
    /// It is in the list of those that are to be reconciled, or is being reconciled now.
    Yes,
    /// It was reconciled at once, and has not changed since.
    Reconciled,
}

/// The slots that an attempt holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    pub(super) pool: PoolId,
    pub(super) suspect: bool,
}

/// A task that waits for a slot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanting {
    pub(super) task: TaskNumber,
    /// The queue that it stands in...
    pub(super) queue: PoolId,
    /// ...and where in it; none where a slot was free.
    pub(super) place: Option<Place>,
    pub(super) held: Held,
    pub(super) kind: KindId,
}

impl Executor {
    pub(super) fn new(job: impl Into<Arc<Job>>, head: Head) -> Self {
        let job: Arc<Job> = job.into();
        Self {
            durable_seq: head.seq,
            left_key: None,
            files: if job.purged().is_some() { Files::Left } else { Files::Kept },
            family: Family::of(&job),
            counted: (head.seq > 0).then(|| job.status()),
            written: if head.seq > 0 { Written::of(&job) } else { Written::nothing() },
            job,
            head,
            fresh: Vec::new(),
            draft: None,
            values: Vec::new(),
            ticket: Ticket::default(),
            running: Lives::default(),
            wanting: Vec::new(),
            outputs: None,
            unshown: VecDeque::new(),
            recovered: false,
            changed: false,
            touched: Touched::No,
            turn: Turn::default(),
        }
    }

    /// Of a job that was purged, as its row says.
    pub(super) fn of_purged(row: &JobRow) -> Option<Self> {
        let tombstone = row.purged.clone()?;
        let mut executor = Self::new(Job::of_tombstone(row.job, tombstone), row.head);
        executor.files = if row.active { Files::Left } else { Files::Gone };
        Some(executor)
    }

    /// Begins a job. Whoever submits it does this, so that its loop need not.
    pub(super) fn begin(id: JobId, events: Vec<Event>, cx: &Context) -> Result<Self, JobError> {
        let unreadable = |why: String| JobError::Unreadable { job: id, why };
        let begun = begin(id, events, cx).map_err(|illegal| unreadable(illegal.to_string()));
        let (job, recorded) = begun?;
        let mut executor = Self::new(job, Head::default());
        let mut draft = Draft::new(id, &executor.head);
        draft.push(&recorded).map_err(|error| unreadable(error.to_string()))?;
        executor.draft = Some(draft);
        executor.recovered = true;
        executor.add(recorded);
        Ok(executor)
    }

    /// Encodes the events of the turn so far, while the job is at hand: at the end of the turn its
    /// memory would have to be fetched a second time.
    pub(super) fn encode_ahead(&mut self) {
        if self.fresh.is_empty() {
            return;
        }
        let draft = self.draft.take();
        let mut draft = draft.unwrap_or_else(|| Draft::new(self.job.id(), &self.head));
        // What cannot be encoded is found again when the turn ends.
        if draft.push(&self.fresh[draft.events()..]).is_ok() {
            self.draft = Some(draft);
        }
    }

    /// Looks once more at the events of the turn, which are about to be written. After an error the
    /// job must not go on.
    pub(super) fn look_at_fresh(&mut self) -> Result<(), BrokenLaw> {
        // What came before a purge is looked at when the job has no tasks any more.
        let tasks = match self.job.purged() {
            Some(tombstone) => tombstone.purged.tasks as usize,
            None => self.job.numbered_tasks().len(),
        };
        self.written.take_in((self.job.id(), tasks), self.head.seq, &self.fresh)
    }

    /// Encodes the events of the turn, which then are `fresh` no more. Gives them back, their row,
    /// and the hash of the last.
    pub(super) fn encode(&mut self) -> Result<(Vec<Recorded>, Row, [u8; 32]), CodecError> {
        let fresh = std::mem::take(&mut self.fresh);
        let values = std::mem::take(&mut self.values);
        let draft = self.draft.take();
        let mut draft = draft.unwrap_or_else(|| Draft::new(self.job.id(), &self.head));
        draft.push(&fresh[draft.events()..])?;
        let (mut row, hash) = draft.finish(values);
        row.ends_values =
            fresh.last().is_some_and(|last| matches!(last.event, Event::JobPurged(_)));
        Ok((fresh, row, hash))
    }

    /// A command with what the machine cannot know: a purge says which event is the last.
    pub(super) fn complete(&mut self, command: Command) -> Command {
        if !matches!(command, Command::Purge { .. }) {
            return command;
        }
        self.encode_ahead();
        if self.turn != Turn::Away {
            self.left_key = self.job.exclusive().cloned().map(Box::new);
        }
        Command::Purge { head: self.draft.as_ref().map_or(self.head.hash, Draft::hash) }
    }

    /// The key that it shares with other jobs, also when it is purged and has to give it back.
    pub(super) fn exclusive(&self) -> Option<&Exclusive> {
        self.job.exclusive().or(self.left_key.as_deref())
    }

    /// The job to change. It is copied only while somebody holds a snapshot of it.
    pub(super) fn job_mut(&mut self) -> &mut Job {
        Arc::make_mut(&mut self.job)
    }

    /// Notes that the job must be reconciled in this turn.
    pub(super) fn touch(&mut self, list: &mut VecDeque<JobId>) {
        if self.touched != Touched::Yes {
            self.touched = Touched::Yes;
            list.push_back(self.job.id());
        }
    }

    /// Lets the machine take a report in. Gives how many events that made; after an error there
    /// are none of it.
    pub(super) fn step(&mut self, report: Report, cx: &Context) -> Result<usize, StepError> {
        let before = self.fresh.len();
        let job = Arc::make_mut(&mut self.job);
        if let Err(error) = step_into(job, report, cx, &mut self.fresh) {
            self.fresh.truncate(before);
            return Err(error);
        }
        self.note(before);
        Ok(self.fresh.len() - before)
    }

    /// Takes the events of a step in.
    pub(super) fn add(&mut self, events: Vec<Recorded>) {
        let before = self.fresh.len();
        if self.fresh.is_empty() {
            self.fresh = events;
        } else {
            self.fresh.extend(events);
        }
        self.note(before);
    }

    /// Notes what the events of the turn from this one on mean for what is kept beside the job.
    fn note(&mut self, from: usize) {
        for recorded in &self.fresh[from..] {
            family::note(&mut self.family, &self.job, recorded);
            match &recorded.event {
                // While nobody reads them, they need not be shown: see `outputs`.
                Event::TaskCompleted { task, .. }
                | Event::TaskSkipped { task, output: Some(_), .. }
                    if self.outputs.is_some() =>
                {
                    self.unshown.push_back((recorded.seq, *task));
                }
                Event::JobPurged(_) => {
                    self.files = Files::Left;
                    self.values.clear();
                    self.outputs = None;
                    self.unshown.clear();
                }
                _ => {}
            }
        }
    }

    /// Lets attempts see the outputs that are durable by now.
    pub(super) fn show_outputs(&mut self) {
        let durable = self.durable_seq;
        while let Some((_, task)) = self.unshown.pop_front_if(|(seq, _)| *seq <= durable) {
            if let (Some(outputs), Some(task)) = (&self.outputs, self.job.task(task)) {
                outputs.show(&self.job, task);
            }
        }
    }

    /// Takes the attempts whose start is durable by now and that have not come to life yet.
    pub(super) fn take_durable(&mut self) -> impl Iterator<Item = Attempt> {
        self.running.take_durable(self.durable_seq)
    }

    /// The outputs, for an attempt that may ask for them when its start is durable.
    pub(super) fn outputs(&mut self) -> Arc<Outputs> {
        let job = &self.job;
        let shown = self.outputs.get_or_insert_with(|| {
            let outputs = Outputs::default();
            // Also those that are not durable yet: before they are, the first attempt that asks
            // has not started.
            job.numbered_tasks().for_each(|(_, task)| outputs.show(job, task));
            Arc::new(outputs)
        });
        Arc::clone(shown)
    }

    pub(super) fn running(&self, task: TaskNumber) -> Option<&Running> {
        self.running.get(task)
    }

    /// Whether no other job may run now for the sake of an exclusive key. Most jobs have none.
    pub(super) fn holds_its_key(&self) -> bool {
        self.exclusive().is_none_or(|own| match self.turn {
            Turn::Holds(since) => own.since == Some(since),
            _ => false,
        })
    }

    /// Reads what a turn needs of it, for whoever wants that fetched from memory.
    pub(super) fn glance(&self) -> u64 {
        self.head.seq
            ^ self.durable_seq
            ^ self.ticket.0
            ^ self.running.len() as u64
            ^ self.wanting.len() as u64
            ^ self.fresh.len() as u64
            ^ self.unshown.len() as u64
            ^ u64::from(self.recovered)
    }

    /// The same of what is behind its fields.
    pub(super) fn glance_behind(&self) -> u64 {
        let running = self.running.first().map_or(0, |running| running.seq);
        let of = |recorded: Option<&Recorded>| recorded.map_or(0, |recorded| recorded.seq);
        running ^ of(self.fresh.first()) ^ of(self.fresh.last())
    }

    /// Whether nothing would be lost but time if it were loaded again when needed.
    pub(super) fn is_idle(&self) -> bool {
        self.running.is_empty()
            && self.wanting.is_empty()
            && self.turn == Turn::Away
            && self.family.as_ref().is_none_or(|family| family.is_idle())
            && self.fresh.is_empty()
            && self.durable_seq == self.head.seq
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let live = self.running.iter();
        let live = live.map(|running| (running.task, running.own.live().clone()));
        let (job, live) = (Arc::clone(&self.job), live.collect::<BTreeMap<_, _>>());
        Snapshot { job, live, lack: None }
    }

    /// How the job has ended, if it has and that is durable: the state may be ahead of that.
    pub(super) fn durable_end(&self) -> Option<Snapshot> {
        let ended = self.job.status().is_ended() && self.durable_seq == self.job.seq();
        ended.then(|| self.snapshot())
    }

    /// What is left of it, once it is durable that it was purged.
    pub(super) fn durable_purge(&self) -> Option<Arc<Tombstone>> {
        self.job.purged().filter(|_| self.durable_seq == self.job.seq()).cloned()
    }

    pub(super) fn row(&self) -> JobRow {
        let mut row = row(&self.job, self.head);
        row.active &= self.files != Files::Gone;
        row
    }

    /// The row of a job that contradicted itself: what became of the state is not to be trusted.
    pub(super) fn row_of_broken(&self) -> JobRow {
        let mut row = self.row();
        // Were it called purged, the next start would believe that.
        row.purged = None;
        if row.status.is_ended() {
            row.status = JobStatus::Running;
        }
        row.active = true;
        row
    }
}

/// The due time in the row of a job that waits to be told something, and for no time.
const WHEN_TOLD: Timestamp = Timestamp::from_millis(i64::MAX);

/// The row that the views keep of a job.
pub(super) fn row(job: &Job, head: Head) -> JobRow {
    if let Some(tombstone) = job.purged() {
        return JobRow::of_tombstone(job.id(), head, Arc::clone(tombstone));
    }
    let (header, counts) = (job.header(), job.counts());
    JobRow {
        job: job.id(),
        head,
        status: job.status(),
        intent: job.intent(),
        active: job.is_active(),
        due: job.due().or_else(|| job.awaits_signals().then_some(WHEN_TOLD)),
        revision: job.revision(),
        name: header.name.clone(),
        workflow: header.workflow.clone(),
        source: header.source.clone(),
        labels: header.labels.clone(),
        forked_from: job.forked_from(),
        parent: job.parent().cloned(),
        created: job.created(),
        started: job.started(),
        finished: job.finished(),
        total_tasks: job.total_tasks(),
        completed_tasks: counts.completed,
        skipped_tasks: counts.skipped,
        error: job.error().map(|(error, _)| error.clone()),
        purged: None,
    }
}

/// A job that is not loaded: where its history stands is all that is kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parked {
    pub(super) head: Head,
    /// The status under which it is counted.
    pub(super) status: JobStatus,
    /// Whether it waits to be told something, and for no time.
    pub(super) is_told: bool,
}

impl Parked {
    /// Of a job that is let go of.
    pub(super) fn of(job: &Job, head: Head) -> Self {
        let is_told = job.due().is_none() && job.awaits_signals();
        Self { head, status: job.status(), is_told }
    }

    /// Of a job of which the row is all that was read, and when it is due.
    pub(super) fn of_row(row: &JobRow) -> (Self, Option<Timestamp>) {
        let is_told = row.due == Some(WHEN_TOLD);
        let parked = Self { head: row.head, status: row.status, is_told };
        (parked, row.due.filter(|_| !is_told))
    }
}

/// What a loop keeps of a job.
pub(super) enum Entry {
    Loaded(Box<Executor>),
    Parked(Parked),
}

pub(super) type Entries = JobMap<Entry>;

/// The outputs of a job's tasks, for attempts that ask for them.
#[derive(Debug, Default)]
pub(super) struct Outputs(Mutex<HashMap<TaskId, Payload>>);

impl Outputs {
    fn show(&self, job: &Job, task: &Task) {
        if let Some(output) = job.output_of(task) {
            let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            shown.insert(task.spec.id.clone(), output);
        }
    }

    pub(super) fn get(&self, task: &str) -> Option<Payload> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(task).cloned()
    }
}
