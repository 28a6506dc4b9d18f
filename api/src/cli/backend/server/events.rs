//! The events of a job on a server: those that are there, or as they happen.

use std::collections::VecDeque;

use annals_tasks_sdk::JobId;
use serde_json::value::RawValue;

use super::ask::{List, Server, of, one_line};
use crate::cli::backend::{Said, aside};
use crate::cli::error::CliError;
use crate::cli::view;
use crate::client::{Follow, News};

/// Events that are asked for at a time.
const PAGE: usize = 1_000;

impl Server {
    /// The first event of a job, which holds its plan.
    pub(in crate::cli) async fn first_event(&self, job: JobId) -> Result<Option<String>, CliError> {
        let reply = self.read(&of(job, &["events"]).with("limit", 1)).await?;
        let list: List = view::parse(&reply.text)?;
        Ok(list.items.first().map(|event| event.get().to_owned()))
    }

    /// The events that are there behind `after`.
    pub(in crate::cli::backend) fn events(&self, job: JobId, after: u64) -> Pages {
        self.pages("events", job, after)
    }

    /// The same, each with what it has changed.
    pub(in crate::cli::backend) fn replay(&self, job: JobId, after: u64) -> Pages {
        self.pages("replay", job, after)
    }

    fn pages(&self, what: &'static str, job: JobId, after: u64) -> Pages {
        let next = Some(after.to_string());
        Pages { server: self.clone(), what, job, next, ready: VecDeque::new() }
    }

    /// The events behind `after`, as they happen.
    pub(in crate::cli) fn follow(&self, job: JobId, after: u64) -> Stream {
        let request = of(job, &["events"]).with("after", after);
        Stream { follow: self.begin(request), last: after }
    }
}

/// The history of a job, asked for page by page.
pub(in crate::cli) struct Pages {
    server: Server,
    what: &'static str,
    job: JobId,
    /// Behind which event the next page begins; none where there is none.
    next: Option<String>,
    ready: VecDeque<Box<RawValue>>,
}

impl Pages {
    pub(in crate::cli::backend) async fn next(&mut self) -> Result<Option<String>, CliError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(one_line(event.get().to_owned())));
            }
            let Some(after) = self.next.take() else { return Ok(None) };
            let request = of(self.job, &[self.what]).with("after", after).with("limit", PAGE);
            let list: List = view::parse(&self.server.read(&request).await?.text)?;
            self.next = list.next_cursor;
            self.ready = list.items.into();
        }
    }
}

/// The history of a job as it happens.
pub(in crate::cli) struct Stream {
    follow: Follow,
    /// The number of the last event that came.
    last: u64,
}

impl Stream {
    pub(in crate::cli) async fn next(&mut self) -> Result<Said, CliError> {
        loop {
            let frame = match self.follow.next().await? {
                Some(News::Frame(frame)) => frame,
                Some(news) => return Ok(Said::Aside(aside(&news))),
                None => return Ok(Said::End),
            };
            let number = frame.id.as_deref().and_then(|id| id.parse::<u64>().ok());
            // Other frames are notices, and of those there is only the end.
            let Some(number) = number.filter(|number| *number > self.last) else { continue };
            self.last = number;
            return Ok(Said::Event(one_line(frame.data)));
        }
    }
}
