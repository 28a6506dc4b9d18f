//! What the code of a task may do to its process: that is its own failure, and nobody else's.

use annals_engine::job::JobStatus;
use annals_tasks_sdk::{Payload, TaskContext, TaskResult};
use rustix::process::{Signal, getpid, kill_process};

use crate::house::{
    MEMORY, Test, ended, error_of, in_house, kinds, output_of, pool, start, submit, within,
};

pub(crate) const TESTS: &[Test] = &[
    (
        "every_death_is_a_failure_of_its_attempt_alone",
        every_death_is_a_failure_of_its_attempt_alone,
    ),
    ("processor_time_has_an_end", processor_time_has_an_end),
    (
        "processes_of_an_attempt_have_its_memory_together",
        processes_of_an_attempt_have_its_memory_together,
    ),
    (
        "without_a_cgroup_each_process_has_a_limit_of_its_own",
        without_a_cgroup_each_process_has_a_limit_of_its_own,
    ),
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

/// Has so many processes take so many bytes each, all at the same time. Gives how many of them the
/// kernel has ended.
pub(crate) async fn family(_cx: TaskContext, input: Payload) -> TaskResult<Payload> {
    let (count, bytes): (usize, u64) = input.to()?;
    // What is kept of the end of a pipe is in the memory of who keeps it, until it can be written.
    let script = format!("head -c {bytes} /dev/zero | tail -c {bytes}");
    let start = || {
        let mut one = std::process::Command::new("sh");
        let one = one.args(["-c", &format!("exec 2>&-; {script}; exit 0")]);
        one.stdout(std::process::Stdio::piped()).spawn()
    };
    let mut all = (0..count).map(|_| start()).collect::<Result<Vec<_>, _>>()?;
    // Those that have taken all begin to write, and wait then until they are read.
    let mut whole = 0;
    let mut outputs: Vec<_> = all.iter_mut().filter_map(|one| one.stdout.take()).collect();
    for output in &mut outputs {
        whole += usize::from(std::io::Read::read(output, &mut [0])? > 0);
    }
    for (mut output, mut one) in outputs.into_iter().zip(all) {
        std::io::copy(&mut output, &mut std::io::sink())?;
        one.wait()?;
    }
    Ok(Payload::of(&(count - whole))?)
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

/// What is said where the kernel cannot be asked to hold memory.
const NO_CGROUP: &str = "not tried: no cgroup that holds memory can be made here";

/// Where this process is left the exit code of a panic, or of a shell that could not hide cgroups.
const PANICKED: i32 = 101;
const NOT_HIDDEN: i32 = 77;

/// The same deaths, where nobody sees cgroups.
fn without_a_cgroup_each_process_has_a_limit_of_its_own() {
    if !annals_engine::processes::limits_memory_together() {
        // Then all tests here are of that.
        return;
    }
    let hidden =
        format!("mount -t tmpfs none /sys/fs/cgroup || exit {NOT_HIDDEN}; exec \"$0\" _attempt_");
    let this = std::env::current_exe().expect("this program has a path");
    let apart = std::process::Command::new("unshare")
        .args(["--mount", "sh", "-c", &hidden])
        .arg(this)
        .output();
    let Ok(apart) = apart else { return println!("not tried: there is no `unshare` here") };
    let said = String::from_utf8_lossy(&apart.stdout);
    let failed = String::from_utf8_lossy(&apart.stderr);
    match apart.status.code() {
        Some(0) => {
            assert!(said.contains(NO_CGROUP) && said.contains("ok. 2 passed"), "{said}");
        }
        None | Some(PANICKED) => panic!("{said}{failed}"),
        Some(_) => println!("not tried: cgroups cannot be hidden here: {failed}"),
    }
}

fn processes_of_an_attempt_have_its_memory_together() {
    if !annals_engine::processes::limits_memory_together() {
        println!("{NO_CGROUP}");
        return;
    }
    in_house(|folder| async move {
        let engine = start(&folder).await;
        let family = |count: u64, bytes| {
            format!(r#"{{"id": "a", "kind": "family", "input": [{count}, {bytes}]}}"#)
        };
        // Each of them is far below the limit, and they are, too, where they are few.
        let few = ended(&submit(&engine, &family(2, MEMORY / 4)).await).await;
        assert_eq!(few.status(), JobStatus::Completed, "{:?}", few.error());
        assert_eq!(output_of(&few, "a"), "0");
        let many = ended(&submit(&engine, &family(8, MEMORY / 4)).await).await;
        match many.status() {
            // The kernel ended some of them, or all of the attempt.
            JobStatus::Completed => assert_ne!(output_of(&many, "a"), "0"),
            _ => assert_eq!(error_of(&many, "a").0, "out_of_memory"),
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
