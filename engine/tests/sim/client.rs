//! Clients: they ask, wait, ask the same again, and vanish.

use std::collections::BTreeMap;

use annals_engine::Submission;
use annals_engine::job::{Job, Origin};
use annals_tasks_sdk::JobId;
use fastrand::Rng;

use crate::heard::Hearing;
use crate::jobs::make;
use crate::life::Life;
use crate::request::{From, Letterbox, On, Request, Wish, ask};
use crate::world::World;

/// Who has not heard for so long has given up, in milliseconds.
const PATIENCE: i64 = 60_000;

/// A client.
#[derive(Default)]
pub(crate) struct Client {
    waiting: Option<Waiting>,
    /// What it has had no answer to and will ask again.
    again: Option<Request>,
    /// When it asks for something next.
    pub(crate) wakes: i64,
}

struct Waiting {
    member: u64,
    request: Request,
    reply: Letterbox,
    since: i64,
    /// How far each job was that anybody had heard of when it asked.
    seen: BTreeMap<JobId, u64>,
}

impl Client {
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// Hears no more of what it waits for. Gives who asked for it.
    pub(crate) fn hang_up(&mut self, rng: &mut Rng) -> Option<u64> {
        let Waiting { member, request, .. } = self.waiting.take()?;
        if request.may_be_repeated() && rng.u8(..4) > 0 {
            self.again = Some(request);
        }
        Some(member)
    }
}

/// How many tasks a job has, or had.
fn tasks_of(job: &Job) -> usize {
    job.purged().map_or(job.tasks().len(), |tombstone| tombstone.purged.tasks as usize)
}

impl World {
    /// Has a client ask for something.
    pub(crate) fn ask(&mut self, client: usize) {
        let request = match self.clients[client].again.take() {
            Some(request) => request,
            None => self.any_request(),
        };
        if self.rng.u8(..4) == 0 && request.may_be_repeated() {
            // Another one asks for the same at the same time.
            let other = self.rng.usize(..self.clients.len());
            if other != client && !self.clients[other].is_waiting() {
                self.clients[other].again = Some(request.clone());
                self.clients[other].wakes = self.clock.passed();
            }
        }
        self.send(client, request);
    }

    /// Mostly a new one. One that was used before comes with another request now.
    fn any_key(&mut self) -> u64 {
        if self.rng.u8(..16) == 0 && !self.keys.is_empty() {
            let key = self.keys[self.rng.usize(..self.keys.len())];
            self.heard.reused.insert(key);
            return key;
        }
        let key = self.rng.u64(..);
        self.keys.push(key);
        key
    }

    fn any_request(&mut self) -> Request {
        let key = (self.rng.u8(..3) > 0).then(|| self.any_key());
        let known = &self.heard.jobs;
        if known.is_empty() || (self.made.len() < self.profile.jobs && self.rng.bool()) {
            let made = self.made.len();
            let plan = make(&mut self.rng, &self.made, self.profile.shares.late_kinds);
            self.made.push(plan);
            let request = Request::Submit { made, key };
            if key.is_some() {
                self.submitted.push(request.clone());
            }
            return request;
        }
        if self.rng.u8(..24) == 0 && !self.submitted.is_empty() {
            // Long after the answer, if there was one: the job may have been purged.
            return self.submitted[self.rng.usize(..self.submitted.len())].clone();
        }
        let children = self.witness.children();
        let at = self.rng.usize(..known.len() + children.len());
        let job = *known.get(at).unwrap_or_else(|| &children[at - known.len()]);
        match self.rng.u8(..21) {
            20 if known.len() < 2 * self.profile.jobs => {
                let (seq, len) = {
                    let job = &self.witness.jobs[&job].job;
                    (job.seq(), tasks_of(job))
                };
                let from = if self.rng.bool() {
                    From::Task(self.rng.usize(..len))
                } else {
                    From::Seq(self.rng.u64(1..=seq))
                };
                let edits = self.rng.u8(..3) == 0;
                // A task that is put in has the next number of those that there were then.
                let len = match from {
                    From::Task(_) => len,
                    From::Seq(seq) => tasks_of(&self.witness.jobs[&job].at(seq)),
                };
                let edit = edits.then(|| Wish::any_edit(&mut self.rng, len));
                Request::Fork { job, from, edit, key }
            }
            0..12 => {
                let dry_run = self.rng.u8(..12) == 0;
                let (seq, len) = {
                    let job = &self.witness.jobs[&job].job;
                    (job.seq(), tasks_of(job))
                };
                let seq = (self.rng.u8(..8) == 0).then_some(seq);
                let on = On { key: key.filter(|_| !dry_run), seq, dry_run };
                Request::Command { job, wish: Wish::any(&mut self.rng, len), on }
            }
            12..15 => Request::Snapshot(job),
            15 => Request::Changed(job, self.witness.jobs[&job].job.seq()),
            16 => Request::Ended(job),
            17 => Request::History(job),
            18 => Request::Log { after: self.rng.u64(..self.witness.next().0) },
            _ => Request::List { known: known.len() },
        }
    }

    /// Sends a request for a client.
    pub(crate) fn send(&mut self, client: usize, request: Request) {
        let Some(life) = &self.life else { return };
        let plan = match &request {
            Request::Submit { made, .. } => {
                Some(Submission::new(self.made[*made].plan.clone(), Origin::actor("sim")))
            }
            _ => None,
        };
        let (reply, since) = (Letterbox::default(), self.clock.passed());
        let seen = self.heard.seen.clone();
        let asking = ask(life.engine.clone(), request.clone(), plan, reply.clone());
        let member = self.crowd.enter(asking);
        self.note(format_args!("client {client} asks: {request:?}"));
        self.clients[client].waiting = Some(Waiting { member, request, reply, since, seen });
        self.count("requests");
    }

    /// Hears what has come back, and gives up on what does not.
    pub(crate) fn hear(&mut self) {
        let ails = self.disk.struck() > 0 || !self.life.as_ref().is_some_and(Life::is_sound);
        let now = self.clock.passed();
        for client in 0..self.clients.len() {
            let Some(waiting) = &self.clients[client].waiting else { continue };
            if let Some(reply) = waiting.reply.take() {
                let (request, seen) = (waiting.request.clone(), waiting.seen.clone());
                self.note(format_args!("client {client} hears"));
                let around = Hearing { witness: &self.witness, seen: &seen, ails };
                self.heard.hear(&request, reply, &around);
                let pause = self.rng.i64(..=self.profile.pause);
                let client = &mut self.clients[client];
                (client.waiting, client.wakes) = (None, now + pause);
            } else if now - waiting.since > PATIENCE {
                self.vanish(client);
            }
        }
    }

    /// A client goes away and does not wait any more.
    pub(crate) fn vanish(&mut self, client: usize) {
        if let Some(member) = self.clients[client].hang_up(&mut self.rng) {
            self.crowd.vanish(member);
            self.note(format_args!("client {client} vanishes"));
            self.count("clients that vanished");
        }
    }
}
