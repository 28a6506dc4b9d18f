//! What the code of a task may do to its process: that is its own failure, and nobody else's.

use annals_engine::job::JobStatus;
use annals_tasks_sdk::{Payload, TaskContext, TaskResult};
use rustix::process::{Signal, getpid, kill_process};

use crate::house::{MEMORY, Test, ended, error_of, in_house, kinds, pool, start, submit, within};

pub(crate) const TESTS: &[Test] = &[
    (
        "every_death_is_a_failure_of_its_attempt_alone",
        every_death_is_a_failure_of_its_attempt_alone,
    ),
    ("processor_time_has_an_end", processor_time_has_an_end),
];

pub(crate) async fn segfault(_cx: TaskContext, _input: Payload) -> TaskResult<Payload> {
    eprintln!("about to go wrong");
    loop {
        // The first one that was not a fault is taken away by the handler that Rust has for stacks
        // that overflow; what comes then is as the system has it.
        kill_process(getpid(), Signal::SEGV)?;
    }
}

pub(crate) async fn abort(_cx: TaskContext, _input: Payload) -> TaskResult<Payload> {
    std::process::abort()
}

pub(crate) async fn overflow(_cx: TaskContext, _input: Payload) -> TaskResult<Payload> {
    Ok(Payload::of(&deeper(0))?)
}

fn deeper(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 512]);
    if depth == u64::MAX { 0 } else { deeper(depth + 1) + frame[7] }
}

/// Takes memory until it has as much as its input says, or there is none.
pub(crate) async fn exhaust(_cx: TaskContext, bytes: Payload) -> TaskResult<Payload> {
    let bytes: usize = bytes.to()?;
    let mut taken = Vec::new();
    while taken.len() << 20 < bytes {
        taken.push(std::hint::black_box(vec![1_u8; 1 << 20]));
    }
    Ok(Payload::of(&taken.len())?)
}

pub(crate) async fn exit(_cx: TaskContext, code: Payload) -> TaskResult<Payload> {
    std::process::exit(code.to()?)
}

pub(crate) async fn panics(_cx: TaskContext, _input: Payload) -> TaskResult<Payload> {
    panic!("it has lost its nerve")
}

pub(crate) async fn spins(_cx: TaskContext, _input: Payload) -> TaskResult<Payload> {
    let mut number = 1_u64;
    loop {
        number = std::hint::black_box(number.wrapping_mul(3));
    }
}

fn every_death_is_a_failure_of_its_attempt_alone() {
    in_house(|folder| async move {
        let engine = start(&folder).await;
        let too_much = (2 * MEMORY).to_string();
        let deaths = [
            ("segfault", "null", "crashed", "ended by SIGSEGV:\nabout to go wrong"),
            ("abort", "null", "crashed", "ended by SIGABRT"),
            ("overflow", "null", "crashed", "has overflowed its stack"),
            ("exhaust", &*too_much, "out_of_memory", "its pool lets it have 268435456 bytes"),
            ("exit", "0", "crashed", "ended with exit code 0 and without a result"),
            ("exit", "3", "crashed", "ended with exit code 3 and without a result"),
            ("panics", "null", "panic", "it has lost its nerve (at "),
        ];
        let mut jobs = Vec::new();
        for (kind, input, ..) in deaths {
            let text = format!(r#"{{"id": "a", "kind": "{kind}", "input": {input}}}"#);
            jobs.push(submit(&engine, &text).await);
            // Some run in the engine's process meanwhile, and some in others.
            let beside = r#"{"id": "a", "kind": "steady", "needs": []},
                {"id": "b", "kind": "exhaust", "input": 1, "needs": []}"#;
            jobs.push(submit(&engine, beside).await);
        }
        for (pair, (kind, _, code, words)) in jobs.chunks(2).zip(deaths) {
            let (end, beside) = (ended(&pair[0]).await, ended(&pair[1]).await);
            let (found, message) = error_of(&end, "a");
            assert_eq!((end.status(), &*found), (JobStatus::Failed, code), "{kind}: {message}");
            assert!(message.contains(words), "{kind}: {message}");
            assert_eq!(
                beside.status(),
                JobStatus::Completed,
                "beside {kind}: {:?}",
                beside.error()
            );
        }
        within(engine.shutdown()).await.unwrap();
    });
}

fn processor_time_has_an_end() {
    in_house(|folder| async move {
        let limit = std::time::Duration::from_secs(1);
        let engine = kinds(annals_engine::Engine::open(folder.join("store")));
        let engine = within(engine.pool(pool().cpu_time(limit)).start()).await.unwrap();
        let end = ended(&submit(&engine, r#"{"id": "a", "kind": "spins"}"#).await).await;
        let (code, message) = error_of(&end, "a");
        assert_eq!(code, "cpu_time_exceeded", "{message}");
        assert!(message.contains("SIGXCPU") && message.contains("than the 1 s"), "{message}");
        within(engine.shutdown()).await.unwrap();
    });
}
