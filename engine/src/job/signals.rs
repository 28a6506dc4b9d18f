//! Signals: what the job was told before a task waits for it, and which tasks wait for what.
//!
//! A signal is kept until a task waits for one of its name. Of several tasks the first in the order
//! of the plan gets it, of several signals the one that came first is given.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem::size_of;

use annals_tasks_sdk::{Exit, Payload, SignalName, Timestamp};

use super::deadline::Deadline;
use super::event::{Event, Failure, LogSize, TaskNumber};
use super::key::IdempotencyKey;
use super::sorted::Sorted;
use super::state::{Job, index, number};
use super::waiting::Waiting;

/// So many signals that no task has waited for are kept of a job.
pub const SIGNALS_KEPT_MAX: usize = 1_000;

/// What a job that has to do with signals keeps of them.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Signals {
    boxes: BTreeMap<SignalName, Mailbox>,
    /// The names of which a signal is kept, and for which a task waits.
    matched: BTreeSet<SignalName>,
    /// How many are kept.
    kept: usize,
    /// The tasks that wait.
    waiting: Sorted<u32>,
    /// The task that was given one, and what it is about to give.
    answered: Option<(u32, Payload)>,
    /// By what each that came is known again, and what it was.
    known: BTreeMap<u128, u128>,
}

/// What there is of one name.
#[derive(Debug, Clone, PartialEq, Default)]
struct Mailbox {
    kept: VecDeque<Kept>,
    waiting: Sorted<u32>,
}

#[derive(Debug, Clone, PartialEq)]
struct Kept {
    /// The event with which it came.
    seq: u64,
    payload: Payload,
}

impl Signals {
    fn change<T>(&mut self, name: &SignalName, change: impl FnOnce(&mut Mailbox) -> T) -> T {
        let mailbox = self.boxes.entry(name.clone()).or_default();
        let changed = change(mailbox);
        match (mailbox.kept.is_empty(), mailbox.waiting.is_empty()) {
            (false, false) => drop(self.matched.insert(name.clone())),
            (kept_none, waits_none) => {
                self.matched.remove(name);
                if kept_none && waits_none {
                    self.boxes.remove(name);
                }
            }
        }
        changed
    }

    fn keep(&mut self, name: &SignalName, seq: u64, payload: &Payload) {
        let payload = payload.clone();
        self.change(name, |mailbox| mailbox.kept.push_back(Kept { seq, payload }));
        self.kept += 1;
    }

    fn take(&mut self, name: &SignalName) -> Option<Kept> {
        let taken = self.change(name, |mailbox| mailbox.kept.pop_front());
        self.kept -= usize::from(taken.is_some());
        taken
    }

    fn wait(&mut self, at: u32, names: &[SignalName]) {
        self.waiting.insert(at);
        for name in names {
            self.change(name, |mailbox| mailbox.waiting.insert(at));
        }
    }

    fn leave(&mut self, at: u32, names: &[SignalName]) {
        self.waiting.remove(&at);
        for name in names {
            self.change(name, |mailbox| mailbox.waiting.remove(&at));
        }
    }

    fn first(&self, name: &SignalName) -> Option<&Kept> {
        self.boxes.get(name)?.kept.front()
    }
}

impl Job {
    /// Whether a task waits for a signal.
    pub fn awaits_signals(&self) -> bool {
        self.signals.as_ref().is_some_and(|signals| !signals.waiting.is_empty())
    }

    /// The signals that are kept: the event with which each came, its name, and what it brings.
    pub fn kept_signals(&self) -> impl Iterator<Item = (u64, &SignalName, &Payload)> {
        let boxes = self.signals.iter().flat_map(|signals| &signals.boxes);
        boxes.flat_map(|(name, mailbox)| {
            mailbox.kept.iter().map(move |kept| (kept.seq, name, &kept.payload))
        })
    }

    /// How many signals are kept.
    pub fn signals_kept(&self) -> usize {
        self.signals.as_ref().map_or(0, |signals| signals.kept)
    }

    /// The tasks that wait for signals.
    pub(super) fn awaiting(&self) -> impl Iterator<Item = u32> {
        self.signals.iter().flat_map(|signals| signals.waiting.iter().copied())
    }

    /// Whether a task waits for a signal of this name.
    pub(super) fn is_awaited(&self, name: &SignalName) -> bool {
        let signals = self.signals.as_ref();
        let mailbox = signals.and_then(|signals| signals.boxes.get(name));
        mailbox.is_some_and(|mailbox| !mailbox.waiting.is_empty())
    }

    /// Whether a signal that came with this key was the same; none where none came with it.
    pub(super) fn knows_as_same(&self, key: &IdempotencyKey) -> Option<bool> {
        let known = self.signals.as_ref()?.known.get(&key.key);
        known.map(|body| *body == key.body)
    }

    /// The first task that waits for a signal that is kept gets it.
    pub(super) fn delivers(&self) -> Option<Event> {
        let signals = self.signals.as_deref()?;
        let name = signals.matched.first()?;
        let mailbox = signals.boxes.get(name)?;
        let rank = |&&at: &&u32| self.tasks[at as usize].rank;
        let task = number(*mailbox.waiting.iter().min_by_key(rank)?);
        let signal = mailbox.kept.front()?.seq;
        Some(Event::SignalDelivered { task, name: name.clone(), signal })
    }

    /// A task that was given its signal gives what that brought.
    pub(super) fn answers(&self) -> Option<Event> {
        let (at, payload) = self.signals.as_deref()?.answered.as_ref()?;
        Some(Event::TaskCompleted {
            task: number(*at),
            attempt: 0,
            output: payload.clone(),
            exit: Exit::default(),
            log: LogSize::default(),
        })
    }

    /// The first task whose signal has not come in time, by `now`.
    pub(super) fn waits_in_vain(&self, now: Timestamp) -> Option<(TaskNumber, Failure)> {
        let due = self.timed.iter().take_while(|&&(due, _)| due <= now).map(|&(_, at)| at);
        let waits =
            |&at: &u32| matches!(self.tasks[at as usize].waiting, Some(Waiting::Signal { .. }));
        let at = due.filter(|_| self.dispatches()).find(waits)?;
        let names = self.tasks[at as usize].awaits.first().map_or("", SignalName::as_str);
        let message = format!("no signal {names} came before the timeout of the wait");
        Some((number(at), Failure::new(Failure::TIMED_OUT, message)))
    }

    /// Takes in that a signal has come.
    pub(super) fn signal_received(&mut self, name: &SignalName, payload: &Payload) {
        self.bytes += size_of::<Mailbox>() + payload.as_str().len();
        let seq = self.seq;
        self.signals.get_or_insert_default().keep(name, seq, payload);
    }

    /// From now on it is known that the signal with this key has come.
    pub(super) fn knows_signal(&mut self, key: IdempotencyKey) {
        self.signals.get_or_insert_default().known.insert(key.key, key.body);
        self.bytes += size_of::<IdempotencyKey>();
    }

    /// Takes in that a task was given the first signal of a name.
    pub(super) fn signal_delivered(&mut self, task: TaskNumber, name: &SignalName) {
        let (Some(at), Some(signals)) = (index(task), &mut self.signals) else { return };
        signals.answered = signals.take(name).map(|kept| (at, kept.payload));
    }

    /// Takes in that the task has given what its signal brought, or that the job ends.
    pub(super) fn has_answered(&mut self) {
        if let Some(signals) = &mut self.signals {
            signals.answered = None;
        }
    }

    /// Nothing of a job that has completed waits any more.
    pub(super) fn drop_signals(&mut self) {
        self.signals = None;
    }

    /// Notes that a task waits for the signals that it names.
    pub(super) fn begins_to_wait(&mut self, at: u32) {
        let names = &self.tasks[at as usize].awaits;
        self.signals.get_or_insert_default().wait(at, names);
    }

    /// Notes that it waits for them no more.
    pub(super) fn waits_no_more(&mut self, at: u32) {
        let names = std::mem::take(&mut self.tasks[at as usize].awaits);
        if let Some(signals) = &mut self.signals {
            signals.leave(at, &names);
        }
    }

    /// The timeouts of waits stand still.
    pub(super) fn halt_waits(&mut self) {
        for at in self.awaiting().collect::<Vec<u32>>() {
            if let Some(Waiting::Signal { timeout: Some(Deadline::At(until)) }) =
                self.tasks[at as usize].waiting
            {
                self.timed.remove(&(until, at));
                let timeout = Some(Deadline::Left(until.since(self.time)));
                self.tasks[at as usize].waiting = Some(Waiting::Signal { timeout });
            }
        }
    }

    /// They go on with what is left.
    pub(super) fn resume_waits(&mut self) {
        for at in self.awaiting().collect::<Vec<u32>>() {
            if let Some(Waiting::Signal { timeout: Some(Deadline::Left(rest)) }) =
                self.tasks[at as usize].waiting
            {
                let until = self.time.plus(rest);
                self.timed.insert((until, at));
                let timeout = Some(Deadline::At(until));
                self.tasks[at as usize].waiting = Some(Waiting::Signal { timeout });
            }
        }
    }

    /// The checks of a signal that has come.
    pub(super) fn may_receive(&self, name: &SignalName) -> Result<(), String> {
        if !self.takes_signals() {
            return Err("the job takes no signal now".into());
        }
        if self.is_full_for(name) {
            return Err(format!("it keeps {SIGNALS_KEPT_MAX} signals already"));
        }
        Ok(())
    }

    /// Whether a signal of this name would be one too many.
    pub(super) fn is_full_for(&self, name: &SignalName) -> bool {
        let is_kept = !(self.dispatches() && self.is_awaited(name));
        is_kept && self.signals_kept() >= SIGNALS_KEPT_MAX
    }

    /// The checks of a signal that is given to a task.
    pub(super) fn may_deliver(
        &self,
        task: TaskNumber,
        name: &SignalName,
        signal: u64,
    ) -> Result<(), String> {
        let waits = self.task(task).is_some_and(|task| task.awaits.contains(name));
        if !waits {
            return Err(format!("task number {} does not wait for signal {name}", task.0));
        }
        let first = self.signals.as_deref().and_then(|signals| signals.first(name));
        match first {
            Some(first) if first.seq == signal => Ok(()),
            _ => Err(format!("event {signal} is not the first signal {name} that is kept")),
        }
    }

    /// The checks of what comes behind a signal that was given to a task.
    pub(super) fn may_follow_delivery(&self, event: &Event) -> Result<(), String> {
        let answered = self.signals.as_deref().and_then(|signals| signals.answered.as_ref());
        let Some((at, payload)) = answered else { return Ok(()) };
        match event {
            Event::TaskCompleted { task, attempt: 0, output, .. }
                if index(*task) == Some(*at) && output == payload =>
            {
                Ok(())
            }
            _ => Err("the task that was given its signal has not given what that brought".into()),
        }
    }

    /// Whether this task was given its signal.
    pub(super) fn is_answered(&self, task: TaskNumber) -> bool {
        let answered = self.signals.as_deref().and_then(|signals| signals.answered.as_ref());
        answered.is_some_and(|(at, _)| index(task) == Some(*at))
    }
}
