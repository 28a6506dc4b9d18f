//! One request with its redirects, up to the answer that counts.

use std::fmt::{Arguments, Display};
use std::future::Future;
use std::time::Instant;

use annals_tasks_sdk::{Payload, Stream, TaskContext, TaskError, TaskResult};
use reqwest::{Client, Response};

use super::failure::{self, Failure};
use super::input::{Input, Message};
use super::output::{self, Answer, Extent};
use super::redirect;
use super::secrets::Secrets;
use super::shown::{Count, Line, Plain};
use super::targets::Targets;

/// What an attempt needs to send its request.
pub(super) struct Exchange<'a> {
    pub(super) client: &'a Client,
    pub(super) targets: &'a Targets,
    pub(super) redirects_max: usize,
    pub(super) cx: &'a TaskContext,
}

impl Exchange<'_> {
    /// Sends the request, follows its redirects, and gives the task's output.
    pub(super) async fn run(&self, mut input: Input) -> TaskResult<Payload> {
        let mut secrets = Secrets::of(&input.message.headers, &input.message.url);
        let mut redirects = 0;
        loop {
            let started = Instant::now();
            let sent = self.unless_stopped(&input.message, started, self.send(&input.message));
            let response =
                sent.await?.map_err(|error| self.failed(&input.message, error, started))?;
            let status = response.status();
            let location = redirect::location(status, response.headers());
            let Some(location) = location.filter(|_| !input.expect.contains(status.as_u16()))
            else {
                let concluded = self.conclude(&input, response, &secrets, started);
                return self.unless_stopped(&input.message, started, concluded).await?;
            };
            let to = self.next(&input.message, location, redirects);
            let to = to.map_err(|error| self.failed(&input.message, error, started))?;
            self.note(&input.message, status.as_u16(), started, format_args!(" to {}", Plain(&to)));
            secrets.add_query(&to);
            redirect::follow(&mut input.message, status, to);
            redirects += 1;
        }
    }

    async fn send(&self, message: &Message) -> Result<Response, Failure> {
        self.targets.check(&message.url).map_err(|refusal| Failure::not_allowed(&refusal))?;
        let request = self.client.request(message.method.clone(), message.url.clone());
        let request = request.headers(message.headers.clone());
        let request = match &message.body {
            Some(body) => request.body(body.clone()),
            None => request,
        };
        request.send().await.map_err(Failure::of)
    }

    fn next(
        &self,
        message: &Message,
        location: &str,
        redirects: usize,
    ) -> Result<reqwest::Url, Failure> {
        if redirects == self.redirects_max {
            let most = self.redirects_max;
            return Err(Failure::bad_redirect(&format!("there are more than {most} redirects")));
        }
        redirect::target(&message.url, location).map_err(|why| {
            Failure::bad_redirect(&format!("the redirect cannot be followed: {why}"))
        })
    }

    /// Reads the answer that counts, and judges it.
    async fn conclude(
        &self,
        input: &Input,
        response: Response,
        secrets: &Secrets,
        started: Instant,
    ) -> TaskResult<Payload> {
        let message = &input.message;
        let expected = input.expect.contains(response.status().as_u16());
        let answer = if expected {
            let answer = Answer::read(response, input.response_max).await;
            answer.map_err(|error| self.failed(message, error, started))?
        } else {
            Answer::read_what_comes(response, input.response_max).await
        };
        let of_more = if answer.extent == Extent::Part { " of more" } else { "" };
        let size = Count(answer.body.len());
        let size = format_args!(", {size} bytes{of_more}");
        self.note(message, answer.status.as_u16(), started, size);
        if expected {
            return Ok(output::of(&answer));
        }
        Err(failure::of_status(&Line(message).to_string(), &answer, secrets))
    }

    /// Waits for a part of an exchange. What is dropped, because the attempt is told to stop,
    /// closes its connection.
    async fn unless_stopped<F: Future>(
        &self,
        message: &Message,
        started: Instant,
        part: F,
    ) -> TaskResult<F::Output> {
        let output = self.cx.or_cancelled(part).await;
        output.inspect_err(|_| self.note(message, "stopped", started, format_args!("")))
    }

    fn failed(&self, message: &Message, failure: Failure, started: Instant) -> TaskError {
        self.note(message, failure.code, started, format_args!(""));
        failure.into_error(&Line(message).to_string())
    }

    /// A line of the step log.
    fn note(&self, message: &Message, what: impl Display, started: Instant, more: Arguments<'_>) {
        let (line, millis) = (Line(message), started.elapsed().as_millis());
        let text = format!("{line} -> {what} in {millis} ms{more}\n");
        self.cx.log(Stream::Stderr, text.as_bytes());
    }
}
