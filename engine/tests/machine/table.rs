//! Every command in every status: what the machine answers, in one table.

use annals_engine::job::{Command, Intent, Job, JobStatus, PauseMode, decide};

use crate::dsl::{World, at, id};

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

    /// A history that leads there, with a task `a` behind it, `b` in question and `c` to come.
    fn history(self) -> &'static str {
        match self {
            Self::Pending => "",
            Self::Running => "execute; start a; done a; start b",
            Self::Pausing => "execute; start a; done a; start b; pause",
            Self::Paused => "execute; start a; done a; pause",
            Self::Cancelling => "execute; start a; done a; start b; cancel",
            Self::Completed => "execute; start a; done a; skip b; skip c",
            Self::Failed => "execute; start a; done a; start b; fail b",
            Self::Cancelled => "execute; start a; done a; start b; cancel; stopped b",
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
pub(crate) const TABLE: [(&str, [Cell; 8]); 6] = [
    ("execute", [Acts, Idle, No, No, No, Idle, Acts, Acts]),
    ("pause", [Acts, Acts, Free, Idle, No, No, No, No]),
    ("resume", [Idle, Idle, Acts, Acts, No, No, No, No]),
    ("cancel", [Acts, Acts, Acts, Acts, Idle, No, Acts, Idle]),
    ("skip", [Free, Free, Free, Free, No, No, Free, Free]),
    ("remove", [Free, Free, Free, Free, No, No, Free, Free]),
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
        other => panic!("{other:?} has no row"),
    }
}

/// The commands of a row; the edits name a task that is open everywhere but in a completed job.
fn commands(row: usize) -> Vec<Command> {
    match row {
        0 => vec![Command::Execute { paused: false }, Command::Execute { paused: true }],
        1 => [PauseMode::Drain, PauseMode::Interrupt].map(|mode| Command::Pause { mode }).into(),
        2 => vec![Command::Resume],
        3 => vec![Command::Cancel],
        4 => vec![Command::Skip { task: Some(id("c")), output: None, cascade: false }],
        _ => vec![Command::Remove { task: id("c"), cascade: false }],
    }
}

fn job(column: Column) -> Job {
    let job = World::new("@manual a b c").given(column.history()).job;
    assert_eq!(Column::of(job.status(), job.intent()), column);
    job
}

#[test]
fn every_command_in_every_status_answers_as_the_table_says() {
    for column in Column::ALL {
        let job = job(column);
        for (row, (name, cells)) in TABLE.iter().enumerate() {
            for command in commands(row) {
                let what = format!("{command:?} while {column:?}");
                match (cells[column as usize], decide(&job, command, &at(0))) {
                    (No, Err(refusal)) => {
                        assert_eq!(refusal.code, "not_in_this_status", "{what}");
                        assert_eq!(refusal.status, job.status());
                        assert!(!refusal.allowed.contains(name), "{what}: {refusal:?}");
                    }
                    (Acts, Ok(events)) => assert!(!events.is_empty(), "{what}"),
                    (Idle, Ok(events)) => assert!(events.is_empty(), "{what}: {events:?}"),
                    (Free, Ok(_)) => {}
                    (cell, answer) => panic!("{what}: {cell:?}, but {answer:?}"),
                }
            }
        }
    }
}

#[test]
fn a_refusal_lists_exactly_what_the_table_allows() {
    for column in Column::ALL {
        let expected = TABLE.iter().filter(|(_, cells)| cells[column as usize] != No);
        let expected: Vec<&str> = expected.map(|&(name, _)| name).collect();
        let job = job(column);
        let refused = Command::Skip { task: Some(id("nobody")), output: None, cascade: false };
        let refusal = decide(&job, refused, &at(0)).unwrap_err();
        assert_eq!(refusal.allowed, expected, "{column:?}");
    }
}

#[test]
fn the_cells_lead_to_the_right_events() {
    let table = [
        (Column::Pending, "execute", "JobStarted"),
        (Column::Pending, "execute held", "JobStarted; PauseRequested; JobPaused"),
        (Column::Pending, "pause", "JobPaused"),
        (Column::Pending, "cancel", "JobCancelled"),
        (Column::Pending, "skip a", "TaskSkipped a"),
        (Column::Pending, "remove a", "TaskRemoved a"),
        (Column::Running, "pause", "PauseRequested"),
        (Column::Running, "cancel", "CancelRequested"),
        (Column::Running, "skip", "SkipRequested b"),
        (Column::Running, "skip c", "TaskSkipped c"),
        (Column::Running, "remove b", "refused: task_is_live"),
        (Column::Running, "remove a", "refused: task_is_settled"),
        (Column::Running, "skip a", "refused: task_is_settled"),
        (Column::Running, "skip nobody", "refused: no_such_task"),
        (Column::Pausing, "pause", ""),
        (Column::Pausing, "interrupt", "PauseRequested"),
        (Column::Pausing, "resume", "JobResumed"),
        (Column::Pausing, "cancel", "CancelRequested"),
        (Column::Pausing, "skip", "SkipRequested b"),
        (Column::Paused, "resume", "JobResumed"),
        (Column::Paused, "cancel", "CancelRequested; JobCancelled"),
        (Column::Paused, "remove b", "TaskRemoved b"),
        (Column::Paused, "skip", "refused: which_task"),
        (Column::Failed, "execute", "JobReopened"),
        (Column::Failed, "execute held", "JobReopened"),
        (Column::Failed, "cancel", "JobCancelled"),
        (Column::Failed, "skip", "TaskSkipped b"),
        (Column::Failed, "remove b", "TaskRemoved b"),
        (Column::Cancelled, "execute", "JobReopened"),
        (Column::Cancelled, "skip", "TaskSkipped b"),
        (Column::Cancelled, "remove c", "TaskRemoved c"),
    ];
    for (column, command, then) in table {
        crate::dsl::check("@manual a b c", column.history(), command, then);
    }
}
