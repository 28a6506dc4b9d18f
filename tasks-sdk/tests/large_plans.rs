//! Plans at and near the limits: checked in time, and as strictly as small ones.

use annals_tasks_sdk::plan::{Limits, Plan, PlanErrors};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// Far more than the checks take, and far less than what is quadratic would.
const PATIENCE: Duration = Duration::from_secs(10);

fn read(text: &str) -> Result<Plan, PlanErrors> {
    Plan::from_json(text, &Limits::default())
}

#[test]
fn more_distant_references_than_are_followed_at_a_time() {
    let mut tasks = String::new();
    for index in 0..200 {
        write!(tasks, r#"{{"id": "t{index}", "kind": "k", "needs": []}},"#).unwrap();
    }
    let even: Vec<String> = (0..100).map(|index| format!(r#""t{}""#, 2 * index)).collect();
    write!(tasks, r#"{{"id": "join", "kind": "k", "needs": [{}]}},"#, even.join(",")).unwrap();
    let all: Vec<String> = (0..180).map(|index| format!(r#"{{"$output": "t{index}"}}"#)).collect();
    write!(tasks, r#"{{"id": "end", "kind": "k", "input": [{}]}}"#, all.join(",")).unwrap();
    let odd: Vec<String> =
        (0..90).map(|index| format!("/tasks/201/input/{}", 2 * index + 1)).collect();
    let errors = read(&format!(r#"{{"name": "n", "tasks": [{tasks}]}}"#)).unwrap_err();
    let places: Vec<&str> = errors.0.iter().map(|error| error.pointer.as_str()).collect();
    assert_eq!(places, odd);
    assert!(errors.0[0].detail.contains("`end` does not need `t1`"), "{errors}");
}

#[test]
fn ten_thousand_tasks_are_checked_at_once() {
    let mut chain = String::new();
    for index in 0..10_000 {
        let input = match index {
            0 => "null".into(),
            _ => format!(r#"[{{"$output": "t0"}}, {{"$output": "t{}"}}]"#, index / 2),
        };
        write!(chain, r#"{{"id": "t{index}", "kind": "k", "input": {input}}},"#).unwrap();
    }
    let text = format!(r#"{{"name": "n", "tasks": [{}]}}"#, chain.trim_end_matches(','));
    let started = Instant::now();
    read(&text).unwrap();
    assert!(started.elapsed() < PATIENCE, "took {:?}", started.elapsed());

    let circle = text.replacen(r#""kind": "k""#, r#""kind": "k", "needs": ["t9999"]"#, 1);
    let errors = read(&circle).unwrap_err();
    assert_eq!(errors.0.len(), 1, "{errors}");
    assert!(errors.0[0].detail.contains("t0 -> t9999 -> t9998"), "{errors}");
    assert!(errors.0[0].detail.len() < 500);
}

#[test]
fn many_references_into_a_large_input_are_cheap() {
    let input: Vec<String> = (0..50_000).map(|index| format!("\"k{index}\": [1]")).collect();
    let references: Vec<String> =
        (0..20_000).map(|index| format!(r#"{{"$input": "/k{index}/0"}}"#)).collect();
    let text = format!(
        r#"{{"name": "n", "input": {{{}}}, "tasks": [{{"id": "a", "kind": "k", "input": [{}]}}]}}"#,
        input.join(","),
        references.join(",")
    );
    let started = Instant::now();
    read(&text).unwrap();
    assert!(started.elapsed() < PATIENCE, "took {:?}", started.elapsed());
}
