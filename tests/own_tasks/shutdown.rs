//! Rounds of one store under servers that are told to end while tasks complete and jobs are
//! cancelled: once, twice, or until they are killed.
//!
//! A task's last deed before it succeeds is a line in a journal. So the journal is what has
//! happened, and the log of the next server must agree with it: what completed is recorded once,
//! or the attempt is lost and another one follows; and never both.

use std::collections::BTreeSet;
use std::sync::Mutex;

use fastrand::Rng;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::common::server::{Server, exchange};
use crate::common::{Answer, Place, until};
use crate::serve;

const JOBS: usize = 20;
/// The tasks of a job, one after the other.
const TASKS: usize = 5;
/// How long a task takes at most.
const TASK_MS: u64 = 50;
/// So many clients cancel jobs at once.
const CLIENTS: usize = 4;

/// How many servers are ended: `ANNALS_SHUTDOWN_ROUNDS`, or few.
fn rounds() -> usize {
    let rounds = std::env::var("ANNALS_SHUTDOWN_ROUNDS").ok().and_then(|text| text.parse().ok());
    rounds.unwrap_or(6)
}

/// How a server is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// It is asked to.
    Asked,
    /// It is asked to, and then once more.
    AskedTwice,
    /// It is asked to, and then killed.
    Killed,
}

impl Way {
    const ALL: [Self; 3] = [Self::Asked, Self::AskedTwice, Self::Killed];

    fn second(self) -> Option<Signal> {
        match self {
            Self::Asked => None,
            Self::AskedTwice => Some(Signal::TERM),
            Self::Killed => Some(Signal::KILL),
        }
    }

    /// What its exit code may be. The second signal may come when it is over.
    fn allows(self, code: Option<i32>) -> bool {
        match self {
            Self::Asked => code == Some(0),
            Self::AskedTwice => [Some(0), Some(143)].contains(&code),
            Self::Killed => [Some(0), None].contains(&code),
        }
    }
}

/// What became of a request to cancel a job.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Told {
    /// It was accepted.
    Cancelled,
    /// It was refused, so it has not happened.
    Not,
    /// There was no answer.
    Nothing,
}

/// What there was to see of all rounds.
#[derive(Debug, Default)]
struct Seen {
    /// Servers that did not end in good order.
    cut_off: usize,
    cancelled: usize,
    refused: usize,
    unanswered: usize,
    /// Attempts that were lost, and those of them that had done their work.
    lost: usize,
    done_and_lost: usize,
}

#[test]
fn a_shutdown_at_any_moment_loses_nothing_that_was_done_or_promised() {
    let place = Place::new();
    let (mut rng, mut seen) = (Rng::with_seed(0x5107_d0e5), Seen::default());
    let mut server = serve(&place, &[]);
    for round in 0..rounds() {
        let journal = Journal { place: &place, name: format!("journal-{round}") };
        let jobs = submit(&server, &journal, &mut rng);
        // Each way with cancels and without them.
        let (way, cancels) = (Way::ALL[round % 3], if round % 2 == 0 { JOBS } else { 0 });
        let (answer, told) = end(server, &journal, &jobs[..cancels], way, &mut rng);
        assert!(way.allows(answer.code), "{way:?}: {answer:?}");
        assert!(!answer.stderr.contains("panicked"), "{}", answer.stderr);
        server = serve(&place, &[]);
        seen.cut_off += usize::from(answer.code != Some(0));
        let lost = seen.lost;
        let ended = |id: &String| server.get(&format!("/api/v1/jobs/{id}?wait=5m")).expect(200);
        let jobs: Vec<Value> = jobs.iter().map(|id| ended(id).json()).collect();
        let done = journal.attempts();
        for (index, job) in jobs.iter().enumerate() {
            judge(job, told.get(index), &done, &mut seen);
            history(&server, job["id"].as_str().expect("an id"));
        }
        assert!(answer.code != Some(0) || seen.lost == lost, "lost in good order: {round}");
    }
    server.end();
    let report: Value = serde_json::from_str(
        &Answer::from(place.command(&["verify", "--json"]).output().expect("it runs")).stdout,
    )
    .expect("a report");
    assert_eq!(report["sound"], true, "{report}");
    println!("{} rounds: {seen:?}", rounds());
    assert!(seen.cancelled > 0, "no cancel came in time: {seen:?}");
    assert!(seen.lost > 0, "no second signal came in time: {seen:?}");
}

/// What tasks have written as their last deed.
struct Journal<'p> {
    place: &'p Place,
    name: String,
}

impl Journal<'_> {
    fn len(&self) -> usize {
        self.place.read(&self.name).lines().count()
    }

    /// The attempts in it, each as `JOB TASK NUMBER`, none twice.
    fn attempts(&self) -> BTreeSet<String> {
        let text = self.place.read(&self.name);
        let attempts: BTreeSet<String> = text.lines().map(str::to_owned).collect();
        assert_eq!(attempts.len(), text.lines().count(), "an attempt has ended twice: {text}");
        attempts
    }
}

/// Submits the jobs of a round, and gives their ids.
fn submit(server: &Server, journal: &Journal<'_>, rng: &mut Rng) -> Vec<String> {
    let path = journal.place.path(&journal.name);
    let mut task = |number: usize| {
        let input = json!({"journal": path, "after_ms": rng.u64(..=TASK_MS)});
        json!({"id": format!("t{number}"), "kind": "note", "input": input})
    };
    let mut job = |_| json!({"name": "j", "tasks": (0..TASKS).map(&mut task).collect::<Vec<_>>()});
    let jobs: Vec<Value> = (0..JOBS).map(&mut job).collect();
    let batch = server.post("/api/v1/jobs/batch", &json!({"jobs": jobs})).expect(202).json();
    let items = batch["items"].as_array().expect("a list").iter();
    items.map(|item| item["job"]["id"].as_str().expect("an id").to_owned()).collect()
}

/// Ends a server at a moment that is another in each round, while these jobs are cancelled. Gives
/// what it left as last words, and what was said to each cancel.
fn end(
    server: Server,
    journal: &Journal<'_>,
    jobs: &[String],
    way: Way,
    rng: &mut Rng,
) -> (Answer, Vec<Told>) {
    let moment = rng.usize(..JOBS * TASKS * 3 / 4);
    until("some tasks to be done", || journal.len() >= moment);
    let address = server.address;
    let next = Mutex::new(0..jobs.len());
    let told = Mutex::new(vec![Told::Nothing; jobs.len()]);
    let cancel = || {
        // The lock is given back before the request is sent.
        let take = || next.lock().expect("no client panics").next();
        while let Some(index) = take() {
            let path = format!("/api/v1/jobs/{}/cancel", jobs[index]);
            let Some(reply) = exchange(address, "POST", &path, &[], "") else { continue };
            let heard = match reply.status {
                202 => Told::Cancelled,
                // It had ended, or the server has.
                409 | 503 => Told::Not,
                _ => panic!("{reply:?}"),
            };
            told.lock().expect("no client panics")[index] = heard;
        }
    };
    std::thread::scope(|scope| {
        (0..CLIENTS).for_each(|_| drop(scope.spawn(cancel)));
        server.signal(Signal::TERM);
        if let Some(second) = way.second() {
            let later = journal.len() + rng.usize(..JOBS / 2);
            let is_gone = || exchange(address, "GET", "/livez", &[], "").is_none();
            until("some more to be done", || journal.len() >= later || is_gone());
            server.signal(second);
        }
    });
    (server.wait(), told.into_inner().expect("no client panics"))
}

/// Compares what the next server says of a job with what has happened.
fn judge(job: &Value, told: Option<&Told>, done: &BTreeSet<String>, seen: &mut Seen) {
    let id = job["id"].as_str().expect("an id");
    let status = job["status"].as_str().expect("a status");
    match told {
        Some(Told::Cancelled) => assert_eq!(status, "cancelled", "{job}"),
        Some(Told::Nothing) => assert!(["cancelled", "completed"].contains(&status), "{job}"),
        Some(Told::Not) | None => assert_eq!(status, "completed", "{job}"),
    }
    seen.cancelled += usize::from(told == Some(&Told::Cancelled));
    seen.refused += usize::from(told == Some(&Told::Not));
    seen.unanswered += usize::from(told == Some(&Told::Nothing));
    for task in job["tasks"].as_array().expect("a list") {
        let attempts = task["attempts"].as_array().expect("a list");
        for (index, attempt) in attempts.iter().enumerate() {
            let is_last = index + 1 == attempts.len();
            let name = format!("{id} {} {}", task["id"].as_str().unwrap_or("?"), index + 1);
            match attempt["outcome"].as_str().expect("it is over") {
                "completed" => assert!(is_last && done.contains(&name), "{name}: {task}"),
                "lost" => {
                    seen.lost += 1;
                    seen.done_and_lost += usize::from(done.contains(&name));
                    assert!(!is_last || status == "cancelled", "nothing follows: {task}");
                }
                _ => assert!(status == "cancelled" && !done.contains(&name), "{name}: {task}"),
            }
        }
    }
}

/// A job ends once, last of all, and no task completes twice.
fn history(server: &Server, id: &str) {
    let page = server.get(&format!("/api/v1/jobs/{id}/events?limit=1000")).expect(200).json();
    let mut completed = BTreeSet::new();
    let events = page["items"].as_array().expect("a list");
    let ends = ["JobCompleted", "JobCancelled", "JobFailed"];
    for (event, seq) in events.iter().zip(1..) {
        assert_eq!(event["seq"], seq, "{event}");
        let name = event["type"].as_str().expect("a type");
        assert_eq!(ends.contains(&name), seq == events.len(), "{page}");
        if name == "TaskCompleted" {
            let task = event["data"]["task"].as_str().expect("a task");
            assert!(completed.insert(task), "it completed twice: {page}");
        }
    }
}
