//! The query of a request: known parameters only, each at most once unless it may be repeated.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use annals_tasks_sdk::duration::parse_duration;
use annals_tasks_sdk::near::hint;
use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;

use super::problem::{Code, Problem};

/// What a handler takes from the query.
pub(super) trait FromQuery: Sized {
    /// The parameters that there are.
    const KNOWN: &'static [&'static str];

    /// Reads them.
    fn read(parameters: &Parameters) -> Result<Self, Problem>;
}

/// Extracts what a handler takes from the query.
pub(super) struct Asked<T>(pub(super) T);

/// The parameters of a query, decoded.
#[derive(Debug, Default)]
pub(super) struct Parameters(Vec<(String, String)>);

impl<S: Send + Sync, T: FromQuery> FromRequestParts<S> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let pairs = Query::<Vec<(String, String)>>::from_request_parts(parts, state).await;
        let Query(pairs) = pairs.map_err(|rejection| bad_query(rejection.body_text()))?;
        let stranger = pairs.iter().find(|(name, _)| !T::KNOWN.contains(&name.as_str()));
        if let Some((name, _)) = stranger {
            return Err(unknown(name, T::KNOWN));
        }
        T::read(&Parameters(pairs)).map(Self)
    }
}

/// No parameters at all.
pub(super) struct Nothing;

impl FromQuery for Nothing {
    const KNOWN: &'static [&'static str] = &[];

    fn read(_: &Parameters) -> Result<Self, Problem> {
        Ok(Self)
    }
}

fn unknown(name: &str, known: &[&str]) -> Problem {
    let near = hint(name, known.iter().copied());
    let shown: String = name.chars().take(64).collect();
    let known = match known {
        [] => "it takes none".into(),
        known => format!("it takes {}", known.join(", ")),
    };
    bad_query(format!("this request has no parameter {shown:?}{near} ({known})"))
}

/// A query that cannot be read, in words.
pub(super) fn bad_query(detail: impl Into<String>) -> Problem {
    Problem::new(Code::BAD_QUERY, detail)
}

impl Parameters {
    /// All values of a parameter that may be repeated.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self.0.iter().filter(move |(key, _)| key == name);
        named.map(|(_, value)| value.as_str())
    }

    /// The value of a parameter.
    pub(super) fn text(&self, name: &str) -> Result<Option<&str>, Problem> {
        let mut values = self.0.iter().filter(|(key, _)| key == name);
        let first = values.next().map(|(_, value)| value.as_str());
        match values.next() {
            Some(_) => Err(bad_query(format!("`{name}` must be given only once"))),
            None => Ok(first),
        }
    }

    /// The value of a parameter, read by `parse`; `rule` says what it must be.
    pub(super) fn parsed<T, E: Display>(
        &self,
        name: &str,
        rule: &str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Result<Option<T>, Problem> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let shown: String = text.chars().take(64).collect();
        parse(text).map(Some).map_err(|why| {
            bad_query(format!("`{name}` must be {rule}, and {shown:?} is not: {why}"))
        })
    }

    /// A whole number.
    pub(super) fn number<T: FromStr<Err: Display>>(
        &self,
        name: &str,
    ) -> Result<Option<T>, Problem> {
        self.parsed(name, "a whole number", T::from_str)
    }

    /// `true` or `false`; false where it is left out.
    pub(super) fn flag(&self, name: &str) -> Result<bool, Problem> {
        match self.text(name)? {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(bad_query(format!("`{name}` must be true or false"))),
        }
    }

    /// A duration with its unit.
    pub(super) fn duration(&self, name: &str) -> Result<Option<Duration>, Problem> {
        self.parsed(name, "a duration such as 30s", parse_duration)
    }
}
