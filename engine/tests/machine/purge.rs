//! Purges: what a tombstone says, and that nothing comes behind it.

use std::sync::Arc;

use annals_engine::job::{Event, ForkFrom, Job, JobStatus, Recorded};

use crate::dsl::{World, check, id, replay};
use crate::forks::made;
use crate::purged::is_over;

#[test]
fn a_tombstone_says_what_there_was() {
    let given = "start a; fail a; +20; start a; checkpoint a; done a; start b; fail b; remove c";
    let mut world = World::new("a*2 b c").given(given);
    let (before, label) = (world.job.seq(), world.job.header().name.clone());
    assert_eq!((&*label, world.when("purge").as_str()), ("job", "JobPurged"));
    let tombstone = Arc::clone(world.job.purged().unwrap());
    assert_eq!((tombstone.at.as_millis(), tombstone.origin.name()), (20_000, "ada"));
    let purged = tombstone.purged;
    assert_eq!((purged.status, purged.events), (JobStatus::Failed, before));
    assert_eq!((purged.tasks, purged.attempts, purged.head), (3, 3, [9; 32]));
    is_over(&world.job);
    assert_eq!(world.when("purge"), "");
}

#[test]
fn a_purged_job_takes_nothing_in() {
    let given = "start a; fail a; purge";
    for late in ["recover", "tick", "start a", "done a#1", "checkpoint a#1", "sleep a 3"] {
        is_over(&check("a b", given, late, "").job);
    }
    for command in ["execute", "cancel", "pause", "resume", "retry a", "insert z", "skip a"] {
        is_over(&check("a b", given, command, "refused: purged").job);
    }
    let job = World::new("a b").given(given).job;
    for from in [ForkFrom::Task(id("a")), ForkFrom::Seq(job.seq()), ForkFrom::Seq(1)] {
        assert_eq!(made(&job, &from, Vec::new()).unwrap_err(), "purged");
    }
}

#[test]
fn a_tombstone_that_does_not_fit_is_refused() {
    let world = World::new("a b").given("start a; fail a; purge");
    let (last, before) = world.history.split_last().unwrap();
    let ended = replay(before);
    let Event::JobPurged(purged) = last.event else { panic!() };
    let refused = |job: &Job, event: Event| {
        let mut job = job.clone();
        let next = Recorded { seq: job.seq() + 1, event, ..last.clone() };
        assert!(job.evolve(&next).is_err(), "{next:?}");
    };
    let mut others = [purged; 4];
    others[0].status = JobStatus::Completed;
    others[1].events += 1;
    others[2].tasks += 1;
    others[3].attempts -= 1;
    for other in others {
        refused(&ended, Event::JobPurged(other));
    }
    // Twice, over what has not ended, and with something behind it.
    refused(&world.job, last.event.clone());
    refused(&replay(&before[..2]), last.event.clone());
    refused(&world.job, Event::JobReopened { held: false });
    assert!(ended.clone().evolve(last).is_ok());
}
