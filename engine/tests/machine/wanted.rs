//! Which inserts, moves and edits must be accepted.

use annals_engine::job::{
    Command, Event, Part, Place, Recorded, Rejection, TaskNumber, TaskStatus,
};
use annals_tasks_sdk::plan::TaskSpec;

use crate::dsl::id;
use crate::looks::Looks;
use crate::oracle::Oracle;
use crate::plans::Sketch;

/// A change of the plan that is asked for, as far as it decides whether it must be accepted.
#[derive(Debug)]
pub(crate) enum Change {
    Insert(Box<TaskSpec>, Place, Vec<String>),
    Move(String, Place),
    Edit(String, Box<TaskSpec>),
}

impl Change {
    /// `oracle` is as it is before the command.
    pub(crate) fn of(command: &Command, oracle: &Oracle) -> Option<Self> {
        match command {
            Command::Insert { task, place, needed_by } => {
                let needed_by = needed_by.iter().map(ToString::to_string).collect();
                Some(Self::Insert(task.clone(), place.clone(), needed_by))
            }
            Command::Move { task, place } => Some(Self::Move(task.to_string(), place.clone())),
            Command::Edit { task, patch, .. } => {
                let at = oracle.find(task.as_str())?;
                if oracle.is_undo(at) {
                    let spec =
                        TaskSpec::new(id("t"), annals_tasks_sdk::KindName::new("noop").unwrap());
                    return Some(Self::Edit(task.to_string(), Box::new(spec)));
                }
                let spec = oracle.draft.tasks[at].spec(at);
                Some(Self::Edit(task.to_string(), Box::new(patch.apply(&spec).ok()?)))
            }
            _ => None,
        }
    }

    pub(crate) fn check(&self, oracle: &Oracle, answer: &Result<Vec<Recorded>, Rejection>) {
        let code = answer.as_ref().err().map(|refusal| refusal.code);
        // What was accepted was looked at when its event was taken in.
        let closed = self.part(oracle).is_some_and(|part| oracle.is_closed_to(part));
        let Some(code) = code else { return assert!(!closed, "{self:?}: its work is over") };
        if code == "compensated" || closed {
            let codes = ["compensated", "no_such_task", "task_exists"];
            return assert!(closed && codes.contains(&code), "{code}");
        }
        let Some(event) = self.event(oracle) else {
            let codes = ["no_such_task", "task_exists", "task_is_settled", "task_is_live"];
            assert!(
                codes.contains(&code) || ["invalid_task", "other_part"].contains(&code),
                "{code}"
            );
            return;
        };
        let mut changed = oracle.clone();
        changed.rewrite(&event);
        let fault = changed.fault(oracle, &event);
        let why = answer.as_ref().err();
        assert!(fault.is_some(), "nothing speaks against {self:?}, but: {code}: {why:?}");
    }

    /// The part of the plan that it is about.
    fn part(&self, oracle: &Oracle) -> Option<Part> {
        match self {
            Self::Insert(spec, place, _) => {
                let again = oracle.find(spec.id.as_str()).is_some();
                (!again).then(|| oracle.part_at(place))
            }
            Self::Move(name, _) | Self::Edit(name, _) => {
                oracle.find(name).map(|at| oracle.part(at))
            }
        }
    }

    /// What it would make happen; none where it names what is not there or may not be changed.
    fn event(&self, oracle: &Oracle) -> Option<Event> {
        let number = |at: usize| TaskNumber(u32::try_from(at).unwrap() + 1);
        match self {
            Self::Insert(spec, place, needed_by) => {
                let known = oracle.find(spec.id.as_str()).is_some() || !oracle.knows(spec);
                if known || oracle.part_at(place) == Part::Undo {
                    return None;
                }
                let needed_by = needed_by.iter().map(|name| {
                    let at = oracle.find(name)?;
                    (oracle.tasks[at].status != TaskStatus::Removed).then_some(number(at))
                });
                Some(Event::TaskInserted {
                    task: number(oracle.tasks.len()),
                    spec: spec.clone(),
                    part: oracle.part_at(place),
                    after: oracle.behind(place, None).ok()?.map(number),
                    needed_by: needed_by.collect::<Option<_>>()?,
                })
            }
            Self::Move(name, place) => {
                let at = oracle.may_change(name)?;
                let beside = !matches!(place, Place::First | Place::Last);
                let apart = beside && oracle.part_at(place) != oracle.part(at);
                if apart || oracle.is_undo(at) {
                    return None;
                }
                let after = oracle.behind(place, Some(at)).ok()?.map(number);
                Some(Event::TaskMoved { task: number(at), after })
            }
            Self::Edit(name, spec) => {
                let fits = |at: &usize| !oracle.is_undo(*at) && oracle.knows(spec);
                let at = oracle.may_change(name).filter(fits)?;
                Some(Event::TaskEdited { task: number(at), spec: spec.clone(), reset: false })
            }
        }
    }
}

impl Oracle {
    pub(crate) fn find(&self, wanted: &str) -> Option<usize> {
        (0..self.tasks.len()).find(|&at| self.name(at) == wanted)
    }

    fn may_change(&self, name: &str) -> Option<usize> {
        let at = self.find(name)?;
        let open = self.is_to_run(at, &self.settled()) && !self.tasks[at].is_engaged();
        open.then_some(at)
    }

    /// Whether all tasks that a task names are there, itself included.
    fn knows(&self, spec: &TaskSpec) -> bool {
        let sketch = Sketch::of(spec, false);
        let own = self.find(spec.id.as_str()).unwrap_or(self.tasks.len());
        let looks = sketch.looks.as_ref().and_then(Looks::at);
        let takes = sketch.takes.iter().map(|(from, _)| *from);
        let mut named = sketch.needs.iter().flatten().copied().chain(takes).chain(looks);
        named.all(|at| at < self.tasks.len() || at == own)
    }

    /// The part that a place is in.
    fn part_at(&self, place: &Place) -> Part {
        match place {
            Place::First | Place::Last => Part::Tasks,
            Place::After(name) | Place::Before(name) => {
                self.find(name.as_str()).map_or(Part::Tasks, |at| self.part(at))
            }
        }
    }

    /// The task behind which a place is, if it is behind one.
    fn behind(&self, place: &Place, but: Option<usize>) -> Result<Option<usize>, Nobody> {
        let order: Vec<usize> = self.order.iter().copied().filter(|&at| Some(at) != but).collect();
        let at_end = but.is_some_and(|at| self.is_at_end(at));
        let last = |most: bool| {
            let is_of = |&&at: &&usize| (self.part(at) != Part::Tasks) <= most;
            order.iter().take_while(is_of).last().copied()
        };
        let find = |name: &str| self.find(name).filter(|&at| Some(at) != but).ok_or(Nobody);
        match place {
            Place::First => Ok(if at_end { last(false) } else { None }),
            Place::Last => Ok(last(at_end)),
            Place::After(name) => find(name.as_str()).map(Some),
            Place::Before(name) => {
                let at = find(name.as_str())?;
                let place = order.iter().position(|&other| other == at).ok_or(Nobody)?;
                Ok(place.checked_sub(1).map(|before| order[before]))
            }
        }
    }
}

/// There is no task of this name.
struct Nobody;
