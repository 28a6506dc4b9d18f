//! What a fork must keep of its origin, found by going over the plan: a second, simple
//! implementation, which shares no code with the machine.

use std::collections::BTreeSet;

use annals_engine::job::{Event, ForkFrom, Job, Part, Recorded, Task, TaskStatus};
use annals_tasks_sdk::JobId;
use annals_tasks_sdk::plan::{Condition, Plan, Reference, Start, references};

use crate::oracle::Oracle;
use crate::plans::{Draft, Sketch};

/// The ids of the tasks whose outputs a task takes, or whose ends it looks at.
pub(crate) fn takes(task: &Task) -> BTreeSet<String> {
    let found = references(&task.spec.template()).unwrap().into_iter();
    let outputs = found.filter_map(|found| match found.reference {
        Reference::Output { task, .. } => Some(task.to_string()),
        _ => None,
    });
    let looks = task.spec.when.as_deref().and_then(Condition::task);
    outputs.chain(looks.map(ToString::to_string)).collect()
}

fn needs(job: &Job, task: &Task) -> BTreeSet<String> {
    job.needs_of(task).into_iter().map(str::to_owned).collect()
}

/// The tasks that run anew, found by going over the plan until nothing is added.
fn anew(origin: &Job, from: &ForkFrom) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    if let ForkFrom::Task(task) = from {
        all.insert(task.to_string());
    }
    all.extend(undone(origin));
    loop {
        let rests = |task: &Task| {
            let on = |other: &String| all.contains(other);
            needs(origin, task).iter().any(on) || takes(task).iter().any(on)
        };
        let names = origin.tasks().filter(|(_, task)| rests(task));
        let more: Vec<String> = names.map(|(_, task)| task.spec.id.to_string()).collect();
        let before = all.len();
        all.extend(more);
        if all.len() == before {
            break;
        }
    }
    let open = origin.tasks().filter(|(_, task)| {
        let skipped = task.status() == TaskStatus::Skipped;
        task.part() == Part::Finally || (!task.is_settled() && !skipped)
    });
    all.extend(open.map(|(_, task)| task.spec.id.to_string()));
    let gone =
        |name: &String| status(origin, name) == TaskStatus::Removed || name.ends_with("~undo");
    all.into_iter().filter(|name| !gone(name)).collect()
}

/// The tasks that are undone, or are being undone, or will be before the run ends.
fn undone(origin: &Job) -> Vec<String> {
    let undos = origin.tasks().filter(|(_, task)| task.part() == Part::Undo);
    let begun = undos.filter(|(_, undo)| {
        let to_come = !origin.status().is_ended()
            && !matches!(undo.status(), TaskStatus::Skipped | TaskStatus::Removed);
        to_come || undo.status() == TaskStatus::Completed || !undo.attempts().is_empty()
    });
    let of = |undo: &Task| undo.spec.id.as_str().strip_suffix("~undo").unwrap().to_owned();
    begun.map(|(_, undo)| of(undo)).collect()
}

fn planned(job: &Job) -> impl Iterator<Item = &Task> {
    job.tasks().map(|(_, task)| task).filter(|task| task.part() != Part::Undo)
}

pub(crate) fn status(job: &Job, name: &str) -> TaskStatus {
    job.task(job.find(name).unwrap()).unwrap().status()
}

/// A fork as it was when all copies had been made, and what it does anew; from its first events.
pub(crate) fn begun(id: JobId, history: &[Recorded]) -> (Job, ForkFrom) {
    let mut job = Job::begin(id, &history[0]).unwrap();
    let Event::JobForked { seq, task, copied, .. } = &history[1].event else { panic!() };
    for event in &history[1..2 + *copied as usize] {
        job.evolve(event).unwrap();
    }
    let named = task.map(|task| ForkFrom::Task(job.task(task).unwrap().spec.id.clone()));
    (job, named.unwrap_or(ForkFrom::Seq(*seq)))
}

/// Whether a fork is what it must be, before its first task starts.
pub(crate) fn check_begun(origin: &Job, from: &ForkFrom, (job, history): (&Job, &[Recorded])) {
    let anew = anew(origin, from);
    let kept = planned(origin).count() - anew.len();
    let Event::JobForked { job: of, seq, copied, task } = &history[1].event else {
        panic!("{:?}", history[1])
    };
    assert_eq!((*of, *seq, *copied as usize), (origin.id(), origin.seq(), kept));
    let named = task.map(|task| job.task(task).unwrap().spec.id.clone());
    assert_eq!(named, if let ForkFrom::Task(task) = from { Some(task.clone()) } else { None });
    assert_eq!(job.forked_from().map(|from| (from.job, from.seq)), Some((*of, *seq)));
    let order = |job: &Job| planned(job).map(|task| task.spec.id.clone()).collect::<Vec<_>>();
    assert_eq!(order(job), order(origin), "the plan has the same order");
    for (_, task) in job.tasks() {
        let name = task.spec.id.as_str();
        let old = origin.task(origin.find(name).unwrap()).unwrap();
        assert!(task.attempts().is_empty() && task.checkpoint().is_none(), "{name}");
        assert!(task.steps().is_empty(), "{name}");
        assert_eq!((task.losses(), task.failures(), task.waiting()), (0, 0, None), "{name}");
        let (old_needs, new_needs) = (needs(origin, old), needs(job, task));
        let added: BTreeSet<String> = new_needs.difference(&old_needs).cloned().collect();
        assert!(old_needs.is_subset(&new_needs), "{name}");
        if anew.contains(name) {
            let fresh = (task.status(), task.output(), task.error());
            assert_eq!(fresh, (TaskStatus::Pending, None, None), "{name}");
            assert!(added.is_subset(&takes(task)) && added.is_subset(&anew), "{name}: {added:?}");
        } else {
            let stays = (task.status(), task.output(), task.error());
            assert_eq!(stays, (old.status(), old.output(), old.error()), "{name}");
            assert!(added.is_empty(), "{name}: {added:?}");
        }
    }
}

/// Whether a task that would run anew takes, without a default, what is not there any more.
pub(crate) fn lacks(origin: &Job, from: &ForkFrom) -> bool {
    let anew = anew(origin, from);
    let gone = |name: &str| {
        let task = origin.task(origin.find(name).unwrap()).unwrap();
        let passed = matches!(task.status(), TaskStatus::Skipped | TaskStatus::Removed);
        passed && !anew.contains(name) && task.output().is_none()
    };
    let strict = |task: &Task| {
        let found = references(&task.spec.template()).unwrap().into_iter();
        found.into_iter().any(|found| match found.reference {
            Reference::Output { task, default: None, .. } => gone(task.as_str()),
            _ => false,
        })
    };
    let mut work = origin.tasks().filter(|(_, task)| task.part() == Part::Tasks);
    work.any(|(_, task)| anew.contains(task.spec.id.as_str()) && strict(task))
}

/// Whether a task that would run anew takes the output of one that would only run after it.
pub(crate) fn ties_a_knot(origin: &Job, from: &ForkFrom) -> bool {
    let anew = anew(origin, from);
    let behind = |task: &Task| {
        let mut all = needs(origin, task);
        if anew.contains(task.spec.id.as_str()) {
            all.extend(takes(task).intersection(&anew).cloned());
        }
        all
    };
    let work = origin.tasks().filter(|(_, task)| task.part() == Part::Tasks);
    let mut left: Vec<_> = work.map(|(_, task)| task).collect();
    loop {
        let waits = |task: &Task| {
            let on = behind(task);
            left.iter().any(|other| on.contains(other.spec.id.as_str()))
        };
        let rest: Vec<_> = left.iter().copied().filter(|task| waits(task)).collect();
        if rest.len() == left.len() {
            return !rest.is_empty();
        }
        left = rest;
    }
}

impl Oracle {
    /// Of a fork, whose plan has the tasks in another order than that of their names.
    pub(crate) fn of_fork(plan: &Plan) -> Self {
        let number = |id: &str| id.strip_prefix('t').unwrap().parse::<usize>().unwrap();
        let mut renamed = vec![0; plan.all_tasks().count()];
        for (at, spec) in plan.all_tasks().enumerate() {
            renamed[number(spec.id.as_str())] = at;
        }
        let work = plan.tasks.len();
        let all = plan.all_tasks().enumerate();
        let tasks = all.map(|(at, spec)| Sketch::of(spec, at >= work).renamed(&renamed)).collect();
        let deadline = plan.deadline.map(|limit| limit.as_millis().try_into().unwrap());
        // What the plan gives in the end is not for the oracle to judge.
        let fail_fast = plan.fail_fast;
        let exclusive = plan.exclusive.is_some();
        let start_at = match plan.start {
            Start::At(time) => Some(time.as_millis()),
            _ => None,
        };
        let compensate_on = plan.compensate_on.to_vec();
        let draft = Draft { start_at, deadline, fail_fast, exclusive, ..Draft::of(tasks) };
        let draft = Draft { compensate_on, ..draft };
        let mut oracle = Self::new(draft);
        oracle.renamed = renamed;
        oracle
    }

    pub(crate) fn sketch_of(
        &self,
        spec: &annals_tasks_sdk::plan::TaskSpec,
        at_end: bool,
    ) -> Sketch {
        Sketch::of(spec, at_end).renamed(&self.renamed)
    }

    pub(crate) fn becomes_fork(&mut self, copied: u32) {
        assert_eq!(self.seq, 2, "a job does not become a fork later");
        self.copies = copied;
    }

    /// Whether what is said of a task now is a copy; then it has all that it needs.
    pub(crate) fn is_copy(&self, at: usize) -> bool {
        if self.copies > 0 {
            assert!(self.is_ready(at, &self.settled()), "t{at} is copied before what it needs");
        }
        self.copies > 0
    }

    pub(crate) fn one_copy_less(&mut self, event: &Event) {
        if self.copies > 0 && !matches!(event, Event::JobForked { .. }) {
            self.copies -= 1;
        }
    }
}

impl Sketch {
    fn renamed(mut self, by: &[usize]) -> Self {
        let new = |at: usize| by.get(at).copied().unwrap_or(at);
        self.needs.iter_mut().flatten().for_each(|need| *need = new(*need));
        self.takes.iter_mut().for_each(|(from, _)| *from = new(*from));
        self.looks.iter_mut().for_each(|looks| looks.renamed(new));
        self
    }
}
