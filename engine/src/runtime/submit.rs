//! Submissions: a plan, or a workflow and an input, becomes a job.

use annals_tasks_sdk::plan::{Plan, PlanErrors};
use annals_tasks_sdk::{JobId, Payload, Workflow};
use serde::Serialize;

use super::engine::{Engine, Shared};
use super::error::SubmitError;
use super::executor::Executor;
use super::handle::{JobHandle, OutputHandle, weight_of_origin};
use super::keys::{Claim, Claimed};
use super::message::{Message, Shows, Snapshot};
use crate::job::{Context, Event, IdempotencyKey, Origin, Submitted, submit};

/// A plan to be run, and where it came from.
#[derive(Debug, Clone)]
pub struct Submission {
    /// What is to be done.
    pub plan: Plan,
    /// The workflow that made the plan.
    pub workflow: Option<Box<str>>,
    /// The file that the plan was read from.
    pub source: Option<Box<str>>,
    /// Who submits it.
    pub origin: Origin,
    /// By what a repeat of the submission is known.
    pub key: Option<IdempotencyKey>,
}

impl Submission {
    /// A plan that comes from nowhere in particular.
    pub fn new(plan: Plan, origin: Origin) -> Self {
        Self { plan, workflow: None, source: None, origin, key: None }
    }
}

/// A submission was accepted; the job is durable.
#[derive(Clone)]
pub struct Accepted {
    /// The job.
    pub job: JobHandle,
    /// The job as its submission has made it, or, where that is a repeat, as it is now.
    pub snapshot: Snapshot,
    /// Whether the submission had been accepted before.
    pub replayed: bool,
}

/// How a submission came to its job.
enum Begun {
    Now(Option<Snapshot>),
    /// By an equal one that came before.
    Before,
}

impl Engine {
    /// Submits a job of a workflow. It is durable when this returns.
    pub async fn submit<I: Serialize, O>(
        &self,
        workflow: Workflow<I, O>,
        input: &I,
    ) -> Result<OutputHandle<O>, SubmitError> {
        let job = self.submit_named(workflow.name(), &Payload::of(input)?).await?;
        Ok(OutputHandle::new(job))
    }

    /// Submits a job of a workflow that is known by name only.
    pub async fn submit_named(
        &self,
        name: &str,
        input: &Payload,
    ) -> Result<JobHandle, SubmitError> {
        let plan = self.plan_of(name, input)?;
        let workflow = Some(name.into());
        let origin = Origin::ENGINE;
        self.submit_plan(Submission { plan, workflow, source: None, origin, key: None }).await
    }

    /// Submits a job. It is durable when this returns.
    pub async fn submit_plan(&self, submission: Submission) -> Result<JobHandle, SubmitError> {
        let (job, begun) = self.begin(submission, Shows::Acceptance).await?;
        if let Begun::Before = begun {
            // It may have been purged since.
            job.snapshot().await?;
        }
        Ok(job)
    }

    /// Submits a job, and shows it. It is durable when this returns.
    ///
    /// Where the submission comes with a key, and one with that key was accepted before, no other
    /// job is made. While an equal one is on its way this waits for it.
    pub async fn accept(&self, submission: Submission) -> Result<Accepted, SubmitError> {
        let (job, begun) = self.begin(submission, Shows::Snapshot).await?;
        let replayed = matches!(begun, Begun::Before);
        let snapshot = match begun {
            Begun::Now(Some(snapshot)) => snapshot,
            Begun::Now(None) | Begun::Before => job.snapshot().await?,
        };
        Ok(Accepted { job, snapshot, replayed })
    }

    async fn begin(
        &self,
        submission: Submission,
        shows: Shows,
    ) -> Result<(JobHandle, Begun), SubmitError> {
        let shared = &self.0.shared;
        let claim = match submission.key {
            None => None,
            Some(key) => match shared.keys.claim(key).await? {
                Claimed::Mine(claim) => Some(claim),
                Claimed::Done(job) => return Ok((self.job(job), Begun::Before)),
            },
        };
        let Submission { plan, workflow, source, origin, .. } = submission;
        let texts = [&workflow, &source].into_iter().flatten();
        let bytes = weight_of_origin(&origin) + texts.map(|text| text.len()).sum::<usize>();
        let limit = shared.settings.limits.payload_bytes;
        if bytes > limit {
            return Err(SubmitError::TooLarge { bytes, limit });
        }
        shared.check_kinds(&plan)?;
        let submitted = Submitted { plan, workflow, source };
        let events = submit(submitted, &shared.settings.limits)?;
        let job = shared.clock.new_id();
        let snapshot = shared.submit(job, events, (origin, claim), shows).await?;
        Ok((self.job(job), Begun::Now(snapshot)))
    }

    /// Finds what [`Engine::submit_plan`] would refuse, and submits nothing.
    pub fn check(&self, plan: &Plan) -> Result<(), PlanErrors> {
        let shared = &self.0.shared;
        shared.check_kinds(plan)?;
        plan.check(&shared.settings.limits)
    }
}

impl Shared {
    /// Begins a job, and has its loop take it over.
    pub(super) async fn submit(
        &self,
        job: JobId,
        events: Vec<Event>,
        (origin, claim): (Origin, Option<Box<Claim>>),
        shows: Shows,
    ) -> Result<Option<Snapshot>, SubmitError> {
        let cx = Context {
            origin,
            key: claim.as_deref().map(|claim| Box::new(claim.key())),
            now: self.clock.now(),
            random: fastrand::f64(),
            losses: self.settings.losses,
            instances: self.settings.limits.instances,
        };
        let executor = Box::new(Executor::begin(job, events, &cx)?);
        self.take_over(executor, claim, shows).await
    }

    /// Has its loop take over a job that was begun.
    pub(super) async fn take_over(
        &self,
        executor: Box<Executor>,
        claim: Option<Box<Claim>>,
        shows: Shows,
    ) -> Result<Option<Snapshot>, SubmitError> {
        let job = executor.job.id();
        let submit = |reply| Message::Submit { executor, claim, shows, reply };
        self.ask(self.home_of(job), submit).await?
    }
}
