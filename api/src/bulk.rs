//! Bulk: one command for all jobs that a filter wants, for the server and for stores that nothing
//! runs on.
//!
//! It is not atomic: each job accepts or refuses the command by itself. Jobs are read page by page
//! and asked a few at a time, so that others are answered meanwhile.

use annals_engine::job::Command;
use annals_engine::runtime::{CommandError, EngineError, JobError};
use annals_engine::{Ask, Engine};
use annals_tasks_sdk::JobId;
use futures_util::future::join_all;

use crate::http::Problem;
use crate::list::{Filter, LIMIT_MAX, page};

/// So many jobs are asked at the same time.
const AT_ONCE: usize = 64;
/// So many refusals are told; more are counted.
const REFUSED_MAX: usize = 10_000;

/// What a filter without parts is answered with.
pub(crate) const ALL_OR_SOME: &str = "the filter names no jobs: give it a part, or say that all \
     jobs are meant";
/// What one is answered with that says both.
pub(crate) const ALL_AND_SOME: &str = "all jobs are meant, or those that the filter's other parts \
     want: say one of them";

/// What became of a command for many jobs.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// So many jobs the filter wanted.
    pub(crate) matched: u64,
    /// So many of them accepted the command...
    pub(crate) accepted: u64,
    /// ...and so many of these have changed by it, or would.
    pub(crate) changed: u64,
    /// So many had carried it out before, by the same key.
    pub(crate) replayed: u64,
    /// The first that refused it.
    pub(crate) refused: Vec<Refused>,
    /// So many more did.
    pub(crate) more_refused: u64,
}

/// A job that refused a command.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) job: JobId,
    pub(crate) problem: Problem,
}

/// Asks all jobs that a filter wants, the newest first. Those that are submitted meanwhile are not
/// among them. After an error some may have been asked: what they were asked for is done.
pub(crate) async fn carry_out(
    engine: &Engine,
    filter: &Filter,
    command: &Command,
    ask: impl Fn(JobId) -> Ask,
) -> Result<Outcome, EngineError> {
    let (mut outcome, mut from) = (Outcome::default(), None);
    loop {
        let found = page(engine, filter, from, LIMIT_MAX).await?;
        for jobs in found.jobs.chunks(AT_ONCE) {
            let each = jobs.iter().map(|found| {
                let (job, ask) = (found.row.job, ask(found.row.job));
                let handle = engine.job(job);
                let command = command.clone();
                async move { (job, handle.command(command, ask).await) }
            });
            for (job, answer) in join_all(each).await {
                outcome.matched += 1;
                match answer {
                    Ok(answer) => {
                        outcome.accepted += 1;
                        outcome.changed += u64::from(!answer.events.is_empty());
                        outcome.replayed += u64::from(answer.replayed);
                    }
                    // Others could not answer either.
                    Err(CommandError::Job(JobError::Engine(error))) => return Err(error),
                    Err(error) => outcome.refuse(job, error),
                }
            }
        }
        match found.next {
            Some(next) => from = Some(next),
            None => return Ok(outcome),
        }
    }
}

impl Outcome {
    fn refuse(&mut self, job: JobId, error: CommandError) {
        if self.refused.len() < REFUSED_MAX {
            self.refused.push(Refused { job, problem: error.into() });
        } else {
            self.more_refused += 1;
        }
    }
}
