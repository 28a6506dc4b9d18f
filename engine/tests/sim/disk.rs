//! The disk of a simulated world: it knows what of it is durable, so that the power may go at any
//! operation, and fails when it is told to.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;

use fastrand::Rng;

use crate::face::{InMemory, Medium};
use crate::images::{LOSSES, Loss, Power};
use crate::tree::{Change, Tree};

/// What the system says of a full disk, a quota, and a broken disk.
const ERRNOS: [i32; 3] = [28, 122, 5];

/// What is to go wrong with an operation that is so many changes, or reads, away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// It fails once, after a half of it, if it is a write and `half` says so.
    Once { half: bool },
    /// It fails, and so do all that change something after it.
    ForEver { half: bool },
    /// A read fails once.
    Read,
    /// From there on no file grows and none is made.
    Full,
    /// The power goes.
    Power,
}

impl Wrong {
    /// What it is called where it is counted.
    fn name(self) -> &'static str {
        match self {
            Self::Once { half: false } => "disk: a write failed once",
            Self::Once { half: true } => "disk: a write failed once, half done",
            Self::ForEver { half: false } => "disk: writes failed for ever",
            Self::ForEver { half: true } => "disk: writes failed for ever, the first half done",
            Self::Read => "disk: a read failed",
            Self::Full => "disk: it was full",
            Self::Power => "disk: the power went in a write or sync",
        }
    }
}

pub(crate) struct State {
    tree: Tree,
    power: Power,
    locked: BTreeSet<PathBuf>,
    random: Rng,
    wrong: Option<(Wrong, u64)>,
    health: Health,
    /// What was durable when the power went.
    image: Option<Tree>,
    struck: u64,
    /// How often what has struck first.
    faults: BTreeMap<&'static str, u64>,
    changes: u64,
    /// While somebody looks who must not disturb.
    quiet: bool,
}

/// What can still be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Health {
    Sound,
    /// No file grows, and none is made.
    Full,
    /// Nothing can be changed.
    Broken,
    /// The power is gone.
    Dead,
}

/// The disk. Clones are the same disk.
pub(crate) type SimDisk = InMemory<State>;

impl SimDisk {
    /// A disk with something durable on it.
    pub(crate) fn holding(tree: Tree, seed: u64) -> Self {
        Self::of(State {
            power: Power::on(tree.clone()),
            tree,
            locked: BTreeSet::new(),
            random: Rng::with_seed(seed),
            wrong: None,
            health: Health::Sound,
            image: None,
            struck: 0,
            faults: BTreeMap::new(),
            changes: 0,
            quiet: false,
        })
    }

    /// Has something go wrong `ahead` operations from now.
    pub(crate) fn arm(&self, wrong: Wrong, ahead: u64) {
        self.state().wrong = Some((wrong, ahead));
    }

    /// Has nothing go wrong that has not yet, and ends what lasts.
    pub(crate) fn heal(&self) {
        let mut state = self.state();
        state.wrong = None;
        if state.health != Health::Dead {
            state.health = Health::Sound;
        }
    }

    /// How many operations have failed.
    pub(crate) fn struck(&self) -> u64 {
        self.state().struck
    }

    /// What has gone wrong, how often.
    pub(crate) fn faults(&self) -> BTreeMap<&'static str, u64> {
        self.state().faults.clone()
    }

    /// How many changes there were.
    pub(crate) fn changes(&self) -> u64 {
        self.state().changes
    }

    /// Whether the power has gone.
    pub(crate) fn is_dead(&self) -> bool {
        self.state().health == Health::Dead
    }

    /// Has nothing that is done meanwhile count, or go wrong.
    pub(crate) fn quietly<T>(&self, look: impl FnOnce() -> T) -> T {
        self.state().quiet = true;
        let seen = look();
        self.state().quiet = false;
        seen
    }

    /// The power goes now, if it has not yet. Gives what is on the disk then.
    pub(crate) fn cut(&self) -> Tree {
        let mut state = self.state();
        state.cut(None);
        state.image.take().expect("it was just taken")
    }

    /// What is on it when only the process ends.
    pub(crate) fn after_kill(&self) -> Tree {
        let mut state = self.state();
        state.cut(Some(Loss::Nothing));
        state.image.take().expect("it was just taken")
    }
}

fn error() -> io::Error {
    io::Error::from_raw_os_error(ERRNOS[2])
}

impl State {
    fn cut(&mut self, loss: Option<Loss>) {
        if std::mem::replace(&mut self.health, Health::Dead) != Health::Dead {
            let loss = loss.unwrap_or_else(|| LOSSES[self.random.usize(..LOSSES.len())]);
            self.image = Some(self.power.cut(loss, &mut self.random));
        }
    }

    /// Counts down to what is to go wrong.
    fn due(&mut self, reads: bool) -> Option<Wrong> {
        let (wrong, ahead) = self.wrong.as_mut()?;
        if reads != (*wrong == Wrong::Read) {
            return None;
        }
        if *ahead > 0 {
            *ahead -= 1;
            return None;
        }
        let (wrong, _) = self.wrong.take()?;
        *self.faults.entry(wrong.name()).or_default() += 1;
        Some(wrong)
    }

    fn grows(&self, change: &Change) -> bool {
        match change {
            Change::SetSize { file, size } => *size > self.tree.files[*file].len(),
            Change::Make { .. } | Change::MakeFolder { .. } => true,
            _ => false,
        }
    }

    fn apply(&mut self, change: &Change) {
        self.tree.apply(change);
        self.power.step(change);
    }
}

impl Medium for State {
    fn tree(&self) -> &Tree {
        &self.tree
    }

    fn locked(&mut self) -> &mut BTreeSet<PathBuf> {
        &mut self.locked
    }

    fn reads(&mut self) -> io::Result<()> {
        if self.health == Health::Dead {
            return Err(error());
        }
        if !self.quiet && self.due(true).is_some() {
            self.struck += 1;
            return Err(error());
        }
        Ok(())
    }

    fn change(&mut self, change: &Change) -> io::Result<()> {
        let dead = self.health == Health::Dead;
        if dead || (self.health == Health::Broken && !self.quiet) {
            self.struck += 1;
            return Err(error());
        }
        if self.quiet {
            self.apply(change);
            return Ok(());
        }
        self.changes += 1;
        match self.due(false) {
            Some(Wrong::Power) => {
                if self.random.bool() {
                    // It may have been under way.
                    self.apply(change);
                }
                self.cut(None);
                return Err(error());
            }
            Some(wrong @ (Wrong::Once { half } | Wrong::ForEver { half })) => {
                self.struck += 1;
                if matches!(wrong, Wrong::ForEver { .. }) {
                    self.health = Health::Broken;
                }
                if half && matches!(change, Change::Write { .. }) {
                    self.apply(&change.half());
                }
                let errno = ERRNOS[self.random.usize(..ERRNOS.len())];
                return Err(io::Error::from_raw_os_error(errno));
            }
            Some(Wrong::Full) => self.health = Health::Full,
            Some(Wrong::Read) | None => {}
        }
        if self.health == Health::Full && self.grows(change) {
            self.struck += 1;
            return Err(io::Error::from_raw_os_error(ERRNOS[0]));
        }
        self.apply(change);
        Ok(())
    }
}
