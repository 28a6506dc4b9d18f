//! Forks: what of a job they keep, and what runs anew.

use std::collections::BTreeSet;

use annals_engine::job::{
    Command, Effect, Event, ForkError, ForkFrom, Job, JobStatus, LogSize, LossRule, Outcome, Part,
    Recorded, Report, TaskStatus, begin, fork, step,
};
use annals_tasks_sdk::{Done, Exit, JobId, Payload};

use crate::copied::{begun, check_begun, lacks, status, takes, ties_a_knot};
use crate::dsl::{World, at, command, id, replay};
use crate::table::Column;

/// A fork of a job, and its history; a refusal has its code.
pub(crate) fn made(
    origin: &Job,
    from: &ForkFrom,
    edits: Vec<Command>,
) -> Result<(Job, Vec<Recorded>), &'static str> {
    let before = origin.clone();
    let made = fork(origin, from, edits, |_, _| None);
    assert_eq!(*origin, before, "the origin stays as it is");
    let events = match made {
        Ok(events) => events,
        Err(ForkError::Rejected(refused)) => return Err(refused.code),
        Err(ForkError::Edit { rejection: refused, .. }) => {
            assert_eq!(refused.errors.is_empty(), refused.code != "invalid_task");
            return Err(refused.code);
        }
        Err(illegal) => panic!("{from:?}: {illegal}"),
    };
    let (job, history) = begin(JobId::from_u128(1), events, &at(1_000_000)).unwrap();
    assert_eq!(replay(&history), job, "replay equals live");
    assert_eq!((job.revision(), history.iter().filter(|event| event.leads).count()), (1, 1));
    Ok((job, history))
}

fn of_task(job: &Job, name: &str) -> Result<World, &'static str> {
    let (job, history) = made(job, &ForkFrom::Task(id(name)), Vec::new())?;
    Ok(World { job, history, now: 1_000_000 })
}

/// Runs a job in which every attempt succeeds. What has settled does not start, nothing is missing
/// but what a tolerated failure does not give, and the job ends.
fn run(job: &mut Job, history: &mut Vec<Recorded>) {
    let cx = at(1_000_000);
    if job.status() == JobStatus::Pending {
        history.extend(step(job, command("execute"), &cx).unwrap());
    }
    let mut give = |job: &mut Job, input: Report| {
        let events = step(job, input, &cx).unwrap();
        history.extend_from_slice(&events);
        events
    };
    while job.status() == JobStatus::Running {
        let wanted = job.effects(cx.now, LossRule::default()).find_map(|effect| match effect {
            Effect::Want { task, .. } => Some(task),
            _ => None,
        });
        let task = wanted.expect("a running job has something to start");
        let events = give(job, Report::Start { task });
        let of = job.task(task).unwrap();
        let (name, taken) = (of.spec.id.clone(), takes(of));
        match &events[0].event {
            Event::AttemptStarted { attempt, .. } => {
                assert_eq!(*attempt, 1, "{name}");
                let output = Payload::parse(&format!("\"{name}\"")).unwrap();
                let done = Done { output, exit: Exit::default() };
                let (outcome, log) = (Outcome::Completed(done), LogSize::default());
                give(job, Report::Ended { task, attempt: 1, outcome, log });
            }
            Event::TaskFailed { error, .. } => {
                // A failure that is tolerated, or a condition, may leave it without an input.
                let gives_none = |name: &String| {
                    matches!(status(job, name), TaskStatus::Failed | TaskStatus::Skipped)
                };
                assert!(taken.iter().any(gives_none), "{name}: {error:?}");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
    assert_eq!(replay(history), *job);
}

/// Forks a job in this way, if it lets itself be forked so, and sees that the fork is what it must
/// be and comes to its end. Gives its history, or the code of a refusal.
pub(crate) fn check(origin: &Job, from: &ForkFrom) -> Result<Vec<Recorded>, &'static str> {
    let (mut job, mut history) = match made(origin, from, Vec::new()) {
        Ok(made) => made,
        Err(code) => {
            match (code, from) {
                ("other_part", ForkFrom::Task(task)) => {
                    let named = origin.task(origin.find(task.as_str()).unwrap()).unwrap();
                    assert_ne!(named.part(), Part::Tasks);
                }
                ("task_is_settled", ForkFrom::Task(task)) => {
                    assert_eq!(status(origin, task.as_str()), TaskStatus::Removed);
                }
                ("output_is_missing", _) => assert!(lacks(origin, from)),
                ("would_lose_order", _) => assert!(ties_a_knot(origin, from)),
                other => panic!("{other:?}"),
            }
            return Err(code);
        }
    };
    assert!(!lacks(origin, from) && !ties_a_knot(origin, from), "{from:?}");
    let (then, named) = begun(job.id(), &history);
    assert_eq!(named, *from);
    check_begun(origin, from, (&then, &history));
    run(&mut job, &mut history);
    Ok(history)
}

/// All ways to fork a job as it stands.
fn check_all(job: &Job) {
    for (_, task) in job.tasks() {
        // Whether it may be refused is looked at there.
        let _ = check(job, &ForkFrom::Task(task.spec.id.clone()));
    }
    assert_eq!(check(job, &ForkFrom::Seq(job.seq())).err(), None);
}

const HISTORIES: [(&str, &str, Column); 8] = [
    ("@manual a b c", "", Column::Pending),
    ("a b c", "start a; done a; start b; checkpoint b; step b s", Column::Running),
    ("a b c", "start a; done a; start b; pause", Column::Pausing),
    (
        "a b c",
        "start a; done a; start b; checkpoint b; step b s; interrupt; stopped b",
        Column::Paused,
    ),
    ("a b c", "start a; done a; start b; cancel", Column::Cancelling),
    ("a b c", "start a; done a; start b; done b; start c; done c", Column::Completed),
    ("a b*2 c", "start a; done a; start b; fail b; +99; start b; fail b", Column::Failed),
    ("a b c", "start a; done a; start b; cancel; stopped b", Column::Cancelled),
];

#[test]
fn a_job_is_forked_in_every_status() {
    let columns: BTreeSet<Column> = HISTORIES.iter().map(|(.., column)| *column).collect();
    // Of one that was purged nothing can be forked.
    assert_eq!(columns.len(), Column::ALL.len() - 1);
    for (plan, history, column) in HISTORIES {
        let world = World::new(plan).given(history);
        assert_eq!(Column::of(&world.job), column);
        check_all(&world.job);
    }
}

#[test]
fn what_needs_the_task_runs_anew_and_other_branches_stay() {
    let world = World::new("a b<a c<a d<b e<c f<d,e").given(
        "start a; done a; start b; done b; start c; done c; start d; done d; start e; done e; \
         start f; done f",
    );
    for (from, tasks) in [
        ("a", "a=pending b=pending c=pending d=pending e=pending f=pending"),
        ("b", "a=completed b=pending c=completed d=pending e=completed f=pending"),
        ("e", "a=completed b=completed c=completed d=completed e=pending f=pending"),
        ("f", "a=completed b=completed c=completed d=completed e=completed f=pending"),
    ] {
        let fork = of_task(&world.job, from).unwrap();
        assert_eq!(fork.tasks(), tasks, "from {from}");
        assert_eq!(fork.effects(), format!("want {from}"));
    }
    check_all(&world.job);
}

#[test]
fn whoever_takes_the_output_of_a_task_runs_anew_behind_it_also_where_it_needed_it_not() {
    // When it came, what it takes was there already.
    let world = World::new("a b").given("start a; done a; start b; insert z<$a; done b");
    let world = world.given("start z; done z");
    let fork = of_task(&world.job, "a").unwrap();
    assert_eq!(fork.tasks(), "a=pending b=pending z=pending");
    assert_eq!(fork.effects(), "want a");
    assert_eq!(fork.given("start a; done a").effects(), "want b, want z");
    let fork = of_task(&world.job, "b").unwrap();
    assert_eq!(fork.tasks(), "a=completed b=pending z=completed");
    check_all(&world.job);
}

#[test]
fn every_event_of_a_history_is_forked_from() {
    let long = [
        (
            "a b*2 c<a d?<b e<c,d",
            "start a; done a; start b; checkpoint b; step b s; fail b; start c; done c;\
            +99; start b; done b; start d; fail d; start e; done e",
        ),
        (
            "a b c$b= d",
            "start a; skip b; done a; start c; interrupt; stopped c; remove d; resume;\
            insert z; start c; done c; start z; done z",
        ),
        (
            "@manual a b d<b c e",
            "remove b; move c first; execute; start c; insert x after a; start a; done c; done a; \
             start d; recover; start d; done d; move e before x; start e; done e; start x",
        ),
        ("a! b", "start a; fail a; resume; start a; done a; cancel; execute; start b; done b"),
        ("a^fail b", "start a; recover; execute; start a; done a; sleep b 2000; cancel; execute"),
    ];
    for (plan, script) in HISTORIES.iter().map(|(plan, script, _)| (*plan, *script)).chain(long) {
        let history = World::new(plan).given(script).history;
        for upto in 1..=history.len() {
            check_all(&replay(&history[..upto]));
        }
    }
}

#[test]
fn edits_are_applied_before_the_start_all_or_none() {
    let world = World::new("a b c$b").given("start a; done a; start b; give_up b");
    let forked = |edits: &[&str]| {
        let edits = edits.iter().map(|line| command(line)).collect();
        let made = made(&world.job, &ForkFrom::Task(id("b")), edits);
        made.map(|(job, history)| World { job, history, now: 1_000_000 })
    };
    let fork = forked(&["insert x after a", "edit b {\"title\":\"B\"}", "move c last"]).unwrap();
    assert_eq!(fork.tasks(), "a=completed x=pending b=pending c=pending");
    assert_eq!(fork.effects(), "want x");
    assert_eq!(fork.job.task(fork.job.find("b").unwrap()).unwrap().spec.title, Some("B".into()));
    let fork = forked(&["skip b =7"]).unwrap();
    assert_eq!(
        (fork.tasks().as_str(), fork.effects().as_str()),
        ("a=completed b=skipped c=pending", "want c",)
    );
    let all = forked(&["remove b cascade"]).unwrap();
    assert_eq!(all.job.status(), JobStatus::Completed, "nothing is left to do");
    for (edits, code) in [
        (&["insert x after a", "remove b"][..], "output_is_taken"),
        (&["skip a"], "task_is_settled"),
        (&[r#"edit nobody {"title":"x"}"#], "no_such_task"),
        (&["insert a*3"], "task_exists"),
        (&["skip"], "which_task"),
        (&["cancel"], "not_an_edit"),
        (&["retry b"], "not_an_edit"),
    ] {
        assert_eq!(forked(edits).err(), Some(code), "{edits:?}");
    }
}

#[test]
fn what_cannot_be_forked_is_refused() {
    let world = World::new("a b$a c$b").given("skip a cascade");
    assert_eq!(of_task(&world.job, "nobody").err(), Some("no_such_task"));
    assert_eq!(of_task(&world.job, "b").err(), Some("output_is_missing"));
    assert_eq!(of_task(&world.job, "a").unwrap().effects(), "want a");
    let edits = vec![command(r#"edit b {"input":null}"#)];
    assert!(made(&world.job, &ForkFrom::Task(id("b")), edits).is_ok(), "it takes nothing now");
    let world = World::new("a b").given("remove b; start a");
    assert_eq!(of_task(&world.job, "b").err(), Some("task_is_settled"));
    for seq in [0, 2, 3, 5, u64::MAX] {
        let refused = made(&world.job, &ForkFrom::Seq(seq), Vec::new());
        assert_eq!(refused.err(), Some("no_such_event"), "{seq}");
    }
}

#[test]
fn a_fork_starts_as_its_plan_says_and_ends_where_nothing_is_left() {
    let world = World::new("@manual a b").given("execute; start a; done a");
    let fork = of_task(&world.job, "b").unwrap();
    assert_eq!(fork.job.status(), JobStatus::Pending);
    assert_eq!(fork.given("execute").effects(), "want b");
    let world = World::new("a b? @out$a").given("start a; done a 5; start b; fail b");
    let (job, _) = made(&world.job, &ForkFrom::Seq(world.job.seq()), Vec::new()).unwrap();
    assert_eq!(job.status(), JobStatus::Completed);
    assert_eq!(job.output().unwrap().unwrap().as_str(), "[5]");
    // A fork is forked, and names the nearest.
    let (fork, history) = made(&job, &ForkFrom::Task(id("b")), Vec::new()).unwrap();
    check_begun(&job, &ForkFrom::Task(id("b")), (&fork, &history));
}

#[test]
fn nothing_but_copies_comes_where_copies_are_due() {
    let world = World::new("a b? c").given("start a; done a; start b; fail b; start c");
    let (job, history) = made(&world.job, &ForkFrom::Task(id("c")), Vec::new()).unwrap();
    let started = history.iter().position(|event| event.event == Event::JobStarted).unwrap();
    assert_eq!(started, 4, "two copies stand behind the first two events");
    for upto in 2..started {
        let then = replay(&history[..upto]);
        for (place, event) in history.iter().enumerate().filter(|(place, _)| *place != upto) {
            // A failure waits for nothing: of what it needs now it may have been free.
            if place == upto + 1 && matches!(event.event, Event::TaskFailed { .. }) {
                continue;
            }
            let next = Recorded { seq: then.seq() + 1, ..event.clone() };
            let mut job = then.clone();
            assert!(job.evolve(&next).is_err(), "event {place} at place {upto}");
            assert_eq!(job, then);
        }
    }
    let late = Recorded { seq: job.seq() + 1, ..history[1].clone() };
    assert!(job.clone().evolve(&late).is_err(), "a job does not become a fork");
    let late = Recorded { seq: job.seq() + 1, ..history[2].clone() };
    assert!(job.clone().evolve(&late).is_err(), "no copy comes later");
    let Event::TaskFailed { error, .. } = &history[3].event else { panic!("{history:?}") };
    let mut strict = Job::begin(job.id(), &World::new("a b c").history[0]).unwrap();
    strict.evolve(&Recorded { time: strict.time(), ..history[1].clone() }).unwrap();
    strict.evolve(&history[2]).unwrap();
    let (task, error) = (strict.find("b").unwrap(), error.clone());
    let fails = Recorded { event: Event::TaskFailed { task, error }, ..history[3].clone() };
    assert!(strict.evolve(&fails).is_err(), "only a tolerated failure is copied");
}

#[test]
fn what_has_come_to_stand_before_what_it_takes_is_refused_unless_it_is_moved() {
    let world = World::new("@manual a b$a").given("skip b; move a last");
    assert_eq!(of_task(&world.job, "b").err(), Some("would_lose_order"));
    assert_eq!(of_task(&world.job, "a").err(), Some("would_lose_order"), "b takes what it gives");
    let edits = || vec![command("move b last")];
    let (job, _) = made(&world.job, &ForkFrom::Task(id("b")), edits()).unwrap();
    let fork = World { job, history: Vec::new(), now: 0 };
    assert_eq!(fork.tasks(), "a=pending b=pending");
    let (job, _) = made(&world.job, &ForkFrom::Seq(world.job.seq()), Vec::new()).unwrap();
    assert_eq!(World { job, history: Vec::new(), now: 0 }.tasks(), "b=skipped a=pending");
}

#[test]
fn a_failure_that_is_tolerated_since_stays_whatever_the_task_has_come_to_need() {
    let world = World::new("a b").given("start a; fail a; insert x before a");
    let world = world.given(r#"edit a {"on_failure":"continue"}"#);
    assert_eq!(world.tasks(), "x=pending a=failed b=pending");
    let (job, _) = made(&world.job, &ForkFrom::Seq(world.job.seq()), Vec::new()).unwrap();
    let fork = World { job, history: Vec::new(), now: 0 };
    assert_eq!(fork.tasks(), "x=pending a=failed b=pending");
    check_all(&world.job);
}
