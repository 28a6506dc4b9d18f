//! What runs while somebody looks on: an engine whose tasks wait for the test, a router that is
//! asked for streams, and a client that reads them as browsers do.

use std::collections::VecDeque;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use annals::http::{AppState, Settings, router};
use annals_engine::job::Origin;
use annals_engine::kinds::Supervisor;
use annals_engine::log::MemoryDisk;
use annals_engine::{Builder, Engine, JobHandle, Submission};
use annals_tasks_sdk::plan::{Limits, Plan};
use annals_tasks_sdk::{Payload, TaskContext, TaskKind, TaskResult};
use axum::Router;
use axum::body::{Body, BodyDataStream};
use axum::http::{Request, Response};
use futures_util::StreamExt;
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::watch;
use tower::ServiceExt;

use crate::face::{Answer, answer, ask, with};

/// Saves so many checkpoints, each of which is an event.
const COUNT: TaskKind<u64, u64> = TaskKind::new("count");
/// Ends when the test lets it.
const GATE: TaskKind<Payload, Payload> = TaskKind::new("gate");
/// Fails once, and succeeds when it is tried again.
const FRAGILE: TaskKind<Payload, u32> = TaskKind::new("fragile");

/// Awaits something that must come.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    let limit = Duration::from_mins(1);
    tokio::time::timeout(limit, future).await.expect("it must not hang")
}

/// An engine with its router, on a store that outlives it.
pub(crate) struct Live {
    pub(crate) engine: Engine,
    pub(crate) state: AppState,
    pub(crate) folder: Arc<TempDir>,
    router: Router,
    gate: watch::Sender<bool>,
}

async fn count(cx: TaskContext, events: u64) -> TaskResult<u64> {
    for number in 0..events {
        cx.checkpoint(&number).await?;
    }
    Ok(events)
}

async fn fragile(cx: TaskContext, _: Payload) -> TaskResult<u32> {
    match cx.attempt().attempt {
        1 => Err(annals_tasks_sdk::TaskError::new("fragile", "it broke").give_up()),
        number => Ok(number),
    }
}

impl Live {
    pub(crate) async fn new() -> Self {
        Self::on(Arc::new(tempfile::tempdir().expect("a folder"))).await
    }

    /// On a log in memory, which a test can damage.
    pub(crate) async fn in_memory(disk: &MemoryDisk) -> Self {
        let folder = Arc::new(tempfile::tempdir().expect("a folder"));
        let log = Box::new(disk.open());
        Self::with(folder, |builder| builder.log(log).views_every(1)).await
    }

    async fn on(folder: Arc<TempDir>) -> Self {
        Self::with(folder, |builder| builder).await
    }

    async fn with(folder: Arc<TempDir>, build: impl FnOnce(Builder) -> Builder) -> Self {
        let (gate, passes) = watch::channel(false);
        let gated = move |cx: TaskContext, input: Payload| {
            let mut passes = passes.clone();
            async move {
                // The sender lives as long as the test.
                let _ = cx.or_cancelled(passes.wait_for(|open| *open)).await?;
                Ok(input)
            }
        };
        let supervisor = Supervisor::Program(env!("CARGO_BIN_EXE_annals").into());
        let builder = Engine::open(folder.path()).supervisor(supervisor).loops(2);
        let builder = builder.task(COUNT, count).task(FRAGILE, fragile).task(GATE, gated);
        let engine = build(builder).start().await.expect("it starts");
        let state = AppState::ready(engine.clone(), Settings::default());
        Self { engine, router: router(state.clone()), state, folder, gate }
    }

    /// Ends the server and the engine as an orderly shutdown does, and starts others on the store.
    pub(crate) async fn restarted(self) -> Self {
        self.state.ending().cancel();
        within(self.engine.shutdown_now()).await.expect("it ends");
        let folder = Arc::clone(&self.folder);
        drop(self);
        Self::on(folder).await
    }

    /// Lets what waits at the gate go on.
    pub(crate) fn open_gate(&self) {
        self.gate.send_replace(true);
    }

    /// Submits a plan of these tasks.
    pub(crate) async fn submit(&self, tasks: &str) -> JobHandle {
        self.submit_plan(&format!(r#"{{"name": "test", "tasks": [{tasks}]}}"#)).await
    }

    pub(crate) async fn submit_plan(&self, plan: &str) -> JobHandle {
        let plan = Plan::from_json(plan, &Limits::default()).expect("a plan");
        let submission = Submission::new(plan, Origin::actor("tester"));
        within(self.engine.submit_plan(submission)).await.expect("it is accepted")
    }

    /// Submits a plan of these tasks, and waits for its end.
    pub(crate) async fn done(&self, tasks: &str) -> JobHandle {
        let job = self.submit(tasks).await;
        within(job.ended()).await.expect("it ends");
        job
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        within(answer(self.router.clone(), ask("GET", path))).await
    }

    pub(crate) async fn answer(&self, request: Request<Body>) -> Answer {
        within(answer(self.router.clone(), request)).await
    }

    /// Asks, and leaves the body to be read.
    pub(crate) async fn open(&self, request: Request<Body>) -> Response<Body> {
        within(self.router.clone().oneshot(request)).await.expect("routers are infallible")
    }

    /// Asks for a stream; the answer must be one.
    pub(crate) async fn follow(&self, path: &str, last: Option<&str>) -> Follower {
        let response = self.open(stream_of(path, last)).await;
        assert_eq!(response.status(), 200, "{path}");
        let header = |name: &str| response.headers()[name].to_str().expect("text").to_owned();
        assert_eq!(header("content-type"), "text/event-stream");
        assert_eq!(header("cache-control"), "no-cache, no-transform");
        assert_eq!(header("x-accel-buffering"), "no");
        Follower::new(response.into_body())
    }

    /// Where the step logs of a job are.
    pub(crate) fn steps_of(&self, job: &JobHandle) -> PathBuf {
        self.folder.path().join("steps").join(job.id().to_string())
    }
}

/// What `seq` writes.
pub(crate) fn numbers(upto: u32) -> String {
    (1..=upto).map(|number| format!("{number}\n")).collect::<Vec<_>>().concat()
}

/// A request for a stream, as a browser makes it.
pub(crate) fn stream_of(path: &str, last: Option<&str>) -> Request<Body> {
    let request = with(ask("GET", path), "accept", "text/event-stream");
    match last {
        Some(id) => with(request, "last-event-id", id),
        None => request,
    }
}

/// A frame as browsers hand it on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The id that stands in the frame itself.
    pub(crate) id: Option<String>,
    pub(crate) event: String,
    pub(crate) data: String,
}

impl Frame {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.data).expect("JSON")
    }

    /// Its id as a number.
    pub(crate) fn number(&self) -> u64 {
        self.id.as_deref().expect("an id").parse().expect("a number")
    }
}

/// Reads frames by the rules of HTML's `EventSource`: what is not complete does not count.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    unread: Vec<u8>,
    frames: VecDeque<Frame>,
    id: Option<String>,
    event: String,
    data: Vec<String>,
    /// The id that a browser would send when it comes again.
    pub(crate) last: Option<String>,
    pub(crate) retry: Option<String>,
}

impl Reader {
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
        while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.unread.drain(..=end).collect();
            let line = String::from_utf8(line).expect("UTF-8");
            self.line(line.trim_end_matches('\n'));
        }
    }

    fn line(&mut self, line: &str) {
        assert!(!line.contains('\r'), "{line:?} would end in the middle");
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "" if line.is_empty() => self.dispatch(),
            "" => {}
            "id" => self.id = Some(value.into()),
            "event" => self.event = value.into(),
            "data" => self.data.push(value.into()),
            "retry" => self.retry = Some(value.into()),
            _ => panic!("{line:?} is no field"),
        }
    }

    fn dispatch(&mut self) {
        let id = self.id.take();
        let event = std::mem::take(&mut self.event);
        let data = std::mem::take(&mut self.data).join("\n");
        if id.is_some() {
            self.last.clone_from(&id);
        }
        if !data.is_empty() {
            self.frames.push_back(Frame { id, event, data });
        }
    }

    pub(crate) fn next(&mut self) -> Option<Frame> {
        self.frames.pop_front()
    }
}

/// A client that follows a stream, frame by frame.
pub(crate) struct Follower {
    body: BodyDataStream,
    pub(crate) reader: Reader,
}

impl Follower {
    fn new(body: Body) -> Self {
        Self { body: body.into_data_stream(), reader: Reader::default() }
    }

    /// The next frame; none at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        within(async {
            loop {
                if let Some(frame) = self.reader.next() {
                    return Some(frame);
                }
                let chunk = self.body.next().await?.expect("a stream does not fail");
                self.reader.take(&chunk);
            }
        })
        .await
    }

    /// The frames up to the end of the stream.
    pub(crate) async fn rest(&mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(frame) = self.next().await {
            frames.push(frame);
        }
        frames
    }

    /// Takes one part of what is sent.
    pub(crate) async fn chunk(&mut self) {
        if let Some(chunk) = within(self.body.next()).await {
            self.reader.take(&chunk.expect("a stream does not fail"));
        }
    }

    /// Reads on until so many bytes have come or the stream is over; gives whether it is.
    pub(crate) async fn take_bytes(&mut self, most: usize) -> bool {
        let mut taken = 0;
        while taken < most {
            let Some(chunk) = within(self.body.next()).await else { return true };
            let chunk = chunk.expect("a stream does not fail");
            let room = chunk.len().min(most - taken);
            self.reader.take(&chunk[..room]);
            taken += room;
        }
        false
    }
}
