//! `annals events`.

use annals_engine::job;
use annals_engine::runtime::Logged;

use super::args::EventsArgs;
use super::error::{CliError, Exit};
use super::text::{date, plain};
use super::{Session, store};
use crate::dto;

/// Events that are read at a time.
const PAGE: usize = 10_000;

pub(super) async fn events(args: &EventsArgs, mut session: Session) -> Result<Exit, CliError> {
    let (engine, job, snapshot) = store::look(&session.data, &args.job).await?;
    let mut after = args.after;
    loop {
        let page = job.history(after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = last.recorded.seq;
        for logged in &page {
            let json = shape(&snapshot.job, logged).to_json();
            session.out.line(if session.json { json } else { line(logged, &json) });
        }
        if session.out.is_closed() {
            break;
        }
    }
    engine.shutdown().await?;
    Ok(Exit::Done)
}

/// A logged event as it is shown.
pub(super) fn shape<'a>(job: &'a job::Job, logged: &'a Logged) -> dto::Event<'a> {
    dto::Event::of(job, &logged.recorded).at(logged.position, logged.hash)
}

fn line(logged: &Logged, json: &str) -> String {
    let recorded = &logged.recorded;
    // The data as it stands in the JSON, cut to what is read at a glance.
    let data = match crate::json::level(json) {
        Ok(crate::json::Level::Object(members)) => {
            members.into_iter().find(|(key, _)| key == "data").map_or("", |(_, data)| data)
        }
        _ => "",
    };
    let short: String = plain(data).chars().take(160).collect();
    let dots = if data.chars().count() > 160 { "…" } else { "" };
    let reason = recorded.origin.reason.as_deref();
    let reason = reason.map_or_else(String::new, |reason| format!("  ({})", plain(reason)));
    format!(
        "{:>5}  {}  {:<18} {:<10} {short}{dots}{reason}",
        recorded.seq,
        date(recorded.time),
        recorded.event.type_name(),
        plain(recorded.origin.name()),
    )
}
