//! Every state that a small job can reach: none is a dead end, and in each of them every command is
//! answered as the table says, and every report of an attempt that is over changes nothing.
//!
//! The ordinary test searches a plan of two tasks and one of one; `ANNALS_REACH_TASKS` searches
//! four plans of two tasks, or three of three.

use std::collections::{BTreeSet, VecDeque};

use annals_engine::job::{Command, Input, Place, Report, Wait};
use annals_tasks_sdk::plan::{JobEnd, OnFailure, OnLost};

use crate::dsl::id;
use crate::looks::Looks;
use crate::oracle::{Known, Waits};
use crate::plans::{Draft, Sketch, Sleeps};
use crate::small::{PLAIN, asked, drafts, ends, reported};
use crate::walk::{Walk, setting};

/// A chain with retries and outputs; a fork whose first branch pauses; a join of which one side may
/// fail, sleeps included.
fn drafts_of_three() -> [Draft; 3] {
    let root = Sketch { needs: Some(Vec::new()), ..PLAIN };
    let retried = Sketch { max_attempts: 2, ..PLAIN };
    let taker = Sketch { takes: vec![(0, false)], on_lost: OnLost::Fail, ..PLAIN };
    let pausing = Sketch {
        needs: Some(vec![0]),
        on_failure: OnFailure::Pause,
        on_lost: OnLost::Pause,
        ..PLAIN
    };
    let tolerant = Sketch { on_failure: OnFailure::Continue, ..root.clone() };
    let sleeper = Sketch { sleeps: Some(Sleeps::ForTime), ..root.clone() };
    let join = Sketch { needs: Some(vec![0, 1]), ..PLAIN };
    let beside = Sketch { needs: Some(vec![0]), ..PLAIN };
    [
        Draft::of(vec![retried, taker, PLAIN]),
        Draft::of(vec![root, pausing, beside]),
        Draft {
            output: Some((2, false)),
            manual: true,
            ..Draft::of(vec![tolerant, sleeper, join])
        },
    ]
}

/// One task, and one for the end, which looks at that and waits for its next try.
fn with_end() -> Draft {
    let last = Sketch {
        max_attempts: 2,
        at_end: true,
        looks: Some(Looks::JobEnds(vec![JobEnd::Failed, JobEnd::Cancelled])),
        ..PLAIN
    };
    Draft { manual: true, fail_fast: true, ..Draft::of(vec![PLAIN, last]) }
}

/// One task that may complete although the job is being cancelled, and is undone then.
fn undone() -> Draft {
    Draft { manual: true, ..Draft::of(vec![Sketch { undo: Some(2), ..PLAIN }]) }
}

/// One task that waits for its next try under a deadline.
fn lone() -> Draft {
    let again = Sketch { max_attempts: 2, on_lost: OnLost::Pause, ..PLAIN };
    Draft { manual: true, deadline: Some(6_000), ..Draft::of(vec![again]) }
}

/// A task that waits for a signal, under a deadline and so that its timeout pauses the job; and one
/// that does so at the end.
fn told() -> [Draft; 2] {
    let waiter = Sketch { sleeps: Some(Sleeps::ForSignal), ..PLAIN };
    let last = Sketch { at_end: true, ..waiter.clone() };
    let pausing = Sketch { on_failure: OnFailure::Pause, ..waiter };
    [
        Draft { manual: true, deadline: Some(6_000), ..Draft::of(vec![pausing]) },
        Draft::of(vec![PLAIN, last]),
    ]
}

/// A child whose only task has a child.
fn in_a_family() -> Draft {
    Draft { manual: true, linked: true, spawns: true, ..Draft::of(vec![PLAIN]) }
}

/// What was searched.
#[derive(Debug, Default)]
struct Reached {
    states: u64,
    answers: u64,
}

/// Searches all states, the nearest first, each by the shortest way to it.
fn reach(draft: Draft) -> Reached {
    let begin = Walk::of(draft, 1);
    let mut seen = BTreeSet::from([shape(&begin)]);
    let mut front = VecDeque::from([begin]);
    let mut reached = Reached::default();
    while let Some(walk) = front.pop_front() {
        reached.states += 1;
        for (input, late) in inputs(&walk) {
            let mut next = walk.clone();
            reached.answers += 1;
            let told = format!("{input:?}");
            let changed = next.give(input).is_ok_and(|events| !events.is_empty());
            assert!(!(late && changed), "{told} came too late");
            if changed && seen.insert(shape(&next)) {
                front.push_back(next);
            }
        }
        if let Some(later) = later(&walk)
            && seen.insert(shape(&later))
        {
            front.push_back(later);
        }
        walk.clone().must_end();
    }
    reached
}

/// What of a job decides what can come: two jobs of one plan that agree in this have one future,
/// but for the times and the numbers in it.
fn shape(walk: &Walk) -> String {
    let stops = walk.live.live().map(|(_, task)| task.live_attempt().map(|live| live.stop));
    let stops: Vec<_> = stops.collect();
    let (oracle, now) = (&walk.oracle, walk.now);
    // In this search the time does not go on while it stands still.
    let deadline = oracle.until.or(oracle.rest.map(|rest| now + rest));
    let waits = oracle.tasks.iter().filter_map(|task| waits_until(task, now));
    let mut times: Vec<i64> = waits.chain(deadline).collect();
    times.sort_unstable();
    times.dedup();
    let order = |at: i64| match at {
        at if at <= now => "due".into(),
        at => times.binary_search(&at).unwrap_or(0).to_string(),
    };
    let deadline = deadline.map(order);
    let of = |task: &Known| {
        let until = waits_until(task, now).map(order);
        let told = matches!(task.waits, Some(Waits::Signal { .. }));
        let Known { status, life, being_skipped, losses, failures, last, .. } = task;
        let (kindless, output) = (task.waits == Some(Waits::Kind), task.output.is_some());
        let consent = (task.wants_consent, task.by_condition, task.done_at_end);
        let child = (task.waits == Some(Waits::Child), task.quiet, task.child_stops);
        let waits = format!("{until:?} {told} {kindless} {consent:?} {child:?}");
        format!("{status:?} {life:?} {being_skipped} {waits} {output} {losses} {failures} {last:?}")
    };
    let tasks: Vec<String> = oracle.tasks.iter().map(of).collect();
    let (status, intent, started) = (oracle.status, oracle.intent, oracle.started);
    let end = (oracle.ending, oracle.cut, oracle.undoes_now, oracle.undoing, &oracle.done);
    let order = &oracle.order;
    // A removed task keeps what it needed, wherever others stand then.
    let needs: Vec<_> = (0..oracle.tasks.len()).map(|at| oracle.needs(at)).collect();
    let (purged, kept, holds) = (oracle.purged, oracle.kept.len(), &oracle.holds);
    let job = format!("{status:?} {intent:?} {started} {deadline:?} {purged} {end:?} {kept}");
    let job = format!("{job} {holds:?}");
    format!("{job} {stops:?} {tasks:?} {order:?} {needs:?}")
}

fn waits_until(task: &Known, now: i64) -> Option<i64> {
    match task.waits {
        Some(Waits::Retry(until) | Waits::Sleep(until)) => Some(until),
        // In this search the time does not go on while it stands still.
        Some(Waits::Signal { until, rest, .. }) => until.or(rest.map(|rest| now + rest)),
        Some(Waits::Kind | Waits::Child) | None => None,
    }
}

/// Whether signals are looked at: in every plan they would make too many states.
fn is_told(walk: &Walk) -> bool {
    walk.oracle.draft.tasks.iter().any(|task| task.sleeps == Some(Sleeps::ForSignal))
}

/// All that can be asked and reported in a state, and whether it comes too late.
fn inputs(walk: &Walk) -> Vec<(Input, bool)> {
    let tasks = walk.oracle.tasks.len();
    // Edits that add nothing to a plan: with the others there would be no end.
    let edits = (0..tasks).flat_map(|at| {
        let task = || id(&walk.oracle.name(at));
        let moved = Command::Move { task: task(), place: Place::Last };
        [Command::Retry { task: task() }, moved].map(Input::from)
    });
    let fresh = asked(&walk.oracle).into_iter().chain(edits).chain(reported(walk));
    // One signal that is kept is as good as many.
    let told = is_told(walk) && walk.oracle.kept.is_empty();
    let fresh = fresh.filter(|input| match input {
        Input::Command(Command::Signal { .. }) => told,
        Input::Report(Report::Park { wait: Wait::Signal { .. }, .. }) => is_told(walk),
        _ => true,
    });
    let mut inputs: Vec<(Input, bool)> = fresh.map(|input| (input, false)).collect();
    for (number, task) in walk.live.tasks() {
        let over = task.attempts().iter().rev().find(|attempt| attempt.outcome.is_some());
        let late = over.into_iter().flat_map(|attempt| ends(number, attempt.number));
        inputs.extend(late.map(|report| (report.into(), true)));
    }
    inputs
}

/// The same state when the next time has come that something waits for.
fn later(walk: &Walk) -> Option<Walk> {
    walk.live.due()?;
    let mut later = walk.clone();
    later.sleep();
    Some(later)
}

#[test]
fn every_state_has_a_way_out_and_answers_as_the_table_says() {
    let drafts = match setting("ANNALS_REACH_TASKS") {
        Some(3) => drafts_of_three().to_vec(),
        Some(_) => [&drafts()[..], &told()].concat(),
        None => {
            [&drafts()[..1], &[lone(), with_end(), in_a_family(), undone()], &told()[..1]].concat()
        }
    };
    for draft in drafts {
        let Reached { states, answers } = reach(draft);
        println!("{states} states");
        println!("answers: {answers} tried, 0 failed");
        assert!(states > 100, "{states} states");
    }
}
