//! What must hold of a job that was purged, beside the oracle.

use std::sync::Arc;

use annals_engine::job::{Event, Job, Recorded};

use crate::oracle::Oracle;

/// What an event says of a job that is purged with it must be so, and nothing else is left.
pub(crate) fn take_in(job: &Job, oracle: &mut Oracle, next: &Recorded) {
    let Event::JobPurged(purged) = &next.event else { panic!() };
    assert!(oracle.status.is_ended() && oracle.intent.is_none() && oracle.is_quiet());
    assert_eq!((purged.status, purged.events), (oracle.status, oracle.seq));
    assert_eq!(purged.tasks as usize, oracle.tasks.len());
    assert_eq!(purged.attempts, oracle.tasks.iter().map(|task| task.attempts).sum::<u32>());
    assert!(next.seq == oracle.seq + 1 && next.time.as_millis() >= oracle.time);
    (oracle.seq, oracle.time, oracle.purged) = (next.seq, next.time.as_millis(), true);
    is_over(job);
}

/// A job that was purged has nothing but its tombstone, and wants nothing.
pub(crate) fn is_over(job: &Job) {
    let tombstone = job.purged().expect("it was purged");
    assert_eq!(*job, Job::of_tombstone(job.id(), Arc::clone(tombstone)));
    assert_eq!((job.seq(), job.time()), (tombstone.seq(), tombstone.at));
    assert!(job.tasks().len() == 0 && job.header().name.is_empty() && job.forked_from().is_none());
    assert!(job.due().is_none() && !job.is_active() && !job.is_live() && job.status().is_ended());
    assert!(job.output().is_ok_and(|output| output.is_none()));
}
