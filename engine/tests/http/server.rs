//! Servers of a test: they write down what they are asked, and answer as they are told.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A request as it came.
#[derive(Debug, Clone, Default)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// The path with its query.
    pub(crate) target: String,
    /// Names in small letters.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// The values of a header, joined.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let values = self.headers.iter().filter(|(its, _)| its == name);
        let values: Vec<&str> = values.map(|(_, value)| value.as_str()).collect();
        (!values.is_empty()).then(|| values.join(", "))
    }
}

type Handling = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A server on a port of this machine; it ends with the value.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    accepting: JoinHandle<()>,
}

impl Server {
    /// Does with each connection what `handle` says.
    pub(crate) async fn wild<F>(handle: impl Fn(TcpStream) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = listener("127.0.0.1").await;
        Self::start(listener, Arc::default(), move |stream| Box::pin(handle(stream)))
    }

    /// Answers each request with the bytes that `answer` gives for it, and closes.
    pub(crate) async fn answering(
        answer: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        Self::answering_at(listener("127.0.0.1").await, answer)
    }

    /// The same, where this listens.
    pub(crate) fn answering_at(
        listener: TcpListener,
        answer: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, answer) = (Arc::clone(&requests), Arc::new(answer));
        let handle = move |mut stream: TcpStream| -> Handling {
            let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
            Box::pin(async move {
                let Some(request) = read(&mut stream).await else { return };
                let bytes = answer(&request);
                seen.lock().unwrap().push(request);
                // Who does not want it all may hang up.
                let _ = stream.write_all(&bytes).await;
                let _ = stream.shutdown().await;
            })
        };
        Self::start(listener, requests, handle)
    }

    /// Answers each request with the same status, headers and body.
    pub(crate) async fn saying(status: u16, headers: &str, body: impl AsRef<[u8]>) -> Self {
        let answer = answer(status, headers, body);
        Self::answering(move |_| answer.clone()).await
    }

    fn start(
        listener: TcpListener,
        requests: Arc<Mutex<Vec<Request>>>,
        handle: impl Fn(TcpStream) -> Handling + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(handle(stream));
            }
        });
        Self { address, requests, accepting }
    }

    /// A URL of the server.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// What was asked so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// The only request.
    pub(crate) fn request(&self) -> Request {
        let mut requests = self.requests();
        assert_eq!(requests.len(), 1, "{requests:?}");
        requests.remove(0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Listens on a free port of an address of this machine.
pub(crate) async fn listener(address: &str) -> TcpListener {
    TcpListener::bind((address, 0)).await.unwrap()
}

/// An answer with its length. Headers are lines with their ends.
pub(crate) fn answer(status: u16, headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let length = body.len();
    let head = format!("HTTP/1.1 {status} Said\r\n{headers}Content-Length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

/// Reads a request with its body; `None` where the connection ends before it does.
pub(crate) async fn read(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut lines = head.lines();
    let mut words = lines.next()?.split(' ').map(str::to_owned);
    let (method, target) = (words.next()?, words.next()?);
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    };
    let headers = lines.filter_map(header).collect();
    let mut request = Request { method, target, headers, body: bytes.split_off(end + 4) };
    let length = request.header("content-length").map_or(0, |length| length.parse().unwrap());
    while request.body.len() < length {
        if stream.read_buf(&mut request.body).await.ok()? == 0 {
            return None;
        }
    }
    Some(request)
}

/// Waits until the other side has closed the connection.
pub(crate) async fn until_closed(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    // A reset is an end, too.
    let _ = stream.read_to_end(&mut rest).await;
}
