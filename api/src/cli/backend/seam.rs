//! The seam itself: what can be asked, and what is given.

use std::io::Write;

use annals_engine::job::ForkFrom;
use annals_engine::runtime::Moment;
use annals_tasks_sdk::{JobId, KindName, Payload};
use serde_json::value::RawValue;

use super::held::{Held, Pages as HeldPages, Steps as HeldSteps};
use super::server::{Pages as ServedPages, Server, Stream};
use super::verb::Verb;
use crate::cli::Session;
use crate::cli::args::{Asked, LogsArgs};
use crate::cli::error::CliError;
use crate::cli::output::Out;
use crate::cli::place::Place;
use crate::cli::store;
use crate::client::News;
use crate::json::quoted;
use crate::list::Filter;

/// Who answers.
pub(in crate::cli) enum Backend {
    /// A store that was opened for this command alone.
    Held(Held),
    /// A server.
    Served(Server),
}

/// Which jobs are to be listed.
pub(in crate::cli) struct Listing {
    pub(in crate::cli) filter: Filter,
    /// At most so many.
    pub(in crate::cli) limit: usize,
    /// Behind an earlier list.
    pub(in crate::cli) cursor: Option<String>,
}

/// What many jobs are asked.
pub(in crate::cli) struct ForAll<'a> {
    pub(in crate::cli) verb: Verb,
    pub(in crate::cli) filter: &'a Filter,
    pub(in crate::cli) reason: &'a Option<String>,
    pub(in crate::cli) dry_run: bool,
}

/// Jobs of a list.
pub(in crate::cli) struct Page {
    /// Each as JSON.
    pub(in crate::cli) items: Vec<Box<RawValue>>,
    /// What is given to go on behind the last of them, where there are more.
    pub(in crate::cli) next_cursor: Option<String>,
}

/// A command was accepted.
pub(in crate::cli) struct Answered {
    /// The job after it; with what would happen, where it was a dry run.
    pub(in crate::cli) json: String,
    /// Whether anything has changed, or would.
    pub(in crate::cli) is_news: bool,
    /// The tasks that it settled, and how.
    pub(in crate::cli) settled: Settled,
}

/// Tasks that a command has settled.
#[derive(Default)]
pub(in crate::cli) struct Settled {
    pub(in crate::cli) tasks: Vec<String>,
    pub(in crate::cli) how: &'static str,
}

/// A job was submitted, or would be.
pub(in crate::cli) struct Submitted {
    /// The job; with its events, where it was a dry run.
    pub(in crate::cli) json: String,
    /// Whether it was submitted before, by the same key.
    pub(in crate::cli) is_known: bool,
}

/// What a fork is to be.
pub(in crate::cli) struct Forking {
    pub(in crate::cli) from: ForkFrom,
    /// The JSON of a list of edits.
    pub(in crate::cli) edits: Option<String>,
}

/// What is to be submitted.
pub(in crate::cli) struct Order {
    pub(in crate::cli) draft: Draft,
    /// What it is known by when it comes again.
    pub(in crate::cli) key: Option<String>,
    pub(in crate::cli) dry_run: bool,
}

/// What is to become a job.
pub(in crate::cli) enum Draft {
    /// The JSON of a plan, and the file that it is from.
    Plan {
        json: String,
        /// Only a store is told: on another machine it is no place.
        source: String,
    },
    /// What a workflow makes of an input.
    Workflow { name: String, input: Payload },
}

impl Draft {
    /// The body of a request that submits it.
    pub(in crate::cli) fn body(&self) -> String {
        match self {
            Self::Plan { json, .. } => json.clone(),
            Self::Workflow { name, input } => {
                format!(r#"{{"workflow":{},"input":{}}}"#, quoted(name), input.as_str())
            }
        }
    }
}

/// How far events are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Until {
    /// As far as there are any.
    Now,
    /// Until the job has ended. Where nothing runs that is now.
    End,
}

/// The events of a job, the oldest first.
pub(in crate::cli) enum Events {
    /// Those that are there in a store.
    Held(HeldPages),
    /// The same, each with what it has changed.
    Replayed(HeldSteps),
    /// Those that are there on a server.
    Served(ServedPages),
    /// Those that happen there.
    Followed(Stream),
}

/// What comes of events.
#[derive(Debug)]
pub(in crate::cli) enum Said {
    /// An event, as JSON.
    Event(String),
    /// Something to be told to people beside that.
    Aside(String),
    /// There is nothing more.
    End,
}

impl Backend {
    /// Opens the store, or knows where the server is.
    pub(in crate::cli) async fn open(session: &Session) -> Result<Self, CliError> {
        match &session.place {
            Place::Store(dir) => Ok(Self::Held(Held::open(store::hold(session, dir)?).await?)),
            Place::Server { address, .. } => Server::new(address, session).map(Self::Served),
        }
    }

    /// The same, but makes a store where there is none.
    pub(in crate::cli) async fn open_or_make(session: &Session) -> Result<Self, CliError> {
        match &session.place {
            Place::Store(dir) => {
                Ok(Self::Held(Held::open(store::hold(session, dir)?.create(true)).await?))
            }
            Place::Server { .. } => Self::open(session).await,
        }
    }

    /// Submits a job.
    pub(in crate::cli) async fn submit(&self, order: Order) -> Result<Submitted, CliError> {
        match self {
            Self::Held(held) => held.submit(order).await,
            Self::Served(server) => server.submit(order).await,
        }
    }

    /// Finds a job by its id, or by a beginning of it that no other job's id has.
    pub(in crate::cli) async fn find(&self, text: &str) -> Result<JobId, CliError> {
        match self {
            Self::Held(held) => held.find(text).await,
            Self::Served(server) => server.find(text).await,
        }
    }

    /// A job with its tasks, as JSON; as it is, or as it was.
    pub(in crate::cli) async fn snapshot(
        &self,
        job: JobId,
        moment: Option<Moment>,
    ) -> Result<String, CliError> {
        match self {
            Self::Held(held) => held.snapshot(job, moment).await,
            Self::Served(server) => server.snapshot(job, moment).await,
        }
    }

    /// Writes a job into a file.
    pub(in crate::cli) async fn export(
        &self,
        job: JobId,
        out: &mut impl Write,
    ) -> Result<(), CliError> {
        match self {
            Self::Held(held) => held.export(job, out).await,
            Self::Served(server) => server.export(job, out).await,
        }
    }

    /// What the audit of a job finds, as JSON; the job as it was named.
    pub(in crate::cli) async fn verify(&self, text: &str) -> Result<String, CliError> {
        match self {
            Self::Held(held) => held.verify(text).await,
            Self::Served(server) => server.verify(text).await,
        }
    }

    /// The events of a job with a greater number than `after`, each with what it has changed.
    pub(in crate::cli) async fn replay(&self, job: JobId, after: u64) -> Result<Events, CliError> {
        Ok(match self {
            Self::Held(held) => Events::Replayed(held.replay(job, after).await?),
            Self::Served(server) => Events::Served(server.replay(job, after)),
        })
    }

    /// Why a job does not move, as JSON; the job as it was named.
    pub(in crate::cli) async fn explain(&self, text: &str) -> Result<String, CliError> {
        match self {
            Self::Held(held) => held.explain(text).await,
            Self::Served(server) => server.explain(text).await,
        }
    }

    /// The kinds that a job needs and that nobody here has. A server shows by its tasks that they
    /// wait for them.
    pub(in crate::cli) async fn missing_kinds(
        &self,
        job: JobId,
    ) -> Result<Vec<KindName>, CliError> {
        match self {
            Self::Held(held) => held.missing_kinds(job).await,
            Self::Served(_) => Ok(Vec::new()),
        }
    }

    /// Jobs, the newest first.
    pub(in crate::cli) async fn list(&self, wanted: Listing) -> Result<Page, CliError> {
        match self {
            Self::Held(held) => held.list(wanted).await,
            Self::Served(server) => server.list(wanted).await,
        }
    }

    /// Asks something of a job.
    pub(in crate::cli) async fn command(
        &self,
        job: JobId,
        verb: Verb,
        asked: &Asked,
    ) -> Result<Answered, CliError> {
        match self {
            Self::Held(held) => held.command(job, verb, asked).await,
            Self::Served(server) => server.command(job, verb, asked).await,
        }
    }

    /// Makes a new job that goes on from this one.
    pub(in crate::cli) async fn fork(
        &self,
        job: JobId,
        forking: Forking,
        asked: &Asked,
    ) -> Result<Submitted, CliError> {
        match self {
            Self::Held(held) => held.fork(job, forking, asked).await,
            Self::Served(server) => server.fork(job, forking, asked).await,
        }
    }

    /// Asks something of many jobs. Gives what became of it, as JSON.
    pub(in crate::cli) async fn bulk(&self, wanted: ForAll<'_>) -> Result<String, CliError> {
        match self {
            Self::Held(held) => held.bulk(wanted).await,
            Self::Served(server) => server.bulk(wanted).await,
        }
    }

    /// The events of a job with a greater number than `after`.
    pub(in crate::cli) async fn events(
        &self,
        job: JobId,
        after: u64,
        until: Until,
    ) -> Result<Events, CliError> {
        Ok(match (self, until) {
            (Self::Held(held), _) => Events::Held(held.events(job, after).await?),
            (Self::Served(server), Until::Now) => Events::Served(server.events(job, after)),
            (Self::Served(server), Until::End) => Events::Followed(server.follow(job, after)),
        })
    }

    /// Prints the log of an attempt.
    pub(in crate::cli) async fn log(
        &self,
        job: JobId,
        args: &LogsArgs,
        json: bool,
        out: &mut Out,
    ) -> Result<(), CliError> {
        match self {
            Self::Held(held) => held.log(job, args, json, out).await,
            Self::Served(server) => server.log(job, args, json, out).await,
        }
    }

    /// Lets go of what was opened.
    pub(in crate::cli) async fn close(self) -> Result<(), CliError> {
        match self {
            Self::Held(held) => held.close().await,
            Self::Served(_) => Ok(()),
        }
    }
}

impl Events {
    /// What comes next.
    pub(in crate::cli) async fn next(&mut self) -> Result<Said, CliError> {
        match self {
            Self::Held(pages) => pages.next().await.map(Said::of),
            Self::Replayed(steps) => steps.next().await.map(Said::of),
            Self::Served(pages) => pages.next().await.map(Said::of),
            Self::Followed(stream) => stream.next().await,
        }
    }
}

impl Said {
    fn of(event: Option<String>) -> Self {
        event.map_or(Self::End, Self::Event)
    }
}

/// What is told of a server that went away, or came back.
pub(super) fn aside(news: &News) -> String {
    match news {
        News::Lost(why) => format!("{why}; trying again until it is back"),
        News::Back => "the server is back".into(),
        News::Frame(_) => String::new(),
    }
}
