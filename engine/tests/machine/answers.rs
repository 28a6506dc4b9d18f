//! Every command in every status is answered as the table says.

use annals_engine::job::{Command, Job, PauseMode, decide};

use crate::dsl::{World, at, command, id};
use crate::table::Cell::{Acts, Free, Idle, No};
use crate::table::{Column, TABLE};

/// A history that leads there, with a task `a` behind it, `b` in question and `c` to come.
fn history(column: Column) -> &'static str {
    match column {
        Column::Pending => "",
        Column::Running => "execute; start a; done a; start b",
        Column::Pausing => "execute; start a; done a; start b; pause",
        Column::Paused => "execute; start a; done a; start b; interrupt; stopped b",
        Column::Cancelling => "execute; start a; done a; start b; cancel",
        Column::Completed => "execute; start a; done a; skip b; skip c",
        Column::Failed => "execute; start a; done a; start b; fail b",
        Column::Cancelled => "execute; start a; done a; start b; cancel; stopped b",
        Column::Purged => "execute; start a; done a; start b; fail b; purge",
    }
}

/// The commands of a row; the edits name a task that is open everywhere but in a completed job.
fn commands(row: usize) -> Vec<Command> {
    match row {
        0 => vec![Command::Execute { paused: false }, Command::Execute { paused: true }],
        1 => [PauseMode::Drain, PauseMode::Interrupt].map(|mode| Command::Pause { mode }).into(),
        2 => vec![Command::Resume],
        3 => vec![Command::CANCEL],
        4 => vec![Command::PURGE],
        5 => vec![Command::Skip { task: Some(id("c")), output: None, cascade: false }],
        6 => vec![Command::Remove { task: id("c"), cascade: false }],
        7 => vec![command("insert z"), command("insert z after c"), command("insert z before c")],
        8 => vec![command("move c last"), command("move c after b")],
        9 => vec![command(r#"edit c {"title":"C"}"#), command(r#"edit c {"title":"C"} reset"#)],
        // Of the table's jobs it is this task that runs, or failed, or was stopped.
        10 => vec![command("retry b")],
        _ => vec![command("signal go")],
    }
}

/// The code with which a command is refused because of where a job stands.
pub(crate) fn refused_by(column: Column) -> &'static str {
    if column == Column::Purged { "purged" } else { "not_in_this_status" }
}

fn job(column: Column) -> Job {
    let job = World::new("@manual a b c").given(history(column)).job;
    assert_eq!(Column::of(&job), column);
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
                        assert_eq!(refusal.code, refused_by(column), "{what}");
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
        (Column::Paused, "skip", "TaskSkipped b"),
        (Column::Running, "insert z", "TaskInserted z"),
        (Column::Running, "insert z first", "refused: task_is_settled"),
        (Column::Running, "insert z before b", "refused: task_is_settled"),
        (Column::Running, "insert c", ""),
        (Column::Running, "insert c*3", "refused: task_exists"),
        (Column::Running, "move b last", "refused: task_is_live"),
        (Column::Running, "move a last", "refused: task_is_settled"),
        (Column::Running, "move nobody last", "refused: no_such_task"),
        (Column::Running, r#"edit b {"title":"B"}"#, "refused: task_is_live"),
        (Column::Running, "retry b", ""),
        (Column::Running, "retry c", "refused: nothing_to_retry"),
        (Column::Running, "retry a", "refused: task_is_settled"),
        (Column::Paused, "retry b", ""),
        (Column::Paused, "move c before b", "TaskMoved c"),
        (Column::Failed, "retry b", "JobReopened"),
        (Column::Failed, "retry c", "JobReopened"),
        (Column::Failed, "insert z after a", "TaskInserted z"),
        (Column::Failed, r#"edit b {"on_failure":"continue"}"#, "TaskEdited b"),
        (Column::Cancelled, "retry b", "JobReopened"),
        (Column::Cancelled, "insert z", "TaskInserted z"),
        (Column::Failed, "execute", "JobReopened"),
        (Column::Failed, "execute held", "JobReopened"),
        (Column::Failed, "cancel", "JobCancelled"),
        (Column::Failed, "skip", "TaskSkipped b"),
        (Column::Failed, "remove b", "TaskRemoved b"),
        (Column::Cancelled, "execute", "JobReopened"),
        (Column::Cancelled, "skip", "TaskSkipped b"),
        (Column::Cancelled, "remove c", "TaskRemoved c"),
        (Column::Paused, "purge", "refused: not_in_this_status"),
        (Column::Completed, "purge", "JobPurged"),
        (Column::Failed, "purge", "JobPurged"),
        (Column::Cancelled, "purge", "JobPurged"),
        (Column::Purged, "purge", ""),
        (Column::Purged, "skip nobody", "refused: purged"),
    ];
    for (column, command, then) in table {
        crate::dsl::check("@manual a b c", history(column), command, then);
    }
}
