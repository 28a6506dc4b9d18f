//! Why a server gave no answer.

use std::time::Duration;

use super::address::Address;
use super::problem::Problem;

/// Why what was asked of a server has no answer. Shown, each is a sentence that says what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// Nothing was sent.
    #[error("no server answers at {address}: {why}; start one with `annals serve`")]
    NoServer {
        /// Where.
        address: Address,
        /// What the system said.
        why: String,
    },
    /// What was sent may have been received.
    #[error("the server at {address} went away before it answered: {why}")]
    Cut {
        /// Where.
        address: Address,
        /// What the system said.
        why: String,
    },
    /// The same, but nothing has ended.
    #[error("the server at {address} has not answered for {} s", .after.as_secs())]
    Silent {
        /// Where.
        address: Address,
        /// For how long.
        after: Duration,
    },
    /// The server refused.
    #[error("{}", .0.detail)]
    Refused(Box<Problem>),
    /// The server cannot answer now.
    #[error("the server at {address} cannot answer now: {}", .problem.detail)]
    NotNow {
        /// Where.
        address: Address,
        /// Why.
        problem: Box<Problem>,
        /// When to ask again; left out where that does not help.
        again: Option<Duration>,
    },
    /// Something else is there, or something between.
    #[error("{address} answers, but not as Annals does: {what}; check the address")]
    Foreign {
        /// Where.
        address: Address,
        /// What it answered.
        what: String,
        /// Whether it may answer otherwise in a moment, as a proxy before a server may.
        passes: bool,
    },
    /// The answer cannot be read.
    #[error("the answer of the server at {address} is too large: more than {limit} bytes")]
    TooLarge {
        /// Where.
        address: Address,
        /// The most that is read.
        limit: usize,
    },
    /// The request cannot be made.
    #[error("nothing can be sent to {address}: {why}")]
    Unsendable {
        /// Where.
        address: Address,
        /// Why.
        why: String,
    },
}

impl ClientError {
    /// Whether what was asked for may have been done.
    pub(crate) fn may_be_done(&self) -> bool {
        match self {
            Self::Cut { .. } | Self::Silent { .. } | Self::TooLarge { .. } => true,
            Self::NotNow { problem, .. } => problem.code == "outcome_unknown",
            Self::Foreign { passes, .. } => *passes,
            _ => false,
        }
    }

    /// Whether another try may help, and when.
    pub(super) fn passes(&self) -> Passes {
        match self {
            Self::NoServer { .. } => Passes::WhenOneIsThere,
            Self::Cut { .. } | Self::Silent { .. } | Self::Foreign { passes: true, .. } => {
                Passes::Soon(None)
            }
            Self::NotNow { again: Some(again), .. } => Passes::Soon(Some(*again)),
            _ => Passes::Never,
        }
    }
}

/// Whether an error goes away by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passes {
    /// When somebody starts a server.
    WhenOneIsThere,
    /// Soon, perhaps not before this time.
    Soon(Option<Duration>),
    /// Not by itself.
    Never,
}

/// The innermost cause of a failed exchange, which is what the system said.
pub(super) fn cause(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}
