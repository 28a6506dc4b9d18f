//! Insert, move, edit and retry: what they mean for the oracle.

use annals_engine::job::{Event, JobStatus, TaskNumber, TaskStatus};
use annals_tasks_sdk::plan::{OnFailure, OnLost, TaskSpec};

use crate::looks::Looks;
use crate::oracle::{NEW, Oracle, Waits, index};
use crate::plans::Sketch;

impl Oracle {
    /// The plan says something else.
    pub(crate) fn change(&mut self, event: &Event) {
        let before = self.clone();
        self.rewrite(event);
        assert_eq!(self.fault(&before, event), None, "{}", event.type_name());
        let settled = self.settled();
        for at in 0..self.tasks.len() {
            // Who waits and comes to need somebody waits for that.
            if self.tasks[at].waits.is_some() && !self.needs(at).iter().all(|&need| settled[need]) {
                self.begins_anew(at);
            }
        }
    }

    pub(crate) fn rewrite(&mut self, event: &Event) {
        match event {
            Event::TaskInserted { task, spec, after, needed_by, .. } => {
                assert_eq!(index(*task), self.tasks.len(), "numbers have no gap");
                self.tasks.push(NEW);
                let sketch = self.sketch_of(spec, Self::is_put_at_end(event));
                self.draft.tasks.push(sketch);
                self.put(index(*task), *after);
                for dependant in needed_by.iter().map(|&dependant| index(dependant)) {
                    let mut needs = self.needs(dependant);
                    if !needs.contains(&index(*task)) {
                        needs.push(index(*task));
                        self.draft.tasks[dependant].needs = Some(needs);
                    }
                }
            }
            Event::TaskMoved { task, after } => {
                self.order.retain(|&at| at != index(*task));
                self.put(index(*task), *after);
            }
            Event::TaskEdited { task, spec, reset } => {
                self.edited(index(*task), spec);
                if *reset {
                    self.tasks[index(*task)].steps.clear();
                }
            }
            _ => {}
        }
    }

    fn put(&mut self, at: usize, after: Option<TaskNumber>) {
        let behind = |after| self.order.iter().position(|&at| at == index(after)).unwrap() + 1;
        let place = after.map_or(0, behind);
        self.order.insert(place, at);
    }

    fn edited(&mut self, at: usize, spec: &TaskSpec) {
        let sketch = if let Some(of) = self.sketch(at).undoes {
            let needs = self.sketch(at).needs.clone();
            Sketch { needs, ..Sketch::of_undo_edited(of, spec) }
        } else {
            self.sketch_of(spec, self.is_at_end(at))
        };
        let old = std::mem::replace(&mut self.draft.tasks[at], sketch);
        let new = &self.draft.tasks[at];
        let begins_anew = match self.tasks[at].waits {
            Some(Waits::Kind) => old.sleeps != new.sleeps,
            Some(Waits::Sleep(_) | Waits::Signal { .. }) => {
                old.sleeps != new.sleeps || old.takes != new.takes
            }
            Some(Waits::Retry(_) | Waits::Child) | None => false,
        };
        if begins_anew {
            self.begins_anew(at);
        }
    }

    fn begins_anew(&mut self, at: usize) {
        (self.tasks[at].status, self.tasks[at].waits) = (TaskStatus::Pending, None);
    }

    /// Why the plan cannot be changed from `before` to this.
    pub(crate) fn fault(&self, before: &Self, event: &Event) -> Option<&'static str> {
        let said_anew = match event {
            Event::TaskInserted { task, .. }
            | Event::TaskMoved { task, .. }
            | Event::TaskEdited { task, .. } => Some(index(*task)),
            _ => None,
        };
        let fixed = before.settled();
        for at in 0..before.tasks.len() {
            let settled = fixed[at] && before.tasks[at].status != TaskStatus::Removed;
            let fixed = settled || before.tasks[at].is_engaged();
            if fixed && self.needs(at) != before.needs(at) {
                return Some("task_is_settled");
            }
        }
        let apart = |at: usize| {
            let needs = self.needs(at);
            needs.into_iter().any(|need| self.part(need) != self.part(at))
        };
        if (0..self.tasks.len()).any(apart) {
            return Some("other_part");
        }
        if (0..self.tasks.len()).any(|at| self.all_needs(at)[at]) {
            return Some("would_be_a_circle");
        }
        let settled = self.settled();
        // Also what a change settles must have been one that could be.
        let was_open = |at: usize| at >= fixed.len() || before.is_to_run(at, &fixed);
        for at in (0..self.tasks.len()).filter(|&at| was_open(at)) {
            let (needed, sketch) = (self.all_needs(at), self.sketch(at));
            if sketch.looks.as_ref().is_some_and(|looks| !looks.may_stand(sketch.at_end)) {
                return Some("invalid_task");
            }
            if sketch.at_end && sketch.undo.is_some() {
                return Some("invalid_task");
            }
            let pauses = sketch.on_failure == OnFailure::Pause || sketch.on_lost == OnLost::Pause;
            if sketch.at_end && (pauses || sketch.takes.iter().any(|(_, default)| !default)) {
                return Some("invalid_task");
            }
            let looks = sketch.looks.as_ref().and_then(Looks::at);
            let takes = sketch.takes.iter().map(|&(from, default)| (from, default, false));
            for (from, default, looks) in takes.chain(looks.map(|from| (from, true, true))) {
                if sketch.at_end && from != at && !(looks && self.is_at_end(from)) {
                    continue;
                }
                if self.is_at_end(from) && !sketch.at_end {
                    return Some("invalid_task");
                }
                // What a condition took from a task is told to who takes it from now on.
                let by_condition = self.tasks[from].by_condition && said_anew != Some(at);
                let passed_over = self.is_passed_over(from) && !by_condition;
                let known = &self.tasks[from];
                let gone = (passed_over && known.output.is_none()) || known.gives_nothing;
                if from == at || (gone && !default) {
                    return Some("invalid_task");
                }
                let again = sketch.at_end && self.tasks[from].status != TaskStatus::Removed;
                if (self.is_to_run(from, &settled) || again) && !needed[from] {
                    return Some("order");
                }
            }
        }
        None
    }

    /// Somebody wants another try.
    pub(crate) fn tries_again(&mut self, at: usize, due: i64) {
        let settled = self.settled();
        assert!(matches!(self.status, JobStatus::Running | JobStatus::Paused));
        assert!(!settled[at]);
        let ready = self.needs(at).iter().all(|&need| settled[need]);
        let known = &mut self.tasks[at];
        match (known.status, known.waits) {
            // Who asks for that consents, too.
            (TaskStatus::Failed, _) => {
                (known.failures, known.losses, known.wants_consent) = (0, 0, false);
            }
            (TaskStatus::Waiting, Some(Waits::Retry(later))) => assert!(due < later),
            other => panic!("{other:?} is tried again"),
        }
        (known.status, known.waits) = if ready {
            (TaskStatus::Waiting, Some(Waits::Retry(due)))
        } else {
            (TaskStatus::Pending, None)
        };
    }
}
