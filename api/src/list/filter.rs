//! Which jobs are wanted.

use annals_engine::job::JobStatus;
use annals_engine::log::JobRow;
use annals_tasks_sdk::near::hint;
use annals_tasks_sdk::{JobId, Timestamp};

use super::beginning::Beginning;

/// The queue of all jobs.
const QUEUE: &str = "default";

/// Which jobs are wanted: those for which everything that it says holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// With an id that begins so.
    pub id: Option<Beginning>,
    /// One of these; any where there are none.
    pub status: Vec<JobStatus>,
    /// Made by this workflow.
    pub workflow: Option<String>,
    /// With each of these labels: keys and values.
    pub labels: Vec<(String, String)>,
    /// Forked from this job.
    pub forked_from: Option<JobId>,
    /// In this queue.
    pub queue: Option<String>,
    /// Submitted then.
    pub created: Span,
    /// Ended then.
    pub finished: Span,
    /// With this text in the name or in the message of the error, in upper or lower case.
    pub text: Option<String>,
}

/// A span of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Span {
    /// At this time or later.
    pub after: Option<jiff::Timestamp>,
    /// Before this time.
    pub before: Option<jiff::Timestamp>,
}

/// A part of a filter cannot be what it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct BadFilter {
    /// The name of the part.
    pub name: &'static str,
    /// What is wrong with it, as a sentence.
    pub detail: String,
}

impl Filter {
    /// The names of its parts.
    pub const NAMES: &'static [&'static str] = &[
        "id",
        "status",
        "workflow",
        "label",
        "queue",
        "forked_from",
        "created_after",
        "created_before",
        "finished_after",
        "finished_before",
        "text",
    ];

    /// Adds a part: one of [`Filter::NAMES`], and what it is to be. `status` and `label` may come
    /// more than once.
    pub fn add(&mut self, name: &str, value: &str) -> Result<(), BadFilter> {
        let Some(name) = Self::NAMES.iter().copied().find(|known| *known == name) else {
            let near = hint(name, Self::NAMES.iter().copied());
            let detail = format!("a filter has no part {name:?}{near}");
            return Err(BadFilter { name: "", detail });
        };
        match name {
            "status" => self.status.extend(statuses(value)?),
            "label" => self.labels.push(label(value)?),
            "id" => once(name, &mut self.id, beginning(value)?)?,
            "workflow" => once(name, &mut self.workflow, value.to_owned())?,
            "queue" => once(name, &mut self.queue, value.to_owned())?,
            "forked_from" => once(name, &mut self.forked_from, job(name, value)?)?,
            "text" => once(name, &mut self.text, value.to_owned())?,
            "created_after" => once(name, &mut self.created.after, time(name, value)?)?,
            "created_before" => once(name, &mut self.created.before, time(name, value)?)?,
            "finished_after" => once(name, &mut self.finished.after, time(name, value)?)?,
            _ => once(name, &mut self.finished.before, time(name, value)?)?,
        }
        Ok(())
    }

    /// Its parts, as [`Filter::add`] takes them; equal filters give equal parts.
    pub fn parts(&self) -> Vec<(&'static str, String)> {
        let mut parts: Vec<(&str, String)> = Vec::new();
        let words = self.status.iter().map(|status| status.as_str().to_owned());
        parts.extend(words.map(|word| ("status", word)));
        let labels = self.labels.iter().map(|(key, value)| format!("{key}:{value}"));
        parts.extend(labels.map(|label| ("label", label)));
        let mut one = |name, value: Option<String>| parts.extend(value.map(|value| (name, value)));
        one("id", self.id.as_ref().map(Beginning::to_string));
        one("workflow", self.workflow.clone());
        one("queue", self.queue.clone());
        one("text", self.text.clone());
        one("forked_from", self.forked_from.map(|job| job.to_string()));
        let shown = |time: Option<jiff::Timestamp>| time.map(|time| time.to_string());
        one("created_after", shown(self.created.after));
        one("created_before", shown(self.created.before));
        one("finished_after", shown(self.finished.after));
        one("finished_before", shown(self.finished.before));
        parts.sort_unstable();
        parts.dedup();
        parts
    }

    /// Whether every job is wanted.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a job is wanted.
    pub fn wants(&self, row: &JobRow) -> bool {
        (self.status.is_empty() || self.status.contains(&row.status))
            && self.finished.holds(row.finished)
            && self.may_want(row)
    }

    /// Whether a job is wanted of which it is not known where it stands.
    pub fn may_want(&self, row: &JobRow) -> bool {
        let labelled = |(key, value): &(String, String)| {
            row.labels.get(key.as_str()).is_some_and(|found| **found == **value)
        };
        let is_of = |workflow: &String| row.workflow.as_deref() == Some(workflow);
        self.id.as_ref().is_none_or(|id| id.holds(row.job))
            && self.workflow.as_ref().is_none_or(is_of)
            && self.queue.as_deref().is_none_or(|queue| queue == QUEUE)
            && self.forked_from.is_none_or(|origin| is_fork_of(row, origin))
            && self.labels.iter().all(labelled)
            && self.created.holds(Some(row.created))
            && self.text.as_deref().is_none_or(|text| has_text(row, text))
    }
}

impl Span {
    fn holds(self, time: Option<Timestamp>) -> bool {
        if self == Self::default() {
            return true;
        }
        // A time that no calendar reaches is later than all that can be asked for.
        let time = time.map(|time| jiff::Timestamp::from_millisecond(time.as_millis()));
        let Some(time) = time.map(|time| time.unwrap_or(jiff::Timestamp::MAX)) else {
            return false;
        };
        self.after.is_none_or(|after| time >= after)
            && self.before.is_none_or(|before| time < before)
    }
}

fn has_text(row: &JobRow, text: &str) -> bool {
    let text = text.to_lowercase();
    let has = |place: &str| place.to_lowercase().contains(&text);
    has(&row.name) || row.error.as_ref().is_some_and(|error| has(&error.message))
}

fn is_fork_of(row: &JobRow, origin: JobId) -> bool {
    row.forked_from.is_some_and(|from| from.job == origin)
}

fn once<T>(name: &'static str, place: &mut Option<T>, value: T) -> Result<(), BadFilter> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => bad(name, format!("`{name}` must be given only once")),
    }
}

fn bad<T>(name: &'static str, detail: String) -> Result<T, BadFilter> {
    Err(BadFilter { name, detail })
}

fn statuses(words: &str) -> Result<Vec<JobStatus>, BadFilter> {
    let status = |word: &str| {
        let word = word.trim();
        let known = JobStatus::ALL.iter().find(|status| status.as_str() == word);
        known.copied().map_or_else(
            || {
                let all: Vec<_> = JobStatus::ALL.iter().map(|status| status.as_str()).collect();
                let near = hint(word, all.iter().copied());
                let shown: String = word.chars().take(64).collect();
                let all = all.join(", ");
                bad("status", format!("`status` has no {shown:?}{near}: it is one of {all}"))
            },
            Ok,
        )
    };
    words.split(',').map(status).collect()
}

fn beginning(text: &str) -> Result<Beginning, BadFilter> {
    text.parse().or_else(|error| {
        let shown: String = text.chars().take(64).collect();
        bad("id", format!("`id` cannot be {shown:?}: {error}"))
    })
}

fn job(name: &'static str, text: &str) -> Result<JobId, BadFilter> {
    text.parse().or_else(|_| {
        let shown: String = text.chars().take(64).collect();
        bad(name, format!("`{name}` must be the whole id of a job, and {shown:?} is not"))
    })
}

fn label(pair: &str) -> Result<(String, String), BadFilter> {
    if let Some((key, value)) = pair.split_once(':') {
        return Ok((key.to_owned(), value.to_owned()));
    }
    let shown: String = pair.chars().take(64).collect();
    bad("label", format!("`label` must be KEY:VALUE, and {shown:?} has no colon"))
}

fn time(name: &'static str, text: &str) -> Result<jiff::Timestamp, BadFilter> {
    text.parse().or_else(|_| {
        let shown: String = text.chars().take(64).collect();
        // A plus sign in a query stands for a space.
        let plus = if text.contains(' ') { "; a + is written as %2B in a query" } else { "" };
        bad(
            name,
            format!(
                "`{name}` must be a time such as 2026-03-01T12:00:00Z, and {shown:?} is not{plus}"
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(parts: &[(&str, &str)]) -> Result<Filter, BadFilter> {
        let mut filter = Filter::default();
        parts.iter().try_for_each(|(name, value)| filter.add(name, value))?;
        Ok(filter)
    }

    #[test]
    fn a_filter_comes_back_from_its_parts() {
        let given = [
            ("status", "failed,running"),
            ("status", "cancelled"),
            ("id", "0197F0C2-7b"),
            ("workflow", "init"),
            ("label", "env:prod"),
            ("label", "url:http://x"),
            ("queue", "default"),
            ("forked_from", "0197f0c2-7b3e-7c11-9f0e-1d2c3b4a5968"),
            ("created_after", "2026-03-01T12:00:00.5+02:00"),
            ("created_before", "2026-03-02T00:00:00Z"),
            ("finished_after", "2026-03-01T12:00:00Z"),
            ("finished_before", "2026-03-03T12:00:00Z"),
            ("text", "Disk, full"),
        ];
        let first = filter(&given).unwrap();
        assert_eq!(first.labels[1], ("url".into(), "http://x".into()));
        let parts = first.parts();
        let given: Vec<(&str, &str)> = parts.iter().map(|(name, text)| (*name, &**text)).collect();
        assert_eq!(filter(&given).unwrap().parts(), parts);
        assert!(Filter::default().is_empty() && Filter::default().parts().is_empty());
    }

    #[test]
    fn what_cannot_be_a_filter_is_refused_with_its_name() {
        let table = [
            ("status", "done", "status"),
            ("status", "", "status"),
            ("id", "last", "id"),
            ("label", "env", "label"),
            ("forked_from", "0197", "forked_from"),
            ("created_after", "yesterday", "created_after"),
            ("finished_before", "2026-03-01T12:00:00 02:00", "finished_before"),
            ("created_before", "2026-03-01", "created_before"),
            ("state", "failed", ""),
        ];
        for (name, value, at) in table {
            let error = filter(&[(name, value)]).unwrap_err();
            assert_eq!(error.name, at, "{error}");
        }
        let near = filter(&[("status", "canceled")]).unwrap_err().detail;
        assert!(near.contains("cancelled"), "{near}");
        assert!(filter(&[("text", "a"), ("text", "b")]).is_err());
        let plus = filter(&[("created_after", "2026-03-01T12:00:00 02:00")]).unwrap_err().detail;
        assert!(plus.contains("%2B"), "{plus}");
    }
}
