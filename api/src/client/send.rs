//! The exchange with a server: one request, one answer.

use std::time::Duration;

use reqwest::header::{
    ACCEPT, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH, RETRY_AFTER,
};
use reqwest::{Response, StatusCode};

use super::address::Address;
use super::error::{ClientError, cause};
use super::patience::{Patience, Tries};
use super::problem::Problem;
use super::request::Request;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
const X_ANNALS_ACTOR: HeaderName = HeaderName::from_static("x-annals-actor");
const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const PROBLEM: &str = "application/problem+json";
const JSON: &str = "application/json";
/// How long a connection may take.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// How long a server may be silent while it owes an answer.
const SILENCE_MAX: Duration = Duration::from_mins(1);
/// No answer is larger than this.
const ANSWER_BYTES_MAX: usize = 1 << 30;
/// No problem is larger than this.
const PROBLEM_BYTES_MAX: usize = 1 << 20;

/// Talks to one server.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    address: Address,
    /// What is said, once, when something is tried again.
    notice: fn(&str),
}

/// An answer.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    /// The tag of the answer.
    pub(crate) tag: Option<String>,
    /// Whether the request had been carried out before, by its key.
    pub(crate) is_replayed: bool,
    /// JSON, or what was asked for.
    pub(crate) text: String,
}

/// An answer whose body is still on its way.
pub(crate) struct Body {
    client: Client,
    response: Response,
}

impl Body {
    /// A header of the answer.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name).and_then(|value| value.to_str().ok())
    }

    /// The next bytes; none at the end.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Vec<u8>>, ClientError> {
        let chunk = self.response.chunk().await.map_err(|error| self.client.failed(&error))?;
        Ok(chunk.map(Vec::from))
    }
}

impl Client {
    /// A client that asks in the name of `actor`. `notice` is told, once for each request, why
    /// something is tried again.
    pub(crate) fn new(
        address: Address,
        actor: &str,
        notice: fn(&str),
    ) -> Result<Self, ClientError> {
        // Without one the making of a client panics; if one is there already, it is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("annals/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers(actor))
            .connect_timeout(CONNECT_MAX)
            .read_timeout(SILENCE_MAX);
        if address.is_loopback() {
            builder = builder.no_proxy();
        }
        match builder.build() {
            Ok(http) => Ok(Self { http, address, notice }),
            Err(error) => Err(ClientError::Unsendable { address, why: cause(&error) }),
        }
    }

    /// Asks, and asks again where that may help.
    pub(crate) async fn send(
        &self,
        request: &Request,
        patience: Patience,
    ) -> Result<Reply, ClientError> {
        let mut tries = Tries::begin(self.notice);
        loop {
            let error = match self.exchange(request).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            tries.pause(error, patience).await?;
        }
    }

    /// As [`Client::send`], but gives the answer, of the type `accept`, before its body is there.
    pub(crate) async fn open(
        &self,
        request: &Request,
        accept: &'static str,
        patience: Patience,
    ) -> Result<Body, ClientError> {
        let mut tries = Tries::begin(self.notice);
        loop {
            let error = match self.head(request, accept, &HeaderMap::new()).await {
                Ok(response) => return Ok(Body { client: self.clone(), response }),
                Err(error) => error,
            };
            tries.pause(error, patience).await?;
        }
    }

    async fn exchange(&self, request: &Request) -> Result<Reply, ClientError> {
        let mut response = self.head(request, JSON, &HeaderMap::new()).await?;
        let tag = response.headers().get(ETAG).and_then(|tag| tag.to_str().ok());
        let (status, tag) = (response.status(), tag.map(str::to_owned));
        let is_replayed = response.headers().contains_key(IDEMPOTENCY_REPLAYED);
        let body = self.body(&mut response, ANSWER_BYTES_MAX).await?;
        let text = String::from_utf8(body).map_err(|_| self.foreign("what is not UTF-8"))?;
        Ok(Reply { status, tag, is_replayed, text })
    }

    /// Sends a request, and waits for the head of a good answer.
    pub(super) async fn head(
        &self,
        request: &Request,
        accept: &'static str,
        more: &HeaderMap,
    ) -> Result<Response, ClientError> {
        let url = self.address.api(&request.path);
        let mut builder = self.http.request(request.method.clone(), url);
        builder = builder.header(ACCEPT, accept).header(X_REQUEST_ID, request.id.to_string());
        builder = builder.query(&request.query).headers(more.clone());
        if let Some(key) = &request.key {
            builder = builder.header(IDEMPOTENCY_KEY, quoted(key));
        }
        if let Some(tag) = &request.known {
            builder = builder.header(IF_NONE_MATCH, tag);
        }
        if let Some(body) = &request.body {
            builder = builder.header(CONTENT_TYPE, JSON).body(body.clone());
        }
        let response = builder.send().await.map_err(|error| self.failed(&error))?;
        let status = response.status();
        let is_empty = matches!(status, StatusCode::NOT_MODIFIED | StatusCode::NO_CONTENT);
        if is_empty || status.is_success() && is_of(&response, accept) {
            return Ok(response);
        }
        Err(self.refused(response).await)
    }

    /// Reads a body up to a limit.
    async fn body(&self, response: &mut Response, limit: usize) -> Result<Vec<u8>, ClientError> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.failed(&error))? {
            if body.len() + chunk.len() > limit {
                return Err(ClientError::TooLarge { address: self.address.clone(), limit });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    /// An answer that is not what was asked for.
    async fn refused(&self, mut response: Response) -> ClientError {
        let (status, again) = (response.status(), again(&response));
        if !is_of(&response, PROBLEM) {
            return self.foreign_head(&response);
        }
        let body = match self.body(&mut response, PROBLEM_BYTES_MAX).await {
            Ok(body) => body,
            Err(error) => return error,
        };
        let Ok(problem) = serde_json::from_slice::<Problem>(&body) else {
            return self.foreign(&format!("status {status} with a problem that is none"));
        };
        let problem = Box::new(Problem { status: status.as_u16(), ..problem });
        match status {
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                ClientError::NotNow { address: self.address.clone(), problem, again }
            }
            _ => ClientError::Refused(problem),
        }
    }

    fn foreign_head(&self, response: &Response) -> ClientError {
        let status = response.status();
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.map_or_else(|| "nothing that is named".into(), |kind| format!("{kind:?}"));
        let passes = matches!(
            status,
            StatusCode::BAD_GATEWAY
                | StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::GATEWAY_TIMEOUT
                | StatusCode::TOO_MANY_REQUESTS
        );
        let what = format!("status {status} with {kind}");
        ClientError::Foreign { address: self.address.clone(), what, passes }
    }

    /// A stream that ended before its end.
    pub(super) fn ended(&self) -> ClientError {
        ClientError::Cut { address: self.address.clone(), why: "it ended the stream".into() }
    }

    pub(super) fn foreign(&self, what: &str) -> ClientError {
        ClientError::Foreign { address: self.address.clone(), what: what.into(), passes: false }
    }

    /// An exchange that broke off.
    pub(super) fn failed(&self, error: &reqwest::Error) -> ClientError {
        let (address, why) = (self.address.clone(), cause(error));
        if error.is_builder() || error.is_redirect() {
            ClientError::Unsendable { address, why }
        } else if error.is_connect() {
            ClientError::NoServer { address, why }
        } else if error.is_timeout() {
            ClientError::Silent { address, after: SILENCE_MAX }
        } else {
            ClientError::Cut { address, why }
        }
    }

    /// Tells people why something is tried again.
    pub(super) fn notice(&self) -> fn(&str) {
        self.notice
    }
}

fn headers(actor: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    // Who has a name that no header can carry asks without one.
    if let Ok(actor) = HeaderValue::from_bytes(actor.as_bytes()) {
        headers.insert(X_ANNALS_ACTOR, actor);
    }
    headers
}

/// A string as structured fields have it (RFC 9651).
fn quoted(key: &str) -> String {
    format!("\"{}\"", key.replace('\\', r"\\").replace('"', "\\\""))
}

fn is_of(response: &Response, kind: &str) -> bool {
    let found = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let essence = found.and_then(|found| found.split(';').next()).map(str::trim);
    essence.is_some_and(|essence| essence.eq_ignore_ascii_case(kind))
}

/// When a server wants to be asked again. The form that names a date is left out: servers name
/// seconds where it is about a moment.
fn again(response: &Response) -> Option<Duration> {
    let header = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    header.trim().parse().ok().map(Duration::from_secs)
}
