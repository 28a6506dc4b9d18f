//! The registry: which kinds and workflows this engine has.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use annals_tasks_sdk::flow::PlanMaker;
use annals_tasks_sdk::plan::{ChildPlan, Limits, Plan, PlanError, PlanErrors, TaskSpec};
use annals_tasks_sdk::{BadName, Handler, KindName, near};

use super::error::StartError;
use super::ids::IdHasher;
use super::pool::{PoolId, Pools};

/// How tasks of a kind are brought about.
#[derive(Clone)]
pub(super) enum Behaviour {
    /// By attempts, each holding a slot of this pool.
    Run { handler: Arc<dyn Handler>, pool: PoolId },
    /// By waiting for a time: the task holds no slot.
    Sleep,
    /// By waiting for a child job.
    Child,
    /// By waiting for a signal: neither does this one.
    Await,
}

/// A kind that tasks may be of.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KindInfo {
    /// Its name.
    pub name: String,
    /// The pool whose slots its attempts hold; none where its tasks only wait.
    pub pool: Option<Arc<str>>,
}

/// A kind or a workflow that cannot be registered.
#[derive(Debug, Clone)]
pub(super) enum Unfit {
    Name(BadName),
    Twice(String),
    Workflow { name: String, errors: PlanErrors },
}

impl From<Unfit> for StartError {
    fn from(unfit: Unfit) -> Self {
        match unfit {
            Unfit::Name(error) => Self::Name(error),
            Unfit::Twice(name) => Self::Twice(name),
            Unfit::Workflow { name, errors } => Self::Workflow { name, errors },
        }
    }
}

/// A kind's place among the registered ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KindId(usize);

/// Which kinds and workflows this engine has.
#[derive(Clone, Default)]
pub(super) struct Registry {
    /// Looked up for every start of a task. The program itself chooses the names.
    kinds: HashMap<String, KindId, BuildHasherDefault<IdHasher>>,
    behaviours: Vec<Behaviour>,
    pub(super) workflows: HashMap<String, Arc<dyn PlanMaker>>,
}

impl Registry {
    pub(super) fn register(&mut self, kind: &str, behaviour: Behaviour) -> Result<(), Unfit> {
        KindName::new(kind).map_err(Unfit::Name)?;
        let id = KindId(self.behaviours.len());
        self.behaviours.push(behaviour);
        match self.kinds.insert(kind.into(), id) {
            Some(_) => Err(Unfit::Twice(kind.into())),
            None => Ok(()),
        }
    }

    /// Whether there is no kind.
    pub(super) fn has_no_kinds(&self) -> bool {
        self.behaviours.is_empty()
    }

    /// The place of a kind, by which its behaviour is at hand.
    pub(super) fn find(&self, kind: &str) -> Option<KindId> {
        self.kinds.get(kind).copied()
    }

    pub(super) fn get(&self, kind: KindId) -> &Behaviour {
        &self.behaviours[kind.0]
    }

    pub(super) fn behaviour(&self, kind: &str) -> Option<&Behaviour> {
        self.find(kind).map(|kind| self.get(kind))
    }

    pub(super) fn behaviour_mut(&mut self, kind: &str) -> Option<&mut Behaviour> {
        self.find(kind).map(|kind| &mut self.behaviours[kind.0])
    }

    /// What there is to say of each kind, in order of their names.
    pub(super) fn kind_infos(&self, pools: &Pools) -> Vec<KindInfo> {
        let info = |(name, kind): (&String, &KindId)| {
            let pool = match self.get(*kind) {
                Behaviour::Run { pool, .. } => Some(pools.name(*pool)),
                Behaviour::Sleep | Behaviour::Await | Behaviour::Child => None,
            };
            KindInfo { name: name.clone(), pool }
        };
        let mut infos: Vec<KindInfo> = self.kinds.iter().map(info).collect();
        infos.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        infos
    }

    /// The kinds that there are, in no order.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.kinds.keys().map(String::as_str)
    }

    /// The same in order, so many as fit a message.
    fn first_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.names().collect();
        names.sort_unstable();
        names.truncate(20);
        names
    }

    /// Looks at the kinds of a plan's tasks and at their inputs. Of a kind that is unknown, and
    /// may be, nothing is known of the input either.
    pub(super) fn check(&self, plan: &Plan, allow_unknown: bool) -> Result<(), PlanErrors> {
        let mut errors = Vec::new();
        for (task, index) in plan.all_tasks().zip(0..) {
            let of_task = self
                .check_task(task, allow_unknown)
                .into_iter()
                .map(|error| PlanError { pointer: plan.place_of(index) + &error.pointer, ..error });
            errors.extend(of_task);
        }
        errors.truncate(100);
        if errors.is_empty() { Ok(()) } else { Err(PlanErrors(errors)) }
    }

    /// What is wrong with the kinds of a task, and of what undoes it, and with their inputs for
    /// these.
    pub(super) fn check_task(&self, task: &TaskSpec, allow_unknown: bool) -> Vec<PlanError> {
        let mut errors = self.check_kind(task, allow_unknown);
        if let Some(undo) = task.undo() {
            let of_undo = self.check_kind(&undo, allow_unknown).into_iter();
            let place = |pointer: &str| format!("/compensate{pointer}");
            errors.extend(of_undo.map(|e| PlanError { pointer: place(&e.pointer), ..e }));
        }
        errors
    }

    fn check_kind(&self, task: &TaskSpec, allow_unknown: bool) -> Vec<PlanError> {
        let checked = match self.behaviour(task.kind.as_str()) {
            Some(Behaviour::Run { handler, .. }) => handler.check(&task.input),
            Some(Behaviour::Sleep) => crate::kinds::sleep::check(&task.input),
            Some(Behaviour::Child) => return self.check_child(task, allow_unknown),
            Some(Behaviour::Await) => crate::kinds::wait::check(&task.input),
            None if allow_unknown => return Vec::new(),
            None => {
                let kind = task.kind.as_str();
                let hint = near::hint(kind, self.names());
                let kinds = self.first_names().join(", ");
                let detail = format!("no kind `{kind}` is registered{hint} (kinds: {kinds})");
                return vec![PlanError { pointer: "/kind".into(), detail }];
            }
        };
        let faults = checked.err().unwrap_or_default().into_iter();
        let placed = faults.map(|fault| PlanError {
            pointer: format!("/input{}", fault.pointer),
            detail: fault.detail,
        });
        let mut all: Vec<PlanError> = placed.collect();
        if let Some(Behaviour::Await) = self.behaviour(task.kind.as_str()) {
            all.extend(crate::kinds::wait::check_policy(task));
        }
        all
    }

    /// What is wrong with the child of a task: its kinds, and their inputs. What can be said of it
    /// without them is said with the plan.
    fn check_child(&self, task: &TaskSpec, allow_unknown: bool) -> Vec<PlanError> {
        let fault = |pointer: &str, detail| vec![PlanError { pointer: pointer.into(), detail }];
        match ChildPlan::check(&task.input, &Limits::NONE) {
            Ok(ChildPlan::Plan(plan)) => {
                let errors = self.check(&plan, allow_unknown).err().map(|errors| errors.0);
                let placed = |PlanError { pointer, detail }| PlanError {
                    pointer: format!("/input{pointer}"),
                    detail,
                };
                errors.unwrap_or_default().into_iter().map(placed).collect()
            }
            Ok(ChildPlan::Workflow { name, .. }) if !self.workflows.contains_key(&*name) => {
                let hint = near::hint(&name, self.workflows.keys().map(String::as_str));
                let detail = format!("no workflow `{name}` is registered{hint}");
                fault("/input/workflow", detail)
            }
            _ => Vec::new(),
        }
    }
}
