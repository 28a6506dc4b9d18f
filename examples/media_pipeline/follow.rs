//! What people see: how far each task is, while it runs.

use std::collections::HashMap;
use std::io::{IsTerminal, Write, stdout};
use std::time::Duration;

use annals::prelude::*;

/// Shows a job until it has ended.
pub(crate) async fn follow(job: &JobHandle) -> Result<(), JobError> {
    let mut shown = HashMap::new();
    loop {
        let snapshot = job.snapshot().await?;
        show(&snapshot, &mut shown);
        if snapshot.job.status().is_ended() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Prints what has changed since the last look.
fn show(snapshot: &Snapshot, shown: &mut HashMap<TaskNumber, [String; 3]>) {
    let terminal = stdout().is_terminal();
    for (number, task) in snapshot.job.tasks() {
        let live = snapshot.live.get(&number).cloned().unwrap_or_default();
        let status = match task.attempts().len() {
            0 | 1 => task.status().to_string(),
            attempts => format!("{} (attempt {attempts})", task.status()),
        };
        let message = live.message.unwrap_or_default();
        let progress = live.progress.map(|at| bar(at, terminal)).unwrap_or_default();
        let now = [status, message, progress];
        let last =
            shown.entry(number).or_insert_with(|| [task_is_new(), String::new(), String::new()]);
        let id = task.spec.id.as_str();
        for (word, before) in now.iter().zip(&*last).take(2) {
            if word != before && !word.is_empty() {
                println!("{}{id:<12}{word}", if terminal { "\r\x1b[K" } else { "" });
            }
        }
        if now[2] != last[2] && !now[2].is_empty() {
            let (begin, end) = if terminal { ("\r\x1b[K", "") } else { ("", "\n") };
            print!("{begin}{id:<12}{}{end}", now[2]);
        }
        *last = now;
    }
    // Only a whole line is shown by itself.
    let _ = stdout().flush();
}

fn task_is_new() -> String {
    TaskStatus::Pending.to_string()
}

/// A bar for a terminal; elsewhere a line for every tenth.
fn bar(at: Progress, terminal: bool) -> String {
    let tenth = at.done * 10 / at.total.max(1);
    if terminal {
        let done = usize::try_from(at.done * 30 / at.total.max(1)).unwrap_or(30);
        format!("[{:<30}] {} of {}", "=".repeat(done), at.done, at.total)
    } else {
        format!("{} %", tenth * 10)
    }
}
