//! What children and parents have to say on a walk.

use annals_engine::job::{
    CancelMode, ChildEnd, Failure, Job, News, Order, PauseMode, Report, TaskNumber, Wish,
};
use annals_tasks_sdk::{JobId, Payload};

use crate::dsl::World;
use crate::walk::Walk;

/// The child of the n-th task.
pub(crate) fn child_of(task: TaskNumber) -> JobId {
    JobId::from_u128(u128::from(task.0) + 1_000)
}

/// All that the children of a job may have to say, and its parent may want.
pub(crate) fn reported(job: &Job) -> Vec<Report> {
    let mut all = Vec::new();
    for task in job.children() {
        let Some(wish) = job.wish(task) else { panic!("nothing is wanted of a child") };
        let since = match wish.order {
            Order::Hold { since, .. } => since,
            Order::Go | Order::Stop { .. } => 0,
        };
        let ends = [ChildEnd::Failed, ChildEnd::Cancelled, ChildEnd::Gone];
        let news = [
            News::Quiet { since },
            News::Quiet { since: since.wrapping_sub(1) },
            News::Completed { output: annals_tasks_sdk::Payload::trusted("true") },
        ];
        let ended = |end| {
            let code = if end == ChildEnd::Failed { "child_failed" } else { "child_cancelled" };
            News::Ended { end, seq: wish.after + 1, error: Failure::new(code, "no") }
        };
        let old = News::Ended {
            end: ChildEnd::Failed,
            seq: wish.after,
            error: Failure::new("child_failed", "old"),
        };
        let news = news.into_iter().chain(ends.map(ended)).chain([old]);
        all.extend(news.map(|news| Report::Heard { task, child: child_of(task), news }));
    }
    if job.parent().is_some() {
        let hold = |mode| Order::Hold { mode, since: 7 };
        let stop = |mode| Order::Stop { mode };
        let orders = [
            Order::Go,
            hold(PauseMode::Drain),
            hold(PauseMode::Interrupt),
            stop(CancelMode::Orderly),
            stop(CancelMode::Now),
        ];
        for after in [0, job.ended_at()] {
            all.extend(orders.map(|order| Report::Wished(Wish { after, order })));
        }
    }
    all
}

impl Walk {
    /// Something that a child or the parent says, if there is one.
    pub(crate) fn any_of_family(&mut self) -> Option<Report> {
        let mut all = reported(&self.live);
        // A parent that stops its child ends most walks.
        let stops = |report: &Report| {
            matches!(report, Report::Wished(Wish { order: Order::Stop { .. }, .. }))
        };
        if self.rng.u8(..6) > 0 {
            all.retain(|report| !stops(report));
        }
        (!all.is_empty()).then(|| all.swap_remove(self.rng.usize(..all.len())))
    }

    /// What ends the wait for a child, or the hold of a parent.
    pub(crate) fn goes_on_in_its_family(&self) -> Option<Report> {
        if self.live.is_held_by_parent() {
            return Some(Report::Wished(Wish { after: 0, order: Order::Go }));
        }
        let task = self.live.children().next()?;
        let news = News::Completed { output: annals_tasks_sdk::Payload::trusted("true") };
        Some(Report::Heard { task, child: child_of(task), news })
    }
}

impl World {
    /// What a parent wants: `go`, `hold`, `interrupt`, `stop`, `now`; `known` says that the end
    /// which the job has come to is no news.
    pub(crate) fn wish(&self, order: &str, after: Option<&str>) -> Wish {
        let hold = |mode| Order::Hold { mode, since: 7 };
        let order = match order {
            "hold" => hold(PauseMode::Drain),
            "interrupt" => hold(PauseMode::Interrupt),
            "stop" => Order::Stop { mode: CancelMode::Orderly },
            "now" => Order::Stop { mode: CancelMode::Now },
            _ => Order::Go,
        };
        Wish { after: after.map_or(0, |_| self.job.ended_at()), order }
    }

    /// What the child of a task has to say.
    pub(crate) fn heard(
        &self,
        verb: &str,
        task: TaskNumber,
        argument: Option<&str>,
    ) -> Option<Report> {
        let child = JobId::from_u128(1_000);
        let wish = self.job.wish(task);
        let since = match wish.map(|wish| wish.order) {
            Some(Order::Hold { since, .. }) => since,
            _ => 0,
        };
        let ended = |end, code: &str| {
            let (seq, error) = (wish.map_or(0, |wish| wish.after) + 1, Failure::new(code, "no"));
            News::Ended { end, seq, error }
        };
        let news = match verb {
            "child" => {
                let after = argument.map_or(0, |text| text.parse().unwrap());
                return Some(Report::Spawned { task, child, after });
            }
            "quiet" => News::Quiet { since },
            "gives" => News::Completed { output: Payload::parse(argument.unwrap_or("1")).unwrap() },
            "child_fails" => ended(ChildEnd::Failed, Failure::CHILD_FAILED),
            "child_cancelled" => ended(ChildEnd::Cancelled, Failure::CHILD_CANCELLED),
            "child_gone" => ended(ChildEnd::Gone, "child_gone"),
            _ => return None,
        };
        Some(Report::Heard { task, child, news })
    }
}
