//! What sort of world a seed makes: which faults there are in it, how often, and how the engine is
//! set up. Most worlds lack most faults, so that each is seen without the others, too.

use fastrand::Rng;

/// What a world is like. Rates are in steps of 65,536.
#[derive(Debug, Clone)]
pub(crate) struct Profile {
    pub(crate) loops: usize,
    pub(crate) slots: usize,
    pub(crate) clients: usize,
    /// No more jobs than these are asked for.
    pub(crate) jobs: usize,
    /// How many steps there are before the faults stop.
    pub(crate) steps: u32,
    pub(crate) views_every: u64,
    pub(crate) resident: usize,
    pub(crate) resting_bytes: usize,
    pub(crate) roll_bytes: u64,
    /// How long clients wait between two requests at most, in milliseconds.
    pub(crate) pause: i64,
    /// How long a commit may take on a slow disk, in milliseconds.
    pub(crate) slow: i64,
    pub(crate) shares: Shares,
    pub(crate) rates: Rates,
}

/// In so many of 16 cases, mostly in none.
#[derive(Debug, Clone)]
pub(crate) struct Shares {
    /// A turn takes few messages.
    pub(crate) small_turns: u8,
    /// A task is of a kind that half of the engines lack.
    pub(crate) late_kinds: u8,
    /// An engine runs nothing.
    pub(crate) holds: u8,
    /// The file of the views is gone at a start.
    pub(crate) lost_views: u8,
}

impl Shares {
    fn of(rng: &mut Rng) -> Self {
        Self {
            small_turns: [0, 4][rng.usize(..2)],
            late_kinds: [3, 0, 0, 0][rng.usize(..4)],
            holds: [5, 0, 0, 0, 0, 0][rng.usize(..6)],
            lost_views: [2, 0, 0, 0, 0, 0][rng.usize(..6)],
        }
    }
}

/// How often what goes wrong.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rates {
    pub(crate) power: u32,
    pub(crate) power_in_write: u32,
    pub(crate) kill: u32,
    pub(crate) shutdown: u32,
    pub(crate) write_error: u32,
    pub(crate) read_error: u32,
    pub(crate) full: u32,
    pub(crate) jump: u32,
    pub(crate) lose: u32,
    pub(crate) double: u32,
    pub(crate) put_off: u32,
    pub(crate) stale_report: u32,
    pub(crate) vanish: u32,
}

impl Profile {
    pub(crate) fn of(rng: &mut Rng) -> Self {
        let mut rate = |most: u32| if rng.u8(..3) == 0 { rng.u32(1..most) } else { 0 };
        let mut rates = Rates {
            power: rate(400),
            power_in_write: rate(600),
            kill: rate(300),
            shutdown: rate(300),
            write_error: rate(500),
            read_error: rate(500),
            full: rate(700),
            jump: rate(400),
            lose: rate(200),
            double: rate(4_000),
            put_off: rate(4_000),
            stale_report: rate(4_000),
            vanish: rate(2_000),
        };
        if rng.u8(..12) == 0 {
            // So often that engines die again and again under the same tasks.
            rates.kill = 4_000;
        }
        let large = rng.u8(..24) == 0;
        let mut profile = Self {
            loops: [1, 1, 1, 2, 3][rng.usize(..5)],
            slots: [1, 2, 3, 8][rng.usize(..4)],
            clients: rng.usize(1..6),
            jobs: if large { 60 } else { [1, 2, 4, 10][rng.usize(..4)] },
            steps: if large { 4_000 } else { [150, 400, 1_000, 2_000][rng.usize(..4)] },
            views_every: [5, 20, 100, 1_000_000][rng.usize(..4)],
            resident: [0, 1, 1_000][rng.usize(..3)],
            resting_bytes: [0, 1 << 20][rng.usize(..2)],
            roll_bytes: [4_000, 30_000, 1 << 30][rng.usize(..3)],
            pause: [1, 200, 5_000][rng.usize(..3)],
            slow: if rng.u8(..4) == 0 { [20, 2_000][rng.usize(..2)] } else { 0 },
            shares: Shares::of(rng),
            rates,
        };
        if rng.u8(..8) == 0 {
            profile.crowd(rng);
        }
        profile
    }

    /// Many clients want this and that of one or two jobs while each commit takes its time.
    fn crowd(&mut self, rng: &mut Rng) {
        (self.clients, self.jobs) = (rng.usize(6..16), rng.usize(1..3));
        (self.pause, self.slow) = (1, 2_000);
    }

    /// Whether a share of 16 says so.
    pub(crate) fn falls(share: u8, rng: &mut Rng) -> bool {
        share > 0 && rng.u8(..16) < share
    }

    /// Whether a rate strikes.
    pub(crate) fn strikes(rate: u32, rng: &mut Rng) -> bool {
        rate > 0 && rng.u32(..65_536) < rate
    }
}
