//! What a request carries stands nowhere else: canaries in every place where secrets are, and every
//! failure that there is.

use std::sync::{Mutex, OnceLock, PoisonError};

use annals_tasks_sdk::Done;
use annals_tasks_sdk::testing::Run;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tracing_subscriber::fmt::MakeWriter;

use super::house::{allowing, call, http, input};
use super::server::{Request, Server, answer, until_closed};

const CANARY: &str = "c4n4ry";

/// Everything that is logged in this process, whatever its level: by `tracing`, and by the older
/// `log`, which the HTTP client uses.
#[derive(Default)]
struct Heard(Mutex<Vec<u8>>);

static HEARD: Heard = Heard(Mutex::new(Vec::new()));

impl Heard {
    fn write(&self, bytes: &[u8]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
    }
}

impl log::Log for Heard {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        self.write(format!("{} {}\n", record.target(), record.args()).as_bytes());
    }

    fn flush(&self) {}
}

struct Writer;

impl std::io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        HEARD.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Writer {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        Self
    }
}

fn listen() {
    static LISTENING: OnceLock<()> = OnceLock::new();
    LISTENING.get_or_init(|| {
        log::set_logger(&HEARD).unwrap();
        log::set_max_level(log::LevelFilter::Trace);
        let all = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE);
        all.with_writer(Writer).init();
    });
}

/// A server that answers with all that it was told.
fn echoing(status: u16, headers: &'static str) -> impl Fn(&Request) -> Vec<u8> {
    move |request| {
        let mut said = format!("{} {}\n", request.method, request.target);
        for (name, value) in &request.headers {
            said.extend([name, ": ", value, "\n"]);
        }
        answer(status, headers, said)
    }
}

/// Input with a canary wherever a secret may stand.
fn loaded(url: &str) -> String {
    let url = format!("{url}/path?token={CANARY}-query&%63=1#{CANARY}");
    let headers = format!(
        r#""headers": {{"X-Api-Key": "{CANARY}-key", "Authorization": "Bearer {CANARY}-token",
            "Cookie": "id={CANARY}-cookie; b={CANARY}-b"}},
            "json": {{"password": "{CANARY}-body"}}"#
    );
    input(&url, &headers)
}

fn assert_silent(run: &Run<Done>) {
    let error = run.error();
    let told = format!("{error} {error:?} {:?} {} {:?}", error.alias(), run.log(), run.calls());
    assert!(!told.contains(CANARY), "{told}");
}

#[tokio::test]
async fn no_failure_tells_what_was_sent() {
    listen();
    let nobody = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let garbage = Server::answering(|_| b"garbage\r\n\r\n".to_vec()).await;
    let silent = Server::answering(|_| Vec::new()).await;
    let echo = Server::answering(echoing(500, "")).await;
    let plain = Server::wild(async |mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        until_closed(&mut stream).await;
    })
    .await;
    let location = format!("Location: ftp://u:{CANARY}@a.example/{CANARY}\r\n");
    let leading_away = Server::saying(302, &location, "").await;
    let basic = |url: &str| {
        let url = url.replace("//", &format!("//ada:{CANARY}-password@"));
        input(&format!("{url}/?{CANARY}"), "")
    };
    for url in [
        nobody,
        garbage.url(""),
        silent.url(""),
        echo.url(""),
        plain.url("").replace("http:", "https:"),
        leading_away.url(""),
        "http://nowhere.invalid".to_owned(),
        "http://10.0.0.1".to_owned(),
        "http://localhost".to_owned(),
    ] {
        assert_silent(&call(&http(), &loaded(&url)).await);
        assert_silent(&call(&http(), &basic(&url)).await);
    }
    // The server has been told, and has said so; here it stays in the output that it made.
    let run = call(&http(), &loaded(&echo.url(""))).await;
    assert!(run.error().message().contains("authorization: [redacted]"), "{}", run.error());
    assert!(run.error().output().unwrap().as_str().contains(CANARY));
    for wrong in [r#""expect": "x""#, r#""method": "GE T""#] {
        let input = loaded(&echo.url("")).replacen('{', &format!("{{{wrong}, "), 1);
        assert_silent(&call(&http(), &input).await);
    }
    let run = call(&allowing(&[]), &loaded(&echo.url(""))).await;
    assert_silent(&run);
    let heard = HEARD.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let heard = String::from_utf8_lossy(&heard);
    assert!(heard.contains("starting new connection"), "the client was heard: {heard}");
    let told: Vec<&str> = heard.lines().filter(|line| line.contains(CANARY)).collect();
    assert!(told.is_empty(), "{told:#?}");
}

#[tokio::test]
async fn an_answer_keeps_no_cookies_and_no_credentials() {
    listen();
    let headers = "Set-Cookie: id=c4n4ry\r\nLocation: http://u:c4n4ry@a.example/\r\n";
    let server = Server::saying(201, headers, "").await;
    let run = call(&http(), &loaded(&server.url(""))).await;
    let output = run.output().output.as_str();
    assert!(!output.contains(CANARY) && output.contains("http://a.example/"), "{output}");
    assert!(!run.log().contains(CANARY));
}
