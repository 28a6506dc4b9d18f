//! What must hold of the engine's own explanations: every open job has one, and it agrees with the
//! job.

use annals_engine::Mode;
use annals_engine::job::{Job, JobStatus};
use annals_engine::runtime::by_hand::Hands;
use annals_engine::views::{Explained, Explanation, Reason};

use crate::witness::Witness;

/// Checks the explanations of all open jobs whose state is at hand, while nothing happens. Gives
/// how many there were.
pub(crate) fn check(hands: &mut Hands, witness: &Witness, mode: Mode) -> u64 {
    let mut told = 0;
    for home in 0..hands.loops() {
        for explanation in hands.explain(home) {
            let snapshot = explanation.snapshot.as_ref().expect("it can be read");
            if witness.jobs.get(&explanation.job_id).is_some_and(|known| known.job == *snapshot.job)
            {
                agrees(&snapshot.job, &explanation, mode);
                told += 1;
            }
        }
    }
    told
}

fn agrees(job: &Job, explanation: &Explanation, mode: Mode) {
    let reasons = || explanation.reasons.iter().map(|one: &Explained| &one.reason);
    let fault = |what: &str| -> bool { panic!("job {} {what}: {explanation:?}", job.id()) };
    let _ = reasons().next().is_some() || fault("has no reason");
    let _ = reasons().all(|reason| *reason != Reason::Unknown) || fault("has no known reason");
    let _ = reasons().all(|reason| reason.code() != "lacks") || fault("lacks something");
    let moves = |reason: &Reason| !matches!(reason.code(), "needs" | "task_failed");
    let _ = reasons().any(moves) || fault("waits for nothing that will come");
    let says = |code: &str| reasons().any(|reason| reason.code() == code);
    let _ = (job.status() == JobStatus::Pending) == says("not_executed") || fault("is not pending");
    let quiet = job.status() == JobStatus::Paused;
    let held = says("paused") || (quiet && says("held_by_parent"));
    let _ = quiet == held || fault("is not paused");
    let _ =
        (mode == Mode::Hold) == says("nothing_runs") || job.status().is_ended() || fault("runs");
    let live = job.live().count();
    let attempts = ["runs", "stops", "blocks", "cut_off"];
    let told = reasons().filter(|reason| attempts.contains(&reason.code())).count();
    let _ = told == live || explanation.more_tasks > 0 || fault("has other attempts");
}
