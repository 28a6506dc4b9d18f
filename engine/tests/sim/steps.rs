//! Steps: what may happen next, and what must hold after it.

use crate::explained;
use crate::levels::{self, Around};
use crate::life::Stage;
use crate::profile::Profile;
use crate::world::World;

/// After so long without a commit the writer does its idle work, in milliseconds.
const IDLE: i64 = 1_000;

/// What may happen next.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Action {
    Turn(usize),
    Commit,
    View,
    Load,
    Poll,
    Block,
    Ask(usize),
    /// So much time passes, in milliseconds.
    Pass(i64),
    /// The same, since nothing else can happen.
    Wait(i64),
    /// An engine that goes on no more is started anew.
    Anew,
}

impl World {
    /// What happens next. None where nothing can happen any more.
    pub(crate) fn choose(&mut self) -> Option<Action> {
        let now = self.clock.passed();
        let mut all: Vec<(Action, u32)> = Vec::new();
        let mut next = self.clock.next_sleeper();
        let mut at = |time: i64| next = Some(next.map_or(time, |next| next.min(time)));
        if let Some(life) = &mut self.life {
            for home in 0..life.hands.loops() {
                let due = life.hands.next_due(home).map(|due| self.clock.until(due));
                if life.hands.mail(home).next().is_some() || due.is_some_and(|due| due <= 0) {
                    all.push((Action::Turn(home), 6));
                } else if let Some(due) = due {
                    at(now + due);
                }
            }
            if life.hands.may_commit() {
                let slow = self.profile.slow;
                let ready = *life.ready_at.get_or_insert_with(|| now + self.rng.i64(..=slow));
                if ready <= now { all.push((Action::Commit, 6)) } else { at(ready) }
            }
            if life.hands.may_view() {
                all.push((Action::View, 3));
            }
            if life.may_load {
                all.push((Action::Load, 3));
            }
            let calm = *self.calm.borrow();
            let anew = !life.is_sound() || (!life.goes_on() && self.rng.u8(..32) == 0);
            // A fault of the time before may be noticed only now.
            let ends = !matches!(life.stage, Stage::Running | Stage::Resuming(_));
            let is_hurt = !life.is_sound() && !ends && self.disk.struck() > 0;
            if (anew && !calm) || is_hurt {
                all.push((Action::Anew, 1));
            }
        }
        if !self.crowd.ready().is_empty() {
            all.push((Action::Poll, 8));
        }
        if self.crowd.blocking() > 0 {
            all.push((Action::Block, 4));
        }
        if self.is_running() && !*self.calm.borrow() {
            for (number, client) in self.clients.iter().enumerate() {
                if client.is_waiting() {
                    continue;
                }
                if client.wakes <= now {
                    all.push((Action::Ask(number), 2));
                } else {
                    at(client.wakes);
                }
            }
        }
        let ahead = next.map(|next| (next - now).max(1));
        match ahead {
            Some(ahead) if all.is_empty() => return Some(Action::Wait(ahead)),
            Some(ahead) => all.push((Action::Pass(ahead.min(self.rng.i64(1..=20))), 1)),
            None => {}
        }
        let mut drawn = self.rng.u32(..all.iter().map(|(_, weight)| weight).sum::<u32>().max(1));
        all.into_iter().find_map(|(action, weight)| {
            if drawn < weight {
                return Some(action);
            }
            drawn -= weight;
            None
        })
    }

    pub(crate) fn perform(&mut self, action: Action) {
        match action {
            Action::Turn(home) => self.turn(home),
            Action::Commit => self.commit(),
            Action::View => {
                let Some(life) = &mut self.life else { return };
                life.hands.view();
                let changes = self.disk.changes();
                self.note(format_args!("views: {changes} changes"));
            }
            Action::Load => {
                let Some(life) = &mut self.life else { return };
                life.may_load = life.hands.load();
                let loaded = life.may_load;
                self.note(format_args!("load: {loaded}"));
            }
            Action::Poll => {
                let ready = self.crowd.ready();
                let member = ready[self.rng.usize(..ready.len())];
                let over = self.crowd.poll(member);
                self.note(format_args!("poll {member}: {over}"));
            }
            Action::Block => {
                self.crowd.block_next();
                self.note(format_args!("something blocks"));
            }
            Action::Ask(client) => self.ask(client),
            Action::Pass(span) => self.pass(span),
            Action::Wait(span) => {
                self.explain_all();
                self.pass(span);
            }
            Action::Anew => {
                let ways = [Self::cut_power, Self::kill, Self::let_go];
                ways[self.rng.usize(..ways.len())](self);
            }
        }
    }

    fn turn(&mut self, home: usize) {
        let few = Profile::falls(self.profile.shares.small_turns, &mut self.rng);
        let most = if few { self.rng.usize(1..4) } else { usize::MAX };
        let Some(life) = &mut self.life else { return };
        let letters = life.hands.mail(home).count();
        life.hands.turn(home, most);
        life.may_load = true;
        self.note(format_args!("turn of loop {home}: {} of {letters}", most.min(letters)));
        let Some(life) = &mut self.life else { return };
        let around = Around {
            witness: &self.witness,
            attempts: self.crowd.attempts(),
            lost: life.lost,
            all_kinds: life.all_kinds,
            ends: !matches!(life.stage, Stage::Running | Stage::Resuming(_)),
        };
        levels::check(&mut life.hands, &around);
    }

    /// While nothing can happen the engine has a reason for every open job.
    fn explain_all(&mut self) {
        let Some(life) = &mut self.life else { return };
        if !matches!(life.stage, Stage::Running) || life.lost.letters > 0 {
            return;
        }
        let told = explained::check(&mut life.hands, &self.witness, life.mode);
        *self.tally.entry("explanations").or_default() += told;
    }

    fn pass(&mut self, span: i64) {
        self.clock.pass(span);
        self.note(format_args!("{span} ms pass"));
        let Some(life) = &mut self.life else { return };
        if !life.hands.may_commit() && self.clock.passed() - life.idle_since >= IDLE {
            life.hands.idle();
            life.idle_since = self.clock.passed();
        }
    }

    /// What must hold after every step.
    pub(crate) fn after_step(&mut self) {
        assert!(self.ledger.inside() <= self.profile.slots, "more attempts than slots");
        for step in self.ledger.steps() {
            self.witness.check_step(&step);
        }
        for call in self.ledger.calls() {
            self.witness.check_call(&call);
            self.heard.check_call(&call, &self.witness);
            self.count("attempts");
        }
        if self.disk.is_dead() {
            return self.cut_power();
        }
        self.age();
        self.hear();
        let ended = self.life.as_ref().is_some_and(|life| matches!(life.stage, Stage::Ended));
        if ended && Profile::strikes(16_384, &mut self.rng) && !*self.calm.borrow() {
            self.kill();
        }
    }
}
