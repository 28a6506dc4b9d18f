//! What no caller can bring about from outside: contradictions within the engine.

use std::time::Duration;

use annals_tasks_sdk::JobId;

use super::engine::Engine;
use super::error::{JobError, SubmitError};
use super::message::Message;
use crate::job::Origin;
use crate::log::MemoryDisk;

async fn within<T>(future: impl Future<Output = T>) -> T {
    let limit = Duration::from_mins(1);
    tokio::time::timeout(limit, future).await.expect("it must not hang")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_that_makes_no_job_says_why() {
    let (disk, dir) = (MemoryDisk::new(), tempfile::tempdir().unwrap());
    let engine = Engine::open(dir.path()).log(Box::new(disk.open())).start();
    let engine = within(engine).await.unwrap();
    let (job, origin) = (JobId::from_u128(1), Origin::ENGINE);
    let shared = &engine.0.shared;
    let begun = shared.ask(0, |reply| Message::Submit { job, events: Vec::new(), origin, reply });
    match within(begun).await.unwrap() {
        Err(SubmitError::Job(JobError::Unreadable { job: found, .. })) => assert_eq!(found, job),
        other => panic!("{other:?}"),
    }
}
