//! Smoke.
use annals_engine::*;
use annals_engine::job::*;
use annals_tasks_sdk::plan::*;
use annals_tasks_sdk::*;

fn chain(n: usize) -> Plan {
    let mut plan = Plan::new("chain");
    for i in 0..n {
        plan.tasks.push(TaskSpec::new(TaskId::new(&format!("t{i}")).unwrap(), KindName::new("noop").unwrap()));
    }
    plan
}

#[tokio::test(flavor = "multi_thread")]
async fn chain_runs() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::open(dir.path()).slots(10_000).start().await.unwrap();
    let job = engine.submit_plan(Submission::new(chain(10), Origin::actor("me"))).await.unwrap();
    let end = job.ended().await.unwrap();
    assert_eq!(end.job.status(), JobStatus::Completed);
    for logged in job.history(0, 100).await.unwrap() { println!("{} {} {:?}", logged.recorded.seq, logged.position.0, logged.recorded.event.type_name()); }
    let s0 = engine.writer_stats();
    println!("{s0:?}");
    for inflight in [1usize, 1000] {
    let total = if inflight == 1 { 50 } else { 5000 };
    let t = std::time::Instant::now();
    let mut set = Vec::new();
    for k in 0..inflight {
        let engine = engine.clone();
        set.push(tokio::spawn(async move {
            for _ in 0..(total / inflight) {
                let job = engine.submit_plan(Submission::new(chain(10), Origin::actor("me"))).await.unwrap();
                job.ended().await.unwrap();
            }
            k
        }));
    }
    for s in set { s.await.unwrap(); }
    println!("{inflight}: {:.0} jobs/s {:?} per job", total as f64 / t.elapsed().as_secs_f64(), t.elapsed() / total as u32);
    }
    println!("{:?} cpu {:?}", engine.writer_stats(), std::fs::read_to_string("/proc/self/stat").unwrap().split(' ').skip(13).take(2).collect::<Vec<_>>());
    engine.shutdown().await.unwrap();
    let engine = Engine::open(dir.path()).start().await.unwrap();
    println!("{} jobs", engine.jobs(None, 100000).await.unwrap().len());
    let again = engine.job(job.id()).snapshot().await.unwrap();
    assert_eq!(again.job, end.job);
}
