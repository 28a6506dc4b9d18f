//! `annals events`.

use clap::Args;

use super::Session;
use super::backend::{Backend, Said, Until};
use super::error::{CliError, Exit};
use super::output::note;
use super::text::{date, plain};
use super::view::{self, Event};
use crate::json::{Level, level};

/// So many characters of an event's data are read at a glance.
const DATA_SHOWN: usize = 160;

#[derive(Debug, Args)]
pub(super) struct EventsArgs {
    /// The job.
    pub(super) job: String,
    /// Only events with a greater number.
    #[arg(long, default_value_t = 0, value_name = "SEQ")]
    pub(super) after: u64,
    /// Go on while there are more, until the job has ended; also through restarts of the server.
    /// In a store that no server holds nothing happens, so that what is there is all.
    #[arg(long)]
    pub(super) follow: bool,
}

pub(super) async fn events(args: &EventsArgs, mut session: Session) -> Result<Exit, CliError> {
    let backend = Backend::open(&session).await?;
    let job = backend.find(&args.job).await?;
    let until = if args.follow { Until::End } else { Until::Now };
    let mut events = backend.events(job, args.after, until).await?;
    while !session.out.is_closed() {
        match events.next().await? {
            Said::Event(json) if session.json => session.out.line(json),
            Said::Event(json) => session.out.line(line(&view::parse(&json)?, &json)),
            Said::Aside(_) if session.json => {}
            Said::Aside(line) => note(&line),
            Said::End => break,
        }
    }
    drop(events);
    backend.close().await?;
    Ok(Exit::Done)
}

pub(super) fn line(event: &Event, json: &str) -> String {
    // The data as it stands in the JSON.
    let data = match level(json) {
        Ok(Level::Object(members)) => {
            members.into_iter().find(|(key, _)| key == "data").map_or("", |(_, data)| data)
        }
        _ => "",
    };
    let data = plain(data);
    let short: String = data.chars().take(DATA_SHOWN).collect();
    let dots = if data.chars().nth(DATA_SHOWN).is_some() { "…" } else { "" };
    let reason = event.reason.as_deref();
    let reason = reason.map_or_else(String::new, |reason| format!("  ({})", plain(reason)));
    format!(
        "{:>5}  {}  {:<18} {:<10} {short}{dots}{reason}",
        event.seq,
        date(event.time),
        plain(&event.kind),
        plain(&event.actor),
    )
}
