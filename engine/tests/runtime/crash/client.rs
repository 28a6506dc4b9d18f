//! A client: it drives one job by its script, through as many engines as that takes.

use std::sync::{Arc, Mutex};

use annals_engine::Ask;
use annals_engine::job::{Origin, Recorded};
use annals_engine::runtime::{
    CommandError, Engine, EngineError, JobError, JobHandle, Submission, SubmitError,
};
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
            match client.script.steps.get(client.place) {
                None => break,
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
            let ask = Ask { origin: Origin::actor("client"), ..Ask::default() };
            match job.command(command, ask).await {
                Ok(answer) => client.lock().unwrap().record.extend(answer.events),
                Err(CommandError::Job(error)) => return Err(died_of_job(error)),
                // The job has moved on meanwhile.
                Err(CommandError::Rejected(_)) => {}
                Err(other) => panic!("{other}"),
            }
        }
    }
    if client.lock().unwrap().script.name != "waits" {
        job.ended().await.map_err(died_of_job)?;
    }
    Ok(())
}

/// The client's job: submitted now, or found again where that may have happened before.
async fn submitted(client: &Mutex<Client>, engine: &Engine) -> Result<JobHandle, Died> {
    let (known, name, tasks) = {
        let client = client.lock().unwrap();
        (client.job, client.script.name, client.script.plan)
    };
    if let Some(job) = known {
        return Ok(engine.job(job));
    }
    let listed = engine.jobs(None, 1000).await.map_err(died)?;
    if let Some(found) = listed.iter().find(|row| *row.name == *name) {
        client.lock().unwrap().job = Some(found.job);
        return Ok(engine.job(found.job));
    }
    let start = if name == "manual" { "manual" } else { "now" };
    let plan = plan_of(&format!(r#"{{"name": "{name}", "start": "{start}", "tasks": [{tasks}]}}"#));
    let submission = Submission::new(plan, Origin::actor("client"));
    match engine.submit_plan(submission).await {
        Ok(job) => {
            client.lock().unwrap().job = Some(job.id());
            Ok(job)
        }
        Err(SubmitError::Engine(error)) => Err(died(error)),
        Err(other) => panic!("{other}"),
    }
}
