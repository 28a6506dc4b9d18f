//! Data flow: what a task is given, what the job gives, and who takes whose output.

use std::cell::Cell;
use std::collections::HashMap;

use annals_tasks_sdk::plan::{
    Condition, Found, PlanError, Reference, TaskSpec, Unresolved, references, resolve_within,
    resolves_within,
};
use annals_tasks_sdk::{Payload, TaskId};

use super::draft::{Draft, Needs};
use super::event::{Failure, Part, TaskNumber};
use super::state::{Job, Task, index};
use super::status::TaskStatus;

/// A template that takes large outputs many times over grows no further than this.
pub(super) const FILLED_MAX: usize = 16 << 20;

/// A place where the output of a task is taken, without a default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependant {
    /// The id of the task that takes it; `None` is the plan's `output`.
    pub task: Option<String>,
    /// JSON Pointer of the reference in that task's input, or in the plan's output; `when` where
    /// it is that task's condition, and with `for_each` before it where it is in that task's list.
    pub reference: String,
}

impl Job {
    /// The input of a task, with the values that its references name.
    pub fn input_of(&self, task: &Task) -> Result<Payload, Failure> {
        let item = self.item_of(task);
        let sources = Sources { job: self, item: item.as_ref(), too_much: Cell::new(None) };
        let find = |reference: &Reference| sources.value_of(reference);
        let filled = resolve_within(&task.spec.template(), FILLED_MAX, find);
        sources.judge(filled)
    }

    /// Why [`Job::input_of`] would give no input. Outputs are large, and whether there is an
    /// input is asked before every attempt: it is not built to be thrown away.
    pub fn lacks_input(&self, task: &Task) -> Option<Failure> {
        let item = self.item_of(task);
        let sources = Sources { job: self, item: item.as_ref(), too_much: Cell::new(None) };
        let find = |reference: &Reference| sources.value_of(reference);
        let resolves = resolves_within(&task.spec.template(), FILLED_MAX, find);
        sources.judge(resolves).err()
    }

    /// What the job gives: the plan's `output`, or the output of the last task that has not been
    /// removed.
    pub fn output(&self) -> Result<Option<Payload>, Failure> {
        if let Some(template) = &self.header.output {
            // Who passed over a task that it takes was told, and let it go along.
            if self.takes_what_is_gone(template) {
                return Ok(None);
            }
            return self.fill(template).map(Some);
        }
        let last = self.order.iter().rev().map(|&at| &self.tasks[at as usize]);
        let mut last =
            last.filter(|task| task.status != TaskStatus::Removed && task.part == Part::Tasks);
        Ok(last.next().and_then(|task| self.output_of(task)))
    }

    fn takes_what_is_gone(&self, template: &Payload) -> bool {
        let gone = |task: &Task| task.is_passed_over() && task.output.is_none();
        let taken = self.taken_by(template).into_iter();
        let mut strict = taken.filter(|&(.., default)| !default);
        strict.any(|(from, ..)| self.task(from).is_some_and(gone))
    }

    pub(super) fn fill(&self, template: &Payload) -> Result<Payload, Failure> {
        let sources = Sources { job: self, item: None, too_much: Cell::new(None) };
        let filled = resolve_within(template, FILLED_MAX, |reference| sources.value_of(reference));
        sources.judge(filled)
    }

    pub(super) fn value_of(&self, reference: &Reference) -> Option<Payload> {
        match reference {
            Reference::Output { task, .. } => self.output_of(self.task(self.find(task.as_str())?)?),
            Reference::Input { .. } => Some(self.header.input.clone()),
            _ => None,
        }
    }

    /// Who takes the output of which task and has no default: unsettled tasks, and the plan's
    /// output. A task's number is its place in the order of creation; `None` is the plan.
    pub(super) fn takers(&self) -> HashMap<TaskNumber, Vec<(Option<TaskNumber>, Dependant)>> {
        let mut takers: HashMap<_, Vec<_>> = HashMap::new();
        let mut note = |place: &str, template: &Payload, taker: Option<(TaskNumber, &Task)>| {
            for (from, reference, default) in self.taken_by(template) {
                if !default {
                    let task = taker.map(|(_, task)| task.spec.id.to_string());
                    let reference = format!("{place}{reference}");
                    let dependant = Dependant { task, reference };
                    let number = taker.map(|(number, _)| number);
                    takers.entry(from).or_default().push((number, dependant));
                }
            }
        };
        for (taker, task) in self.tasks().filter(|(_, task)| task.is_to_run()) {
            note("", &task.spec.template(), Some((taker, task)));
            if let Some(each) = task.spec.for_each.as_ref().filter(|_| task.is_to_expand()) {
                note("for_each", &each.items, Some((taker, task)));
            }
        }
        if let Some(output) = &self.header.output {
            note("", output, None);
        }
        takers
    }

    /// Tasks that would take the output of one that they would not need, and so might run before
    /// it.
    pub(super) fn out_of_order(&self, draft: &Draft<'_>, needs: &Needs) -> Vec<Dependant> {
        let mut dependants = Vec::new();
        let to_run = |number: TaskNumber| {
            !needs.is_gone(number) && self.task(number).is_some_and(Task::is_to_run)
        };
        for (taker, task) in self.tasks().filter(|&(number, _)| to_run(number)) {
            let Some(at) = index(taker) else { continue };
            let spec = draft.spec_of(at).unwrap_or(&task.spec);
            let taken = self.looked_at_by(spec, task.part).into_iter();
            // What has, or will never have, an output may well be out of order.
            let again = |from: TaskNumber| {
                let from = self.task(from);
                from.is_some_and(|from| from.part == Part::Finally && !from.is_removed())
            };
            let mut open = taken.filter(|&(from, ..)| to_run(from) || again(from)).peekable();
            if open.peek().is_none() {
                continue;
            }
            let needed = needs.reached_from(at);
            for (from, reference, _) in open {
                if index(from).is_some_and(|from| !needed[from as usize]) {
                    let task = Some(spec.id.to_string());
                    dependants.push(Dependant { task, reference });
                }
            }
        }
        dependants
    }

    /// What is wrong with the outputs that a new or edited task takes.
    pub(super) fn misplaced(
        &self,
        at: u32,
        spec: &TaskSpec,
        part: Part,
        needs: &Needs,
    ) -> Vec<PlanError> {
        let taken = taken_by(spec);
        let mut errors = self.misplaced_in_undo(spec);
        if taken.is_empty() {
            return errors;
        }
        let needed = needs.reached_from(at);
        let fault = |Taken { task, pointer, is_strict }: Taken| {
            let from = self.find(task.as_str()).and_then(index);
            let from = from.map(|from| (from, &self.tasks[from as usize]));
            let detail = match from {
                _ if task == spec.id => format!("`{task}` cannot take its own output"),
                None => format!("no task has the id `{task}`"),
                // It was done, or has a default.
                Some((_, from)) if part == Part::Undo && from.part != Part::Finally => return None,
                // It runs whatever has become of the others, but may look at no condition that is
                // still to change.
                Some((_, from))
                    if part == Part::Finally
                        && (from.part == Part::Tasks || pointer != CONDITION) =>
                {
                    return None;
                }
                Some((_, from)) if part != Part::Finally && from.part == Part::Finally => {
                    format!("`{task}` is a task of `finally`, which runs at the end")
                }
                // What is done at the end is done again, so that it must be behind for ever.
                Some((at, from)) if part == Part::Finally => {
                    if needed[at as usize] || from.is_removed() {
                        return None;
                    }
                    format!("`{}` does not need `{task}`, directly or through others", spec.id)
                }
                Some((_, from)) if from.is_passed_over() => {
                    if !is_strict || from.output.is_some() {
                        return None;
                    }
                    format!("`{task}` is {} and gives no output; give a default", from.status)
                }
                // When its attempt is over it will give none.
                Some((_, from)) if is_strict && from.skip_gives_nothing() => {
                    format!("`{task}` is being skipped and gives no output; give a default")
                }
                // What is settled has given what it gives.
                Some((at, from)) if needed[at as usize] || from.settled => return None,
                Some(_) => {
                    format!("`{}` does not need `{task}`, directly or through others", spec.id)
                }
            };
            Some(PlanError { pointer, detail })
        };
        errors.extend(taken.into_iter().filter_map(fault));
        errors
    }

    /// What is wrong with the outputs that what undoes a task takes: it may take those of all tasks
    /// but of `finally`.
    fn misplaced_in_undo(&self, spec: &TaskSpec) -> Vec<PlanError> {
        let Some(undo) = spec.compensate.as_deref() else { return Vec::new() };
        let is_there = |task: &TaskId| {
            let from = self.find(task.as_str()).and_then(|from| self.task(from));
            *task == spec.id || from.is_some_and(|from| from.part == Part::Tasks)
        };
        let found = references(&undo.input).unwrap_or_default().into_iter();
        let fault = |Found { pointer, reference }: Found| {
            let task = reference.task().filter(|task| !is_there(task))?;
            let detail = match self.find(task.as_str()) {
                Some(_) => format!("`{task}` is a task of `finally`, which runs at the end"),
                None => format!("no task has the id `{task}`"),
            };
            Some(PlanError { pointer: format!("/compensate/input{pointer}"), detail })
        };
        found.filter_map(fault).collect()
    }

    /// The tasks that another one looks at, in its input or its condition, and must come behind;
    /// where, as a [`Dependant`] says it, and whether it must find an output there.
    pub(super) fn looked_at_by(
        &self,
        spec: &TaskSpec,
        part: Part,
    ) -> Vec<(TaskNumber, String, bool)> {
        let taken = taken_by(spec).into_iter();
        let known = taken.filter_map(|Taken { task, pointer, is_strict }| {
            let from = self.find(task.as_str())?;
            let is_of_work = self.task(from).is_some_and(|from| from.part == Part::Tasks);
            // What is done at the end comes behind all of the work.
            if part == Part::Undo || part == Part::Finally && (is_of_work || pointer != CONDITION) {
                return None;
            }
            let place = pointer.strip_prefix("/input").unwrap_or(&pointer[1..]).to_owned();
            Some((from, place, is_strict))
        });
        known.collect()
    }

    /// The tasks whose outputs a template takes, where, and whether with a default.
    pub(super) fn taken_by(&self, template: &Payload) -> Vec<(TaskNumber, String, bool)> {
        let found = references(template).unwrap_or_default().into_iter();
        let outputs = found.filter_map(|Found { pointer, reference }| match reference {
            Reference::Output { task, default, .. } => {
                Some((self.find(task.as_str())?, pointer, default.is_some()))
            }
            _ => None,
        });
        outputs.collect()
    }
}

/// Where the values of a template come from.
struct Sources<'a> {
    job: &'a Job,
    /// Of an instance, the element that it is for.
    item: Option<&'a Payload>,
    /// A task that was named, and whose instances have given more than anything may take.
    too_much: Cell<Option<TaskNumber>>,
}

impl Sources<'_> {
    fn value_of(&self, reference: &Reference) -> Option<Payload> {
        if let Reference::Item { .. } = reference {
            return self.item.cloned();
        }
        if let Some(number) = reference.task().and_then(|task| self.job.find(task.as_str()))
            && self.job.task(number).is_some_and(Task::gives_too_much)
        {
            self.too_much.set(Some(number));
            return None;
        }
        self.job.value_of(reference)
    }

    fn judge<T>(&self, filled: Result<T, Unresolved>) -> Result<T, Failure> {
        let Some(task) = self.too_much.get().and_then(|task| self.job.task(task)) else {
            return filled.map_err(lack);
        };
        let message = format!(
            "the instances of task {} have given more than {FILLED_MAX} bytes, which is more than \
             a task may take",
            task.spec.id
        );
        Err(Failure::new("input_too_large", message))
    }
}

const CONDITION: &str = "/when";

/// A look of one task at another.
struct Taken {
    task: TaskId,
    /// JSON Pointer in the looking task.
    pointer: String,
    /// Whether it needs an output there.
    is_strict: bool,
}

fn taken_by(spec: &TaskSpec) -> Vec<Taken> {
    let input = spec.template();
    let list = spec.for_each.as_ref().map(|each| ("/for_each", &each.items));
    let templates = [("/input", &*input)].into_iter().chain(list);
    let found = templates.flat_map(|(place, template)| {
        let found = references(template).unwrap_or_default().into_iter();
        found.map(move |Found { pointer, reference }| (format!("{place}{pointer}"), reference))
    });
    let of_input = found.filter_map(|(pointer, reference)| match reference {
        Reference::Output { task, default, .. } => {
            Some(Taken { task, pointer, is_strict: default.is_none() })
        }
        _ => None,
    });
    // A condition says itself what a missing output means.
    let of_condition = spec.when.as_deref().and_then(Condition::task).map(|task| Taken {
        task: task.clone(),
        pointer: CONDITION.into(),
        is_strict: false,
    });
    of_input.chain(of_condition).collect()
}

/// A template that cannot be filled, as the failure of whoever wanted it.
fn lack(unresolved: Unresolved) -> Failure {
    let Found { pointer, reference } = match unresolved {
        Unresolved::Missing(missing) => *missing,
        too_large => return Failure::new("input_too_large", too_large.to_string()),
    };
    let what = match reference {
        Reference::Output { task, pointer, .. } => {
            format!("task {task:?} has no output at {pointer:?}")
        }
        Reference::Input { pointer, .. } => {
            format!("the job's input has nothing at {pointer:?}")
        }
        Reference::Item { pointer, .. } => format!("the item has nothing at {pointer:?}"),
        _ => "the reference is of a sort that this version does not know".to_owned(),
    };
    Failure::new("missing_output", format!("{what}, which {pointer:?} takes"))
}

impl Task {
    /// Whether a skip without a substitute waits for its live attempt to end.
    fn skip_gives_nothing(&self) -> bool {
        self.skip.as_deref().is_some_and(Option::is_none)
    }

    fn is_removed(&self) -> bool {
        self.status == TaskStatus::Removed
    }

    /// Whether its input is still to be made.
    pub(super) fn is_to_run(&self) -> bool {
        !self.settled && !self.is_passed_over()
    }
}
