//! Plans as text: what is refused, where and in which words, and what is kept.

use annals_tasks_sdk::Payload;
use annals_tasks_sdk::plan::{
    Backoff, Limits, OnFailure, OnLost, Plan, PlanErrors, Policy, PolicyFields, Retry, Start,
    TaskSpec,
};
use annals_tasks_sdk::{KindName, TaskId};
use std::time::Duration;

fn read(text: &str) -> Result<Plan, PlanErrors> {
    Plan::from_json(text, &Limits::default())
}

/// Faults as (pointer, part of the detail), each of which must be there, and no others.
fn check_refused(text: &str, expected: &[(&str, &str)]) {
    let errors = read(text).expect_err(text);
    for (pointer, words) in expected {
        let found = errors.0.iter().any(|e| e.pointer == *pointer && e.detail.contains(words));
        assert!(found, "{pointer}: {words}\nin {text}\ngot:\n{errors}");
    }
    assert_eq!(errors.0.len(), expected.len(), "{text}\ngot:\n{errors}");
}

/// A plan with this task, `a`, before one more.
fn check_task(fields: &str, pointer: &str, words: &str) {
    let text = format!(
        r#"{{"name": "n", "tasks": [
            {{"id": "a", "kind": "k", {fields}}}, {{"id": "b", "kind": "k"}}]}}"#
    );
    check_refused(&text, &[(pointer, words)]);
}

fn check_tasks(tasks: &str, expected: &[(&str, &str)]) {
    check_refused(
        &format!(r#"{{"name": "n", "input": {{"x": 1}}, "tasks": [{tasks}]}}"#),
        expected,
    );
}

#[test]
fn the_plan_itself() {
    let table: [(&str, &[(&str, &str)]); 18] = [
        ("", &[("", "the plan is no JSON")]),
        ("{\n\"name\": }", &[("", "line 2")]),
        ("[]", &[("", "a plan must be an object, not a list")]),
        ("null", &[("", "a plan must be an object, not null")]),
        ("{}", &[("", "`name` is missing"), ("", "at least one task")]),
        (r#"{"name": "n"}"#, &[("", "a plan needs at least one task")]),
        (r#"{"name": "n", "tasks": []}"#, &[("/tasks", "a plan needs at least one task")]),
        (r#"{"name": "n", "tasks": {}}"#, &[("/tasks", "`tasks` must be a list, not an object")]),
        (
            r#"{"name": "n", "tasks": [7]}"#,
            &[("/tasks/0", "a task must be an object, not a number")],
        ),
        (
            r#"{"name": "", "tasks": [{"id": "a", "kind": "k"}]}"#,
            &[("/name", "1 to 256 characters, not 0")],
        ),
        (
            r#"{"name": 7, "tasks": [{"id": "a", "kind": "k"}]}"#,
            &[("/name", "this must be a string, not a number")],
        ),
        (
            r#"{"name": "n", "label": {}, "tasks": [{"id": "a", "kind": "k"}]}"#,
            &[("/label", "`label` is no field of a plan; did you mean `labels`?")],
        ),
        (
            r#"{"name": "n", "labels": {"a/b": 7}, "tasks": [{"id": "a", "kind": "k"}]}"#,
            &[("/labels/a~1b", "this must be a string, not a number")],
        ),
        (
            r#"{"name": "n", "start": "soon", "tasks": [{"id": "a", "kind": "k"}]}"#,
            &[("/start", "`start` is one of now, manual, not \"soon\"")],
        ),
        (
            r#"{"name": "n", "start": "2026-11-29T25:00Z", "tasks": [{"id": "a", "kind": "k"}]}"#,
            &[("/start", "is no time such as 2030-01-31T08:00:00Z")],
        ),
        (
            r#"{"name": "n", "name": "m", "tasks": [{"id": "a", "kind": "k"}]}"#,
            &[("/name", "stands twice")],
        ),
        (
            r#"{"name": "n", "input": {"a": {"b": 1, "b": 2}}, "tasks": [{"id":"a","kind":"k"}]}"#,
            &[("/input/a", "stands twice")],
        ),
        (
            r#"{"name": "n", "output": {"$output": "z"}, "tasks": [{"id": "a", "kind": "k"}]}"#,
            &[("/output", "no task has the id `z`")],
        ),
    ];
    for (text, expected) in table {
        check_refused(text, expected);
    }
}

#[test]
fn fields_that_are_not_built_yet_are_refused_by_name() {
    for field in ["queue", "priority"] {
        let text =
            format!(r#"{{"name": "n", "{field}": [], "tasks": [{{"id": "a", "kind": "k"}}]}}"#);
        let words = format!("`{field}` is not supported by this version");
        check_refused(&text, &[(&format!("/{field}"), &words)]);
    }
    for field in ["weight", "isolation"] {
        let words = format!("`{field}` is not supported by this version");
        check_task(&format!("\"{field}\": 1"), &format!("/tasks/0/{field}"), &words);
    }
}

#[test]
fn a_deadline_is_a_duration_that_is_longer_than_zero() {
    let table = [
        (r#""0s""#, "a deadline must be longer than zero"),
        ("0", "a deadline must be longer than zero, such as 30s or 2h 30m"),
        ("30", "write 30s for 30 seconds"),
        ("[]", "this must be a string, not a list"),
        (r#""soon""#, "is no duration"),
        (r#""101y""#, "is no duration"),
        (r#""36525d""#, "it is longer than 100 years"),
        (r#""1500us""#, "is no duration"),
    ];
    let text = |deadline: &str| {
        format!(r#"{{"name": "n", "deadline": {deadline}, "tasks": [{{"id": "a", "kind": "k"}}]}}"#)
    };
    for (deadline, words) in table {
        check_refused(&text(deadline), &[("/deadline", words)]);
    }
    for (deadline, read_as) in
        [("null", None), (r#""1ms""#, Some(1)), (r#""2d""#, Some(172_800_000))]
    {
        let plan = read(&text(deadline)).unwrap();
        assert_eq!(plan.deadline, read_as.map(Duration::from_millis), "{deadline}");
        assert_eq!(read(plan.to_json().as_str()), Ok(plan));
    }
}

#[test]
fn the_fields_of_a_task() {
    let table = [
        (
            r#""nedes": []"#,
            "/tasks/0/nedes",
            "`nedes` is no field of a task; did you mean `needs`?",
        ),
        (r#""title": 7"#, "/tasks/0/title", "a string, not a number"),
        (r#""needs": null"#, "/tasks/0/needs", "[] to need none"),
        (r#""needs": "b""#, "/tasks/0/needs", "`needs` must be a list, not a string"),
        (r#""needs": [1]"#, "/tasks/0/needs/0", "a string, not a number"),
        (r#""needs": ["b c"]"#, "/tasks/0/needs/0", "is not a task id"),
        (r#""needs": ["a"]"#, "/tasks/0/needs/0", "`a` cannot need itself"),
        (r#""needs": ["c"]"#, "/tasks/0/needs/0", "no task has the id `c`"),
        (r#""timeout": 30"#, "/tasks/0/timeout", "write 30s for 30 seconds"),
        (r#""timeout": -1"#, "/tasks/0/timeout", "a string with units"),
        (r#""timeout": 1e308"#, "/tasks/0/timeout", "a string with units"),
        (r#""timeout": "0s""#, "/tasks/0/timeout", "must be longer than zero"),
        (r#""timeout": 0"#, "/tasks/0/timeout", "a timeout must be longer than zero, such as"),
        (r#""cancel_grace": 0"#, "/tasks/0/cancel_grace", "write 0s for 0 seconds"),
        (r#""timeout": "99999999999h""#, "/tasks/0/timeout", "longer than 100 years"),
        (r#""timeout": "soon""#, "/tasks/0/timeout", "is no duration"),
        (r#""heartbeat_timeout": 5"#, "/tasks/0/heartbeat_timeout", "write 5s for 5 seconds"),
        (r#""heartbeat_timeout": "0s""#, "/tasks/0/heartbeat_timeout", "longer than zero"),
        (r#""heartbeat_timeout": "1.0005s""#, "/tasks/0/heartbeat_timeout", "three digits"),
        (r#""cancel_grace": "-1s""#, "/tasks/0/cancel_grace", "negative"),
        (
            r#""on_failure": "ignore""#,
            "/tasks/0/on_failure",
            "fail, continue, pause, not \"ignore\"",
        ),
        (r#""on_lost": "reruns""#, "/tasks/0/on_lost", "did you mean `rerun`?"),
        (r#""retry": 3"#, "/tasks/0/retry", "`retry` must be an object, not a number"),
        (r#""retry": {"attempts": 3}"#, "/tasks/0/retry/attempts", "is no field of `retry`"),
        (r#""retry": {"max_attempts": 0}"#, "/tasks/0/retry/max_attempts", "at least 1"),
        (r#""retry": {"max_attempts": -1}"#, "/tasks/0/retry/max_attempts", "from 1 to 4294967295"),
        (r#""retry": {"max_attempts": 4294967296}"#, "/tasks/0/retry/max_attempts", "from 1 to"),
        (r#""retry": {"max_attempts": 1.5}"#, "/tasks/0/retry/max_attempts", "from 1 to"),
        (r#""retry": {"max_attempts": "3"}"#, "/tasks/0/retry/max_attempts", "from 1 to"),
        (r#""retry": {"max_elapsed": "0s"}"#, "/tasks/0/retry/max_elapsed", "longer than zero"),
        (r#""retry": {"never": "x"}"#, "/tasks/0/retry/never", "must be a list"),
        (r#""retry": {"never": [1]}"#, "/tasks/0/retry/never/0", "a string, not a number"),
        (r#""retry": {"backoff": {}}"#, "/tasks/0/retry/backoff", "does nothing without"),
    ];
    for (fields, pointer, words) in table {
        check_task(fields, pointer, words);
    }
    let backoffs = [
        (r#""factor": 0.5"#, "factor", "from 1 to 1000"),
        (r#""factor": 1e308"#, "factor", "from 1 to 1000"),
        (r#""factor": 1e999"#, "factor", "from 1 to 1000"),
        (r#""factor": "2""#, "factor", "must be a number"),
        (r#""jitter": 1.1"#, "jitter", "from 0 to 1"),
        (r#""jitter": -0.1"#, "jitter", "from 0 to 1"),
        (r#""initial": "5m", "max": "1m""#, "max", "must not be less than `initial`"),
        (r#""initial": "1y""#, "initial", "the units are"),
    ];
    for (fields, name, words) in backoffs {
        let retry = format!(r#""retry": {{"max_attempts": 3, "backoff": {{{fields}}}}}"#);
        check_task(&retry, &format!("/tasks/0/retry/backoff/{name}"), words);
    }
}

#[test]
fn ids_and_needs() {
    check_tasks(
        r#"{"id": "a", "kind": "k"}, {"id": "b c", "kind": "k/"}, {"kind": "k"}, {"id": "a"}"#,
        &[
            ("/tasks/1/id", "\"b c\" is not a task id"),
            ("/tasks/1/kind", "\"k/\" is not a kind"),
            ("/tasks/2", "`id` is missing"),
            ("/tasks/3", "`kind` is missing"),
            ("/tasks/3/id", "the id `a` is that of /tasks/0 already"),
        ],
    );
    check_tasks(
        r#"{"id": "fetch", "kind": "k"}, {"id": "b", "kind": "k", "needs": ["fetsh", "fetch"]}"#,
        &[("/tasks/1/needs/0", "no task has the id `fetsh`; did you mean `fetch`?")],
    );
    check_tasks(
        r#"{"id": "a", "kind": "k", "needs": ["b"]}, {"id": "b", "kind": "k"}"#,
        &[(
            "/tasks/0/needs",
            "circle: a -> b -> a (`b` has no `needs`, so it needs the task before",
        )],
    );
    check_tasks(
        r#"{"id": "x", "kind": "k"},
           {"id": "a", "kind": "k", "needs": ["c"]}, {"id": "b", "kind": "k", "needs": ["a"]},
           {"id": "c", "kind": "k", "needs": ["b", "x"]}, {"id": "d", "kind": "k", "needs": ["c"]},
           {"id": "e", "kind": "k", "needs": ["f"]}, {"id": "f", "kind": "k", "needs": ["e"]}"#,
        &[
            ("/tasks/1/needs", "in a circle: a -> c -> b -> a"),
            ("/tasks/5/needs", "in a circle: e -> f -> e"),
        ],
    );
}

#[test]
fn references_must_find_what_they_name() {
    let a = r#"{"id": "a", "kind": "k"}"#;
    check_tasks(
        &format!(
            r#"{a}, {{"id": "b", "kind": "k", "needs": [], "input": {{"v": {{"$output": "a"}}}}}}"#
        ),
        &[("/tasks/1/input/v", "`b` does not need `a`, directly or through others")],
    );
    check_tasks(
        r#"{"id": "a", "kind": "k", "input": {"$output": "b"}}, {"id": "b", "kind": "k"}"#,
        &[("/tasks/0/input", "`a` does not need `b`")],
    );
    check_tasks(
        r#"{"id": "a", "kind": "k", "input": [{"$output": "a", "default": 1}]}"#,
        &[("/tasks/0/input/0", "`a` cannot take its own output")],
    );
    check_tasks(
        r#"{"id": "a", "kind": "k", "input": [{"$output": "aa"}, {"$input": "/x"},
            {"$input": "/y"}, {"$input": "/y", "default": 0}, {"$input": "/x/0"}]}"#,
        &[
            ("/tasks/0/input/0", "no task has the id `aa`; did you mean `a`?"),
            ("/tasks/0/input/2", "the plan's input has nothing at \"/y\""),
            ("/tasks/0/input/4", "the plan's input has nothing at \"/x/0\""),
        ],
    );
    check_tasks(
        r#"{"id": "a", "kind": "k", "input": {"b": {"$ouput": "a"}, "c": {"$secret": "s"}}}"#,
        &[
            ("/tasks/0/input/b", "did you mean `$output`?"),
            ("/tasks/0/input/c", "`$secret` is not supported by this version"),
        ],
    );
    // One fault is enough: with `aa` made out, `b` might need `x`.
    check_tasks(
        r#"{"id": "x", "kind": "k"}, {"id": "b", "kind": "k", "needs": ["aa"]},
           {"id": "c", "kind": "k", "input": {"$output": "x"}}"#,
        &[("/tasks/1/needs/0", "no task has the id `aa`")],
    );
    // Needed through others, and by no `needs` of its own.
    let through = r#"{"name": "n", "output": {"x": {"$output": "a"}}, "tasks": [
        {"id": "a", "kind": "k"}, {"id": "b", "kind": "k"},
        {"id": "c", "kind": "k", "input": [{"$output": "a"}, {"$output": "b"}]},
        {"id": "d", "kind": "k", "needs": ["b"], "input": {"$output": "a"}}]}"#;
    read(through).unwrap();
}

#[test]
fn all_faults_are_listed_up_to_a_hundred() {
    let tasks = r#"{"id": "-", "kind": "k"},"#.repeat(300);
    let text = format!(r#"{{"name": "n", "tasks": [{}]}}"#, tasks.trim_end_matches(','));
    let errors = read(&text).unwrap_err();
    assert_eq!(errors.0.len(), 100);
    assert_eq!(errors.to_string().lines().count(), 100);
    assert!(errors.to_string().starts_with("/tasks/0/id: \"-\" is not a task id"));
}

#[test]
fn limits_name_themselves_and_what_was_given() {
    let text = r#"{"name": "n", "input": "0123456789", "tasks":
        [{"id": "a", "kind": "k", "input": [0, 1, 2, 3, 4]}, {"id": "b", "kind": "k"}]}"#;
    let check = |limits: Limits, pointers: &[&str], words: &str| {
        let errors = Plan::from_json(text, &limits).unwrap_err();
        let places: Vec<&str> = errors.0.iter().map(|error| error.pointer.as_str()).collect();
        assert_eq!(places, pointers);
        assert!(errors.0[0].detail.contains(words), "{errors}");
    };
    let unlimited = Limits::default();
    check(
        Limits { tasks: 1, ..unlimited },
        &["/tasks"],
        "the plan has 2 tasks; the limit `tasks` is 1",
    );
    let words = "the input has 12 bytes; the limit `payload_bytes` is 11";
    check(Limits { payload_bytes: 11, ..unlimited }, &["/input", "/tasks/0/input"], words);
    check(Limits { plan_bytes: 100, ..unlimited }, &[""], "the limit `plan_bytes` is 100");
    let plan = read(text).unwrap();
    let errors = plan.check(&Limits { plan_bytes: 100, ..unlimited }).unwrap_err();
    assert!(errors.to_string().contains("`plan_bytes` is 100"));
}

/// A plan with everything that a plan can have.
const FULL: &str = r#"{"name":"n\u0000ä \"q\"","labels":{"env":"prod","k":"\n"},
    "input":{"big":20000000000000000000001, "x": 1.0},"start":"manual","output":null,
    "exclusive":"host/ä","deadline":"P2DT1H",
    "tasks":[
    {"id":"a","title":"\u0000 \u001b[31m ☃","kind":"k.v:1","input":[{"$input":"/big"}],
     "needs":[],"timeout":"PT1H30M","heartbeat_timeout":"5m","cancel_grace":"0s",
     "on_failure":"continue","on_lost":"pause",
     "retry":{"max_attempts":3,"max_elapsed":"1h","never":["exit_2"],
     "backoff":{"initial":"5m","factor":1.5,"jitter":0}}},
    {"id":"b","kind":"k","needs":["a"],"retry":{"max_elapsed":"1d"},"title":null,
     "heartbeat_timeout":null},
    {"id":"c","kind":"k"}]}"#;

#[test]
fn plans_survive_the_way_through_json() {
    let plan = read(FULL).unwrap();
    assert_eq!(&*plan.name, "n\0ä \"q\"");
    assert_eq!(plan.start, Start::Manual);
    assert_eq!(plan.exclusive.as_deref(), Some("host/ä"));
    assert_eq!(plan.deadline, Some(Duration::from_hours(49)));
    assert_eq!(plan.output, Some(Payload::NULL));
    let [a, b, c] = &plan.tasks[..] else { panic!("three tasks") };
    assert_eq!(a.title.as_deref(), Some("\0 \u{1b}[31m ☃"));
    assert_eq!(a.needs.as_deref(), Some(&[][..]));
    assert_eq!(a.policy.timeout, Some(Duration::from_mins(90)));
    assert_eq!(a.policy.heartbeat_timeout, Some(Duration::from_mins(5)));
    assert_eq!(a.policy.cancel_grace, Some(Duration::ZERO));
    assert_eq!((a.policy.on_failure, a.policy.on_lost), (OnFailure::Continue, OnLost::Pause));
    assert_eq!(a.policy.retry.backoff.max, Duration::from_mins(5), "never below the first wait");
    assert_eq!(b.policy.retry.max_attempts, u32::MAX, "limited by time alone");
    assert_eq!((b.title.as_deref(), c.needs.as_deref()), (None, None));
    assert_eq!(b.policy.heartbeat_timeout, None);

    let written = plan.to_json();
    let again = read(written.as_str()).unwrap();
    assert_eq!(again, plan);
    assert_eq!(again.to_json(), written);
    assert!(written.as_str().contains("20000000000000000000001"));
}

#[test]
fn a_plan_with_any_character_changed_is_refused_or_survives() {
    let characters: Vec<char> = FULL.chars().collect();
    let mut accepted = 0;
    for place in 0..characters.len() {
        for change in ["", "0", "\"", "$", "-", "}", "\\u0024", "é"] {
            let mut text: String = characters[..place].iter().collect();
            text.push_str(change);
            text.extend(&characters[place + 1..]);
            let Ok(plan) = read(&text) else { continue };
            let written = plan.to_json();
            assert_eq!(read(written.as_str()).as_ref(), Ok(&plan), "{text}");
            accepted += 1;
        }
    }
    assert!(accepted > 400, "{accepted}");
}

#[test]
fn plans_that_programs_make_follow_the_same_rules() {
    let mut plan = Plan::new("n");
    let mut task = TaskSpec::new(TaskId::new("a").unwrap(), KindName::new("k").unwrap());
    task.policy = Policy::new(PolicyFields {
        timeout: Some(Duration::from_micros(1_500)),
        heartbeat_timeout: Some(Duration::ZERO),
        retry: Retry {
            max_attempts: 0,
            max_elapsed: Some(Duration::MAX),
            backoff: Backoff { factor: f64::NAN, jitter: f64::INFINITY, ..Backoff::default() },
            never: Vec::new(),
        },
        ..PolicyFields::default()
    });
    plan.tasks.push(task);
    plan.deadline = Some(Duration::ZERO);
    let errors = plan.check(&Limits::default()).unwrap_err();
    let places: Vec<&str> = errors.0.iter().map(|error| error.pointer.as_str()).collect();
    let expected = [
        "/deadline",
        "/tasks/0/timeout",
        "/tasks/0/heartbeat_timeout",
        "/tasks/0/retry/max_attempts",
        "/tasks/0/retry/max_elapsed",
        "/tasks/0/retry/backoff/factor",
        "/tasks/0/retry/backoff/jitter",
    ];
    assert_eq!(places, expected);
    // The refused values do no harm elsewhere.
    let backoff = &plan.tasks[0].policy.retry.backoff;
    assert_eq!(backoff.wait_after(u32::MAX), Duration::ZERO);
    assert!(!plan.to_json().as_str().is_empty());
}
