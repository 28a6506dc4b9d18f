//! Which task needs which, and that no task needs itself in a circle.
//!
//! Nothing here recurses over tasks: a chain of 10,000 is an ordinary plan.

use super::check::{All, Ids};
use super::fault::Faults;
use super::read::Unread;

/// Longer circles are shown in part.
const SHOWN_MAX: usize = 20;

/// The needs of a plan's tasks, by position.
pub(super) struct Order {
    /// For each task, whom it needs directly, each once and in the order of positions.
    needs: Vec<Vec<usize>>,
    /// All tasks outside circles, each after those that it needs.
    sorted: Vec<usize>,
    /// For each task, whether `sorted` has it.
    is_sorted: Vec<bool>,
    /// For each task, whether some of its needs could not be made out.
    is_unsure: Vec<bool>,
}

impl Order {
    pub(super) fn of(all: &All<'_>, unread: &Unread, ids: &Ids<'_>, faults: &mut Faults) -> Self {
        let mut is_unsure = vec![false; all.tasks.len()];
        for &task in &unread.needs {
            is_unsure[task] = true;
        }
        let needs: Vec<Vec<usize>> = is_unsure
            .iter_mut()
            .enumerate()
            .map(|(task, unsure)| needs(all, task, ids, unsure, faults))
            .collect();
        let sorted = sort(&needs);
        let mut is_sorted = vec![false; needs.len()];
        for &task in &sorted {
            is_sorted[task] = true;
        }
        let order = Self { needs, sorted, is_sorted, is_unsure };
        order.circles(all, faults);
        order
    }

    pub(super) fn needs_directly(&self, task: usize, needed: usize) -> bool {
        self.needs[task].binary_search(&needed).is_ok()
    }

    /// Of the pairs (task, needed), those in which `needed` is not needed through others either.
    /// Tasks in circles, or behind them, are passed over.
    ///
    /// 64 needed tasks are followed through the whole plan at a time, one bit each, so the work
    /// is bounded by the plan's needs times one 64th of the different tasks that are asked about.
    pub(super) fn strangers(&self, pairs: &[(usize, usize)]) -> Vec<usize> {
        let mut by_needed: Vec<usize> = (0..pairs.len()).collect();
        by_needed.sort_by_key(|&pair| pairs[pair].1);
        let mut strangers = Vec::new();
        let mut rest = &by_needed[..];
        while !rest.is_empty() {
            let (own, end) = self.mark(pairs, rest);
            let (group, later) = rest.split_at(end);
            let marks = self.spread(own.clone());
            strangers.extend(group.iter().copied().filter(|&pair| {
                let (task, needed) = pairs[pair];
                self.is_sorted[task] && (task == needed || marks[task] & own[needed] == 0)
            }));
            rest = later;
        }
        strangers.sort_unstable();
        strangers
    }

    /// Gives a bit of its own to each of the first 64 different needed tasks, and says how many
    /// of the pairs that covers.
    fn mark(&self, pairs: &[(usize, usize)], by_needed: &[usize]) -> (Vec<u64>, usize) {
        let mut marks = vec![0_u64; self.needs.len()];
        let mut bits = 0;
        for (place, &pair) in by_needed.iter().enumerate() {
            let needed = pairs[pair].1;
            if marks[needed] == 0 {
                if bits == u64::BITS {
                    return (marks, place);
                }
                marks[needed] = 1 << bits;
                bits += 1;
            }
        }
        (marks, by_needed.len())
    }

    /// Gives every task the marks of all that it needs.
    fn spread(&self, mut marks: Vec<u64>) -> Vec<u64> {
        for &task in &self.sorted {
            // Whose needs are at fault may well need all: that fault is enough to report.
            let unsure = if self.is_unsure[task] { u64::MAX } else { 0 };
            let inherited = self.needs[task].iter().map(|&needed| marks[needed]);
            marks[task] = inherited.fold(marks[task] | unsure, |sum, mark| sum | mark);
        }
        marks
    }

    /// Reports a circle for each group of tasks that wait for one another.
    fn circles(&self, all: &All<'_>, faults: &mut Faults) {
        let mut walk_of = vec![0_usize; self.needs.len()];
        for start in (0..self.needs.len()).filter(|&task| !self.is_sorted[task]) {
            let mut path = Vec::new();
            let mut here = start;
            while walk_of[here] == 0 {
                walk_of[here] = start + 1;
                path.push(here);
                let next = self.needs[here].iter().find(|&&needed| !self.is_sorted[needed]);
                let Some(&next) = next else { break };
                here = next;
            }
            let closed = walk_of[here] == start + 1;
            if let Some(begin) = path.iter().position(|&task| closed && task == here) {
                report(all, &path[begin..], faults);
            }
        }
    }
}

fn needs(
    all: &All<'_>,
    index: usize,
    ids: &Ids<'_>,
    is_unsure: &mut bool,
    faults: &mut Faults,
) -> Vec<usize> {
    let Some(names) = &all.tasks[index].needs else {
        return all.before(index).into_iter().collect();
    };
    let mut needs = Vec::with_capacity(names.len());
    for (place, name) in names.iter().enumerate() {
        let pointer = || format!("{}/needs/{place}", all.place(index));
        match ids.position(name.as_str()) {
            Some(needed) if needed == index => {
                faults.add(pointer(), format!("`{name}` cannot need itself"));
            }
            Some(needed) if all.is_of_finally(needed) && !all.is_of_finally(index) => {
                let detail = format!("`{name}` is a task of `finally`, which runs at the end");
                faults.add(pointer(), detail);
            }
            Some(needed) if all.is_of_finally(index) && !all.is_of_finally(needed) => {
                let detail = format!(
                    "a task of `finally` needs none of `tasks`, such as `{name}`: it runs when \
                     they are over, whatever has become of them"
                );
                faults.add(pointer(), detail);
            }
            Some(needed) => needs.push(needed),
            None => {
                *is_unsure = true;
                // The sentence takes a look at all ids.
                if !faults.is_full() {
                    faults.add(pointer(), ids.unknown(name.as_str()));
                }
            }
        }
    }
    needs.sort_unstable();
    needs.dedup();
    needs
}

/// Kahn's algorithm: what is in a circle, or needs one, is left out.
fn sort(needs: &[Vec<usize>]) -> Vec<usize> {
    let mut open: Vec<usize> = needs.iter().map(Vec::len).collect();
    let mut needed_by: Vec<Vec<usize>> = vec![Vec::new(); needs.len()];
    for (task, needs) in needs.iter().enumerate() {
        for &needed in needs {
            needed_by[needed].push(task);
        }
    }
    let mut sorted: Vec<usize> = (0..needs.len()).filter(|&task| open[task] == 0).collect();
    let mut next = 0;
    while let Some(&task) = sorted.get(next) {
        next += 1;
        for &dependant in &needed_by[task] {
            open[dependant] -= 1;
            if open[dependant] == 0 {
                sorted.push(dependant);
            }
        }
    }
    sorted
}

fn report(all: &All<'_>, circle: &[usize], faults: &mut Faults) {
    let first = circle.iter().enumerate().min_by_key(|(_, task)| **task);
    let mut circle = circle.to_vec();
    circle.rotate_left(first.map_or(0, |(place, _)| place));
    let mut names: Vec<&str> =
        circle.iter().take(SHOWN_MAX).map(|&task| all.tasks[task].id.as_str()).collect();
    if circle.len() > SHOWN_MAX {
        names.push("…");
    }
    names.push(all.tasks[circle[0]].id.as_str());
    let mut detail = format!("tasks need one another in a circle: {}", names.join(" -> "));
    // Half of such a circle is not to be seen in the plan.
    if let Some(&task) = circle.iter().find(|&&task| all.tasks[task].needs.is_none()) {
        let id = &all.tasks[task].id;
        detail.extend([" (`", id.as_str(), "` has no `needs`, so it needs the task before it)"]);
    }
    let field = if all.tasks[circle[0]].needs.is_some() { "/needs" } else { "" };
    faults.add(all.place(circle[0]) + field, detail);
}
