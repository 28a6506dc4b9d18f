//! A client: it drives one job by its script, through as many engines as that takes.

use std::sync::{Arc, Mutex};

use annals_engine::job::{Origin, Recorded};
use annals_engine::runtime::{
    Accepted, CommandError, Engine, EngineError, JobError, JobHandle, Submission, SubmitError,
};
use annals_engine::{Ask, IdempotencyKey};
use annals_tasks_sdk::JobId;

use super::super::support::plan_of;
use super::scripts::{Act, Script, Step};
use super::tasks::Ledger;

/// The engine has died.
#[derive(Debug)]
pub(super) struct Died;

/// How far a client is, and what was acknowledged to it.
pub(super) struct Client {
    pub(super) script: Script,
    pub(super) place: usize,
    pub(super) job: Option<JobId>,
    pub(super) record: Vec<Recorded>,
    /// Whether it sends keys: then it simply asks again when it does not know what became of
    /// what it asked. Others look first.
    pub(super) keyed: bool,
    /// How many commands it had an answer to.
    pub(super) answered: u32,
    /// It has asked something, and has no answer.
    pub(super) unanswered: bool,
}

impl Client {
    pub(super) fn new(script: Script, keyed: bool) -> Self {
        Self {
            script,
            place: 0,
            job: None,
            record: Vec::new(),
            keyed,
            answered: 0,
            unanswered: false,
        }
    }

    /// The key of its submission.
    pub(super) fn key(&self) -> Option<IdempotencyKey> {
        self.keyed.then(|| IdempotencyKey::new("client", "/jobs", self.script.name, b"plan"))
    }

    /// The key of its next command, or of the one that it has no answer to.
    fn key_of_command(&self) -> Option<IdempotencyKey> {
        let name = format!("{} {}", self.script.name, self.answered);
        self.keyed.then(|| IdempotencyKey::new("client", "/jobs/command", &name, b"command"))
    }
}

pub(super) type Shared = Arc<Mutex<Client>>;

fn died(error: EngineError) -> Died {
    match error {
        EngineError::OutcomeUnknown(_) | EngineError::Stopped => Died,
        other => panic!("the wrong answer of a dead engine: {other}"),
    }
}

fn died_of_job(error: JobError) -> Died {
    match error {
        JobError::Engine(error) => died(error),
        other => panic!("{other}"),
    }
}

/// Drives the job to the end of the script, and waits for the job's end where it has one yet.
pub(super) async fn drive(
    client: &Mutex<Client>,
    engine: &Engine,
    ledger: &Ledger,
) -> Result<(), Died> {
    let job = submitted(client, engine).await?;
    loop {
        let now = job.snapshot().await.map_err(died_of_job)?.job;
        let mut change = None;
        let ask = {
            let client = &mut *client.lock().unwrap();
            let again = client.unanswered && client.keyed;
            match client.script.steps.get(client.place) {
                None => break,
                Some(Step { act: Act::Ask(command), .. }) if again => Some(command()),
                Some(Step { done, .. }) if done(&now) => {
                    client.place += 1;
                    continue;
                }
                Some(Step { when, act, .. }) if when(&now) => match act {
                    Act::Ask(command) => Some(command()),
                    Act::Release => {
                        ledger.gate(job.id()).open();
                        client.place += 1;
                        continue;
                    }
                },
                Some(_) => {
                    change = Some(now.seq());
                    None
                }
            }
        };
        if let Some(seq) = change {
            job.changed(seq).await.map_err(died_of_job)?;
        } else if let Some(command) = ask {
            let key = client.lock().unwrap().key_of_command();
            let ask = Ask { origin: Origin::actor("client"), key, ..Ask::default() };
            client.lock().unwrap().unanswered = true;
            let answer = job.command(command, ask).await;
            let client = &mut *client.lock().unwrap();
            match answer {
                Ok(answer) => client.record.extend(answer.events),
                Err(CommandError::Job(error)) => return Err(died_of_job(error)),
                // The job has moved on meanwhile.
                Err(CommandError::Rejected(_)) => {}
                Err(other) => panic!("{other}"),
            }
            (client.unanswered, client.answered) = (false, client.answered + 1);
        }
    }
    if client.lock().unwrap().script.name != "waits" {
        job.ended().await.map_err(died_of_job)?;
    }
    Ok(())
}

/// The client's job: submitted now, or found again where that may have happened before.
async fn submitted(client: &Mutex<Client>, engine: &Engine) -> Result<JobHandle, Died> {
    let (known, key, name, tasks) = {
        let client = client.lock().unwrap();
        (client.job, client.key(), client.script.name, client.script.plan)
    };
    if let Some(job) = known {
        return Ok(engine.job(job));
    }
    let listed = engine.jobs(None, 1000).await.map_err(died)?;
    let found = listed.iter().find(|row| *row.name == *name);
    if let Some(found) = found.filter(|_| key.is_none()) {
        client.lock().unwrap().job = Some(found.job);
        return Ok(engine.job(found.job));
    }
    let start = if name == "manual" { "manual" } else { "now" };
    let plan = plan_of(&format!(r#"{{"name": "{name}", "start": "{start}", "tasks": [{tasks}]}}"#));
    let submission = Submission { key, ..Submission::new(plan, Origin::actor("client")) };
    match engine.accept(submission).await {
        Ok(Accepted { job, replayed, .. }) => {
            assert_eq!(replayed, found.is_some(), "{name}");
            client.lock().unwrap().job = Some(job.id());
            Ok(job)
        }
        // It was there already when the engine died while it was shown.
        Err(SubmitError::Job(error)) => Err(died_of_job(error)),
        Err(SubmitError::Engine(error)) => Err(died(error)),
        Err(other) => panic!("{other}"),
    }
}
