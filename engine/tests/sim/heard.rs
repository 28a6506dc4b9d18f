//! What clients have heard: each answer is held against the log, at once and after every crash.

use std::collections::{BTreeMap, BTreeSet};

use annals_engine::job::{Event, Job, Part, Recorded, Task, TaskNumber, Tombstone};
use annals_engine::log::JobRow;
use annals_engine::runtime::{
    Accepted, Answer, CommandError, ForkError, Forked, LogPage, Logged, SubmitError,
};
use annals_tasks_sdk::JobId;

use crate::request::{On, Reply, Request, Wish};
use crate::table::{Cell, Column, cell, row};
use crate::tasks::Call;
use crate::witness::Witness;

/// What all clients together have heard.
#[derive(Default)]
pub(crate) struct Heard {
    /// Which request a key stands for, and which job.
    keys: BTreeMap<u64, (String, JobId)>,
    /// Keys that came with more than one request.
    pub(crate) reused: BTreeSet<u64>,
    /// Jobs that a client knows of, in the order in which they were accepted.
    pub(crate) jobs: Vec<JobId>,
    /// How far somebody has seen each job.
    pub(crate) seen: BTreeMap<JobId, u64>,
    /// Behind which event nothing of a job may begin that had been decided before it.
    stopped: BTreeMap<JobId, u64>,
    /// The same of cancels after which nothing is done at the end.
    cut: BTreeMap<JobId, u64>,
    /// How often which command was answered in which status.
    pub(crate) cells: BTreeMap<(usize, Column), u64>,
}

/// What an answer is held against.
pub(crate) struct Hearing<'a> {
    pub(crate) witness: &'a Witness,
    /// How far somebody had seen each job when the question was asked: no answer shows less.
    pub(crate) seen: &'a BTreeMap<JobId, u64>,
    /// Whether the engine may refuse to answer.
    pub(crate) ails: bool,
}

impl Heard {
    /// Holds an answer against the log.
    pub(crate) fn hear(&mut self, request: &Request, reply: Reply, around: &Hearing<'_>) {
        if let Some(error) = reply.engine_error() {
            assert!(around.ails, "{request:?}: {error}");
            return;
        }
        if let Some((job, tombstone)) = reply.purged() {
            return self.told_of_purge(request, job, tombstone, around);
        }
        match (request, reply) {
            (Request::Submit { key, .. }, Reply::Accepted(reply)) => match reply {
                Ok(accepted) => self.accepted(request, *key, &accepted, around),
                Err(SubmitError::KeyReused) => self.is_reused(*key),
                Err(error) => panic!("{request:?}: {error}"),
            },
            (Request::Fork { key, .. }, Reply::Forked(reply)) => match reply {
                Ok(Forked::Accepted(accepted)) => self.accepted(request, *key, &accepted, around),
                Err(ForkError::Edit { .. }) => {}
                Err(ForkError::Command(CommandError::Rejected(rejection))) => {
                    // What undoes a task is counted among those that are named.
                    let of_plan = ["task_is_settled", "other_part", "no_such_task"];
                    let codes = [&of_plan[..], &["output_is_missing", "would_lose_order"]].concat();
                    assert!(codes.contains(&rejection.code), "{request:?}: {rejection}");
                }
                Err(ForkError::Command(CommandError::KeyReused)) => self.is_reused(*key),
                _ => panic!("{request:?} is no fork"),
            },
            (Request::Command { job, wish, on }, Reply::Answered(reply)) => match reply {
                Ok(answer) if on.dry_run => assert_eq!(answer.snapshot.job.id(), *job),
                Ok(answer) => {
                    self.expected(request, *job, *on, &answer, around);
                    self.answered(*job, *wish, &answer, around);
                }
                Err(CommandError::Rejected(rejection)) => {
                    self.refused(*job, *wish, rejection.code, around.witness);
                }
                Err(CommandError::Stale { .. }) => {}
                Err(CommandError::KeyReused) => self.is_reused(on.key),
                Err(error) => panic!("{request:?}: {error}"),
            },
            (Request::Snapshot(job), Reply::Shown(Ok(snapshot))) => {
                assert!(snapshot.job.purged().is_none(), "a purged job is shown");
                self.shown(*job, &snapshot.job, around);
            }
            (Request::Ended(job), Reply::Ended(Ok(snapshot))) => {
                assert!(snapshot.job.status().is_ended() && snapshot.job.purged().is_none());
                self.shown(*job, &snapshot.job, around);
            }
            (Request::Changed(job, after), Reply::Changed(Ok(seq))) => {
                assert!(seq > *after && seq <= around.witness.jobs[job].job.seq());
                around.may_be_read(*job);
            }
            (Request::History(job), Reply::Read(Ok(logged))) => self.read(*job, &logged, around),
            (Request::List { known }, Reply::Listed(Ok(rows))) => {
                self.listed(*known, &rows, around);
            }
            (Request::Log { after }, Reply::Page(Ok(page))) => paged(*after, &page, around),
            (
                _,
                Reply::Shown(Err(error))
                | Reply::Ended(Err(error))
                | Reply::Changed(Err(error))
                | Reply::Read(Err(error)),
            ) => panic!("{request:?}: {error}"),
            _ => panic!("{request:?} has another answer"),
        }
    }

    /// That a job was purged is told when that is durable, to whoever asks for it by its id or by a
    /// key, and but for one command.
    fn told_of_purge(
        &mut self,
        request: &Request,
        id: JobId,
        tombstone: &Tombstone,
        around: &Hearing<'_>,
    ) {
        let known = &around.witness.jobs[&id].job;
        assert_eq!(known.purged().map(|left| &**left), Some(tombstone), "{request:?}");
        self.is_fresh(id, tombstone.seq(), around);
        match request {
            Request::Submit { key, .. } => self.stands_for(*key, request, id),
            Request::Command { job, wish, .. } => {
                assert!(*job == id && !matches!(wish, Wish::Purge), "{request:?}");
                let cell = (row(&wish.command()), Column::Purged);
                *self.cells.entry(cell).or_default() += 1;
            }
            // The origin was, or the fork that was made before by the key.
            Request::Fork { key, job, .. } if *job != id => self.stands_for(*key, request, id),
            _ => {}
        }
    }

    fn is_reused(&self, key: Option<u64>) {
        assert!(key.is_some_and(|key| self.reused.contains(&key)), "{key:?} came once");
    }

    /// A key stands for one request, and what that did, for good.
    fn stands_for(&mut self, key: Option<u64>, request: &Request, job: JobId) {
        let Some(key) = key else { return };
        let this = (format!("{request:?}"), job);
        let first = self.keys.entry(key).or_insert_with(|| this.clone());
        assert_eq!(*first, this, "one key, two requests");
    }

    fn accepted(
        &mut self,
        request: &Request,
        key: Option<u64>,
        accepted: &Accepted,
        around: &Hearing<'_>,
    ) {
        let job = accepted.job.id();
        self.shown(job, &accepted.snapshot.job, around);
        self.stands_for(key, request, job);
        if !self.jobs.contains(&job) {
            self.jobs.push(job);
        }
    }

    /// Whoever is shown a job is shown what its durable events have made, and no less than anybody
    /// was shown before this was asked.
    fn shown(&mut self, id: JobId, job: &Job, around: &Hearing<'_>) {
        assert_eq!(job.id(), id);
        let known = around.witness.jobs.get(&id);
        let known = known.unwrap_or_else(|| panic!("job {id} is answered for and not durable"));
        assert!(job.seq() <= known.job.seq(), "job {id} is answered for before it is durable");
        assert_eq!(*job, known.at(job.seq()), "replay equals what was shown");
        self.is_fresh(id, job.seq(), around);
    }

    fn is_fresh(&mut self, id: JobId, seq: u64, around: &Hearing<'_>) {
        let before = around.seen.get(&id).copied().unwrap_or(0);
        assert!(seq >= before, "job {id} was seen at {before}, and is shown at {seq}");
        let seen = self.seen.entry(id).or_default();
        *seen = (*seen).max(seq);
    }

    fn read(&mut self, job: JobId, logged: &[Logged], around: &Hearing<'_>) {
        let read: Vec<&Recorded> = logged.iter().map(|logged| &logged.recorded).collect();
        let known: Vec<&Recorded> = around.witness.jobs[&job].history.iter().collect();
        assert!(!read.is_empty() && known.starts_with(&read), "history of {job}");
        self.is_fresh(job, read.len() as u64, around);
    }

    fn listed(&mut self, known: usize, rows: &[JobRow], around: &Hearing<'_>) {
        for row in rows {
            let known = around.witness.jobs[&row.job].at(row.head.seq);
            assert_eq!((row.status, row.intent), (known.status(), known.intent()));
            assert!(row.purged.is_none(), "a purged job is listed");
            self.is_fresh(row.job, row.head.seq, around);
        }
        let listed: BTreeSet<JobId> = rows.iter().map(|row| row.job).collect();
        let purged = |job: &&JobId| around.witness.jobs[job].job.purged().is_some();
        let mut missing = self.jobs[..known].iter().filter(|job| !listed.contains(job));
        let missing = missing.find(|job| !purged(job));
        assert_eq!(missing, None, "a job is in no list");
    }

    /// A command under conditions is carried out only where they hold.
    fn expected(
        &mut self,
        request: &Request,
        job: JobId,
        on: On,
        answer: &Answer,
        around: &Hearing<'_>,
    ) {
        let Some(first) = answer.events.first().map(|first| first.seq) else { return };
        self.stands_for(on.key, request, job);
        if let Some(expected) = on.seq {
            // What was alive may have been declared lost before.
            let history = &around.witness.jobs[&job].history;
            let between = |event: &&Recorded| event.seq > expected && event.seq < first;
            let other = history.iter().filter(between).find(|event| event.leads);
            assert!(first > expected && other.is_none(), "{request:?}: {other:?}");
        }
    }

    fn answered(&mut self, id: JobId, wish: Wish, answer: &Answer, around: &Hearing<'_>) {
        self.shown(id, &answer.snapshot.job, around);
        let known = &around.witness.jobs[&id];
        for event in &answer.events {
            let at = usize::try_from(event.seq - 1).expect("small");
            assert_eq!(known.history.get(at), Some(event), "what was answered is in the log");
        }
        if answer.replayed {
            return;
        }
        let before = match answer.events.first() {
            Some(first) => known.at(first.seq - 1),
            None => (*answer.snapshot.job).clone(),
        };
        let column = Column::of(&before);
        let command = wish.command();
        let finishes = before.ending().is_some() && !before.is_cut_short();
        // What its parent alone holds answers otherwise.
        let alone = before.is_held_by_parent() && !before.is_held_by_own();
        let cell = if alone { Cell::Free } else { cell(&command, column, finishes) };
        match cell {
            Cell::Acts => assert!(!answer.events.is_empty(), "{command:?} while {column:?}"),
            Cell::Idle => assert!(answer.events.is_empty(), "{command:?} while {column:?}"),
            Cell::Free => {}
            Cell::No => panic!("{command:?} was accepted while {column:?}"),
        }
        *self.cells.entry((row(&command), column)).or_default() += 1;
        if let (Wish::Cancel { now }, Some(last)) = (wish, answer.events.last()) {
            self.stopped.insert(id, last.seq);
            if now {
                self.cut.insert(id, last.seq);
            }
        }
    }

    /// A refusal says that it is one of the status only where the table does.
    fn refused(&mut self, id: JobId, wish: Wish, code: &str, witness: &Witness) {
        // Where the job stands now, which is where it stood unless it has just changed.
        let job = &witness.jobs[&id].job;
        let command = wish.command();
        let columns = Column::ALL.into_iter();
        if code == "not_in_this_status" {
            let some = columns.clone().any(|column| cell(&command, column, false) == Cell::No);
            assert!(some, "{command:?} is refused in no status");
        }
        let column = Column::of(job);
        *self.cells.entry((row(&command), column)).or_default() += 1;
    }

    /// Nothing begins after a cancel was acknowledged that had been decided before it.
    pub(crate) fn check_call(&self, call: &Call, witness: &Witness) {
        let (job, ..) = call.attempt;
        let start = witness.jobs[&job].start_of(call.attempt);
        let known = &witness.jobs[&job].job;
        let part = known.task(TaskNumber(call.attempt.1)).map(Task::part);
        // What is undone, and done at the end, is so after a cancel, too, unless that cuts it
        // short.
        let comes_last = matches!(part, Some(Part::Undo | Part::Finally));
        let stops = if comes_last { &self.cut } else { &self.stopped };
        let stopped = stops.get(&job).copied();
        assert!(start > stopped, "{:?} begins after its cancel was acknowledged", call.attempt);
        assert!(!call.told_to_stop, "{:?} begins after it was told to stop", call.attempt);
    }

    /// After a start all that anybody has heard of is there.
    pub(crate) fn check(&self, witness: &Witness) {
        let lost = self.jobs.iter().find(|job| !witness.jobs.contains_key(job));
        assert_eq!(lost, None, "an accepted job is lost");
    }
}

impl Hearing<'_> {
    /// Nothing but that it was purged is told of a job for which somebody knew that before he
    /// asked.
    fn may_be_read(&self, job: JobId) {
        let seen = self.seen.get(&job).copied().unwrap_or(0);
        let purged = self.witness.jobs[&job].job.purged();
        let known = purged.is_some_and(|tombstone| tombstone.seq() <= seen);
        assert!(!known, "job {job} is read after its purge");
    }
}

/// A page of the log has every event behind its beginning, in order; but of jobs that were purged
/// it may have only that, and it has only that of those of which somebody knew so before.
fn paged(after: u64, page: &LogPage, around: &Hearing<'_>) {
    let mut next = after + 1;
    for (job, logged) in &page.events {
        let at = usize::try_from(logged.recorded.seq - 1).expect("small");
        assert_eq!(around.witness.jobs[job].history.get(at), Some(&logged.recorded));
        left_out(next..logged.position.0, around);
        next = logged.position.0 + 1;
        if !matches!(logged.recorded.event, Event::JobPurged(_)) {
            around.may_be_read(*job);
        }
    }
    left_out(next..page.upto.0 + 1, around);
    assert!(page.upto.0 + 1 >= next, "where the page ends");
}

/// These positions are of jobs that were purged.
fn left_out(positions: std::ops::Range<u64>, around: &Hearing<'_>) {
    for position in positions {
        let job = &around.witness.jobs[&around.witness.owner(position)].job;
        let is_it = |tombstone: &Tombstone| around.witness.is_purge(position, tombstone);
        let purged = job.purged().is_some_and(|tombstone| !is_it(tombstone));
        assert!(purged, "a hole in a page of the log, at {position}");
    }
}
