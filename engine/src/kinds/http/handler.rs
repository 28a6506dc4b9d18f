//! The handler of the kind.

use std::sync::Arc;
use std::time::Duration;

use annals_tasks_sdk::{
    Done, Exit, Handler, Payload, PayloadError, TaskContext, TaskError, TaskResult,
};
use async_trait::async_trait;
use reqwest::header::HeaderValue;
use reqwest::{Client, Method};
use tokio::sync::OnceCell;
use tracing::Dispatch;
use tracing::instrument::WithSubscriber;

use super::super::fields::References;
use super::client;
use super::exchange::Exchange;
use super::input::{self, IDEMPOTENCY_KEY, Input};
use super::targets::{AllowedTarget, Targets};

/// What requests may reach, and their limits.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HttpSettings {
    /// What may be reached beside public addresses; nothing.
    pub allowed: Vec<AllowedTarget>,
    /// How long it may take to look a name up, connect and agree on TLS; 10 s.
    pub connect_timeout: Duration,
    /// How many redirects are followed; 5.
    pub redirects_max: usize,
    /// What a task may set its `max_response_bytes` to at most, in bytes: 2 MiB. An engine takes
    /// its limit of payloads where that is less.
    pub response_max: u64,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            allowed: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            redirects_max: 5,
            response_max: 2 * 1024 * 1024,
        }
    }
}

impl HttpSettings {
    /// The same with these targets allowed, too.
    pub fn allow(mut self, targets: impl IntoIterator<Item = AllowedTarget>) -> Self {
        self.allowed.extend(targets);
        self
    }
}

/// The `http` kind.
///
/// An attempt that fails has one of these codes:
///
/// | code | when | tried again |
/// | --- | --- | --- |
/// | `http_status` | the status is not expected; its alias is `http_503` and the like | see below |
/// | `connect_failed` | nobody answers there, or not in time | yes |
/// | `dns_failed` | the name has no address | yes |
/// | `connection_lost` | the connection ended before the answer did | yes |
/// | `tls_failed` | the certificate or the handshake is wrong | no |
/// | `bad_response` | what came is no HTTP, or unfolds to nothing | no |
/// | `response_too_large` | the body is longer than `max_response_bytes` | no |
/// | `bad_redirect` | a redirect leads nowhere, or there are too many | no |
/// | `target_not_allowed` | the address is not public, and no setting allows it | no |
/// | `bad_input` | the input is wrong once its references are resolved | no |
///
/// Statuses that are tried again are 408, 425, 429 and those from 500 on but 501, 505, 506, 508,
/// 510 and 511, which say that the request itself will never do; and any that comes with
/// `Retry-After`. What that asks for is waited at least, and a day at most.
#[derive(Debug)]
pub struct Http {
    settings: HttpSettings,
    targets: Arc<Targets>,
    /// Made when it is needed: a program without such tasks has no use for root certificates.
    client: OnceCell<Client>,
}

impl Http {
    /// A kind with these settings. Nothing is opened or read yet.
    pub fn new(settings: HttpSettings) -> Self {
        let targets = Arc::new(Targets::new(settings.allowed.clone()));
        Self { settings, targets, client: OnceCell::new() }
    }

    async fn client(&self) -> TaskResult<&Client> {
        let make = || async {
            let (settings, targets) = (self.settings.clone(), Arc::clone(&self.targets));
            let made = tokio::task::spawn_blocking(move || client::build(&settings, &targets));
            match made.await {
                Ok(Ok(client)) => Ok(client),
                Ok(Err(error)) => Err(error.to_string()),
                Err(error) => Err(error.to_string()),
            }
        };
        self.client.get_or_try_init(make).await.map_err(|why| {
            TaskError::new("client_failed", format!("no request can be sent from here: {why}"))
        })
    }

    fn read(&self, cx: &TaskContext, input: &Payload) -> TaskResult<Input> {
        let read = input::parse(input, References::Resolved, self.settings.response_max);
        let mut input = match read {
            Ok(Some(input)) => input,
            Ok(None) => return Err(bad_input(&[])),
            Err(problems) => return Err(bad_input(&problems)),
        };
        let is_safe = [Method::GET, Method::HEAD, Method::OPTIONS].contains(&input.message.method);
        // The header's value is a quoted string. What the key is made of needs no escape in it.
        let key = HeaderValue::try_from(format!("\"{}\"", cx.idempotency_key()));
        if let Ok(key) = key
            && !is_safe
        {
            input.add_header(IDEMPOTENCY_KEY, key);
        }
        Ok(input)
    }
}

#[async_trait]
impl Handler for Http {
    async fn call(&self, cx: TaskContext, input: Payload) -> TaskResult<Done> {
        cx.ensure_live()?;
        let input = self.read(&cx, &input)?;
        let client = self.client().await?;
        let exchange = Exchange {
            client,
            targets: &self.targets,
            redirects_max: self.settings.redirects_max,
            cx: &cx,
        };
        // What the client's libraries trace is not what a task writes to its log.
        let output = exchange.run(input).with_subscriber(Dispatch::none()).await?;
        Ok(Done { output, exit: Exit::default() })
    }

    fn check(&self, input: &Payload) -> Result<(), Vec<PayloadError>> {
        let most = self.settings.response_max;
        let Some(input) = input::parse(input, References::Pending, most)? else { return Ok(()) };
        self.targets.check(&input.message.url).map_err(|refusal| {
            vec![PayloadError { pointer: "/url".to_owned(), detail: refusal.to_string() }]
        })
    }

    fn reads_outputs(&self) -> bool {
        false
    }
}

fn bad_input(problems: &[PayloadError]) -> TaskError {
    let sentences: Vec<String> = problems.iter().map(ToString::to_string).collect();
    TaskError::new("bad_input", sentences.join("; ")).give_up()
}
