//! Jobs as they were, and what each event has changed.

use serde_json::{Value, json};

use crate::face::Face;

/// A job with a task that fails, one that is skipped and one that completes afterwards.
async fn lived(face: &Face) -> String {
    let tasks = r#"{"id": "a", "kind": "echo", "input": {"x": 18446744073709551617}},
        {"id": "b", "kind": "echo", "input": {"$output": "a", "pointer": "/y"}},
        {"id": "c", "kind": "echo"}"#;
    let job = face.submit(tasks).await;
    assert_eq!(face.ended(&job).await["status"], "failed");
    face.post(&format!("{job}/skip"), r#"{"reason": "not needed"}"#).await.with_status(202);
    face.post(&format!("{job}/execute"), "{}").await.with_status(202);
    assert_eq!(face.ended(&job).await["status"], "completed");
    job
}

/// Puts what a change says into a job. Elements go by what names them.
fn apply(job: &mut Value, change: &Value) {
    let path = change["path"].as_str().unwrap();
    let steps: Vec<&str> = path.split('/').skip(1).collect();
    let (last, way) = steps.split_last().unwrap();
    let mut at = job;
    for step in way {
        at = match at {
            Value::Array(all) => all.iter_mut().find(|one| is(one, step)).unwrap(),
            other => &mut other[*step],
        };
    }
    match (at, change.get("to")) {
        (Value::Object(members), Some(to)) => {
            assert_eq!(members.get(*last), change.get("from"), "{path}");
            members.insert((*last).to_owned(), to.clone());
        }
        (Value::Object(members), None) => {
            assert_eq!(members.remove(*last).as_ref(), change.get("from"), "{path}");
        }
        (Value::Array(all), Some(to)) => {
            assert_eq!(change.get("from"), None, "{path}");
            all.push(to.clone());
        }
        other => panic!("{other:?}"),
    }
}

fn is(one: &Value, name: &str) -> bool {
    let names = ["id", "number", "name"].iter().filter_map(|key| one.get(key));
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    names.map(text).next().is_some_and(|text| text == name)
}

#[tokio::test]
async fn the_changes_of_each_event_lead_from_one_state_to_the_next() {
    let face = Face::new().await;
    let job = lived(&face).await;
    let states = states(&face, &job).await;
    assert_eq!(states.last(), Some(&face.get(&job).await.with_status(200)));
}

/// The job behind each of its events, as the changes of each make it of the one before; that is
/// how it is shown when it is asked for by the event.
pub(crate) async fn states(face: &Face, job: &str) -> Vec<Value> {
    let (mut state, mut states, mut next) = (json!({}), Vec::new(), Some("0".to_owned()));
    while let Some(after) = next {
        let page = face.get(&format!("{job}/replay?after={after}&limit=4")).await.with_status(200);
        let events = face.get(&format!("{job}/events?after={after}&limit=4")).await;
        for (step, event) in page["items"]
            .as_array()
            .unwrap()
            .iter()
            .zip(events.with_status(200)["items"].as_array().unwrap())
        {
            let mut bare = step.clone();
            bare.as_object_mut().unwrap().remove("changes");
            assert_eq!(bare, *event);
            for change in step["changes"].as_array().unwrap() {
                apply(&mut state, change);
            }
            let seen = states.len() + 1;
            assert_eq!(step["seq"], seen);
            state["seq"] = seen.into();
            let then = face.get(&format!("{job}?at={seen}")).await.with_status(200);
            assert_eq!(state, then, "event {seen}");
            states.push(then);
        }
        next = page["next_cursor"].as_str().map(str::to_owned);
    }
    states
}

#[tokio::test]
async fn a_history_is_proved_by_the_hash_of_its_last_event() {
    let face = Face::new().await;
    let job = lived(&face).await;
    let audit = face.get(&format!("{job}/verify")).await.with_status(200);
    let events = face.get(&format!("{job}/events?limit=1000")).await.with_status(200);
    let last = events["items"].as_array().unwrap().last().unwrap();
    assert_eq!(audit["sound"], true);
    assert_eq!((&audit["head_seq"], &audit["head_hash"]), (&last["seq"], &last["hash"]));
    assert_eq!(audit["events"], last["seq"]);
    assert_eq!(audit.get("damage"), None);
}

#[tokio::test]
async fn a_job_is_shown_as_it_was_at_a_time() {
    let face = Face::new().await;
    let job = lived(&face).await;
    let now = face.get(&job).await;
    let later = face.get(&format!("{job}?at_time=9999-01-01T00:00:00Z")).await;
    assert_eq!(later.json(), now.json());
    let created = now.json()["created_at"].as_str().unwrap().to_owned();
    let then = face.get(&format!("{job}?at_time={created}")).await.with_status(200);
    assert_eq!(then["created_at"], created.as_str());
    let early = face.get(&format!("{job}?at_time=2001-01-01T00:00:00%2B02:00")).await;
    let problem = early.problem(404, "no_such_event");
    assert!(problem["detail"].as_str().unwrap().contains(&created), "{problem}");
}

#[tokio::test]
async fn moments_that_never_were_are_refused() {
    let face = Face::new().await;
    let job = lived(&face).await;
    for none in ["at=0", "at=9999"] {
        face.get(&format!("{job}?{none}")).await.problem(404, "no_such_event");
    }
    let nobody = "/api/v1/jobs/0197f0c2-7b3e-7c11-9f0e-1d2c3b4a5968";
    for path in ["?at=1", "?at_time=2026-01-01T00:00:00Z", "/replay"] {
        face.get(&format!("{nobody}{path}")).await.problem(404, "no_such_job");
    }
    for bad in [
        "at=-1",
        "at=x",
        "at=1&at=2",
        "at_time=noon",
        "at=1&at_time=2026-01-01T00:00:00Z",
        "at=1&wait=1s",
        "at=1&after=1",
    ] {
        face.get(&format!("{job}?{bad}")).await.problem(400, "bad_query");
    }
    let beyond = face.get(&format!("{job}/replay?after=9999")).await.with_status(200);
    assert_eq!(beyond, json!({"items": []}));
}
