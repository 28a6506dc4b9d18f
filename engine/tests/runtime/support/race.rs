//! Races of two sides that are kept even.
//!
//! A race that one side always wins shows nothing. So the side that has won begins later the next
//! time, however fast the machine is, and each must win its share.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How many times each race is run: `ANNALS_RACE_ROUNDS`, or few.
pub(crate) fn rounds() -> u32 {
    let rounds = std::env::var("ANNALS_RACE_ROUNDS").ok().and_then(|text| text.parse().ok());
    rounds.unwrap_or(100)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    One,
    Other,
}

/// Lets two sides loose on each other, and gives whoever has lost a start.
#[derive(Debug)]
pub(crate) struct Race {
    /// How much later `One` begins than `Other`, in microseconds.
    lag: i64,
    /// What that changes by next: twice as much each time that the same side wins again.
    step: i64,
    winner: Option<Side>,
    wins: [u32; 2],
}

impl Race {
    pub(crate) fn new() -> Self {
        Self { lag: 0, step: 1, winner: None, wins: [0; 2] }
    }

    /// Runs both, each on a thread of its own where there are two.
    pub(crate) async fn run<A, B>(
        &self,
        one: impl Future<Output = A> + Send + 'static,
        other: impl Future<Output = B> + Send + 'static,
    ) -> (A, B)
    where
        A: Send + 'static,
        B: Send + 'static,
    {
        let ready = Arc::new(AtomicUsize::new(0));
        let one = tokio::spawn(late(self.lag, Arc::clone(&ready), one));
        let other = tokio::spawn(late(-self.lag, ready, other));
        (one.await.expect("it does not panic"), other.await.expect("it does not panic"))
    }

    pub(crate) fn won(&mut self, side: Side) {
        self.wins[side as usize] += 1;
        let again = self.winner.replace(side) == Some(side);
        self.step = if again { self.step * 2 } else { self.step / 4 };
        // A round in which the machine was busy with something else is not to tip the balance.
        self.step = self.step.clamp(1, 20_000);
        self.lag += if side == Side::One { self.step } else { -self.step };
    }

    /// Makes sure that both sides have won, and not once in a blue moon.
    pub(crate) fn was_even(&self, name: &str) {
        let [one, other] = self.wins;
        println!("{name}: {one} to {other}");
        assert!(one.min(other) > (one + other) / 20, "{name} is no race: {self:?}");
    }
}

/// Does something once both sides are ready, and so many microseconds later.
async fn late<T>(lag: i64, ready: Arc<AtomicUsize>, side: impl Future<Output = T>) -> T {
    ready.fetch_add(1, Ordering::SeqCst);
    while ready.load(Ordering::SeqCst) < 2 {
        tokio::task::yield_now().await;
    }
    let until = Instant::now() + Duration::from_micros(u64::try_from(lag).unwrap_or(0));
    while Instant::now() < until {
        tokio::task::yield_now().await;
    }
    side.await
}
