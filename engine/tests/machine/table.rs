//! Every command in every status: what the machine answers, in one table.

use annals_engine::job::{CancelMode, Command, Intent, Job, JobStatus};

/// Where a job stands, as the columns of the table have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Column {
    Pending,
    Running,
    Pausing,
    Paused,
    Cancelling,
    Completed,
    Failed,
    Cancelled,
    Purged,
}

impl Column {
    pub(crate) const ALL: [Self; 9] = [
        Self::Pending,
        Self::Running,
        Self::Pausing,
        Self::Paused,
        Self::Cancelling,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::Purged,
    ];

    pub(crate) fn of(job: &Job) -> Self {
        match (job.status(), job.intent()) {
            _ if job.purged().is_some() => Self::Purged,
            (_, Some(Intent::Pause)) => Self::Pausing,
            (_, Some(Intent::Cancel | Intent::Fail | Intent::Complete)) => Self::Cancelling,
            (JobStatus::Pending, None) => Self::Pending,
            (JobStatus::Running, None) => Self::Running,
            (JobStatus::Paused, None) => Self::Paused,
            (JobStatus::Completed, None) => Self::Completed,
            (JobStatus::Failed, None) => Self::Failed,
            (JobStatus::Cancelled, None) => Self::Cancelled,
        }
    }
}

/// What a command may come to, whatever its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cell {
    /// Accepted, and something happens.
    Acts,
    /// Accepted, and nothing happens.
    Idle,
    /// Accepted; whether something happens is up to the details.
    Free,
    /// Refused because of the status.
    No,
}

use Cell::{Acts, Free, Idle, No};

/// The commands without arguments, and the edits, by the columns of [`Column::ALL`].
pub(crate) const TABLE: [(&str, [Cell; 9]); 12] = [
    ("execute", [Acts, Idle, No, No, No, Idle, Acts, Acts, No]),
    ("pause", [Acts, Acts, Free, Idle, No, No, No, No, No]),
    ("resume", [Idle, Idle, Acts, Acts, No, No, No, No, No]),
    ("cancel", [Acts, Acts, Acts, Acts, Idle, No, Acts, Idle, No]),
    ("purge", [No, No, No, No, No, Acts, Acts, Acts, Idle]),
    ("skip", [Free, Free, Free, Free, No, No, Free, Free, No]),
    ("remove", [Free, Free, Free, Free, No, No, Free, Free, No]),
    ("insert", [Free, Free, Free, Free, No, No, Free, Free, No]),
    ("move", [Free, Free, Free, Free, No, No, Free, Free, No]),
    ("edit", [Free, Free, Free, Free, No, No, Free, Free, No]),
    ("retry", [No, Free, Free, Free, No, No, Free, Free, No]),
    ("signal", [Acts, Acts, Acts, Acts, No, No, Acts, No, No]),
];

/// The cell of a command; `finishes` where what is done at the end has its turn.
pub(crate) fn cell(command: &Command, column: Column, finishes: bool) -> Cell {
    match (command, column) {
        // A signal: while something is to be done at the end, which the oracle knows.
        (
            Command::Cancel { mode: CancelMode::Now } | Command::Signal { .. },
            Column::Cancelling,
        ) => Free,
        (Command::Skip { .. }, Column::Cancelling) if finishes => Free,
        _ => TABLE[row(command)].1[column as usize],
    }
}

/// The row of a command.
pub(crate) fn row(command: &Command) -> usize {
    match command {
        Command::Execute { .. } => 0,
        Command::Pause { .. } => 1,
        Command::Resume => 2,
        Command::Cancel { .. } => 3,
        Command::Purge { .. } => 4,
        Command::Skip { .. } => 5,
        Command::Remove { .. } => 6,
        Command::Insert { .. } => 7,
        Command::Move { .. } => 8,
        Command::Edit { .. } => 9,
        Command::Retry { .. } => 10,
        Command::Signal { .. } => 11,
        other => panic!("{other:?} has no row"),
    }
}
