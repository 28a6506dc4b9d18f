//! What users of other engines have reported as broken, tried on the real binary.

mod common;

use std::collections::BTreeMap;
use std::process::Stdio;

use common::{Place, finish, signal, until};
use rustix::process::Signal;
use serde_json::{Value, json};

/// A place with the file `plan.json`: shell tasks by id and script, with fields beside.
fn plan(tasks: &[(&str, &str, Value)]) -> Place {
    let place = Place::new();
    let task = |(id, script, more): &(&str, &str, Value)| {
        let input = json!({"script": script, "env": {"DIR": place.path("")}});
        let mut task = json!({"id": id, "kind": "shell", "input": input});
        let more = more.as_object().into_iter().flatten();
        more.for_each(|(field, value)| task[field] = value.clone());
        task
    };
    let tasks: Vec<Value> = tasks.iter().map(task).collect();
    place.write("plan.json", json!({"name": "behaviours", "tasks": tasks}).to_string());
    place
}

fn outcomes(task: &Value) -> Vec<&str> {
    let attempts = task["attempts"].as_array().unwrap().iter();
    attempts.map(|attempt| attempt["outcome"].as_str().unwrap()).collect()
}

/// A job that fails goes on at the step that failed: what has completed before keeps its output
/// byte for byte, what comes behind has not begun, and earlier failures stay readable.
#[test]
fn to_go_on_repeats_nothing_that_has_completed() {
    const SCRIPT: &str = "
        echo $ANNALS_TASK >> $DIR/ran
        if [ -e $DIR/broken-$ANNALS_TASK ]; then echo \"$ANNALS_ATTEMPT is broken\"; exit 3; fi
        printf '{\"when\": \"%s\", \"who\": %s}' \"$(date +%s.%N)\" $$ > $ANNALS_OUTPUT";
    let ids: Vec<String> = (1..=10).map(|number| format!("s{number:02}")).collect();
    let tasks: Vec<_> = ids.iter().map(|id| (id.as_str(), SCRIPT, Value::Null)).collect();
    let place = plan(&tasks);
    let mut outputs: BTreeMap<String, Value> = BTreeMap::new();
    for broken in ["s07", "s08", "s08", "s10", ""] {
        let file = format!("broken-{broken}");
        place.write(&file, "");
        place.annals(&["run", "plan.json"]).expect(i32::from(!broken.is_empty()));
        std::fs::remove_file(place.path(&file)).unwrap();
        let job = place.json(&["show", &place.newest_id()]);
        for task in job["tasks"].as_array().unwrap() {
            let id = task["id"].as_str().unwrap();
            let status = match broken {
                "" => "completed",
                broken if id < broken => "completed",
                broken if id == broken => "failed",
                _ => "pending",
            };
            assert_eq!(task["status"], status, "{id} while {broken} is broken");
            if status == "completed" {
                let first = outputs.entry(id.into()).or_insert_with(|| task["output"].clone());
                assert_eq!(*first, task["output"], "{id} while {broken} is broken");
            }
        }
    }
    let id = place.newest_id();
    let ran = place.read("ran");
    let times: Vec<_> =
        ids.iter().map(|id| ran.lines().filter(|line| line == id).count()).collect();
    assert_eq!(times, [1, 1, 1, 1, 1, 1, 2, 3, 1, 2]);
    let job = place.json(&["show", &id]);
    assert_eq!(outcomes(&job["tasks"][7]), ["failed", "failed", "completed"]);
    for attempt in ["1", "2"] {
        let log = place.annals(&["logs", &id, "s08", "--attempt", attempt]).expect(0).stdout;
        assert_eq!(log, format!("{attempt} is broken\n"));
    }
    let seq = job["seq"].clone();
    place.annals(&["execute", &id]).expect(0);
    assert_eq!(place.json(&["show", &id])["seq"], seq, "to execute a completed job is no event");
    assert_eq!(place.read("ran"), ran);
}

/// Exactly so many attempts as allowed, each with its log; none more for a code that says so.
#[test]
fn retries_are_counted_and_some_codes_are_not_retried() {
    let retry = |never: Value| {
        json!({"retry": {
            "max_attempts": 3, "backoff": {"initial": "1ms", "jitter": 0}, "never": never,
        }})
    };
    for (never, attempts) in [(json!([]), 3), (json!(["exit_2"]), 1)] {
        let place = plan(&[("a", "echo try $ANNALS_ATTEMPT >&2; exit 2", retry(never))]);
        place.annals(&["run", "plan.json"]).expect(1);
        let id = place.newest_id();
        let job = place.json(&["show", &id]);
        assert_eq!(outcomes(&job["tasks"][0]), vec!["failed"; attempts]);
        for attempt in 1..=attempts {
            let log = place.annals(&["logs", &id, "a", "--attempt", &attempt.to_string()]);
            assert_eq!(log.expect(0).stdout, format!("try {attempt}\n"));
        }
    }
}

/// Output is bytes: none of them fails a task, and each comes back as it was written.
#[test]
fn output_of_any_bytes_succeeds_and_comes_back() {
    let every_byte: Vec<u8> = (0..=u8::MAX).cycle().take(1_000).collect();
    let samples: [(&str, Vec<u8>); 5] = [
        ("every-byte", every_byte),
        ("half-a-character", "naïve \u{1f600}".as_bytes()[..9].to_vec()),
        ("utf-16", "zwölf\n".encode_utf16().flat_map(u16::to_le_bytes).collect()),
        ("latin-1", b"zw\xf6lf \xe4pfel\r\n".to_vec()),
        ("a-megabyte", vec![0xff; 1 << 20]),
    ];
    let show = "cat $DIR/$ANNALS_TASK";
    let last = ("said-in-an-error", "cat $DIR/latin-1 >&2; exit 9", Value::Null);
    let tasks = samples.iter().map(|(name, _)| (*name, show, Value::Null)).chain([last]);
    let place = plan(&tasks.collect::<Vec<_>>());
    for (name, bytes) in &samples {
        place.write(name, bytes);
    }
    place.annals(&["run", "plan.json"]).expect(1);
    let id = place.newest_id();
    for (name, bytes) in &samples {
        let log = place.command(&["logs", &id, name, "--stream", "stdout"]).output().unwrap();
        assert!(log.stdout == *bytes, "{name}: {} of {} bytes", log.stdout.len(), bytes.len());
    }
    // Whatever a script said, answers are text.
    for args in [&["show", &id, "--json"][..], &["events", &id, "--json"], &["show", &id]] {
        let answer = place.command(args).output().unwrap();
        assert!(answer.status.success());
        let text = String::from_utf8(answer.stdout).expect("answers are UTF-8");
        assert!(text.contains("zw\u{fffd}lf"), "{text}");
    }
}

/// Whoever asks for input gets none, at once, whatever the run itself reads from.
#[test]
fn nobody_waits_for_input() {
    let scripts = ["cat", "! read line", "! (exec < /dev/tty) 2> /dev/null", "[ ! -t 0 ]"];
    let ids: Vec<_> = (0..scripts.len()).map(|number| format!("asks-{number}")).collect();
    let tasks = ids.iter().zip(scripts).map(|(id, script)| (id.as_str(), script, Value::Null));
    let place = plan(&tasks.collect::<Vec<_>>());
    // A pipe that is never written to, and stays open.
    let mut run = place.command(&["run", "plan.json"]);
    let mut run = run.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let pipe = run.as_mut().unwrap().stdin.take();
    finish(run.unwrap()).expect(0);
    drop(pipe);
}

/// However a run ends, nothing that its steps have started lives on.
#[test]
fn nothing_lives_on_behind_an_interrupt() {
    const SCRIPT: &str = r"
        sleep 1000 &
        (setsid sleep 1000 &)
        (trap '' HUP; exec sleep 1000) &
        trap '' TERM
        touch $DIR/runs
        sleep 1000 | cat";
    for (sent, code, status) in [
        (Signal::INT, Some(130), "paused"),
        (Signal::TERM, Some(143), "paused"),
        (Signal::KILL, None, "running"),
    ] {
        let place = plan(&[("stubborn", SCRIPT, json!({"cancel_grace": "200ms"}))]);
        let marker = place.path("").display().to_string();
        let run = place.start(&["run", "plan.json"]);
        place.wait_for("runs");
        until("what it starts", || alive(&marker) >= 4);
        signal(&run, sent);
        assert_eq!(finish(run).code, code);
        if code.is_some() {
            assert_eq!(alive(&marker), 0, "the end of the attempt is the end of its processes");
        }
        // Behind a kill it is the supervisor of the attempt that ends them.
        until("what it left to end", || alive(&marker) == 0);
        assert_eq!(place.newest()["status"], status, "after {sent:?}");
    }
}

/// How many processes were started by the steps of a place.
fn alive(dir: &str) -> usize {
    let wanted = format!("DIR={dir}");
    let processes = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let started = processes.filter(|process| {
        // One that ends meanwhile is none.
        let environment = std::fs::read(process.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
    });
    started.count()
}

/// A step that is out of time is no failure of its own making and no cancel, and nothing of it
/// lives on.
#[test]
fn a_timeout_ends_all_that_the_step_has_started_and_is_shown_as_one() {
    const SCRIPT: &str = r"
        sleep 1000 &
        (setsid sleep 1000 &)
        trap '' TERM
        touch $DIR/runs
        sleep 1000 | cat";
    let limits = json!({"timeout": "3s", "cancel_grace": "200ms"});
    let place = plan(&[("slow", SCRIPT, limits), ("behind", "true", Value::Null)]);
    let marker = place.path("").display().to_string();
    let run = place.start(&["run", "plan.json"]);
    place.wait_for("runs");
    until("what it starts", || alive(&marker) >= 3);
    finish(run).expect(1);
    assert_eq!(alive(&marker), 0, "the end of the attempt is the end of its processes");
    let job = place.json(&["show", &place.newest_id()]);
    assert_eq!((&job["status"], &job["error"]["code"]), (&json!("failed"), &json!("timed_out")));
    let tasks = job["tasks"].as_array().unwrap();
    assert_eq!(outcomes(&tasks[0]), ["timed_out"]);
    assert_eq!(tasks[1]["status"], "pending");
}
