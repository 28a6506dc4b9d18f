//! What is asked of a server.

use std::fmt::Display;

use reqwest::Method;
use uuid::Uuid;

/// A request, which is the same however often it is sent.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(super) method: Method,
    pub(super) path: Vec<String>,
    pub(super) query: Vec<(&'static str, String)>,
    /// JSON.
    pub(super) body: Option<String>,
    /// What the server knows it by when it comes again.
    pub(super) key: Option<String>,
    /// Its id in the server's log and in the events that it makes.
    pub(super) id: Uuid,
    /// The tag of the answer that is there already.
    pub(super) known: Option<String>,
}

impl Request {
    fn new<S: Into<String>>(method: Method, path: impl IntoIterator<Item = S>) -> Self {
        let path = path.into_iter().map(Into::into).collect();
        let (query, id) = (Vec::new(), Uuid::new_v4());
        Self { method, path, query, body: None, key: None, id, known: None }
    }

    /// Reads something.
    pub(crate) fn get<S: Into<String>>(path: impl IntoIterator<Item = S>) -> Self {
        Self::new(Method::GET, path)
    }

    /// Has something done, once, however often it is sent.
    pub(crate) fn post<S: Into<String>>(path: impl IntoIterator<Item = S>, body: String) -> Self {
        let key = Some(Uuid::new_v4().to_string());
        Self { body: Some(body), key, ..Self::new(Method::POST, path) }
    }

    /// Has something changed; a repeat changes nothing more.
    pub(crate) fn patch<S: Into<String>>(path: impl IntoIterator<Item = S>, body: String) -> Self {
        Self { body: Some(body), ..Self::new(Method::PATCH, path) }
    }

    /// Has something taken away.
    pub(crate) fn delete<S: Into<String>>(path: impl IntoIterator<Item = S>) -> Self {
        Self::new(Method::DELETE, path)
    }

    /// With a parameter of the query.
    pub(crate) fn with(mut self, name: &'static str, value: impl Display) -> Self {
        self.query.push((name, format!("{value}")));
        self
    }

    /// With a parameter, if there is one.
    pub(crate) fn with_some(self, name: &'static str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// What the server knows it by; empty where it knows it by nothing.
    pub(crate) fn key(&self) -> &str {
        self.key.as_deref().unwrap_or_default()
    }

    /// Known by this key in place of one of its own.
    pub(crate) fn by_key(self, key: String) -> Self {
        Self { key: Some(key), ..self }
    }

    /// Only if the answer is another than the one with this tag.
    pub(crate) fn unless(self, tag: Option<String>) -> Self {
        Self { known: tag, ..self }
    }
}
