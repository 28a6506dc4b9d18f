//! `annals purge`: nothing is left of an ended job but a tombstone.

use annals_tasks_sdk::{JobId, Timestamp};
use serde::Deserialize;

use super::Session;
use super::args::CommandArgs;
use super::backend::{Backend, Verb};
use super::error::{CliError, Exit};
use super::text::{date, plain};
use super::view;

/// What is left of a job.
#[derive(Deserialize)]
struct Tombstone {
    id: JobId,
    #[serde(deserialize_with = "view::time")]
    purged_at: Timestamp,
    actor: String,
    events: u64,
}

/// What a dry run found.
#[derive(Deserialize)]
struct DryRun {
    events: Vec<view::Event>,
    tombstone: Tombstone,
}

pub(super) async fn purge(args: CommandArgs, mut session: Session) -> Result<Exit, CliError> {
    let backend = Backend::open(&session).await?;
    let job = backend.find(&args.job).await?;
    let answer = backend.command(job, Verb::Purge, &args.asked).await?;
    if session.json {
        session.out.line(&answer.json);
    } else if args.asked.dry_run {
        let DryRun { events, tombstone } = view::parse(&answer.json)?;
        session.out.line(match &events[..] {
            [] => tombstone.stands(),
            _ => format!("would be accepted: {}", tombstone.left()),
        });
    } else {
        let tombstone: Tombstone = view::parse(&answer.json)?;
        session.out.line(if answer.is_news {
            format!("purged: {}", tombstone.left())
        } else {
            tombstone.stands()
        });
    }
    backend.close().await?;
    Ok(Exit::Done)
}

impl Tombstone {
    fn left(&self) -> String {
        let Self { id, events, .. } = self;
        format!("of job {id} and its {events} events nothing is left but a tombstone")
    }

    fn stands(&self) -> String {
        let Self { id, purged_at, actor, .. } = self;
        format!("nothing to do: job {id} was purged at {} by {}", date(*purged_at), plain(actor))
    }
}
