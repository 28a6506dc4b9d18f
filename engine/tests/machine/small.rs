//! Small scope: on jobs of two tasks everything that can be asked or reported, in every order.

use annals_engine::job::{
    CancelMode, Command, Effect, Input, LogSize, LossRule, Outcome, PauseMode, Report, TaskNumber,
    Wait,
};
use annals_tasks_sdk::plan::{JobEnd, OnFailure, OnLost};
use annals_tasks_sdk::{Done, Payload, TaskError, Timestamp};

use crate::dsl::id;
use crate::kin::{self, child_of};
use crate::oracle::Oracle;
use crate::plans::{Draft, Sketch, Sleeps};
use crate::told::signal;
use crate::walk::{Walk, setting};

/// How many steps; one more where the random walks are long, too.
const DEPTH: usize = 4;

pub(crate) const PLAIN: Sketch = Sketch {
    needs: None,
    takes: Vec::new(),
    on_failure: OnFailure::Fail,
    on_lost: OnLost::Rerun,
    max_attempts: 1,
    sleeps: None,
    looks: None,
    at_end: false,
    undo: None,
    undoes: None,
};

/// Two tasks in a chain, with the output taken and retries; two beside each other that pause; a
/// failure that is tolerated; two that wait for a time under a deadline; two in a family; one that
/// is undone.
pub(crate) fn drafts() -> [Draft; 6] {
    let taker = Sketch { takes: vec![(0, false)], ..PLAIN };
    let retried = Sketch { max_attempts: 2, ..PLAIN };
    let pausing = Sketch { on_failure: OnFailure::Pause, on_lost: OnLost::Pause, ..PLAIN };
    let beside = Sketch { needs: Some(Vec::new()), on_lost: OnLost::Fail, ..PLAIN };
    let sleeper = Sketch { sleeps: Some(Sleeps::ForTime), needs: Some(Vec::new()), ..PLAIN };
    let again = Sketch { max_attempts: 2, needs: Some(Vec::new()), on_lost: OnLost::Fail, ..PLAIN };
    let tolerant = Sketch { on_failure: OnFailure::Continue, ..PLAIN };
    let undone = Sketch { undo: Some(2), ..PLAIN };
    let compensate_on = vec![JobEnd::Failed, JobEnd::Cancelled];
    [
        Draft::of(vec![retried, taker]),
        Draft::of(vec![pausing, beside]),
        Draft { output: Some((0, false)), manual: true, ..Draft::of(vec![tolerant, PLAIN]) },
        // Between the ends of a sleep and of a back-off.
        Draft { deadline: Some(6_000), ..Draft::of(vec![sleeper, again]) },
        // Two that may have children, of a job that is one.
        Draft { linked: true, spawns: true, ..Draft::of(vec![PLAIN, PLAIN]) },
        // What the first has done is undone when the second fails, or the job is cancelled.
        Draft { compensate_on, ..Draft::of(vec![undone, PLAIN]) },
    ]
}

/// Every command, for each task where it is of one, and what may happen at any time.
pub(crate) fn asked(oracle: &Oracle) -> Vec<Input> {
    let name = |at: usize| oracle.name(at);
    let skip = |task: Option<usize>| Command::Skip {
        task: task.map(|at| id(&name(at))),
        output: None,
        cascade: false,
    };
    let remove = |at| Command::Remove { task: id(&name(at)), cascade: true };
    let commands = [
        Command::Execute { paused: false },
        Command::Execute { paused: true },
        Command::Pause { mode: PauseMode::Drain },
        Command::Pause { mode: PauseMode::Interrupt },
        Command::Resume,
        Command::CANCEL,
        Command::Cancel { mode: CancelMode::Now },
        Command::PURGE,
        Command::Signal { name: signal("go"), payload: Payload::NULL },
        skip(None),
        Command::Skip { task: Some(id(&name(0))), output: Some(Payload::NULL), cascade: false },
    ];
    let of_tasks = (0..oracle.tasks.len()).flat_map(|at| [skip(Some(at)), remove(at)]);
    let reports = [Report::Recover, Report::Tick];
    let commands = commands.into_iter().chain(of_tasks).map(Input::from);
    commands.chain(reports.map(Input::from)).collect()
}

/// What the runtime may report now.
pub(crate) fn reported(walk: &Walk) -> Vec<Input> {
    let now = Timestamp::from_millis(walk.now);
    let mut all = Vec::new();
    for effect in walk.live.effects(now, LossRule::default()) {
        match effect {
            Effect::Want { task, .. } => {
                let until = now.plus(std::time::Duration::from_secs(5));
                all.extend([
                    Report::Start { task },
                    Report::Park { task, wait: Wait::Timer { until } },
                    Report::Park { task, wait: Wait::Kind },
                    Report::Park { task, wait: Wait::Signal { name: signal("go"), until: None } },
                    Report::Park {
                        task,
                        wait: Wait::Signal { name: signal("go"), until: Some(until) },
                    },
                    Report::Refuse { task, error: TaskError::new("bad", "no") },
                ]);
                if walk.oracle.draft.spawns {
                    let child = child_of(task);
                    all.push(Report::Spawned { task, child, after: 0 });
                }
            }
            Effect::Run { task, attempt } => all.extend(ends(task, attempt)),
            _ => {}
        }
    }
    all.extend(kin::reported(&walk.live));
    all.into_iter().map(Input::Report).collect()
}

pub(crate) fn ends(task: TaskNumber, attempt: u32) -> [Report; 4] {
    let error = || TaskError::new("error", "no");
    let outcomes = [
        Outcome::Completed(Done::default()),
        Outcome::Failed(error()),
        Outcome::TimedOut(error()),
        Outcome::Interrupted(error()),
    ];
    outcomes.map(|outcome| Report::Ended { task, attempt, outcome, log: LogSize::default() })
}

/// Tells on a failure by which steps it was reached.
struct Path(Vec<String>);

impl Drop for Path {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("after {}", self.0.join("; "));
        }
    }
}

fn explore(walk: &Walk, depth: usize, path: &mut Path) -> u64 {
    let len = asked(&walk.oracle).len() + reported(walk).len();
    let mut states = 0;
    for at in 0..len {
        // Inputs cannot be copied, so each is made anew.
        let mut inputs = asked(&walk.oracle);
        inputs.extend(reported(walk));
        let input = inputs.swap_remove(at);
        path.0.push(format!("{input:?}"));
        let mut next = walk.clone();
        if matches!(input, Input::Report(Report::Tick)) {
            next.sleep();
        }
        // What changes nothing leads nowhere new.
        if next.give(input).is_ok_and(|events| !events.is_empty()) {
            states += 1;
            if depth > 1 {
                states += explore(&next, depth - 1, path);
            } else {
                next.must_end();
            }
        }
        path.0.pop();
    }
    states
}

#[test]
fn every_short_history_obeys_the_laws_and_can_be_ended() {
    let depth = DEPTH + usize::from(setting("ANNALS_WALK_COMMANDS").is_some());
    for draft in drafts() {
        let mut path = Path(Vec::new());
        let states = explore(&Walk::of(draft, 1), depth, &mut path);
        println!("{states} histories");
        assert!(states > 1_000);
    }
}
