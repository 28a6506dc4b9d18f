//! A page of a list.

use std::collections::BTreeMap;

use annals_engine::Engine;
use annals_engine::job::JobStatus;
use annals_engine::log::JobRow;
use annals_engine::runtime::{EngineError, WantedKey};
use annals_tasks_sdk::JobId;

use super::beginning::Beginning;
use super::cursor::Cursor;
use super::filter::Filter;

/// The most jobs that a page may have.
pub const LIMIT_MAX: usize = 1_000;

/// How much one request looks at.
#[derive(Clone, Copy)]
struct Bounds {
    /// So many jobs are read at a time where most may not be wanted.
    read: usize,
    /// After so many a page ends, however few of them were wanted: the next one goes on there.
    looked_at: usize,
}

const BOUNDS: Bounds = Bounds { read: 1_000, looked_at: 10_000 };

/// A job of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// What is known of it.
    pub row: JobRow,
    /// Why its history cannot be followed, if that is so. What its row says of where it stands is
    /// then what was known last.
    pub damage: Option<String>,
    /// The exclusive key that it waits for now.
    pub wants_key: Option<WantedKey>,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// The newest first.
    pub jobs: Vec<Found>,
    /// Where the list goes on, if it may.
    pub next: Option<Cursor>,
}

/// Reads a page of at most `limit` jobs. It may have fewer, or none, and be followed by others.
/// Where a damaged job stands is not known, so that it is in every list that may want it.
pub async fn page(
    engine: &Engine,
    filter: &Filter,
    from: Option<Cursor>,
    limit: usize,
) -> Result<Page, EngineError> {
    page_within(engine, filter, from, limit, BOUNDS).await
}

async fn page_within(
    engine: &Engine,
    filter: &Filter,
    from: Option<Cursor>,
    limit: usize,
    bounds: Bounds,
) -> Result<Page, EngineError> {
    let limit = limit.clamp(1, LIMIT_MAX);
    let mut damaged = engine.unreadable().await?;
    let (first, mut before) = span(filter, from);
    let (mut jobs, mut looked_at) = (Vec::with_capacity(limit), 0);
    while looked_at < bounds.looked_at {
        // One more than is wanted, to know whether there are more.
        let read = if filter.is_empty() { limit + 1 } else { bounds.read };
        let rows = engine.jobs(before, read).await?;
        let is_last =
            rows.len() < read || rows.last().is_some_and(|oldest| Some(oldest.job) < first);
        looked_at += rows.len();
        for row in rows {
            let Some(mut found) = wanted(row, filter, &mut damaged, &mut before) else { continue };
            if jobs.len() == limit {
                let next = jobs.last().map(|last: &Found| Cursor { behind: last.row.job });
                return Ok(Page { jobs, next });
            }
            if found.row.status == JobStatus::Running {
                found.wants_key = engine.wanted_key(found.row.job);
            }
            jobs.push(found);
        }
        if is_last {
            return Ok(Page { jobs, next: None });
        }
    }
    Ok(Page { jobs, next: before.map(|behind| Cursor { behind }) })
}

/// The oldest id that may be wanted, and the one behind the newest.
fn span(filter: &Filter, from: Option<Cursor>) -> (Option<JobId>, Option<JobId>) {
    let from = from.map(|cursor| cursor.behind);
    let Some((first, last)) = filter.id.as_ref().map(Beginning::span) else { return (None, from) };
    // Behind the greatest of all ids there is none.
    let behind = last.as_u128().checked_add(1).map(JobId::from_u128);
    (Some(first), [from, behind].into_iter().flatten().min())
}

fn wanted(
    row: JobRow,
    filter: &Filter,
    damaged: &mut BTreeMap<JobId, String>,
    before: &mut Option<JobId>,
) -> Option<Found> {
    *before = Some(row.job);
    let damage = damaged.remove(&row.job);
    let is_wanted = if damage.is_some() { filter.may_want(&row) } else { filter.wants(&row) };
    is_wanted.then_some(Found { row, damage, wants_key: None })
}

#[cfg(test)]
mod tests {
    use annals_engine::Submission;
    use annals_engine::job::Origin;
    use annals_tasks_sdk::plan::{Limits, Plan};

    use super::*;

    /// What a list cannot reach is not read, however many jobs there are.
    #[test]
    fn ids_that_begin_alike_lie_between_two() {
        let mut filter = Filter::default();
        let at = |id| Some(Cursor { behind: JobId::from_u128(id) });
        let number = |(first, behind): (Option<JobId>, Option<JobId>)| {
            (first.map(JobId::as_u128), behind.map(JobId::as_u128))
        };
        assert_eq!(number(span(&filter, at(7))), (None, Some(7)));
        filter.add("id", "0197").unwrap();
        let (first, behind) = (0x0197 << 112, 0x0198 << 112);
        assert_eq!(number(span(&filter, None)), (Some(first), Some(behind)));
        assert_eq!(number(span(&filter, at(first + 1))), (Some(first), Some(first + 1)));
        assert_eq!(number(span(&filter, at(behind + 1))), (Some(first), Some(behind)));
        let mut filter = Filter::default();
        filter.add("id", "ff").unwrap();
        assert_eq!(number(span(&filter, None)).1, None);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_page_ends_where_it_has_looked_at_enough_and_the_next_goes_on_there() {
        let folder = tempfile::tempdir().unwrap();
        let engine = Engine::open(folder.path()).loops(2).start().await.unwrap();
        let mut wanted = Vec::new();
        for number in 0..30 {
            let name = if number % 10 == 3 { "wanted" } else { "other" };
            let task = r#"{"id": "a", "kind": "noop"}"#;
            let plan = format!(r#"{{"name": "{name}", "tasks": [{task}]}}"#);
            let plan = Plan::from_json(&plan, &Limits::default()).unwrap();
            let job = engine.submit_plan(Submission::new(plan, Origin::ENGINE)).await.unwrap();
            wanted.extend((name == "wanted").then_some(job.id()));
        }
        wanted.reverse();
        let mut filter = Filter::default();
        filter.add("text", "want").unwrap();
        for (read, looked_at, limit) in [(4, 8, 9), (4, 8, 1), (1, 1, 5), (50, 50, 2), (3, 30, 3)] {
            let (mut found, mut from, mut pages) = (Vec::new(), None, 0);
            loop {
                let bounds = Bounds { read, looked_at };
                let page = page_within(&engine, &filter, from, limit, bounds).await.unwrap();
                assert!(page.jobs.len() <= limit);
                found.extend(page.jobs.iter().map(|found| found.row.job));
                (from, pages) = (page.next, pages + 1);
                if from.is_none() {
                    break;
                }
            }
            assert_eq!(found, wanted, "{read} {looked_at} {limit}");
            assert!(pages >= 30 / looked_at, "{pages} pages");
        }
        engine.shutdown().await.unwrap();
    }
}
