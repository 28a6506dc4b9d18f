//! Every command in every status: what the machine answers, in one table.

use annals_engine::job::{Command, Intent, JobStatus};

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
}

impl Column {
    pub(crate) const ALL: [Self; 8] = [
        Self::Pending,
        Self::Running,
        Self::Pausing,
        Self::Paused,
        Self::Cancelling,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    pub(crate) fn of(status: JobStatus, intent: Option<Intent>) -> Self {
        match (status, intent) {
            (_, Some(Intent::Pause)) => Self::Pausing,
            (_, Some(Intent::Cancel | Intent::Fail)) => Self::Cancelling,
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
pub(crate) const TABLE: [(&str, [Cell; 8]); 10] = [
    ("execute", [Acts, Idle, No, No, No, Idle, Acts, Acts]),
    ("pause", [Acts, Acts, Free, Idle, No, No, No, No]),
    ("resume", [Idle, Idle, Acts, Acts, No, No, No, No]),
    ("cancel", [Acts, Acts, Acts, Acts, Idle, No, Acts, Idle]),
    ("skip", [Free, Free, Free, Free, No, No, Free, Free]),
    ("remove", [Free, Free, Free, Free, No, No, Free, Free]),
    ("insert", [Free, Free, Free, Free, No, No, Free, Free]),
    ("move", [Free, Free, Free, Free, No, No, Free, Free]),
    ("edit", [Free, Free, Free, Free, No, No, Free, Free]),
    ("retry", [No, Free, Free, Free, No, No, Free, Free]),
];

/// The cell of a command.
pub(crate) fn cell(command: &Command, column: Column) -> Cell {
    TABLE[row(command)].1[column as usize]
}

/// The row of a command.
pub(crate) fn row(command: &Command) -> usize {
    match command {
        Command::Execute { .. } => 0,
        Command::Pause { .. } => 1,
        Command::Resume => 2,
        Command::Cancel => 3,
        Command::Skip { .. } => 4,
        Command::Remove { .. } => 5,
        Command::Insert { .. } => 6,
        Command::Move { .. } => 7,
        Command::Edit { .. } => 8,
        Command::Retry { .. } => 9,
        other => panic!("{other:?} has no row"),
    }
}
