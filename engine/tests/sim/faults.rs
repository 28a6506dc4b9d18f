//! Faults: what goes wrong between two steps, and how often.

use annals_engine::job::{LogSize, Outcome, Report};
use annals_engine::runtime::by_hand::Letter;
use annals_tasks_sdk::{Done, Exit, Payload};

use crate::disk::Wrong;
use crate::profile::Profile;
use crate::world::World;

/// How far ahead something goes wrong with the disk at most, in operations.
const AHEAD: u64 = 40;
/// The clock is set by so much at most, in milliseconds.
const JUMP_MAX: i64 = 2 * 3_600_000;

impl World {
    fn strikes(&mut self, rate: u32) -> bool {
        Profile::strikes(rate, &mut self.rng)
    }

    /// Has things go wrong, at the rates of the profile.
    pub(crate) fn go_wrong(&mut self) {
        let rates = self.profile.rates.clone();
        if self.strikes(rates.power) {
            self.count("the power goes");
            self.cut_power();
        }
        if self.strikes(rates.kill) {
            self.count("kills");
            if self.rng.u8(..4) == 0 { self.let_go() } else { self.kill() }
        }
        if self.strikes(rates.shutdown) {
            self.shut_down();
        }
        if self.strikes(rates.power_in_write) {
            self.arm(Wrong::Power);
        }
        if self.strikes(rates.write_error) {
            let half = self.rng.bool();
            let wrong =
                if self.rng.bool() { Wrong::Once { half } } else { Wrong::ForEver { half } };
            self.arm(wrong);
        }
        if self.strikes(rates.read_error) {
            self.arm(Wrong::Read);
        }
        if self.strikes(rates.full) {
            self.arm(Wrong::Full);
        }
        if self.strikes(rates.jump) {
            let most = [2_000, JUMP_MAX][self.rng.usize(..2)];
            let by = self.rng.i64(-most..=most);
            self.clock.jump(by);
            self.note(format_args!("the wall clock jumps by {by} ms"));
            self.count("clock jumps");
        }
        if self.strikes(rates.vanish) {
            let client = self.rng.usize(..self.clients.len());
            self.vanish(client);
        }
        if self.strikes(rates.stale_report) {
            self.report_again();
        }
        self.trick();
    }

    fn arm(&mut self, wrong: Wrong) {
        let ahead = self.rng.u64(..AHEAD);
        self.disk.arm(wrong, ahead);
        self.note(format_args!("{wrong:?} after {ahead} operations"));
    }

    /// An attempt that is over reports once more.
    fn report_again(&mut self) {
        let known: Vec<_> = self.witness.jobs.values().map(|known| &known.job).collect();
        if known.is_empty() {
            return;
        }
        let job = known[self.rng.usize(..known.len())];
        let over = job.tasks().flat_map(|(number, task)| {
            let over = task.attempts().iter().filter(|attempt| attempt.finished.is_some());
            over.map(move |attempt| (number, attempt.number))
        });
        let over: Vec<_> = over.collect();
        if over.is_empty() {
            return;
        }
        let (task, attempt) = over[self.rng.usize(..over.len())];
        let done = Done { output: Payload::trusted("false"), exit: Exit::default() };
        let (outcome, log) = (Outcome::Completed(done), LogSize::default());
        let id = job.id();
        if let Some(life) = &self.life {
            life.hands.report(id, Report::Ended { task, attempt, outcome, log });
        }
        self.note(format_args!("{task:?}#{attempt} of {id} reports again"));
        self.count("late reports");
    }

    /// What the engine tells itself is lost, comes twice, or comes late.
    fn trick(&mut self) {
        let rates = &self.profile.rates;
        let tricks = [
            (Trick::Lose, rates.lose),
            (Trick::Double, rates.double),
            (Trick::PutOff, rates.put_off),
        ];
        for (trick, rate) in tricks {
            if Profile::strikes(rate, &mut self.rng) {
                self.tricks.push(trick);
            }
        }
        let Some(life) = &mut self.life else { return };
        let Some(&trick) = self.tricks.last() else { return };
        // It waits for a letter that it can be played with.
        let home = self.rng.usize(..life.hands.loops());
        let mail: Vec<Letter> = life.hands.mail(home).collect();
        let fit: Vec<usize> = (0..mail.len()).filter(|&at| trick.fits(&mail, at)).collect();
        if fit.is_empty() {
            return;
        }
        self.tricks.pop();
        let at = fit[self.rng.usize(..fit.len())];
        let what = match trick {
            Trick::Lose => {
                life.hands.lose(home, at);
                life.lost.letters += 1;
                "letters lost"
            }
            Trick::Double => {
                life.hands.double(home, at);
                "letters doubled"
            }
            Trick::PutOff => {
                life.hands.put_off(home, at);
                "letters put off"
            }
        };
        self.note(format_args!("{what}: {:?}", mail[at]));
        self.count(what);
    }
}

/// What may happen to a letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trick {
    Lose,
    Double,
    PutOff,
}

impl Trick {
    /// Whether it can be played with a letter.
    fn fits(self, mail: &[Letter], at: usize) -> bool {
        let letter = mail[at];
        match self {
            Self::Lose => letter != Letter::Request,
            Self::Double => matches!(letter, Letter::Durable | Letter::Look),
            // Each sender's letters come in their order.
            Self::PutOff => {
                let of_its_own = [Letter::Durable, Letter::Granted, Letter::Turn, Letter::Loaded];
                of_its_own.contains(&letter) && !mail[at + 1..].contains(&letter)
            }
        }
    }
}
