//! The machine beside the oracle: state and effects must be what the history alone gives.

use std::collections::BTreeSet;

use annals_engine::job::{
    CancelMode, Deadline, Effect, Job, JobStatus, LossRule, Order, Part, TaskNumber, TaskStatus,
    Waiting,
};
use annals_tasks_sdk::Timestamp;
use annals_tasks_sdk::plan::Decision;
use std::time::Duration;

use crate::looks::Looks;
use crate::oracle::{Life, Oracle, Waits, index};
use crate::told::{Kept, which};

/// Compares what any event, also one in the middle of a command, must leave behind.
pub(crate) fn after_event(job: &Job, oracle: &Oracle, now: i64) {
    assert_eq!((job.status(), job.intent()), (oracle.status, oracle.intent));
    let at = |until| Deadline::At(Timestamp::from_millis(until));
    let left = |rest: i64| Deadline::Left(Duration::from_millis(rest.try_into().unwrap()));
    let undoing = job.undoing().map(|undoing| (undoing.end(), undoing.is_done()));
    assert_eq!(undoing, oracle.undoing.map(|undoing| (undoing.end, undoing.is_done)));
    assert_eq!(job.deadline(), oracle.until.map(at).or(oracle.rest.map(left)));
    let settled = oracle.settled();
    for (number, task) in job.tasks() {
        let at = index(number);
        let known = &oracle.tasks[at];
        assert_eq!(task.status(), known.status, "t{at}");
        assert_eq!(task.is_settled(), settled[at], "t{at} is settled");
        assert_eq!(task.live_attempt().is_some(), known.is_live(), "t{at} is alive");
        assert_eq!(task.is_being_skipped(), known.being_skipped, "t{at} is being skipped");
        assert_eq!(task.attempts().len(), known.attempts as usize);
        assert_eq!(task.losses(), known.losses, "losses of t{at}");
        assert_eq!(task.output(), known.output.as_ref(), "output of t{at}");
        let steps = task.steps().as_slice().iter();
        let steps = steps.map(|step| (step.seq, (step.name.clone(), step.attempt, step.value)));
        // A settled task never runs again.
        let runs_again = !settled[at] || (oracle.is_undo(at) && known.status == TaskStatus::Failed);
        let kept = known.steps.iter().filter(|_| runs_again);
        let kept = kept.map(|(seq, step)| (*seq, step.clone()));
        assert_eq!(steps.collect::<Vec<_>>(), kept.collect::<Vec<_>>(), "steps of t{at}");
        for (name, ..) in known.steps.values().filter(|_| runs_again) {
            assert!(task.steps().get(name).is_some(), "step {name} of t{at} is found");
        }
        let waits = task.waiting().map(|waiting| match waiting {
            Waiting::Retry { until } => Waits::Retry(until.as_millis()),
            Waiting::Timer { until } => Waits::Sleep(until.as_millis()),
            Waiting::Signal { timeout } => Waits::Signal {
                name: which(&task.awaits()[0]),
                until: waiting.until().map(Timestamp::as_millis),
                rest: timeout.and_then(|timeout| match timeout {
                    Deadline::Left(rest) => Some(i64::try_from(rest.as_millis()).unwrap()),
                    Deadline::At(_) => None,
                }),
            },
            Waiting::Job => Waits::Child,
            _ => Waits::Kind,
        });
        assert_eq!(waits, known.waits, "t{at} waits");
    }
    let kept = job.kept_signals();
    let mut kept: Vec<Kept> = kept
        .map(|(seq, name, payload)| Kept { seq, name: which(name), payload: payload.clone() })
        .collect();
    kept.sort_by_key(|kept| kept.seq);
    assert_eq!(kept, oracle.kept, "signals that are kept");
    assert_eq!((job.signals_kept(), job.awaits_signals()), (kept.len(), oracle.awaits_any()));
    family(job, oracle);
    counts(job, oracle, &settled);
    effects(job, oracle, &settled, now);
}

/// Who holds the job, and what it wants of its children.
fn family(job: &Job, oracle: &Oracle) {
    let holds = (job.is_held_by_own(), job.is_held_by_parent());
    assert_eq!(holds, (oracle.holds.own, oracle.holds.parent), "who holds it");
    let children: Vec<usize> = job.children().map(index).collect();
    let waiting =
        (0..oracle.tasks.len()).filter(|&at| oracle.tasks[at].waits == Some(Waits::Child));
    assert_eq!(children, waiting.collect::<Vec<_>>(), "who waits for children");
    for task in job.children() {
        let (known, wish) = (&oracle.tasks[index(task)], job.wish(task).unwrap());
        let child = job.task(task).and_then(|task| task.open_child()).unwrap();
        assert_eq!(child.is_quiet(), known.quiet);
        match wish.order {
            Order::Stop { mode } => {
                assert!(known.child_stops);
                assert_eq!(mode == CancelMode::Now, oracle.cut);
            }
            Order::Hold { mode, .. } => assert_eq!(Some(mode), oracle.holds.mode),
            Order::Go => assert!(oracle.holds.mode.is_none() && !known.child_stops),
        }
    }
}

fn counts(job: &Job, oracle: &Oracle, settled: &[bool]) {
    let count = |status| oracle.tasks.iter().filter(|task| task.status == status).count();
    let counts = job.counts();
    assert_eq!(counts.completed as usize, count(TaskStatus::Completed));
    assert_eq!(counts.skipped as usize, count(TaskStatus::Skipped));
    assert_eq!(counts.removed as usize, count(TaskStatus::Removed));
    let unsettled =
        (0..settled.len()).filter(|&at| !settled[at] && oracle.part(at) == Part::Tasks).count();
    assert_eq!(job.unsettled() as usize, unsettled);
    let tolerated = (0..oracle.tasks.len())
        .filter(|&at| oracle.tasks[at].status == TaskStatus::Failed && settled[at]);
    assert_eq!(counts.tolerated as usize, tolerated.count());
}

/// The ready, live and timed sets show in the effects: a recomputation must give the same.
fn effects(job: &Job, oracle: &Oracle, settled: &[bool], now: i64) {
    let (mut run, mut stop, mut want) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    let (mut suspects, mut wake) = (BTreeSet::new(), None);
    for effect in job.effects(Timestamp::from_millis(now), LossRule::default()) {
        match effect {
            Effect::Run { task, attempt } => assert!(run.insert((index(task), attempt))),
            Effect::Stop { task, attempt, .. } => assert!(stop.insert((index(task), attempt))),
            Effect::Want { task, suspect } => {
                want.push(index(task));
                suspects.extend(suspect.then_some(index(task)));
            }
            Effect::Wake { at } => assert!(wake.replace(at.as_millis()).is_none()),
            other => panic!("{other:?}"),
        }
    }
    let all = || (0..oracle.tasks.len()).map(|at| (at, &oracle.tasks[at]));
    let live = all().filter(|(_, task)| task.is_live()).map(|(at, task)| (at, task.attempts));
    assert_eq!(run, live.collect(), "what is alive");
    let stopping = all().filter(|(_, task)| task.life == Life::Stopping);
    assert_eq!(stop, stopping.map(|(at, task)| (at, task.attempts)).collect(), "what stops");

    let open = oracle.dispatches() && !oracle.is_overdue(now);
    let could =
        |at: usize| open && oracle.is_ready(at, settled) && oracle.decides(at) == Decision::Run;
    let ready: Vec<usize> = oracle.order.iter().copied().filter(|&at| could(at)).collect();
    assert!(want.starts_with(&ready), "ready are {ready:?}, wanted {want:?}");
    let waited = all().filter(|(_, task)| match task.waits {
        Some(Waits::Kind) => open,
        Some(Waits::Retry(due)) => open && due <= now,
        Some(Waits::Sleep(_) | Waits::Signal { .. } | Waits::Child) | None => false,
    });
    let waited: BTreeSet<usize> = waited.map(|(at, _)| at).collect();
    let rest: BTreeSet<usize> = want[ready.len()..].iter().copied().collect();
    assert_eq!((rest.len(), &rest), (want.len() - ready.len(), &waited), "what waited");
    let suspected = want.iter().copied().filter(|&at| oracle.tasks[at].losses >= 3);
    assert_eq!(suspects, suspected.collect(), "suspects");

    let times = all().filter_map(|(_, task)| match task.waits {
        Some(Waits::Sleep(due)) => Some(due),
        Some(Waits::Retry(due)) => Some(due).filter(|&due| due > now),
        Some(Waits::Signal { until, .. }) => until,
        Some(Waits::Kind | Waits::Child) | None => None,
    });
    let goes_on = oracle.dispatches();
    let late = oracle.is_overdue(now);
    let until = oracle.until.map(|until| if late { until.min(now) } else { until });
    let times = times.min().filter(|_| goes_on).into_iter().chain(oracle.starts_at());
    let next = times.chain(until).min();
    assert_eq!(wake, next, "the next time");
    let first = all().filter_map(|(_, task)| task.due()).min().filter(|_| goes_on);
    let first = first.into_iter().chain(oracle.until).chain(oracle.starts_at()).min();
    assert_eq!(job.due().map(Timestamp::as_millis), first, "what the views keep");
}

/// What must hold when a command has run its course.
pub(crate) fn after_command(job: &Job, oracle: &Oracle, now: i64) {
    let effects = job.effects(Timestamp::from_millis(now), LossRule::default());
    let effects: Vec<Effect> = effects.collect();
    let some = !effects.is_empty();
    // A deadline is no way on: what else there is must not need it.
    let timed = oracle.dispatches() && oracle.tasks.iter().any(|task| task.due().is_some());
    // Nor does a job need one that is to be told something, or has children that are.
    let told = (oracle.dispatches() && oracle.awaits_any()) || oracle.has_children();
    let moves =
        told || timed || effects.iter().any(|effect| !matches!(effect, Effect::Wake { .. }));
    match job.status() {
        JobStatus::Pending if oracle.starts_at().is_some() => {
            assert!(matches!(effects[..], [Effect::Wake { .. }]), "{effects:?}");
        }
        JobStatus::Pending | JobStatus::Paused => assert!(!some, "a held job does something"),
        JobStatus::Running if oracle.is_overdue(now) => {
            let late =
                |effect: &Effect| matches!(effect, Effect::Wake { at } if at.as_millis() <= now);
            assert!(effects.iter().any(late), "it is not woken");
        }
        JobStatus::Running => assert!(moves, "a wake-up is lost"),
        _ => assert!(!some, "an ended job does something"),
    }
    let carried_on = job.is_live() || oracle.has_children() || job.ending().is_some();
    assert!(job.intent().is_none() || carried_on, "an intent that nobody carries on");
    let told = told || (job.status() == JobStatus::Running && oracle.awaits_any());
    let woken = told || job.is_active() || job.due().is_some();
    // What is held but keeps others from their key is found again for their sake.
    let holds = job.exclusive().is_some_and(|own| own.taken);
    let waits = oracle.has_children() || oracle.starts_at().is_some();
    let found =
        job.status() == JobStatus::Running || waits || (holds && job.status() == JobStatus::Paused);
    assert_eq!(woken, found, "found again after a restart");
    assert!(!holds || !job.status().is_ended(), "an ended job holds its key");
    let settled = oracle.settled();
    if job.status() == JobStatus::Running {
        assert!(settled.contains(&false), "a job with nothing left goes on");
    }
    if oracle.dispatches() && oracle.ending.is_none() {
        assert!(!oracle.wants_operator(), "a failure that pauses was passed over");
    }
    let forgotten = oracle.tasks.iter().find(|task| task.being_skipped && !task.is_engaged());
    assert!(forgotten.is_none(), "a skip is forgotten");
    assert!(!oracle.keeps_back() && oracle.answered.is_none(), "a signal is not delivered");
    data_flows(oracle, &settled);
}

/// Who is still to run finds the outputs that it takes, and comes after those that give them.
fn data_flows(oracle: &Oracle, settled: &[bool]) {
    for at in (0..oracle.tasks.len()).filter(|&at| oracle.is_to_run(at, settled)) {
        // Work that is over takes nothing any more.
        if oracle.undoing.is_some() && oracle.part(at) == Part::Tasks {
            continue;
        }
        let sketch = oracle.sketch(at);
        let looks = sketch.looks.as_ref().and_then(Looks::at);
        let takes = sketch.takes.iter().filter(|_| !sketch.at_end).copied();
        // What is done at the end comes behind all of the work.
        let looks = looks.filter(|&from| !sketch.at_end || oracle.is_at_end(from));
        let takes: Vec<(usize, bool)> = takes.chain(looks.map(|from| (from, true))).collect();
        if takes.is_empty() {
            continue;
        }
        let needed = oracle.all_needs(at);
        assert!(!needed[at], "t{at} needs itself");
        for (from, default) in takes {
            // A condition may well leave others without what they take.
            let known = &oracle.tasks[from];
            let passed_over = oracle.is_passed_over(from) && !known.by_condition;
            let gone = (passed_over && known.output.is_none()) || known.gives_nothing;
            assert!(default || !gone, "t{at} takes the output of t{from}, which is gone");
            let ordered = needed[from] || !oracle.is_to_run(from, settled);
            assert!(ordered, "t{at} takes the output of t{from} and does not need it");
        }
    }
}

/// The needs that the machine shows are those that the definition gives.
pub(crate) fn needs(job: &Job, oracle: &Oracle) {
    for (number, task) in job.tasks() {
        let at = index(number);
        let names: BTreeSet<String> =
            oracle.needs(at).into_iter().map(|at| oracle.name(at)).collect();
        let shown: BTreeSet<String> = job.needs_of(task).into_iter().map(String::from).collect();
        assert_eq!(shown, names, "needs of t{at}");
        assert_eq!(job.find(&oracle.name(at)), Some(TaskNumber(number.0)));
    }
}
