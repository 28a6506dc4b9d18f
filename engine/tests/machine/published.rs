//! docs/commands.md: what every command does in every state, as the machine answers.

use std::fmt::Write;
use std::path::Path;

use annals_engine::job::{Effect, ForkFrom, Job, LossRule, Recorded, StepError, TaskNumber, step};
use annals_tasks_sdk::Timestamp;

use crate::dsl::{World, at, command, id};
use crate::forks::made;
use crate::table::{Cell, Column, TABLE};

/// A state, and a history that leads there.
struct State {
    name: &'static str,
    plan: &'static str,
    history: &'static str,
}

const fn state(name: &'static str, plan: &'static str, history: &'static str) -> State {
    State { name, plan, history }
}

/// The states of a job, of tasks `a`, `b` and `c` in a chain.
const JOBS: [State; 25] = [
    state("pending", "@manual a b c", ""),
    state("pending, with a time at which it starts", "@at60 a b c", ""),
    state("running, an attempt is alive", "a b c", "start a"),
    state("running, nothing is alive", "a*3 b c", "start a; fail a"),
    state("running, task `a` waits for the signal", "a b c", "await a go"),
    state("being paused (draining)", "a b c", "start a; pause"),
    state("being paused (interrupting)", "a b c", "start a; interrupt"),
    state("paused before its start", "@manual a b c", "pause"),
    state("paused", "a b c", "start a; interrupt; stopped a"),
    state("being cancelled", "a b c", "start a; cancel"),
    state("failing, past its deadline", "@in60 a b c", "start a; +60; tick"),
    state(
        "completing: task `z` of `finally` runs",
        "a b c @finally z",
        "start a; done a; start b; done b; start c; done c; start z",
    ),
    state("failing: task `z` of `finally` runs", "a b c @finally z", "start a; fail a; start z"),
    state("running, `a` waits for its child", "a b c", "child a"),
    state("being paused, and a child is not quiet", "a b c", "child a; pause"),
    state("being cancelled, and a child has not ended", "a b c", "child a; cancel"),
    state(
        "a child, held since its parent is paused",
        "@child a b c",
        "start a; wish interrupt; stopped a",
    ),
    state(
        "being cancelled: task `a~undo` undoes `a`",
        "a~ b c",
        "start a; done a; cancel; start a~undo",
    ),
    state("completed", "a b c", "start a; done a; start b; done b; start c; done c"),
    state("failed", "a b c", "start a; fail a"),
    state("cancelled", "a b c", "start a; cancel; stopped a"),
    state("cancelled before its start", "@manual a b c", "cancel"),
    state(
        "failed: `a` could not be undone",
        "a~ b c",
        "start a; done a; cancel; start a~undo; fail a~undo",
    ),
    state(
        "cancelled, `a` is undone",
        "a~ b c",
        "start a; done a; cancel; start a~undo; done a~undo",
    ),
    state("purged", "a b c", "start a; fail a; purge"),
];

/// The commands to a job, as people and the short language of these tests say them.
const OF_JOBS: [(&str, &str); 10] = [
    ("execute", "execute"),
    ("execute, held (`paused: true`)", "execute held"),
    ("pause", "pause"),
    ("pause, `mode: interrupt`", "interrupt"),
    ("resume", "resume"),
    ("cancel", "cancel"),
    ("cancel, `mode: now`", "cancel now"),
    ("purge", "purge"),
    ("insert a task behind the others", "insert z"),
    ("signal", "signal go"),
];

/// The states of task `b`, in a job of `a`, `b` and `c` in a chain that is in the state named.
const TASKS: [State; 21] = [
    state("pending; the job too", "@manual a b c", ""),
    state("pending, not reached", "a b c", "start a"),
    state("pending, queues for a slot", "a b c", "start a; done a"),
    state("running", "a b c", "start a; done a; start b"),
    state("running, to be skipped", "a b c", "start a; done a; start b; skip b"),
    state("waiting for its next try", "a b*3 c", "start a; done a; start b; fail b"),
    state("waiting for a time", "a b c", "start a; done a; sleep b 60"),
    state("waiting for a signal", "a b c", "start a; done a; await b go 60"),
    state("waiting for its child", "a b c", "start a; done a; child b"),
    state("waiting for its child, to be skipped", "a b c", "start a; done a; child b; skip b"),
    state("failed, since its child has", "a b! c", "start a; done a; child b; child_fails b"),
    state(
        "interrupted; the job is paused",
        "a b c",
        "start a; done a; start b; interrupt; stopped b",
    ),
    state("running; the job is being paused", "a b c", "start a; done a; start b; pause"),
    state("running; the job is being cancelled", "a b c", "start a; done a; start b; cancel"),
    state("failed; the job too", "a b c", "start a; done a; start b; fail b"),
    state("never run; the job has failed", "a b c", "start a; fail a"),
    state("never run; the job is cancelled", "a b c", "start a; cancel; stopped a"),
    state("failed, tolerated", "a b? c", "start a; done a; start b; fail b"),
    state("completed", "a b c", "start a; done a; start b; done b"),
    state("skipped", "a b c", "start a; done a; skip b"),
    state("removed", "a b c", "start a; done a; remove b"),
];

const OF_TASKS: [(&str, &str); 7] = [
    ("skip", "skip b"),
    ("remove", "remove b"),
    ("move to the end", "move b last"),
    ("edit its title", r#"edit b {"title":"B"}"#),
    ("retry", "retry b"),
    ("insert a task before it", "insert z before b"),
    ("insert a task behind it", "insert z after b"),
];

/// The states of task `z`, which is done at the end.
const AT_END: [State; 5] = [
    state("pending; the job is running", "a @finally z", "start a"),
    state("running; the job is completing", "a @finally z", "start a; done a; start z"),
    state(
        "waiting for its next try; the job is failing",
        "a @finally z*3",
        "start a; fail a; start z; fail z",
    ),
    state(
        "never run; the job has failed at once",
        "a @finally z",
        "start a; cancel now; stopped a",
    ),
    state("completed; the job has failed", "a @finally z", "start a; fail a; start z; done z"),
];

/// The states of task `a~undo`, which undoes `a`.
const UNDOING: [State; 5] = [
    state("pending; another one is undone", "a~ b~ c", "start a; done a; start b; done b; cancel"),
    state("running", "a~ b c", "start a; done a; cancel; start a~undo"),
    state(
        "waiting for its next try",
        "a~3 b c",
        "start a; done a; cancel; start a~undo; fail a~undo",
    ),
    state(
        "failed; the job has failed",
        "a~ b c",
        "start a; done a; cancel; start a~undo; fail a~undo",
    ),
    state(
        "completed; the job is cancelled",
        "a~ b c",
        "start a; done a; cancel; start a~undo; done a~undo",
    ),
];

const UNDOING_COMMANDS: [(&str, &str); 6] = [
    ("skip", "skip a~undo"),
    ("remove", "remove a~undo"),
    ("edit its title", r#"edit a~undo {"title":"U"}"#),
    ("move to the end", "move a~undo last"),
    ("retry", "retry a~undo"),
    ("insert a task behind it", "insert z after a~undo"),
];

const AT_END_COMMANDS: [(&str, &str); 4] = [
    ("skip", "skip z"),
    ("remove", "remove z"),
    ("edit its title", r#"edit z {"title":"Z"}"#),
    ("insert a task behind it", "insert y after z"),
];

const HEAD: &str = "\
# Commands

What each command does to a job, in every state that the job and the task can be in: this page is \
made by asking the state machine, and a test compares it. A command that is accepted appends the \
events that are named, in one commit and in that order; *nothing to do* is an acceptance too, for \
what was asked for already holds. A command that is refused changes nothing; the words in front of \
its reason are the `code` of the problem over HTTP. Events of attempts that are told to stop \
follow when these are really over.

A job is *ending* while it is being cancelled or is failing and attempts of it are stopped, and \
while what it did is undone and the tasks of `finally` run: of these, and of nothing else, tasks \
can be skipped then.

Every command takes `reason`, `expected_seq` (refused with `stale` where the job has moved on) and \
`dry_run` (answers with the events and the job behind them, and appends nothing), and keeps who \
asked (`actor`) and the id of the request in its first event.

";

/// The table that the machine is held to, in words.
fn glance(text: &mut String) {
    text.push_str("## At a glance\n\n| command |");
    let columns = Column::ALL.map(|column| match column {
        Column::Cancelling => "ending".to_owned(),
        _ => format!("{column:?}").to_lowercase(),
    });
    writeln!(text, " {} |\n| --- |{}", columns.join(" | "), " --- |".repeat(columns.len()))
        .unwrap();
    for (name, mut cells) in TABLE {
        if name == "skip" || name == "signal" {
            // Where what is done at the end has its turn.
            cells[Column::Cancelling as usize] = Cell::Free;
        }
        let words = cells.map(|cell| match cell {
            Cell::Acts => "yes",
            Cell::Idle => "nothing to do",
            Cell::Free => "depends: see below",
            Cell::No => "refused",
        });
        writeln!(text, "| {name} | {} |", words.join(" | ")).unwrap();
    }
    text.push('\n');
}

/// What a step came to, in a cell of a table.
fn answer(state: &State, line: &str) -> [String; 2] {
    let mut world = World::new(state.plan).given(state.history);
    let before = stops(&world.job);
    match step(&mut world.job, command(line), &at(world.now)) {
        Ok(events) => {
            let told: Vec<&str> = stops(&world.job)
                .into_iter()
                .filter(|task| !before.contains(task))
                .map(|task| world.job.task(task).unwrap().spec.id.as_str())
                .collect();
            let told = match told.as_slice() {
                [] => String::new(),
                tasks => format!(", its attempt of `{}` is told to stop", tasks.join("`, `")),
            };
            [names(&events), format!("{}{told}", stands(&world.job))]
        }
        Err(StepError::Rejected(refused)) => {
            let refusal = format!("refused, `{}`: {}", refused.code, refused.message);
            [refusal.replace('|', "\\|"), "as before".to_owned()]
        }
        Err(illegal) => panic!("{}: {line}: {illegal}", state.name),
    }
}

/// The tasks whose attempts are told to stop.
fn stops(job: &Job) -> Vec<TaskNumber> {
    let effects = job.effects(Timestamp::from_millis(0), LossRule::default());
    effects
        .filter_map(|effect| match effect {
            Effect::Stop { task, .. } => Some(task),
            _ => None,
        })
        .collect()
}

fn names(events: &[Recorded]) -> String {
    if events.is_empty() {
        return "nothing to do".to_owned();
    }
    let names: Vec<String> =
        events.iter().map(|recorded| format!("`{}`", recorded.event.type_name())).collect();
    names.join(", ")
}

fn stands(job: &Job) -> String {
    match job.intent() {
        _ if job.purged().is_some() => "purged".to_owned(),
        Some(intent) => format!("{} (to {intent})", job.status()),
        None => job.status().to_string(),
    }
}

fn tables(text: &mut String, states: &[State], commands: &[(&str, &str)], what: &str) {
    for (name, line) in commands {
        write!(text, "### {name}\n\n| {what} | what happens | the job then |\n").unwrap();
        text.push_str("| --- | --- | --- |\n");
        for state in states {
            let [happens, then] = answer(state, line);
            writeln!(text, "| {} | {happens} | {then} |", state.name).unwrap();
        }
        text.push('\n');
    }
}

const FORKS: &str = "\
## Fork

A fork is a new job that goes on from what another one has done; that one stays as it is, whatever \
its state, and the new one needs nothing of it any more. From a task: that task, all that need it \
or take its output, and all that is not settled runs anew. From an event: all that was not settled \
when it was the last. What is undone there, or about to be, runs anew with all that needs it; what \
is copied is undone by the origin alone. What stays is copied, each task in an event of its own; \
of attempts, checkpoints, steps and back-offs nothing is. Nor are files: a fork has a work folder \
of its own, so let a task whose result is a file that others read run anew. Edits (insert, move, \
edit, remove, skip) are applied before the fork starts, all or none; it starts when its plan says \
so. These are the events that a fork of each job from its task `b` begins with.

| job | the fork begins with | its tasks then |
| --- | --- | --- |
";

fn forks(text: &mut String) {
    for state in &JOBS {
        let job = World::new(state.plan).given(state.history).job;
        if job.purged().is_some() {
            let refused = made(&job, &ForkFrom::Task(id("b")), Vec::new()).unwrap_err();
            writeln!(text, "| {} | refused, `{refused}` | |", state.name).unwrap();
            continue;
        }
        let (fork, history) = made(&job, &ForkFrom::Task(id("b")), Vec::new()).unwrap();
        let tasks = fork.tasks().map(|(_, task)| format!("`{}` {}", task.spec.id, task.status()));
        let (tasks, status) = (tasks.collect::<Vec<_>>().join(", "), fork.status());
        writeln!(text, "| {} | {} | {tasks}; {status} |", state.name, names(&history)).unwrap();
    }
}

#[test]
fn the_page_of_commands_is_that_of_the_machine() {
    let mut text = HEAD.to_owned();
    glance(&mut text);
    text.push_str("## Commands to a job\n\nIts tasks are a chain of `a`, `b` and `c`.\n\n");
    tables(&mut text, &JOBS, &OF_JOBS, "job");
    text.push_str(
        "## Commands to a task\n\nThe task is `b` in a chain of `a`, `b` and `c`. Where the job is \
         not named it is running.\n\n",
    );
    tables(&mut text, &TASKS, &OF_TASKS, "task");
    text.push_str(
        "## Commands to a task of `finally`\n\nThe task is `z` behind the chain of `a`, `b` and \
         `c`. Before its turn it is like any pending task.\n\n",
    );
    tables(&mut text, &AT_END, &AT_END_COMMANDS, "task");
    text.push_str(
        "## Commands to a task that undoes another one\n\nThe task is `a~undo`, of a job that is \
         cancelled when `a` is completed. Commands to `a`, to `b` and to `c` are refused then, as \
         `compensated`.\n\n",
    );
    tables(&mut text, &UNDOING, &UNDOING_COMMANDS, "task");
    text.push_str(FORKS);
    forks(&mut text);
    let text = format!("{}\n", text.trim_end());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/commands.md");
    if std::env::var_os("ANNALS_WRITE_DOCS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == text,
        "docs/commands.md is not that of the machine: run this test with ANNALS_WRITE_DOCS=1, and \
         look at what has changed"
    );
}

/// Every column of the table of answers has its states on the page.
#[test]
fn the_page_leaves_no_state_of_a_job_out() {
    let of = |state: &State| {
        let job = World::new(state.plan).given(state.history).job;
        Column::of(&job)
    };
    for column in Column::ALL {
        assert!(JOBS.iter().any(|state| of(state) == column), "{column:?}");
    }
}
