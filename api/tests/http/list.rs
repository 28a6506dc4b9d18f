//! Lists of jobs: filters, pages, and what happens to them while jobs come and go.

use std::collections::BTreeSet;

use annals_engine::JobHandle;
use annals_engine::log::{MemoryDisk, Position};
use serde_json::{Value, json};

use crate::live::{Live, within};

const NOOP: &str = r#"{"id": "a", "kind": "noop"}"#;

/// Submits a job with a name, labels and tasks.
async fn submit(live: &Live, name: &str, labels: &str, tasks: &str) -> JobHandle {
    let plan = format!(r#"{{"name": {name:?}, "labels": {labels}, "tasks": [{tasks}]}}"#);
    live.submit_plan(&plan).await
}

async fn done(live: &Live, name: &str, labels: &str, tasks: &str) -> JobHandle {
    let job = submit(live, name, labels, tasks).await;
    within(job.ended()).await.unwrap();
    job
}

/// The ids of a page.
fn ids(page: &Value) -> Vec<String> {
    let items = page["items"].as_array().expect("items");
    items.iter().map(|item| item["id"].as_str().expect("an id").to_owned()).collect()
}

/// Goes through a list page by page, by the links that each page gives.
async fn walk(live: &Live, query: &str, limit: usize) -> Vec<Vec<String>> {
    let mut pages = Vec::new();
    let mut next = Some(format!("?{query}limit={limit}"));
    while let Some(query) = next {
        let answer = live.get(&format!("/api/v1/jobs{query}")).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        let page = answer.json();
        let link = answer.header("link").map(|link| {
            link.strip_prefix('<').and_then(|link| link.strip_suffix(">; rel=\"next\"")).unwrap()
        });
        next = link.map(str::to_owned);
        match (&next, page["next_cursor"].as_str()) {
            (Some(link), Some(cursor)) => assert!(link.ends_with(&format!("&cursor={cursor}"))),
            (link, cursor) => assert_eq!((link.as_deref(), cursor), (None, None)),
        }
        pages.push(ids(&page));
    }
    pages
}

fn texts(jobs: &[&JobHandle]) -> Vec<String> {
    jobs.iter().map(|job| job.id().to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_filter_lets_through_what_it_says() {
    let live = Live::new().await;
    let web = done(&live, "init web-42", r#"{"env": "prod", "url": "http://web"}"#, NOOP).await;
    let data = done(&live, "Init DB", r#"{"env": "prod"}"#, NOOP).await;
    let fragile = r#"{"id": "f", "kind": "fragile"}"#;
    let failed = done(&live, "flaky", r#"{"env": "test"}"#, fragile).await;
    let open = submit(&live, "open", "{}", r#"{"id": "g", "kind": "gate"}"#).await;
    let all = [&open, &failed, &data, &web];
    let rows = live.get("/api/v1/jobs").await.json();
    assert_eq!(ids(&rows), texts(&all));
    let all = texts(&all);
    let time = |job: usize, name: &str| rows["items"][job][name].as_str().unwrap_or("").to_owned();
    let (data_made, web_ended) = (time(2, "created_at"), time(3, "finished_at"));
    // The jobs by their places in the list; those of times by what the list shows of them.
    let at = |name: &str, holds: &dyn Fn(&str) -> bool| -> Vec<usize> {
        (0..4).filter(|job| holds(&time(*job, name))).collect()
    };
    let table: Vec<(String, Vec<usize>)> = vec![
        (String::new(), vec![0, 1, 2, 3]),
        ("status=failed".into(), vec![1]),
        ("status=failed&status=completed".into(), vec![1, 2, 3]),
        ("status=running,failed".into(), vec![0, 1]),
        ("status=cancelled".into(), vec![]),
        ("label=env:prod".into(), vec![2, 3]),
        ("label=env:prod&label=url:http://web".into(), vec![3]),
        ("label=env:prod&status=failed".into(), vec![]),
        ("label=env:".into(), vec![]),
        ("text=init".into(), vec![2, 3]),
        ("text=IT%20BROKE".into(), vec![1]),
        ("text=".into(), vec![0, 1, 2, 3]),
        ("queue=default".into(), vec![0, 1, 2, 3]),
        ("queue=other".into(), vec![]),
        ("workflow=none".into(), vec![]),
        (format!("created_after={data_made}"), at("created_at", &|time| *time >= *data_made)),
        (format!("created_before={data_made}"), at("created_at", &|time| *time < *data_made)),
        ("created_after=2100-01-01T00:00:00Z".into(), vec![]),
        ("finished_after=2000-01-01T00:00:00%2B02:00".into(), vec![1, 2, 3]),
        (
            format!("finished_before={web_ended}"),
            at("finished_at", &|time| !time.is_empty() && *time < *web_ended),
        ),
    ];
    for (query, expected) in table {
        let page = live.get(&format!("/api/v1/jobs?{query}")).await.json();
        let expected: Vec<&String> = expected.iter().map(|job| &all[*job]).collect();
        assert_eq!(ids(&page).iter().collect::<Vec<_>>(), expected, "{query}");
        assert!(page.get("next_cursor").is_none());
    }
    let row = live.get("/api/v1/jobs?status=failed").await.json()["items"][0].clone();
    assert_eq!((&row["name"], &row["error"]["code"]), (&json!("flaky"), &json!("fragile")));
    assert_eq!(row["labels"], json!({"env": "test"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_asked_for_is_refused() {
    let live = Live::new().await;
    for query in [
        "status=done",
        "status=",
        "label=env",
        "limit=0",
        "limit=1001",
        "limit=ten",
        "created_after=yesterday",
        "finished_before=2026-03-01T00:00:00+02:00",
        "text=a&text=b",
        "state=failed",
        "cursor=",
        "cursor=garbage!",
        "cursor=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    ] {
        live.get(&format!("/api/v1/jobs?{query}")).await.problem(400, "bad_query");
    }
    let near = live.get("/api/v1/jobs?labels=a:b").await.problem(400, "bad_query");
    assert!(near["detail"].as_str().unwrap().contains("`label`"), "{near}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_the_whole_list_whatever_their_size() {
    let live = Live::new().await;
    let mut all = Vec::new();
    for number in 0..23 {
        let labels = format!(r#"{{"odd": "{}"}}"#, number % 2);
        all.push(done(&live, "job", &labels, NOOP).await);
    }
    all.reverse();
    let everything = texts(&all.iter().collect::<Vec<_>>());
    let even: Vec<String> = everything.iter().step_by(2).cloned().collect();
    for limit in [1, 2, 5, 23, 24, 1_000] {
        assert_eq!(walk(&live, "", limit).await.concat(), everything, "{limit}");
        let pages = walk(&live, "label=odd:0&", limit).await;
        assert_eq!(pages.concat(), even, "{limit}");
        assert_eq!(pages.len(), even.len().div_ceil(limit));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_is_of_its_filter() {
    let live = Live::new().await;
    for _ in 0..3 {
        done(&live, "job", r#"{"env": "prod"}"#, NOOP).await;
    }
    let page = live.get("/api/v1/jobs?limit=1&label=env:prod").await.json();
    let cursor = page["next_cursor"].as_str().unwrap();
    let other = live.get(&format!("/api/v1/jobs?cursor={cursor}")).await.problem(400, "bad_query");
    assert!(other["detail"].as_str().unwrap().contains("another filter"), "{other}");
    // The size of the pages is no part of the filter.
    let rest = live.get(&format!("/api/v1/jobs?label=env:prod&cursor={cursor}&limit=50")).await;
    assert_eq!(ids(&rest.json()).len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_loses_and_repeats_nothing_while_jobs_come_and_end() {
    let live = Live::new().await;
    let mut before = BTreeSet::new();
    for number in 0..40 {
        let tasks = if number % 4 == 0 { r#"{"id": "g", "kind": "gate"}"# } else { NOOP };
        before.insert(submit(&live, "job", "{}", tasks).await.id().to_string());
    }
    let mut seen = Vec::new();
    let mut query = "?limit=3".to_owned();
    for round in 0.. {
        let page = live.get(&format!("/api/v1/jobs{query}")).await.json();
        seen.extend(ids(&page));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        query = format!("?limit=3&cursor={cursor}");
        done(&live, "later", "{}", NOOP).await;
        if round == 5 {
            live.open_gate();
        }
    }
    let unique: BTreeSet<String> = seen.iter().cloned().collect();
    assert_eq!(unique.len(), seen.len(), "none comes twice");
    assert_eq!(unique, before, "all that were there, and none that came later");
    assert!(seen.is_sorted_by(|newer, older| newer > older));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_job_is_in_every_list_that_may_want_it() {
    let disk = MemoryDisk::new();
    let live = Live::in_memory(&disk).await;
    let gate = r#"{"id": "g", "kind": "gate"}"#;
    let bad = submit(&live, "bad", r#"{"env": "prod"}"#, gate).await;
    let good = submit(&live, "good", r#"{"env": "prod"}"#, gate).await;
    let place = within(bad.history(0, 1)).await.unwrap()[0].position;
    // What the views know of it stays known.
    while live.engine.reader().viewed() < live.engine.reader().next_position().min(Position(12)) {
        done(&live, "other", "{}", NOOP).await;
    }
    let (bad, good) = (bad.id().to_string(), good.id().to_string());
    within(live.engine.shutdown_now()).await.unwrap();
    drop(live);
    disk.damage(place, |bytes| *bytes.last_mut().unwrap() ^= 1);
    let live = Live::in_memory(&disk).await;
    let page = live.get("/api/v1/jobs?label=env:prod").await.json();
    assert_eq!(ids(&page), [good.clone(), bad.clone()]);
    assert_eq!(page["items"][1], json!({"id": bad, "damaged": true}));
    assert_eq!(page["items"][0]["status"], "running");
    for query in ["status=failed", "finished_after=2000-01-01T00:00:00Z"] {
        let page = live.get(&format!("/api/v1/jobs?label=env:prod&{query}")).await.json();
        assert_eq!(ids(&page), [bad.as_str()], "{query}");
    }
    live.get(&format!("/api/v1/jobs/{bad}/events")).await.problem(500, "job_unreadable");
}
