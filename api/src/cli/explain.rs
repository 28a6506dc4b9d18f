//! Why a job does not move, and what makes it move.

use annals_engine::job::{Intent, JobStatus};
use annals_tasks_sdk::KindName;

use super::place::Place;
use super::text::{brief, due, foreign, now, plain};
use super::view::{Explanation, Job, Task, Waiting};

/// Sentences that say why the job does not move and what makes it move. It does not where this
/// program lacks kinds that it needs.
pub(super) fn explain(job: &Job, missing: &[KindName], place: &Place) -> Vec<String> {
    let go_on = |does: &str| match missing {
        [] => format!("`{}` {does}", place.go_on(job.id, job.status)),
        kinds => foreign(kinds),
    };
    if let Some(command) = again(job, place) {
        let mut lines: Vec<String> = job.error.iter().map(|_| failure(job)).collect();
        let undone = "what it did is undone, and none of it runs again";
        lines.push(format!("{undone}: `{command}` makes a new job that does"));
        return lines;
    }
    match job.status {
        JobStatus::Completed => Vec::new(),
        JobStatus::Cancelled => {
            vec![format!("it was cancelled; {}", go_on("runs what has not completed"))]
        }
        JobStatus::Pending => {
            let when = job.starts_at.map(|at| format!("it starts by itself at {}", due(at)));
            let when = when.unwrap_or_else(|| "it has not been started".into());
            vec![format!("{when}; {}", go_on("starts it"))]
        }
        JobStatus::Failed => vec![failure(job), go_on("runs what has not completed")],
        JobStatus::Paused => {
            let mut lines = waits(job, place);
            if job.error.is_some() {
                lines.insert(0, failure(job));
                lines.push(go_on("resumes it"));
                lines.extend(job.failed_task().map(|task| changes(job, task, place)));
            } else {
                lines.insert(0, "it is held".into());
                lines.push(go_on("resumes it"));
            }
            lines
        }
        JobStatus::Running => {
            let mut lines = waits(job, place);
            if let Some(intent) = job.intent {
                lines.push(format!("it is on its way to be {}", ended(intent)));
            }
            if place.runs_nothing() {
                let does = if is_overdue(job) { "has it fail" } else { "goes on" };
                lines.push(format!("no engine runs on this store now; {}", go_on(does)));
            }
            lines
        }
    }
}

/// What to type so that the work of a job is done which is undone: it does not go on itself.
pub(super) fn again(job: &Job, place: &Place) -> Option<String> {
    let first = job.tasks.first().filter(|_| job.is_undone())?;
    Some(place.command(&format!("fork {} --from-task {}", job.id, first.id)))
}

/// What an operator can do about a task that failed before the job is resumed.
fn changes(job: &Job, task: &Task, place: &Place) -> String {
    let command = |verb: &str, rest: &str| {
        let words = format!("{verb} {} {}{rest}", job.id, task.id);
        format!("`{}`", place.command(&words))
    };
    format!(
        "before that, {} goes on without task {}, {} changes it, {} has it run again: the job \
         stays paused until it is resumed",
        command("skip", ""),
        task.id,
        command("edit", " @FILE"),
        command("retry", ""),
    )
}

/// What a job has to do with others that share its exclusive key: whom it waits for, and who waits
/// for it.
pub(super) fn key(explanation: &Explanation) -> Vec<String> {
    let wants = explanation.reasons.iter().filter(|reason| reason.code == "wants_key");
    let wants = wants.map(|reason| plain(&reason.message).into_owned());
    let holds = explanation.holds_key.as_ref().map(|held| plain(&held.message).into_owned());
    wants.chain(holds).collect()
}

/// Whether the deadline of its run has passed and nothing has come of that: no engine has run it
/// since.
pub(super) fn is_overdue(job: &Job) -> bool {
    job.deadline.is_some_and(|deadline| deadline <= now())
}

fn ended(intent: Intent) -> &'static str {
    match intent {
        Intent::Pause => "paused",
        Intent::Cancel => "cancelled",
        Intent::Fail => "failed",
        Intent::Complete => "completed",
    }
}

fn failure(job: &Job) -> String {
    let Some(error) = &job.error else { return "it has failed".into() };
    let (point, code) = (brief(&error.message), plain(&error.code));
    match &error.task {
        Some(task) => format!("task {task} failed: {point} [{code}]"),
        None => format!("it failed: {point} [{code}]"),
    }
}

fn waits(job: &Job, place: &Place) -> Vec<String> {
    let cut_off = job.tasks.iter().filter(|task| task.live_attempt().is_some());
    let cut_off = cut_off.filter(|_| place.runs_nothing());
    let then = if is_overdue(job) { "" } else { "; it runs again" };
    let cut_off = cut_off.map(|task| format!("task {} ran when its engine ended{then}", task.id));
    cut_off.chain(job.tasks.iter().filter_map(wait)).collect()
}

fn wait(task: &Task) -> Option<String> {
    let id = &task.id;
    Some(match task.waiting_for.as_ref()? {
        Waiting::Retry(until) => {
            format!("task {id} waits for its next attempt, at {}", due(*until))
        }
        Waiting::Timer(until) => format!("task {id} waits until {}", due(*until)),
        Waiting::Job(child) => format!("task {id} waits for its child job {child}"),
        Waiting::Signal(name, until) => {
            let until = until.map(|until| format!(", until {}", due(until)));
            let until = until.unwrap_or_default();
            format!("task {id} waits for signal {name}{until}")
        }
        Waiting::Kind(kind) => format!("task {id} waits for kind {kind:?}, which is not here"),
        Waiting::Other => return None,
    })
}
