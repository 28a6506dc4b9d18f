//! The engine is made to contradict itself: it is given back less of a job than it has written.
//! It writes nothing wrong, gives that job up, and says so wherever one looks; others go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use annals::http::Settings;
use annals_engine::Builder;
use annals_engine::job::ValueDigest;
use annals_engine::log::{
    EventLog, Hour, JobRow, KeyRow, LogError, LogReader, MemoryDisk, Position, ReadRow, Row,
    ValueKey, ViewsLog,
};
use annals_tasks_sdk::JobId;
use serde_json::Value;

use crate::face::{Face, plan};

/// A log whose reader, when it is told to, keeps the last event of each row to itself.
struct Forgetful {
    log: Box<dyn EventLog>,
    forgets: Arc<AtomicBool>,
}

struct Reader {
    reader: Arc<dyn LogReader>,
    forgets: Arc<AtomicBool>,
}

impl EventLog for Forgetful {
    fn append(&mut self, rows: &[Row]) -> Result<(), LogError> {
        self.log.append(rows)
    }

    fn views(&self) -> Arc<dyn ViewsLog> {
        self.log.views()
    }

    fn idle(&mut self) -> Result<(), LogError> {
        self.log.idle()
    }

    fn reader(&self) -> Arc<dyn LogReader> {
        Arc::new(Reader { reader: self.log.reader(), forgets: Arc::clone(&self.forgets) })
    }

    fn close(self: Box<Self>) -> Result<(), LogError> {
        self.log.close()
    }
}

impl LogReader for Reader {
    fn next_position(&self) -> Position {
        self.reader.next_position()
    }

    fn viewed(&self) -> Position {
        self.reader.viewed()
    }

    fn row(&self, position: Position) -> Result<Option<ReadRow>, LogError> {
        let mut row = self.reader.row(position)?;
        if let Some(row) = &mut row
            && row.before.seq > 0
            && self.forgets.load(Ordering::SeqCst)
        {
            row.events.pop();
        }
        Ok(row)
    }

    fn bytes(&self, position: Position) -> Result<Option<Vec<u8>>, LogError> {
        self.reader.bytes(position)
    }

    fn rows(&self, from: Position, limit: usize) -> Result<Vec<ReadRow>, LogError> {
        self.reader.rows(from, limit)
    }

    fn value(
        &self,
        job: JobId,
        key: ValueKey,
        digest: &ValueDigest,
    ) -> Result<Option<Vec<u8>>, LogError> {
        self.reader.value(job, key, digest)
    }

    fn job_row(&self, job: JobId) -> Result<Option<JobRow>, LogError> {
        self.reader.job_row(job)
    }

    fn job_rows(&self, before: Option<JobId>, limit: usize) -> Result<Vec<JobRow>, LogError> {
        self.reader.job_rows(before, limit)
    }

    fn open_rows(&self) -> Result<Vec<JobRow>, LogError> {
        self.reader.open_rows()
    }

    fn keys(&self, since: Hour, take: &mut dyn FnMut(KeyRow)) -> Result<(), LogError> {
        self.reader.keys(since, take)
    }
}

/// What `/metrics` has under a name.
async fn number(face: &Face, name: &str) -> String {
    let page = face.get("/metrics").await.text;
    let line = page.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.unwrap_or_else(|| panic!("{name} is not in {page}")).to_owned()
}

#[tokio::test]
async fn a_job_about_which_the_engine_contradicts_itself_is_given_up_alone() {
    let forgets = Arc::new(AtomicBool::new(false));
    let (log, disk) = (Arc::clone(&forgets), MemoryDisk::new());
    let log = Forgetful { log: Box::new(disk.open()), forgets: log };
    let build = |builder: Builder| builder.log(Box::new(log)).resident(0).resting_bytes(0);
    let face = Face::with(Settings::default(), build).await;
    let manual = r#"{"name": "m", "start": "manual", "tasks": [{"id": "a", "kind": "noop"}]}"#;
    let job = face.post("/api/v1/jobs", manual).await;
    let job = job.header("location").expect(&job.text).to_owned();
    assert_eq!(face.post(&format!("{job}/pause"), "{}").await.status, 202);
    while face.engine.stats().open.loaded > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(number(&face, "annals_jobs_without_reason").await, "0");
    assert_eq!(number(&face, "annals_jobs_tried_again_total").await, "0");
    assert_eq!(number(&face, "annals_broken_laws_total{law=\"no_gap\"}").await, "0");
    assert_eq!(face.get("/readyz").await.status, 200);

    forgets.store(true, Ordering::SeqCst);
    let refused = face.post(&format!("{job}/cancel"), "{}").await.problem(500, "job_unreadable");
    forgets.store(false, Ordering::SeqCst);
    let id = job.rsplit('/').next().expect("an id");
    let said = |reason: &Value| {
        let detail = reason["detail"].as_str().expect("a sentence");
        let wanted = format!("event 2 (JobCancelled) of job {id}");
        assert!(detail.contains(&wanted) && detail.contains("no gap"), "{detail}");
    };
    said(&refused);
    for path in ["/readyz", "/healthz"] {
        let health = face.get(path).await;
        assert_eq!(health.status, 503, "{path}");
        let reasons = &health.json()["reasons"];
        assert_eq!(reasons[0]["code"], "law_broken");
        said(&reasons[0]);
    }
    assert_eq!(face.get("/livez").await.status, 200, "others go on");
    assert_eq!(number(&face, "annals_broken_laws_total{law=\"no_gap\"}").await, "1");
    assert_eq!(number(&face, "annals_jobs_unreadable").await, "1");
    face.get(&job).await.problem(500, "job_unreadable");
    let events = face.get("/api/v1/events").await;
    assert!(
        events.text.contains("JobPaused") && !events.text.contains("JobCancelled"),
        "{}",
        events.text
    );

    let other = face.post("/api/v1/jobs", plan(r#"{"id": "a", "kind": "noop"}"#)).await;
    let other = other.header("location").expect(&other.text).to_owned();
    let ended = face.get(&format!("{other}?wait=30s")).await;
    assert_eq!(ended.json()["status"], "completed");
}
