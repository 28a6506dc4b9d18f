//! Ahead: what a turn comes to next is fetched from memory together.
//!
//! Between two looks at a job a loop sees thousands of others, so that most of what it touches has
//! left the processor's caches. Taken up one by one, each job has the loop wait for its memory
//! again and again, since each place is known only by the one before it. A look at some jobs side
//! by side, place by place, waits once for all of them. Nothing here changes anything.

use std::hint::black_box;

use annals_tasks_sdk::JobId;

use super::executor::{Entry, Executor};
use super::message::Message;
use super::turn::Loop;
use crate::job::{Report, TaskNumber};

/// So many jobs are looked at together: what they touch stays in the caches until it is needed.
pub(super) const AHEAD: usize = 16;

impl Loop {
    /// Looks at the jobs whose attempts are over by these messages, of which there are at most
    /// [`AHEAD`].
    pub(super) fn look_at_reported<'a>(&self, messages: impl Iterator<Item = &'a Message>) {
        let mut found: [Option<(&Executor, TaskNumber)>; AHEAD] = [None; AHEAD];
        for (place, message) in found.iter_mut().zip(messages) {
            if let Message::Report { job, report: Report::Ended { task, .. } } = message
                && let Some(Entry::Loaded(executor)) = self.entries.get(job)
            {
                *place = Some((executor, *task));
            }
        }
        look(found, |(executor, _)| executor.glance());
        look(found, |(executor, _)| executor.job.glance() ^ executor.glance_behind());
        look(found, |(executor, task)| executor.job.glance_at(task));
        look(found, |(executor, task)| executor.job.glance_behind(task));
    }

    /// Looks at what a turn has made of these jobs, of which there are at most [`AHEAD`].
    pub(super) fn look_at_changed(&self, jobs: impl Iterator<Item = JobId>) {
        let mut found: [Option<&Executor>; AHEAD] = [None; AHEAD];
        for (place, job) in found.iter_mut().zip(jobs) {
            if let Some(Entry::Loaded(executor)) = self.entries.get(&job) {
                *place = Some(executor);
            }
        }
        look(found, Executor::glance);
        look(found, Executor::glance_behind);
    }
}

fn look<T: Copy>(found: [Option<T>; AHEAD], at: impl FnMut(T) -> u64) {
    // Without a use of what is read the compiler would leave the reading out.
    black_box(found.into_iter().flatten().map(at).fold(0, std::ops::BitXor::bitxor));
}
