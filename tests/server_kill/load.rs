//! Clients that submit and steer jobs, and keep a record of what they were told.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::thread::Scope;
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::{Value, json};

use crate::common::server::{Reply, exchange};
use crate::common::{PATIENCE, Place};

const CLIENTS: usize = 4;
/// A client that has so many jobs waits for the oldest to end.
const OPEN_MAX: usize = 4;
pub(crate) const STEPS: usize = 3;

/// Says that it starts, unless something of another attempt of the job is alive, which it
/// reports; leaves a process in a session of its own behind; says that it ends.
const SCRIPT: &str = r#"
for file in $(grep -alz "^ANNALS_JOB=$ANNALS_JOB" /proc/[0-9]*/environ 2>/dev/null || true); do
    env=$(tr '\0' '\n' < $file 2>/dev/null) || continue
    case "$env" in
        *"ANNALS_OUTPUT=$ANNALS_OUTPUT"*) ;;
        *"KILL_TEST=1"*) echo "$ANNALS_JOB $ANNALS_TASK $ANNALS_ATTEMPT $file" >> $DIR/leftovers ;;
    esac
done
(setsid sleep 300 &)
sleep 0.02
echo "$ANNALS_JOB $ANNALS_TASK $ANNALS_ATTEMPT" >> $DIR/marks
"#;

/// What a client did, and how that ended. Its answer came at last, however often it had to ask.
#[derive(Debug, Clone)]
pub(crate) struct Deed {
    pub(crate) path: String,
    /// The key and the id of the request.
    pub(crate) key: String,
    pub(crate) tries: usize,
    pub(crate) status: u16,
    pub(crate) job: String,
}

/// How far the load is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    answers: usize,
    marks: usize,
}

impl Progress {
    pub(crate) fn is_beyond(self, before: Self) -> bool {
        self.answers > before.answers && self.marks > before.marks
    }
}

/// Clients, and where they find the server.
pub(crate) struct Load<'p> {
    place: &'p Place,
    server: Mutex<Option<SocketAddr>>,
    moved: Condvar,
    /// How often the clients were told not to dawdle.
    hurries: Mutex<u64>,
    hurried: Condvar,
    ends: AtomicBool,
    answers: AtomicUsize,
    ledger: Mutex<Vec<Deed>>,
}

impl<'p> Load<'p> {
    pub(crate) fn new(place: &'p Place) -> Self {
        Self {
            place,
            server: Mutex::new(None),
            moved: Condvar::new(),
            hurries: Mutex::new(0),
            hurried: Condvar::new(),
            ends: AtomicBool::new(false),
            answers: AtomicUsize::new(0),
            ledger: Mutex::new(Vec::new()),
        }
    }

    /// The clients end when what this gives is dropped, and all that they have asked is answered.
    pub(crate) fn begin<'s>(&'s self, scope: &'s Scope<'s, '_>) -> Clients<'s> {
        for client in 0..CLIENTS {
            scope.spawn(move || Client::new(self, client).work());
        }
        Clients(&self.ends)
    }

    /// Says where the server is.
    pub(crate) fn reach(&self, server: Option<SocketAddr>) {
        *self.server.lock().unwrap() = server;
        self.moved.notify_all();
    }

    /// Has every client that pauses ask at once, so that requests are on their way.
    pub(crate) fn hurry(&self) {
        *self.hurries.lock().unwrap() += 1;
        self.hurried.notify_all();
    }

    /// As a client pauses between its requests.
    fn dawdle(&self, most: Duration) {
        let hurries = self.hurries.lock().unwrap();
        let before = *hurries;
        drop(self.hurried.wait_timeout_while(hurries, most, |now| *now == before).unwrap());
    }

    pub(crate) fn progress(&self) -> Progress {
        let answers = self.answers.load(Ordering::Relaxed);
        Progress { answers, marks: self.place.read("marks").lines().count() }
    }

    pub(crate) fn ledger(&self) -> Vec<Deed> {
        self.ledger.lock().unwrap().clone()
    }

    fn address(&self) -> SocketAddr {
        let server = self.server.lock().unwrap();
        let waited = self.moved.wait_timeout_while(server, PATIENCE, |server| server.is_none());
        waited.unwrap().0.expect("a server is there in time")
    }
}

/// Clients at work.
pub(crate) struct Clients<'l>(&'l AtomicBool);

impl Drop for Clients<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Client<'l> {
    load: &'l Load<'l>,
    name: usize,
    deeds: usize,
    open: VecDeque<String>,
    rng: Rng,
}

impl<'l> Client<'l> {
    fn new(load: &'l Load<'l>, name: usize) -> Self {
        let rng = Rng::with_seed(name as u64);
        Self { load, name, deeds: 0, open: VecDeque::new(), rng }
    }

    fn work(mut self) {
        while !self.load.ends.load(Ordering::Relaxed) {
            if self.open.len() < OPEN_MAX {
                self.submit();
            } else if self.rng.bool() {
                self.steer();
            } else {
                self.look();
            }
            self.load.dawdle(Duration::from_millis(self.rng.u64(..20)));
        }
    }

    fn submit(&mut self) {
        let key = self.next_key();
        let env = json!({"DIR": self.load.place.path(""), "KILL_TEST": "1"});
        let task = |number: usize| {
            let input = json!({"script": SCRIPT, "env": env});
            json!({"id": format!("step-{number}"), "kind": "shell", "input": input})
        };
        let tasks: Vec<Value> = (0..STEPS).map(task).collect();
        let deed =
            self.ask("/api/v1/jobs".into(), key.clone(), &json!({"name": key, "tasks": tasks}));
        assert_eq!(deed.status, 202, "{deed:?}");
        self.open.push_back(deed.job.clone());
        self.note(deed);
    }

    fn steer(&mut self) {
        let job = &self.open[self.rng.usize(..self.open.len())];
        let commands =
            ["cancel", "pause", "pause", "resume", "resume", "resume", "skip", "execute"];
        let command = commands[self.rng.usize(..commands.len())];
        let (job, path) = (job.clone(), format!("/api/v1/jobs/{job}/{command}"));
        let key = self.next_key();
        let deed = self.ask(path, key, &json!({}));
        assert!([200, 202, 409].contains(&deed.status), "{deed:?}");
        self.note(Deed { job, ..deed });
    }

    /// Lets go of the oldest job when it has ended, and of a held one after it is resumed.
    fn look(&mut self) {
        let path = format!("/api/v1/jobs/{}?wait=100ms", self.open[0]);
        let Some(reply) = exchange(self.load.address(), "GET", &path, &[], "") else { return };
        if reply.status != 200 {
            return;
        }
        match reply.json()["status"].as_str().unwrap() {
            "completed" | "cancelled" | "failed" => drop(self.open.pop_front()),
            "paused" => self.open.rotate_left(1),
            _ => {}
        }
    }

    fn next_key(&mut self) -> String {
        self.deeds += 1;
        format!("client-{}-{}", self.name, self.deeds)
    }

    /// Asks until there is an answer; one that never came is asked again with its key.
    fn ask(&self, path: String, key: String, body: &Value) -> Deed {
        let headers = [
            ("content-type", "application/json"),
            ("idempotency-key", &*format!("\"{key}\"")),
            ("x-request-id", &key),
        ];
        let (begun, mut tries) = (Instant::now(), 0);
        let reply: Reply = loop {
            tries += 1;
            assert!(begun.elapsed() < PATIENCE, "{key} has no answer, tried {tries} times");
            let body = body.to_string();
            let reply = exchange(self.load.address(), "POST", &path, &headers, &body);
            match reply {
                Some(reply) if reply.status != 503 => break reply,
                _ => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        self.load.answers.fetch_add(1, Ordering::Relaxed);
        let job = reply.json()["id"].as_str().unwrap_or_default().to_owned();
        Deed { path, key, tries, status: reply.status, job }
    }

    fn note(&self, deed: Deed) {
        self.load.ledger.lock().unwrap().push(deed);
    }
}
