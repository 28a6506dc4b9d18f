//! Replaying a bundle with the code of today.

use std::fmt;
use std::sync::Arc;

use annals_engine::job::Job;
use annals_engine::runtime::{Logged, Replayed, Snapshot};
use annals_tasks_sdk::JobId;

use super::read::Bundle;
use crate::dto;
use crate::json::{self, changes};

/// What a replay makes that is not what the build made which wrote the bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Difference {
    /// A newer build has written events that this one cannot read.
    Unknown {
        /// How many.
        events: u64,
    },
    /// An event may not follow by the rules of this build. Nothing behind it was replayed.
    Refused {
        /// Its number.
        seq: u64,
        /// Why not.
        why: String,
    },
    /// Something else stands in the job behind its last event.
    State {
        /// Where, as an RFC 6901 pointer in which tasks go by their ids.
        path: String,
        /// The JSON that stood there.
        from: Option<String>,
        /// The JSON that stands there now.
        to: Option<String>,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { events } => {
                write!(f, "{events} events were written by a newer build, which can read them")
            }
            Self::Refused { seq, why } => write!(f, "event {seq} is refused: {why}"),
            Self::State { path, from, to } => {
                let nothing = || "nothing".to_owned();
                let (from, to) = (from.clone().unwrap_or_else(nothing), to.clone());
                write!(f, "{path} was {from}, and is {}", to.unwrap_or_else(nothing))
            }
        }
    }
}

impl Bundle {
    /// Replays the history with the code of today, and gives what is different from what the build
    /// made of it that wrote the bundle: nothing where histories mean what they meant. A bundle of
    /// a job that went wrong, or was hard to get right, is a test.
    ///
    /// ```
    /// # fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let bundle = annals::bundle::Bundle::open("tests/order.bundle")?;
    /// assert_eq!(bundle.faults(), [""; 0], "it is as it was written");
    /// assert_eq!(bundle.replay(), [], "and means what it meant");
    /// # Ok(())
    /// # }
    /// ```
    pub fn replay(&self) -> Vec<Difference> {
        self.replay_each(|_| ())
    }

    /// The same, and hands each step over.
    pub fn replay_each(&self, mut each: impl FnMut(&Replayed<'_>)) -> Vec<Difference> {
        let mut different = Vec::new();
        if self.unknown_events() > 0 {
            different.push(Difference::Unknown { events: self.unknown_events() });
        }
        let (mut before, mut now) = (None, None);
        for logged in &self.events {
            if let Err(why) = take_in(&mut now, self.job(), logged) {
                different.push(Difference::Refused { seq: logged.recorded.seq, why });
                return different;
            }
            if let Some(after) = &now {
                each(&Replayed { before: before.as_ref(), logged, after });
            }
            // It has just been taken in by the other one.
            let _ = take_in(&mut before, self.job(), logged);
        }
        let (Some(job), Some(state)) = (now, &self.state) else { return different };
        let state_now = dto::Job::at(&Snapshot::of(Arc::new(job))).to_json();
        // Both are JSON: one was read as such, and the other was just written.
        let all = changes(state.get(), &state_now).unwrap_or_default().into_iter();
        different.extend(all.map(|json::Change { path, from, to }| Difference::State {
            path,
            from,
            to,
        }));
        different
    }

    /// The job that the events make, as far as they may follow each other.
    pub(super) fn fold(&self) -> Option<Job> {
        let mut job = None;
        for logged in &self.events {
            if take_in(&mut job, self.job(), logged).is_err() {
                break;
            }
        }
        job
    }
}

fn take_in(job: &mut Option<Job>, id: JobId, logged: &Logged) -> Result<(), String> {
    match job {
        Some(job) => job.evolve(&logged.recorded),
        None => Job::begin(id, &logged.recorded).map(|begun| *job = Some(begun)),
    }
    .map_err(|illegal| illegal.to_string())
}
