//! What is asked of a server, and how.

use std::io::Write;
use std::time::Duration;

use annals_engine::job::{ForkFrom, TaskStatus};
use annals_engine::runtime::Moment;
use annals_tasks_sdk::JobId;
use reqwest::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::bundle::ExportError;
use crate::cli::Session;
use crate::cli::args::Asked;
use crate::cli::backend::verb::{Verb, said};
use crate::cli::backend::{Answered, ForAll, Forking, Listing, Order, Page, Settled, Submitted};
use crate::cli::error::CliError;
use crate::cli::output::note;
use crate::cli::store::{self, Name};
use crate::cli::view::{self, Job, Task};
use crate::client::{Address, Body, Client, Follow, Patience, Reply, Request};
use crate::dto::Time;
use crate::json::{compact, quoted};
use crate::list::LIMIT_MAX;

/// A server, and how long it is asked again.
#[derive(Clone)]
pub(in crate::cli) struct Server {
    client: Client,
    retry_for: Duration,
}

/// A list as a server sends it.
#[derive(Deserialize)]
pub(super) struct List {
    pub(super) items: Vec<Box<RawValue>>,
    pub(super) next_cursor: Option<String>,
}

/// What every job of a list has.
#[derive(Deserialize)]
struct Identity {
    id: JobId,
}

impl Server {
    pub(in crate::cli::backend) fn new(
        address: &Address,
        session: &Session,
    ) -> Result<Self, CliError> {
        // What programs read beside answers is JSON.
        let notice: fn(&str) = if session.json { |_| () } else { note };
        let client = Client::new(address.clone(), &store::user(), notice)?;
        Ok(Self { client, retry_for: session.retry_for })
    }

    pub(super) async fn read(&self, request: &Request) -> Result<Reply, CliError> {
        Ok(self.client.send(request, self.while_there()).await?)
    }

    /// Has something done. Whoever asks for it waits for a server that is just being restarted.
    async fn act(&self, request: &Request) -> Result<Reply, CliError> {
        Ok(self.client.send(request, Patience::For(self.retry_for)).await?)
    }

    /// Whoever only looks is told at once that there is no server.
    fn while_there(&self) -> Patience {
        Patience::WhileThere(self.retry_for)
    }

    /// As [`Server::read`], but gives the answer before its body is there.
    pub(super) async fn open(
        &self,
        request: &Request,
        accept: &'static str,
    ) -> Result<Body, CliError> {
        Ok(self.client.open(request, accept, self.while_there()).await?)
    }

    /// Begins to follow a stream.
    pub(super) fn begin(&self, request: Request) -> Follow {
        Follow::begin(self.client.clone(), request, self.while_there())
    }

    pub(in crate::cli::backend) async fn submit(
        &self,
        order: Order,
    ) -> Result<Submitted, CliError> {
        let mut request = Request::post(["jobs"], order.draft.body());
        request = request.with_some("dry_run", order.dry_run.then_some(true));
        if let Some(key) = &order.key {
            request = request.by_key(key.clone());
        }
        let reply = self.client.send(&request, Patience::For(self.retry_for)).await;
        let reply = reply.map_err(|error| {
            let again = format!(
                "; whether the job was submitted is unknown, and the same command with \
                 --idempotency-key {} submits it only if it was not",
                request.key()
            );
            let again = if error.may_be_done() { again } else { String::new() };
            CliError::from(error).and(&again)
        })?;
        let is_known = order.key.is_some() && reply.is_replayed;
        Ok(Submitted { json: one_line(reply.text), is_known })
    }

    pub(in crate::cli::backend) async fn snapshot(
        &self,
        job: JobId,
        moment: Option<Moment>,
    ) -> Result<String, CliError> {
        let request = match moment {
            None => of(job, &[]),
            Some(Moment::Seq(seq)) => of(job, &[]).with("at", seq),
            Some(Moment::Time(time)) => of(job, &[]).with("at_time", Time(time)),
        };
        Ok(one_line(self.read(&request).await?.text))
    }

    /// The same, however long it takes until the server is there.
    pub(in crate::cli) async fn snapshot_in_time(&self, job: JobId) -> Result<String, CliError> {
        Ok(one_line(self.client.send(&of(job, &[]), Patience::Endless).await?.text))
    }

    pub(in crate::cli::backend) async fn explain(&self, text: &str) -> Result<String, CliError> {
        let job = self.find(text).await?;
        Ok(one_line(self.read(&of(job, &["explain"])).await?.text))
    }

    pub(in crate::cli::backend) async fn export(
        &self,
        job: JobId,
        out: &mut impl Write,
    ) -> Result<(), CliError> {
        let mut body = self.open(&of(job, &["export"]), "application/x-ndjson").await?;
        while let Some(part) = body.chunk().await? {
            out.write_all(&part).map_err(ExportError::Write)?;
        }
        Ok(())
    }

    pub(in crate::cli::backend) async fn verify(&self, text: &str) -> Result<String, CliError> {
        let job = self.find(text).await?;
        Ok(one_line(self.read(&of(job, &["verify"])).await?.text))
    }

    /// Finds a job by its id, or by a beginning of it that no other job's id has.
    pub(in crate::cli::backend) async fn find(&self, text: &str) -> Result<JobId, CliError> {
        let beginning = match Name::read(text)? {
            Name::Id(id) => return Ok(id),
            Name::Beginning(beginning) => beginning,
        };
        let request = Request::get(["jobs"]).with("id", beginning).with("limit", Name::SHOWN);
        let list: List = view::parse(&self.read(&request).await?.text)?;
        let ids = list.items.iter().map(|item| view::parse::<Identity>(item.get()));
        let ids: Vec<JobId> = ids.map(|found| Ok(found?.id)).collect::<Result<_, CliError>>()?;
        Name::only(text, &ids)
    }

    /// Jobs, the newest first: page by page, until there are as many as were asked for.
    pub(in crate::cli::backend) async fn list(&self, wanted: Listing) -> Result<Page, CliError> {
        let Listing { filter, limit, mut cursor } = wanted;
        let parts = filter.parts();
        let mut items = Vec::new();
        loop {
            let mut request = Request::get(["jobs"]);
            for (name, value) in &parts {
                request = request.with(name, value);
            }
            let most = LIMIT_MAX.min(limit - items.len());
            request = request.with("limit", most).with_some("cursor", cursor);
            let list: List = view::parse(&self.read(&request).await?.text)?;
            items.extend(list.items);
            cursor = list.next_cursor;
            if cursor.is_none() || items.len() >= limit {
                return Ok(Page { items, next_cursor: cursor });
            }
        }
    }

    /// How a job looks, with the tag of that; none where it looks as it did at `tag`.
    pub(in crate::cli) async fn glance(
        &self,
        job: JobId,
        tag: Option<String>,
    ) -> Result<Option<(Option<String>, Job)>, CliError> {
        let reply = self.read(&of(job, &[]).unless(tag)).await?;
        if reply.status == StatusCode::NOT_MODIFIED {
            return Ok(None);
        }
        Ok(Some((reply.tag, view::parse(&reply.text)?)))
    }

    pub(in crate::cli::backend) async fn command(
        &self,
        job: JobId,
        verb: Verb,
        asked: &Asked,
    ) -> Result<Answered, CliError> {
        let settles = match &verb {
            _ if asked.dry_run => None,
            Verb::Skip { .. } => Some(TaskStatus::Skipped),
            Verb::Remove { .. } => Some(TaskStatus::Removed),
            _ => None,
        };
        // The answer shows what is settled, and not since when.
        let before: Option<Job> = match settles {
            Some(_) => Some(view::parse(&self.act(&of(job, &[])).await?.text)?),
            None => None,
        };
        let reply = self.act(&verb.request(job, asked)).await?;
        let settled = match (settles, before) {
            (Some(how), Some(before)) => settled(&before, &view::parse(&reply.text)?, how),
            _ => Settled::default(),
        };
        let is_news = reply.status == StatusCode::ACCEPTED;
        Ok(Answered { json: one_line(reply.text), is_news, settled })
    }
}

impl Server {
    pub(in crate::cli::backend) async fn fork(
        &self,
        job: JobId,
        forking: Forking,
        asked: &Asked,
    ) -> Result<Submitted, CliError> {
        let from = match &forking.from {
            ForkFrom::Task(task) => format!(r#""from_task":{}"#, quoted(task.as_str())),
            ForkFrom::Seq(seq) => format!(r#""from_seq":{seq}"#),
        };
        let edits = forking.edits.map(|edits| format!(r#""edits":{edits}"#));
        let fields: Vec<String> = [from].into_iter().chain(edits).chain(said(asked)).collect();
        let job = job.to_string();
        let request = Request::post(["jobs", &job, "fork"], format!("{{{}}}", fields.join(",")));
        let request = request.with_some("dry_run", asked.dry_run.then_some(true));
        let reply = self.act(&request).await.map_err(CliError::in_list_of_edits)?;
        Ok(Submitted { json: one_line(reply.text), is_known: false })
    }

    pub(in crate::cli::backend) async fn bulk(
        &self,
        wanted: ForAll<'_>,
    ) -> Result<String, CliError> {
        let ForAll { verb, filter, reason, dry_run } = wanted;
        let body = verb.for_all(filter, reason.as_deref());
        let request = Request::post(["jobs", "bulk"], body);
        let request = request.with_some("dry_run", dry_run.then_some(true));
        Ok(one_line(self.act(&request).await?.text))
    }
}

/// A request about a job.
pub(super) fn of(job: JobId, path: &[&str]) -> Request {
    let job = job.to_string();
    Request::get(["jobs", &job].iter().chain(path).map(|part| (*part).to_owned()))
}

/// The tasks that stand so now, and did not before.
fn settled(before: &Job, now: &Job, how: TaskStatus) -> Settled {
    let stands = |task: &&Task| task.status == how;
    let stood = |task: &Task| before.task(&task.id).is_some_and(|task| task.status == how);
    let tasks = now.tasks.iter().filter(stands).filter(|task| !stood(task));
    Settled { tasks: tasks.map(|task| task.id.clone()).collect(), how: how.as_str() }
}

/// JSON for a reader that takes one document per line.
pub(super) fn one_line(json: String) -> String {
    if json.contains(['\n', '\r']) { compact(&json) } else { json }
}
