//! Retries: whether a failed attempt is followed by another, and when.

use std::time::Duration;

use annals_tasks_sdk::plan::Backoff;
use annals_tasks_sdk::{TaskError, Timestamp};

use super::event::AttemptEnd;
use super::state::Task;

impl Task {
    /// When the attempt after the live one, which has just failed with `error`, may start; `None`
    /// where there is none.
    pub(super) fn retry_due(
        &self,
        end: &AttemptEnd,
        error: &TaskError,
        now: Timestamp,
        random: f64,
    ) -> Option<Timestamp> {
        let retry = &self.spec.policy.retry;
        if !end.retryable || self.is_never_retried(end, error.alias()) {
            return None;
        }
        let failures = self.failures + 1;
        if failures >= retry.max_attempts {
            return None;
        }
        let asked = error.retry_wait().unwrap_or_default();
        let due = now.plus(delay(&retry.backoff, failures, random).max(asked));
        let first = self.attempts.get(self.budget_from as usize).map_or(now, |first| first.started);
        match retry.max_elapsed {
            Some(limit) if due > first.plus(limit) => None,
            _ => Some(due),
        }
    }

    fn is_never_retried(&self, end: &AttemptEnd, alias: Option<&str>) -> bool {
        let exit = end.exit.code.map(|code| format!("exit_{code}"));
        let codes = [Some(&*end.error.code), exit.as_deref(), alias];
        let named = |never: &str| codes.contains(&Some(never));
        self.spec.policy.retry.never.iter().any(|never| named(never))
    }
}

/// The wait after the `failures`-th failure.
fn delay(backoff: &Backoff, failures: u32, random: f64) -> Duration {
    let exponent = i32::try_from(failures.saturating_sub(1)).unwrap_or(i32::MAX);
    if backoff.initial.is_zero() {
        return Duration::ZERO;
    }
    let grown = backoff.initial.as_secs_f64() * backoff.factor.powi(exponent);
    // The growth may well be infinite; the cap, which comes before the jitter, is not.
    let capped = grown.min(backoff.max.as_secs_f64()).max(0.0);
    Duration::try_from_secs_f64(capped * (1.0 + backoff.jitter * random)).unwrap_or(backoff.max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_cap_and_the_jitter_comes_on_top() {
        let seconds = Duration::from_secs;
        let backoff = Backoff { initial: seconds(1), factor: 2.0, max: seconds(5), jitter: 0.0 };
        let waits: Vec<u64> = (1..7).map(|n| delay(&backoff, n, 0.9).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 5, 5, 5]);
        assert_eq!(delay(&backoff, u32::MAX, 0.0), seconds(5));
        let jittered = Backoff { jitter: 0.5, ..backoff };
        assert_eq!(delay(&jittered, 9, 0.0), seconds(5));
        assert!(delay(&jittered, 9, 0.999) <= Duration::from_millis(7500));
        let none = Backoff { initial: Duration::ZERO, ..jittered };
        assert_eq!(delay(&none, u32::MAX, 0.9), Duration::ZERO);
    }
}
