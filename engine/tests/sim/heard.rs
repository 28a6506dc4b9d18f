//! What clients have heard: each answer is held against the log, at once and after every crash.

use std::collections::{BTreeMap, BTreeSet};

use annals_engine::job::{Job, Recorded};
use annals_engine::runtime::{Accepted, Answer, CommandError, SubmitError};
use annals_tasks_sdk::JobId;

use crate::request::{Reply, Request, Wish};
use crate::table::{Cell, Column, cell, row};
use crate::tasks::Call;
use crate::witness::Witness;

/// What all clients together have heard.
#[derive(Default)]
pub(crate) struct Heard {
    /// Which job a submission's key stands for.
    keys: BTreeMap<u64, JobId>,
    /// Jobs that a client knows of, in the order in which they were accepted.
    pub(crate) jobs: Vec<JobId>,
    /// Behind which event nothing of a job may begin that had been decided before it.
    stopped: BTreeMap<JobId, u64>,
    /// How often which command was answered in which status.
    pub(crate) cells: BTreeMap<(usize, Column), u64>,
}

impl Heard {
    /// Holds an answer against the log. `ails` says that the engine may refuse to answer.
    pub(crate) fn hear(&mut self, request: &Request, reply: Reply, witness: &Witness, ails: bool) {
        if let Some(error) = reply.engine_error() {
            assert!(ails, "{request:?}: {error}");
            return;
        }
        match (request, reply) {
            (Request::Submit { key, .. }, Reply::Accepted(reply)) => {
                self.accepted(*key, reply, witness);
            }
            (Request::Command { job, wish, on }, Reply::Answered(reply)) => match reply {
                Ok(answer) if on.dry_run => shown(*job, &answer.snapshot.job, None),
                Ok(answer) => {
                    self.answered(*job, *wish, &answer, witness);
                    let first = answer.events.first().map(|first| first.seq);
                    if let (Some(expected), Some(first)) = (on.seq, first) {
                        // What was alive may have been declared lost before.
                        let history = &witness.jobs[job].history;
                        let between = |event: &&Recorded| event.seq > expected && event.seq < first;
                        let other = history.iter().filter(between).find(|event| event.leads);
                        assert!(first > expected && other.is_none(), "{request:?}: {other:?}");
                    }
                }
                Err(CommandError::Rejected(rejection)) => {
                    self.refused(*job, *wish, rejection.code, witness);
                }
                Err(CommandError::Stale { .. }) => {}
                Err(error) => panic!("{request:?}: {error}"),
            },
            (Request::Snapshot(job), Reply::Shown(Ok(snapshot))) => {
                shown(*job, &snapshot.job, Some(witness));
            }
            (Request::Ended(job), Reply::Ended(Ok(snapshot))) => {
                assert!(snapshot.job.status().is_ended());
                shown(*job, &snapshot.job, Some(witness));
            }
            (Request::Changed(job, after), Reply::Changed(Ok(seq))) => {
                assert!(seq > *after && seq <= witness.jobs[job].job.seq());
            }
            (Request::History(job), Reply::Read(Ok(logged))) => {
                let read: Vec<&Recorded> = logged.iter().map(|logged| &logged.recorded).collect();
                let known: Vec<&Recorded> = witness.jobs[job].history.iter().collect();
                assert!(!read.is_empty() && known.starts_with(&read), "history of {job}");
            }
            (Request::List { known }, Reply::Listed(Ok(rows))) => {
                for row in &rows {
                    let known = witness.jobs[&row.job].at(row.head.seq);
                    assert_eq!((row.status, row.intent), (known.status(), known.intent()));
                }
                let listed: BTreeSet<JobId> = rows.iter().map(|row| row.job).collect();
                let missing = self.jobs[..*known].iter().find(|job| !listed.contains(job));
                assert_eq!(missing, None, "a job is in no list");
            }
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

    fn accepted(
        &mut self,
        key: Option<u64>,
        reply: Result<Accepted, SubmitError>,
        witness: &Witness,
    ) {
        let accepted = reply.unwrap_or_else(|error| panic!("a submission: {error}"));
        let job = accepted.job.id();
        shown(job, &accepted.snapshot.job, Some(witness));
        if let Some(key) = key {
            let first = *self.keys.entry(key).or_insert(job);
            assert_eq!(first, job, "two jobs for key {key}");
        }
        if !self.jobs.contains(&job) {
            self.jobs.push(job);
        }
    }

    fn answered(&mut self, id: JobId, wish: Wish, answer: &Answer, witness: &Witness) {
        shown(id, &answer.snapshot.job, Some(witness));
        let known = &witness.jobs[&id];
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
        let column = Column::of(before.status(), before.intent());
        let command = wish.command();
        match cell(&command, column) {
            Cell::Acts => assert!(!answer.events.is_empty(), "{command:?} while {column:?}"),
            Cell::Idle => assert!(answer.events.is_empty(), "{command:?} while {column:?}"),
            Cell::Free => {}
            Cell::No => panic!("{command:?} was accepted while {column:?}"),
        }
        *self.cells.entry((row(&command), column)).or_default() += 1;
        if let (Wish::Cancel, Some(last)) = (wish, answer.events.last()) {
            self.stopped.insert(id, last.seq);
        }
    }

    /// A refusal says that it is one of the status only where the table does.
    fn refused(&mut self, id: JobId, wish: Wish, code: &str, witness: &Witness) {
        // Where the job stands now, which is where it stood unless it has just changed.
        let job = &witness.jobs[&id].job;
        let command = wish.command();
        let columns = Column::ALL.into_iter();
        if code == "not_in_this_status" {
            let some = columns.clone().any(|column| cell(&command, column) == Cell::No);
            assert!(some, "{command:?} is refused in no status");
        }
        let column = Column::of(job.status(), job.intent());
        *self.cells.entry((row(&command), column)).or_default() += 1;
    }

    /// Nothing begins after a cancel was acknowledged that had been decided before it.
    pub(crate) fn check_call(&self, call: &Call, witness: &Witness) {
        let (job, ..) = call.attempt;
        let start = witness.jobs[&job].start_of(call.attempt);
        let stopped = self.stopped.get(&job).copied();
        assert!(start > stopped, "{:?} begins after its cancel was acknowledged", call.attempt);
        assert!(!call.told_to_stop, "{:?} begins after it was told to stop", call.attempt);
    }

    /// After a start all that anybody has heard of is there.
    pub(crate) fn check(&self, witness: &Witness) {
        let lost = self.jobs.iter().find(|job| !witness.jobs.contains_key(job));
        assert_eq!(lost, None, "an accepted job is lost");
    }
}

/// Whoever is shown a job is shown what its durable events have made.
fn shown(id: JobId, job: &Job, witness: Option<&Witness>) {
    assert_eq!(job.id(), id);
    if let Some(witness) = witness {
        let known = witness.jobs.get(&id);
        let known = known.unwrap_or_else(|| panic!("job {id} is answered for and not durable"));
        assert!(job.seq() <= known.job.seq(), "job {id} is answered for before it is durable");
        assert_eq!(*job, known.at(job.seq()), "replay equals what was shown");
    }
}
