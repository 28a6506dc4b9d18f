//! What the engine counts.

use annals_engine::log::WriterStats;
use annals_engine::runtime::{
    AttemptCounts, Checks, EngineStats, JobCounts, Law, OpenJobs, PoolStats,
};

use super::text::{Kind, Page};

pub(super) fn write(page: &mut Page, stats: &EngineStats) {
    jobs(page, &stats.jobs, &stats.open);
    attempts(page, &stats.attempts);
    let help = "Attempts that are alive, or are about to be";
    page.family("annals_task_attempts_live", Kind::Gauge, help).sample(&[], stats.live_attempts);
    let help = "Reports that came when their attempts were not current any more";
    let name = "annals_task_reports_dropped_total";
    page.family(name, Kind::Counter, help).sample(&[], stats.late_reports);
    let help = "Jobs that wait for a time";
    page.family("annals_timers_pending", Kind::Gauge, help).sample(&[], stats.timers);
    checks(page, &stats.checks);
    let help = "Histories that were read because their jobs were not loaded";
    page.family("annals_job_loads_total", Kind::Counter, help).sample(&[], stats.loads);
    let help = "Jobs that are not loaded and need no look at their history";
    page.family("annals_jobs_at_rest", Kind::Gauge, help).sample(&[], stats.at_rest.jobs);
    let help = "Memory that these jobs take, about";
    page.family("annals_jobs_at_rest_bytes", Kind::Gauge, help).sample(&[], stats.at_rest.bytes);
    let help = "Idempotency keys that are known";
    page.family("annals_idempotency_keys", Kind::Gauge, help).sample(&[], stats.keys);
    pools(page, &stats.pools);
    log(page, &stats.writer);
    let help = "The position of the last event in the log";
    let last = stats.next_position.0.saturating_sub(1);
    page.family("annals_log_seq", Kind::Gauge, help).sample(&[], last);
    let help = "The position up to which the views reflect the log";
    page.family("annals_log_views_seq", Kind::Gauge, help).sample(&[], stats.viewed.0);
}

fn jobs(page: &mut Page, counts: &JobCounts, open: &OpenJobs) {
    let help = "Jobs that were submitted since the start";
    page.family("annals_jobs_submitted_total", Kind::Counter, help).sample(&[], counts.submitted);
    let help = "Ends of jobs since the start; a job that is executed again may end again";
    page.family("annals_jobs_finished_total", Kind::Counter, help)
        .sample(&[("status", "completed")], counts.completed)
        .sample(&[("status", "failed")], counts.failed)
        .sample(&[("status", "cancelled")], counts.cancelled);
    let help = "Jobs that have not ended";
    page.family("annals_jobs_current", Kind::Gauge, help)
        .sample(&[("status", "pending")], open.pending)
        .sample(&[("status", "running")], open.running)
        .sample(&[("status", "paused")], open.paused);
    let help = "Jobs that are loaded";
    page.family("annals_jobs_loaded", Kind::Gauge, help).sample(&[], open.loaded);
    let help = "Jobs that are given up, because their history cannot be followed";
    page.family("annals_jobs_unreadable", Kind::Gauge, help).sample(&[], open.broken);
}

fn checks(page: &mut Page, checks: &Checks) {
    let help = "Open jobs that nothing will move and nobody holds, by the last look of each minute";
    page.family("annals_jobs_without_reason", Kind::Gauge, help).sample(&[], checks.without_reason);
    let help = "How often such a job was tried again";
    page.family("annals_jobs_tried_again_total", Kind::Counter, help)
        .sample(&[], checks.tried_again);
    let help = "Events that would have broken a law of histories and were not written";
    let mut broken = page.family("annals_broken_laws_total", Kind::Counter, help);
    for (law, times) in Law::ALL.iter().zip(checks.broken_laws) {
        broken.sample(&[("law", law.name())], times);
    }
}

fn attempts(page: &mut Page, counts: &AttemptCounts) {
    let help = "Attempts that were started since the start";
    let name = "annals_task_attempts_started_total";
    page.family(name, Kind::Counter, help).sample(&[], counts.started);
    let help = "Ends of attempts since the start";
    page.family("annals_task_attempts_total", Kind::Counter, help)
        .sample(&[("outcome", "completed")], counts.completed)
        .sample(&[("outcome", "failed")], counts.failed)
        .sample(&[("outcome", "interrupted")], counts.interrupted)
        .sample(&[("outcome", "timed_out")], counts.timed_out)
        .sample(&[("outcome", "lost")], counts.lost);
}

fn pools(page: &mut Page, pools: &[PoolStats]) {
    let mut slots = page.family("annals_worker_slots", Kind::Gauge, "Slots of pools");
    for pool in pools {
        slots.sample(&[("pool", &pool.name), ("state", "used")], pool.in_use);
        let free = pool.slots.saturating_sub(pool.in_use);
        slots.sample(&[("pool", &pool.name), ("state", "free")], free);
    }
    let help = "Tasks that wait for a slot of a pool; a job counts at most 64 of its own";
    let mut waiting = page.family("annals_queue_depth", Kind::Gauge, help);
    for pool in pools {
        waiting.sample(&[("pool", &pool.name)], pool.waiting);
    }
}

fn log(page: &mut Page, writer: &WriterStats) {
    let help = "Bytes of rows that were committed since the start, values included";
    page.family("annals_log_written_bytes_total", Kind::Counter, help).sample(&[], writer.bytes);
    let help = "Rows that were committed since the start";
    page.family("annals_log_rows_total", Kind::Counter, help).sample(&[], writer.rows);
    let help = "Events of a commit";
    page.family("annals_log_commit_batch_size", Kind::Summary, help)
        .part("_sum", &[], writer.events)
        .part("_count", &[], writer.commits);
    let help = "How long commits took";
    page.family("annals_log_commit_seconds", Kind::Summary, help)
        .part("_sum", &[], writer.commit_time.as_secs_f64())
        .part("_count", &[], writer.commits);
    let help = "How long the last commit took";
    let name = "annals_log_last_commit_seconds";
    page.family(name, Kind::Gauge, help).sample(&[], writer.last_commit.as_secs_f64());
    let help = "Submissions and checkpoints that wait to be committed";
    page.family("annals_log_waiting", Kind::Gauge, help).sample(&[], writer.waiting);
}
