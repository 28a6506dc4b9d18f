//! The turn: take what waits, decide, evolve in memory, hand the events to the writer, and only
//! when they are durable answer, publish and act. Meanwhile the next turn is decided.
//!
//! A loop is a value that is turned by a thread; nothing in it waits.

use std::collections::VecDeque;
use std::sync::Arc;

use annals_tasks_sdk::{JobId, Timestamp};

use super::act::{Action, Planned};
use super::agenda::Agenda;
use super::ahead::AHEAD;
use super::attempt::Attempt;
use super::broken::stop_all;
use super::commands::Accepting;
use super::engine::Shared;
use super::error::EngineError;
use super::executor::{Entries, Entry, Touched};
use super::explain::Why;
use super::ids::JobMap;
use super::keys::key_row;
use super::lives::Running;
use super::lookout::Lookout;
use super::message::{Message, Reply};
use super::pool::Waiter;
use super::residency::Loading;
use super::rows::{Listing, Rows};
use super::stats::Counters;
use super::views::Round;
use super::wants::Want;
use super::watchers::Watchers;
use crate::job::{Context, Origin, Report};
use crate::log::{Durable, Head, KeyRow, LogError, Row, Stopped, Ticket};

/// So many messages make a turn at most.
pub(super) const TURN_MAX: usize = 4096;
/// Stands for the commit of the present turn until that is known.
pub(super) const THIS_TURN: Ticket = Ticket(u64::MAX);

/// A job that a row continues, with its seq and its hash behind that row.
type Continued = (JobId, u64, [u8; 32]);

/// What a turn appends.
#[derive(Default)]
struct Encoded {
    rows: Vec<Row>,
    owners: Vec<Continued>,
    /// Touched jobs without events, or without further ones.
    unchanged: Vec<JobId>,
    /// Jobs whose events of the turn cannot be written.
    spoiled: Vec<JobId>,
}

/// One of the few values that drive all jobs.
pub(super) struct Loop {
    pub(super) index: usize,
    pub(super) shared: Arc<Shared>,
    pub(super) now: Timestamp,
    pub(super) entries: Entries,
    pub(super) agenda: Agenda,
    /// Jobs that the present turn touched, and is to reconcile.
    pub(super) touched: VecDeque<JobId>,
    /// Jobs that it has reconciled at once.
    pub(super) reconciled: Vec<JobId>,
    /// Slots that jobs of this loop were granted within the turn.
    pub(super) granted: VecDeque<Waiter>,
    /// Submissions that the present turn has accepted.
    pub(super) accepted: Vec<Accepting>,
    /// What the present turn wants done.
    pub(super) ready: Vec<Planned>,
    /// What is to be done when commits are durable, in their order.
    pub(super) pending: VecDeque<(Ticket, Action)>,
    pub(super) durable: Ticket,
    /// Room for the tasks of it that are to take places in queues.
    pub(super) wants: Vec<Want>,
    /// Attempts whose start has become durable in this turn.
    pub(super) starting: Vec<Attempt>,
    /// The last commit that the loop had a part in.
    pub(super) last: Ticket,
    /// Checkpoints of the views that rows are to be handed in for...
    pub(super) rounds: VecDeque<Arc<Round>>,
    /// ...and whether that has begun for the first of them.
    pub(super) handing_in: bool,
    /// Rows that the views may not have, for lists and the next checkpoint.
    pub(super) rows: Rows,
    /// Lists that were asked for in the present turn.
    pub(super) lists: Vec<Listing>,
    /// Explanations that were.
    pub(super) whys: Vec<Why>,
    /// Idempotency keys that the views may not have.
    pub(super) keys: Vec<KeyRow>,
    pub(super) broken: JobMap<String>,
    /// Jobs that are being read, and what waits for them.
    pub(super) loading: JobMap<Loading>,
    /// Jobs that are to be read since their time has come, in the order of their times...
    pub(super) overdue: VecDeque<JobId>,
    /// ...and how many of them are.
    pub(super) due_loads: usize,
    pub(super) watchers: Watchers,
    /// Who waits until the files of purged jobs are gone.
    pub(super) clearing: JobMap<Vec<Reply<()>>>,
    pub(super) lookout: Lookout,
    /// Attempts whose job was given up while they ran.
    pub(super) orphans: Vec<(JobId, Running)>,
    pub(super) live: usize,
    /// How many attempts the last turn started.
    pub(super) started: usize,
    pub(super) loaded: usize,
    pub(super) counters: Arc<Counters>,
    pub(super) dispatching: bool,
    pub(super) quiet: Vec<Reply<()>>,
    pub(super) failed: Option<Arc<LogError>>,
    pub(super) closed: bool,
}

impl Loop {
    pub(super) fn new(index: usize, shared: Arc<Shared>) -> Self {
        let now = shared.clock.now();
        Self {
            index,
            now,
            counters: Arc::clone(&shared.counters[index]),
            shared,
            entries: Entries::default(),
            agenda: Agenda::default(),
            touched: VecDeque::new(),
            reconciled: Vec::new(),
            granted: VecDeque::new(),
            accepted: Vec::new(),
            ready: Vec::new(),
            pending: VecDeque::new(),
            durable: Ticket::default(),
            wants: Vec::new(),
            starting: Vec::new(),
            last: Ticket::default(),
            rounds: VecDeque::new(),
            handing_in: false,
            rows: Rows::default(),
            lists: Vec::new(),
            whys: Vec::new(),
            keys: Vec::new(),
            broken: JobMap::default(),
            loading: JobMap::default(),
            overdue: VecDeque::new(),
            due_loads: 0,
            watchers: Watchers::default(),
            clearing: JobMap::default(),
            lookout: Lookout::new(now),
            orphans: Vec::new(),
            live: 0,
            started: 0,
            loaded: 0,
            // Until recovery is over nothing starts.
            dispatching: false,
            quiet: Vec::new(),
            failed: None,
            closed: false,
        }
    }

    /// Takes over a job that was open when the engine started.
    pub(super) fn adopt(&mut self, job: JobId, entry: Entry) {
        if let Entry::Loaded(executor) = &entry {
            self.loaded += 1;
            self.counters.moved(None, executor.counted);
        }
        self.entries.insert(job, entry);
    }

    /// Takes a turn over so many of these messages.
    pub(super) fn turn(&mut self, messages: &mut VecDeque<Message>, most: usize) {
        self.now = self.shared.clock.now();
        self.started = 0;
        if let Some(EngineError::OutcomeUnknown(error)) = self.shared.failure.get()
            && self.failed.is_none()
        {
            // Another loop was told before this one.
            self.fail(Some(Arc::clone(error)));
        }
        for place in 0..most {
            if place % AHEAD == 0 {
                self.look_at_reported(messages.iter().take(AHEAD.min(most - place)));
            }
            let Some(message) = messages.pop_front() else { break };
            self.handle(message);
        }
        // What has become durable comes before answers that rest on it.
        self.act();
        self.wake_due();
        self.look_out();
        self.reconcile_all();
        self.answer_submissions();
        self.answer_whys();
        self.submit();
        self.answer_lists();
        self.act();
        self.start_attempts();
        self.hand_in_views();
        self.tell_if_quiet();
        self.show_sizes();
    }

    /// When the loop must turn again although no message has come.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.agenda.next().filter(|_| self.dispatching)
    }

    /// Whether there is something left for the next turn although no message may come.
    pub(super) fn has_more(&self) -> bool {
        // A job that was given up has left slots to others, one has given its key back at the end
        // of the turn, or the views wait for rows.
        !self.granted.is_empty() || !self.touched.is_empty() || !self.rounds.is_empty()
    }

    /// Whether the loop was closed, and whatever it had to answer is answered.
    pub(super) fn is_over(&self) -> bool {
        self.closed && self.pending.is_empty() && self.rounds.is_empty()
    }

    pub(super) fn handle(&mut self, message: Message) {
        if self.failed.is_some() || self.closed {
            return self.handle_at_the_end(message);
        }
        if let Some(id) = message.job_to_load()
            && !self.is_at_hand(id)
        {
            return self.wait_for(id, message);
        }
        match message {
            Message::Submit { executor, claim, shows, reply } => {
                let accepting = Accepting { job: executor.job.id(), claim, shows, reply };
                self.on_submit(accepting, executor);
            }
            Message::Command(commanded) => self.on_command(*commanded),
            Message::Snapshot { job, reply } => self.on_snapshot(job, reply),
            Message::Explain { job, reply } => self.on_explain(job, reply),
            Message::Changed { job, after, reply } => self.on_changed(job, after, reply),
            Message::Ended { job, reply } => self.on_ended(job, reply),
            Message::Head { job, reply } => self.on_head(job, reply),
            Message::Rows(listing) => self.lists.push(listing),
            Message::Broken { reply } => self.on_broken(reply),
            Message::Report { job, report } => self.on_report(job, report),
            Message::Checkpoint { job, task, attempt, value, reply } => {
                self.on_checkpoint(job, task, attempt, &value, reply);
            }
            Message::Step { job, step, reply } => self.on_step(job, step, reply),
            Message::Loaded { job, found } => self.on_loaded(job, found),
            Message::Cleared { job, files } => self.on_cleared(job, files),
            Message::WhenCleared { job, reply } => self.when_cleared(job, reply),
            Message::Prepared { job, prepared } => self.on_prepared(job, *prepared),
            Message::Visit { job, parent, task } => self.on_visit(job, parent, task),
            Message::Visited { job, task, child, found } => {
                self.on_visited(job, task, (child, found));
            }
            Message::Wish { job, parent, task, wish } => self.on_wish(job, (parent, task), wish),
            Message::Granted(waiter) => self.granted.push_back(waiter),
            Message::Turn { job } => self.touch(job),
            Message::Durable(Durable::UpTo(ticket)) => self.durable = ticket,
            Message::Durable(Durable::Failed(error)) => self.fail(Some(error)),
            Message::Views(round) => self.rounds.push_back(round),
            Message::Recover { reply } => self.on_recover(reply),
            Message::Quiesce { interrupt, quiet } => self.on_quiesce(interrupt, quiet),
            Message::Look => {}
            Message::Close => self.on_close(),
        }
    }

    /// Nothing is decided any more. Whoever waits for an answer hears of it by the drop of the
    /// reply.
    fn handle_at_the_end(&mut self, message: Message) {
        match message {
            Message::Durable(Durable::UpTo(ticket)) => self.durable = ticket,
            Message::Durable(Durable::Failed(error)) if self.failed.is_none() => {
                self.fail(Some(error));
            }
            Message::Quiesce { quiet, .. } => self.quiet.push(quiet),
            Message::Report { report: Report::Ended { .. }, .. } => {
                self.live = self.live.saturating_sub(1);
            }
            Message::Close => self.on_close(),
            _ => {}
        }
    }

    fn on_close(&mut self) {
        self.closed = true;
        self.dispatching = false;
    }

    pub(super) fn context(&self, origin: Origin) -> Context {
        Context {
            origin,
            key: None,
            now: self.now,
            random: fastrand::f64(),
            losses: self.shared.settings.losses,
            instances: self.shared.settings.limits.instances,
        }
    }

    /// Hands the events of the turn to the writer, and the actions to those who wait for it.
    fn submit(&mut self) {
        let mut touched = std::mem::take(&mut self.reconciled);
        touched.extend(self.touched.drain(..));
        let Encoded { rows, owners, unchanged, spoiled } = self.encode(&touched);
        if !rows.is_empty() {
            match self.submit_rows(rows, &owners) {
                Ok(ticket) => self.last = ticket,
                Err(stopped) => return self.fail(stopped.0),
            }
        }
        let mut ready = std::mem::take(&mut self.ready);
        // Nobody hears of a stop before it is carried out.
        ready.sort_by_key(|planned| !matches!(planned.action, Action::Stop { .. }));
        for Planned { ticket, job, action } in ready.drain(..) {
            if let Some(id) = job.filter(|id| ticket == THIS_TURN && spoiled.contains(id)) {
                self.take_back(id, action);
                continue;
            }
            let ticket = if ticket == THIS_TURN { self.last } else { ticket };
            // What rests on durable events alone, such as a read, does not wait for others.
            if ticket <= self.durable {
                self.perform(action);
            } else {
                self.pending.push_back((ticket, action));
            }
        }
        self.ready = ready;
        if !self.broken.is_empty() {
            for id in &touched {
                if let Some(why) = self.broken.get(id) {
                    self.bury(*id, why.clone());
                }
            }
        }
        for id in unchanged {
            self.settle_down(id);
        }
        touched.clear();
        self.reconciled = touched;
    }

    fn encode(&mut self, touched: &[JobId]) -> Encoded {
        let (rows, owners) = (Vec::with_capacity(touched.len()), Vec::with_capacity(touched.len()));
        let mut encoded = Encoded { rows, owners, ..Encoded::default() };
        for (place, &id) in touched.iter().enumerate() {
            if place % AHEAD == 0 {
                self.look_at_changed(touched[place..].iter().take(AHEAD).copied());
            }
            let Some(Entry::Loaded(executor)) = self.entries.get_mut(&id) else { continue };
            executor.touched = Touched::No;
            if executor.fresh.is_empty() {
                encoded.unchanged.push(id);
                continue;
            }
            if let Err(broken) = executor.look_at_fresh() {
                self.shared.note_broken_law(self.index, &broken);
                self.spoil(id, broken.to_string());
                encoded.spoiled.push(id);
                continue;
            }
            match executor.encode() {
                Ok((fresh, row, hash)) => {
                    for recorded in &fresh {
                        self.counters.count(&recorded.event);
                        self.keys.extend(key_row(id, recorded.time, recorded.key.as_deref()));
                    }
                    let status = Some(executor.job.status());
                    self.counters.moved(executor.counted, status);
                    executor.counted = status;
                    encoded.owners.push((id, executor.head.seq + fresh.len() as u64, hash));
                    encoded.rows.push(row);
                }
                // The limits keep every event far below what fits a row, so this is a
                // contradiction in the engine itself. It is this job's alone.
                Err(error) => {
                    self.spoil(id, error.to_string());
                    encoded.spoiled.push(id);
                }
            }
        }
        self.leave_out_orphans(&mut encoded);
        encoded
    }

    /// A child is not written without the event of its parent that says so.
    fn leave_out_orphans(&mut self, encoded: &mut Encoded) {
        if encoded.spoiled.is_empty() {
            return;
        }
        let written: Vec<JobId> = encoded.owners.iter().map(|(id, ..)| *id).collect();
        for orphan in self.orphans_of(&encoded.spoiled, &written) {
            if let Some(place) = encoded.owners.iter().position(|(id, ..)| *id == orphan) {
                encoded.owners.swap_remove(place);
                encoded.rows.swap_remove(place);
            }
            self.spoil(orphan, "its parent was given up before it began".into());
            encoded.spoiled.push(orphan);
        }
    }

    fn submit_rows(&mut self, mut rows: Vec<Row>, owners: &[Continued]) -> Result<Ticket, Stopped> {
        let ticket = self.shared.writer.submit(self.index, &mut rows)?;
        let mut events = 0;
        for (row, &(id, seq, hash)) in rows.iter().zip(owners) {
            events += u64::from(row.events);
            let Some(Entry::Loaded(executor)) = self.entries.get_mut(&id) else { continue };
            executor.head = Head { row: row.position, seq, hash };
            executor.ticket = ticket;
            if !std::mem::replace(&mut executor.changed, true) {
                self.rows.change(id);
            }
            // Before all that rests on it: an attempt finds the outputs that it was waiting for.
            self.pending.push_back((ticket, Action::Publish { job: id, seq }));
        }
        if self.shared.views.count(events, || self.shared.writer.has_viewed()) {
            self.shared.begin_views_round();
        }
        Ok(ticket)
    }

    fn tell_if_quiet(&mut self) {
        if self.live == 0 && self.pending.is_empty() {
            for quiet in self.quiet.drain(..) {
                // Whoever asked may have stopped waiting.
                let _ = quiet.send(());
            }
        }
    }

    /// A write has failed: nothing is acknowledged any more, and what runs is stopped, since its
    /// end could not be recorded.
    fn fail(&mut self, error: Option<Arc<LogError>>) {
        let error = error.unwrap_or_else(|| Arc::new(LogError::Closed));
        tracing::error!(%error, "the log cannot be written; the engine stops");
        if self.shared.fail(EngineError::OutcomeUnknown(Arc::clone(&error))) {
            // The writer tells those who have written; others may have someone who waits, too.
            let failed = || Message::Durable(Durable::Failed(Arc::clone(&error)));
            self.shared.tell_all(failed);
        }
        self.failed = Some(error);
        self.pending.clear();
        self.accepted.clear();
        self.ready.clear();
        self.touched.clear();
        self.reconciled.clear();
        self.granted.clear();
        self.rounds.clear();
        self.lists.clear();
        self.whys.clear();
        self.loading.clear();
        self.overdue.clear();
        self.due_loads = 0;
        self.watchers = Watchers::default();
        self.clearing.clear();
        // Attempts whose start did not become durable never come to life.
        self.live = self.orphans.len();
        for entry in self.entries.values() {
            if let Entry::Loaded(executor) = entry {
                stop_all(executor);
                self.live += executor.running.iter().filter(|running| running.is_spawned()).count();
            }
        }
        self.entries.clear();
        self.dispatching = false;
    }
}
