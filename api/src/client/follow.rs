//! A stream of server-sent events that goes on where it was cut off, for as long as it takes.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Response, StatusCode};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::error::ClientError;
use super::frames::{Frame, Frames};
use super::patience::{Patience, Tries};
use super::request::Request;
use super::send::Client;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const EVENT_STREAM: &str = "text/event-stream";
/// The type of the frame after which there is nothing more.
const END: &str = "end";
/// Frames that are read before somebody takes them.
const AHEAD: usize = 64;

/// What a stream brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum News {
    /// A frame.
    Frame(Frame),
    /// The server went away, in words; it is sought until it is back.
    Lost(String),
    /// The server is back.
    Back,
}

/// A stream that is followed. The connection is kept by a task of its own, so that whoever waits
/// for news may stop waiting at any time and loses none.
pub(crate) struct Follow {
    news: mpsc::Receiver<Result<News, ClientError>>,
    task: JoinHandle<()>,
}

impl Follow {
    /// Begins to follow. `patience` is for the first connection; later ones have no end of it.
    pub(crate) fn begin(client: Client, request: Request, patience: Patience) -> Self {
        let (sender, news) = mpsc::channel(AHEAD);
        let follower = Follower { client, request, last: None, news: sender };
        Self { news, task: tokio::spawn(follower.work(patience)) }
    }

    /// What comes next; none after the end.
    pub(crate) async fn next(&mut self) -> Result<Option<News>, ClientError> {
        self.news.recv().await.transpose()
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Nobody takes the news any more, or there is no more of it.
struct Done;

struct Follower {
    client: Client,
    request: Request,
    /// The id of the last frame that had one.
    last: Option<String>,
    news: mpsc::Sender<Result<News, ClientError>>,
}

impl Follower {
    async fn work(mut self, patience: Patience) {
        // When nobody listens any more there is nobody to be told.
        let _ = self.follow(patience).await;
    }

    async fn follow(&mut self, patience: Patience) -> Result<(), Done> {
        let mut tries = Tries::begin(self.client.notice());
        let mut response = self.connect(&mut tries, patience).await?;
        let mut is_lost = false;
        // Whoever has all that there is gets nothing.
        while response.status() != StatusCode::NO_CONTENT {
            let mut frames = Frames::default();
            let lost = loop {
                let chunk = match response.chunk().await {
                    Ok(Some(chunk)) => chunk,
                    Ok(None) => break self.client.ended(),
                    Err(error) => break self.client.failed(&error),
                };
                let Ok(complete) = frames.take(&chunk) else {
                    let error = self.client.foreign("a stream whose frames have no end");
                    return self.tell(Err(error)).await;
                };
                // A server that only accepts connections is not back yet.
                if std::mem::take(&mut is_lost) {
                    self.tell(Ok(News::Back)).await?;
                }
                tries = Tries::begin(silent);
                for frame in complete {
                    self.bring(frame).await?;
                }
            };
            if !std::mem::replace(&mut is_lost, true) {
                self.tell(Ok(News::Lost(lost.to_string()))).await?;
            }
            if let Err(error) = tries.pause(lost, Patience::Endless).await {
                return self.tell(Err(error)).await;
            }
            response = self.connect(&mut tries, Patience::Endless).await?;
        }
        Ok(())
    }

    async fn connect(&self, tries: &mut Tries, patience: Patience) -> Result<Response, Done> {
        loop {
            let mut more = HeaderMap::new();
            let last = self.last.as_deref().map(HeaderValue::from_str);
            if let Some(Ok(last)) = last {
                more.insert(LAST_EVENT_ID, last);
            }
            let error = match self.client.head(&self.request, EVENT_STREAM, &more).await {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            if let Err(error) = tries.pause(error, patience).await {
                self.tell(Err(error)).await?;
                return Err(Done);
            }
        }
    }

    async fn bring(&mut self, frame: Frame) -> Result<(), Done> {
        if let Some(id) = frame.id.as_ref().filter(|id| !id.is_empty()) {
            self.last = Some(id.clone());
        }
        let is_end = frame.kind == END;
        self.tell(Ok(News::Frame(frame))).await?;
        if is_end { Err(Done) } else { Ok(()) }
    }

    async fn tell(&self, news: Result<News, ClientError>) -> Result<(), Done> {
        self.news.send(news).await.map_err(|_| Done)
    }
}

/// Of tries for which an outage was told already.
fn silent(_: &str) {}
