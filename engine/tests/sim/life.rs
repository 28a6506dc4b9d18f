//! The life of an engine: how it is started, and all the ways in which it ends.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use annals_engine::log::{Options, Worked};
use annals_engine::runtime::by_hand::Hands;
use annals_engine::runtime::{EngineError, StartError};
use annals_engine::{Engine, Mode};

use crate::disk::{SimDisk, Wrong};
use crate::levels::Lost;
use crate::profile::Profile;
use crate::tasks::{KIND, LATE_KIND, Work};
use crate::tree::Tree;
use crate::world::World;

/// Where the store lies on the disk. No such folder is on the machine's own.
const STORE: &str = "/a-simulated-disk/store";
const CACHE_BYTES: usize = 1 << 20;
/// For so many hours keys are known: however the clock jumps, none is too old.
const KEY_HOURS: u32 = 1_000_000;

/// An engine that runs.
pub(crate) struct Life {
    pub(crate) engine: Engine,
    pub(crate) hands: Hands,
    pub(crate) stage: Stage,
    /// Whether jobs run.
    pub(crate) mode: Mode,
    /// Whether it has all kinds.
    pub(crate) all_kinds: bool,
    pub(crate) lost: Lost,
    /// Whether jobs may wait to be read.
    pub(crate) may_load: bool,
    /// When the next commit may be made, where something waits for it.
    pub(crate) ready_at: Option<i64>,
    /// Since when nothing was committed.
    pub(crate) idle_since: i64,
}

/// How far the life of an engine is.
#[derive(Clone)]
pub(crate) enum Stage {
    Resuming(Outcome),
    Running,
    Interrupting(Outcome),
    Closing,
    Writing,
    Ended,
}

/// What a future of the engine itself comes to.
#[derive(Clone, Default)]
pub(crate) struct Outcome(Arc<Mutex<Option<Result<(), EngineError>>>>);

impl Outcome {
    fn put(&self, result: Result<(), EngineError>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
    }

    fn take(&self) -> Option<Result<(), EngineError>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Life {
    /// Whether everything that was begun will come to its end.
    pub(crate) fn is_sound(&self) -> bool {
        let goes_on = matches!(self.stage, Stage::Running | Stage::Resuming(_));
        goes_on && self.lost.letters == 0 && self.engine.health().is_ok()
    }
}

impl Life {
    /// Whether all that must happen will.
    pub(crate) fn goes_on(&self) -> bool {
        self.is_sound() && self.mode == Mode::Run && self.all_kinds
    }
}

impl World {
    /// Starts an engine, as often as it takes.
    pub(crate) fn start(&mut self) {
        loop {
            let started = self.try_to_start();
            let dead = self.disk.is_dead();
            match started {
                Ok(life) if !dead => {
                    self.life = Some(life);
                    break;
                }
                // Dropped at once: the power went with the last it did.
                Ok(_) => {}
                Err(error) => {
                    let reason = dead || self.disk.struck() > 0;
                    assert!(reason, "the engine does not start: {error}");
                }
            }
            self.crowd.clear();
            self.count("failed starts");
            let tree = if dead { self.disk.cut() } else { self.disk.after_kill() };
            self.put_in(tree);
        }
        let life = self.life.as_ref().expect("it was started");
        let reader = life.engine.reader();
        let (witness, made) = (&mut self.witness, &self.made);
        self.disk.quietly(|| witness.reread(&*reader, made));
        self.tell_rows();
        self.heard.check(&self.witness);
        let next = self.witness.next();
        let life = self.life.as_ref().expect("it was started");
        let (runs, all_kinds) = (life.mode == Mode::Run, life.all_kinds);
        self.note(format_args!("started at {next:?}, runs: {runs}, all kinds: {all_kinds}"));
        self.count("starts");
        if !runs {
            self.count("starts that run nothing");
        }
    }

    fn try_to_start(&mut self) -> Result<Life, StartError> {
        let calm = *self.calm.borrow();
        let shares = &self.profile.shares;
        let holds = !calm && Profile::falls(shares.holds, &mut self.rng);
        let mode = if holds { Mode::Hold } else { Mode::Run };
        let all_kinds = calm || shares.late_kinds == 0 || self.rng.bool();
        let profile = &self.profile;
        let work = Work {
            seed: self.seed,
            clock: Arc::clone(&self.clock),
            ledger: Arc::clone(&self.ledger),
            calm: self.calm.subscribe(),
        };
        let store = Options {
            roll_bytes: profile.roll_bytes,
            cache_bytes: CACHE_BYTES,
            disk: Some(Arc::new(self.disk.clone())),
            ..Options::default()
        };
        let mut builder = Engine::open(STORE)
            .store(store)
            .mode(mode)
            .allow_unknown_kinds(true)
            .clock(Arc::clone(&self.clock) as _)
            .handler(KIND, Arc::new(work.clone()))
            .loops(profile.loops)
            .slots(profile.slots)
            .views_every(profile.views_every)
            .resident(profile.resident)
            .resting_bytes(profile.resting_bytes)
            .key_hours(KEY_HOURS);
        if all_kinds {
            builder = builder.handler(LATE_KIND, Arc::new(work));
        }
        let (engine, hands) = builder.start_by_hand(Arc::new(self.crowd.clone()))?;
        let (resuming, outcome) = (engine.clone(), Outcome::default());
        let told = outcome.clone();
        self.crowd.enter(async move { told.put(resuming.resume().await) });
        Ok(Life {
            engine,
            hands,
            stage: Stage::Resuming(outcome),
            mode,
            all_kinds,
            lost: Lost::default(),
            may_load: false,
            ready_at: None,
            idle_since: self.clock.passed(),
        })
    }

    /// Drops an engine where it stands, and all that asked it.
    pub(crate) fn drop_life(&mut self) {
        self.check_itself();
        self.crowd.clear();
        for client in &mut self.clients {
            client.hang_up(&mut self.rng);
        }
        self.life = None;
        self.clock.restart();
    }

    /// The engine has found nothing wrong with itself.
    fn check_itself(&self) {
        let Some(life) = &self.life else { return };
        let checks = life.engine.stats().checks;
        assert!(checks.broken_laws.iter().all(|times| *times == 0), "{:?}", life.engine.health());
        let found = (checks.without_reason, checks.tried_again);
        assert!(found == (0, 0) || life.lost.letters > 0, "jobs without a reason: {found:?}");
    }

    /// Puts a disk with these files into the machine, and takes down what the old one did.
    fn put_in(&mut self, tree: Tree) {
        let disk = SimDisk::holding(tree, self.rng.u64(..));
        self.count_faults();
        self.disk = disk;
    }

    /// Takes down what the disk did.
    pub(crate) fn count_faults(&mut self) {
        for (what, times) in self.disk.faults() {
            *self.tally.entry(what).or_default() += times;
        }
    }

    fn go_on_with(&mut self, mut tree: Tree) {
        if Profile::falls(self.profile.shares.lost_views, &mut self.rng) {
            // The views are all that somebody may remove.
            let lost = tree.names.remove(&Path::new(STORE).join("views.redb"));
            if lost.is_some() {
                self.count("views lost");
            }
        }
        self.put_in(tree);
        // Faults may come again while the engine starts.
        if self.profile.rates.power_in_write > 0 && self.rng.u8(..3) == 0 {
            self.disk.arm(Wrong::Power, self.rng.u64(..60));
        } else if self.profile.rates.write_error > 0 && self.rng.u8(..3) == 0 {
            self.disk.arm(Wrong::Once { half: self.rng.bool() }, self.rng.u64(..60));
        } else if self.profile.rates.read_error > 0 && self.rng.u8(..3) == 0 {
            self.disk.arm(Wrong::Read, self.rng.u64(..200));
        }
        self.start();
    }

    /// The power goes, or went while the disk was written.
    pub(crate) fn cut_power(&mut self) {
        let tree = self.disk.cut();
        self.note(format_args!("the power goes"));
        self.drop_life();
        self.go_on_with(tree);
    }

    /// The process is killed: what it has written stays.
    pub(crate) fn kill(&mut self) {
        let tree = self.disk.after_kill();
        self.note(format_args!("the process is killed"));
        self.drop_life();
        self.go_on_with(tree);
    }

    /// Everybody lets go of the engine, which closes its files.
    pub(crate) fn let_go(&mut self) {
        self.note(format_args!("everybody lets go of the engine"));
        self.drop_life();
        if self.disk.is_dead() {
            let tree = self.disk.cut();
            return self.go_on_with(tree);
        }
        let tree = self.disk.after_kill();
        self.go_on_with(tree);
    }

    /// Begins a good end.
    pub(crate) fn shut_down(&mut self) {
        let Some(life) = self.life.as_mut().filter(|life| matches!(life.stage, Stage::Running))
        else {
            return;
        };
        let (engine, outcome) = (life.engine.clone(), Outcome::default());
        let patience = Duration::from_secs([0, 15][self.rng.usize(..2)]);
        life.stage = Stage::Interrupting(outcome.clone());
        self.crowd.enter(async move {
            engine.quiesce_by_hand(patience).await;
            outcome.put(Ok(()));
        });
        self.note(format_args!("the engine is to end, within {patience:?}"));
        self.count("shutdowns");
    }

    /// Sees how far the life of the engine is.
    pub(crate) fn age(&mut self) {
        let Some(life) = &mut self.life else { return };
        match life.stage.clone() {
            Stage::Resuming(outcome) => match outcome.take() {
                None => {}
                Some(Ok(())) => life.stage = Stage::Running,
                Some(Err(error)) => {
                    let ails = self.disk.struck() > 0 || life.lost.letters > 0;
                    assert!(ails, "the engine does not resume: {error}");
                    life.stage = Stage::Ended;
                }
            },
            Stage::Interrupting(outcome) => {
                if outcome.take().is_some() {
                    life.engine.begin_close_by_hand();
                    life.stage = Stage::Closing;
                }
            }
            Stage::Closing => {
                if life.hands.are_over() {
                    let closed = life.engine.end_close_by_hand();
                    assert!(closed.is_ok() || self.disk.struck() > 0, "{closed:?}");
                    life.stage = Stage::Writing;
                }
            }
            Stage::Writing | Stage::Running | Stage::Ended => {}
        }
    }

    /// Makes a commit.
    pub(crate) fn commit(&mut self) {
        let Some(life) = &mut self.life else { return };
        let worked = life.hands.commit();
        (life.ready_at, life.idle_since) = (None, self.clock.passed());
        if worked == Worked::Ended && matches!(life.stage, Stage::Writing) {
            life.stage = Stage::Ended;
        }
        let changes = self.disk.changes();
        self.note(format_args!("commit: {worked:?}, {changes} changes"));
        self.follow();
    }

    fn tell_rows(&mut self) {
        for row in self.witness.fresh() {
            self.note(format_args!("    {row}"));
        }
    }

    /// Reads what has become durable.
    fn follow(&mut self) {
        if self.disk.is_dead() {
            return;
        }
        let Some(life) = &self.life else { return };
        let reader = life.engine.reader();
        let (witness, made) = (&mut self.witness, &self.made);
        if witness.next() < reader.next_position() {
            self.disk.quietly(|| witness.follow(&*reader, made));
            self.tell_rows();
        }
    }
}
