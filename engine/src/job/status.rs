//! The statuses of jobs, tasks and attempts.

use std::fmt;

macro_rules! words {
    ($(#[$docs:meta])* $name:ident {
        $($(#[$variant_docs:meta])* $variant:ident = $word:literal,)+
    }) => {
        $(#[$docs])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$variant_docs])* $variant,)+ }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The word for it that is used everywhere.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

words! {
    /// Where a job stands.
    JobStatus {
        /// Accepted, not started.
        Pending = "pending",
        /// Started; also while all its tasks queue for slots.
        Running = "running",
        /// Held, and quiet: no attempt is alive.
        Paused = "paused",
        /// Everything is settled.
        Completed = "completed",
        /// A failure stopped it; execute goes on with it.
        Failed = "failed",
        /// It was cancelled; execute goes on with it.
        Cancelled = "cancelled",
    }
}

impl JobStatus {
    /// Whether the job's run has ended.
    pub const fn is_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

words! {
    /// What a running job is on its way to, while attempts are stopped or drained.
    Intent {
        /// To `paused`.
        Pause = "pause",
        /// To `cancelled`.
        Cancel = "cancel",
        /// To `failed`.
        Fail = "fail",
        /// To `completed`, when the tasks of `finally` are over.
        Complete = "complete",
    }
}

impl Intent {
    /// Whether the run is on its way to an end.
    pub const fn ends(self) -> bool {
        !matches!(self, Self::Pause)
    }
}

words! {
    /// Where a task stands.
    TaskStatus {
        /// Not started, or to start afresh.
        Pending = "pending",
        /// An attempt is alive.
        Running = "running",
        /// Between or outside attempts; holds no slot.
        Waiting = "waiting",
        /// Succeeded.
        Completed = "completed",
        /// Failed for good.
        Failed = "failed",
        /// Its attempt was stopped; it runs again when the job goes on.
        Interrupted = "interrupted",
        /// Passed over.
        Skipped = "skipped",
        /// Taken out of the plan.
        Removed = "removed",
    }
}

words! {
    /// How an attempt ended.
    AttemptOutcome {
        /// With a result.
        Completed = "completed",
        /// With an error.
        Failed = "failed",
        /// It was stopped.
        Interrupted = "interrupted",
        /// It took too long.
        TimedOut = "timed_out",
        /// The engine died while it ran.
        Lost = "lost",
    }
}
