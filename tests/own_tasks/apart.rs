//! Tasks of a program made with `annals::App`, in processes of their own because its settings say
//! so.

use serde_json::{Value, json};

use crate::common::Place;
use crate::common::server::Server;
use crate::serve;

const SETTINGS: &str = "
    [pools.apart]
    isolation = 'process'
    kinds = ['crash', 'hog', 'note']
    slots = 2
    memory = '512MiB'
";

/// What the engine was told of a kind holds for its attempts, too, wherever they run.
#[test]
fn a_kind_has_its_settings_in_a_process_of_its_own() {
    let place = Place::new();
    let settings = "[pools.net]\nisolation = 'process'\nkinds = ['http']\n";
    std::fs::write(place.path("annals.toml"), settings).expect("a file");
    let server = serve(&place, &["--allow-targets", "private"]);
    let url = format!("http://{}/livez", server.address);
    let ended = run(&server, "http", &json!({"url": url}), 1);
    assert_eq!(ended["status"], "completed", "{ended}");
    server.end();
}

#[test]
fn a_pool_that_cannot_be_had_is_a_bad_setting() {
    let place = Place::new();
    for settings in ["kinds = ['nobody']", "kinds = ['note']\nthreads = 0"] {
        std::fs::write(place.path("annals.toml"), format!("[pools.odd]\n{settings}\n")).unwrap();
        let answer = place.annals(&["serve", "--listen", "127.0.0.1:0", "--json"]).expect(2);
        assert!(answer.stderr.contains("bad_setting"), "{}", answer.stderr);
    }
}

/// Runs a job of one task to its end.
fn run(server: &Server, kind: &str, input: &Value, attempts: u32) -> Value {
    let retry = json!({"max_attempts": attempts, "backoff": {"initial": "0s", "jitter": 0}});
    let task = json!({"id": "a", "kind": kind, "input": input, "retry": retry});
    let plan = json!({"name": "apart", "tasks": [task]});
    let accepted = server.post("/api/v1/jobs", &plan).expect(202);
    let job = accepted.header("location").expect("a location").to_owned();
    server.get(&format!("{job}?wait=1m")).expect(200).json()
}

#[test]
fn a_task_that_ends_its_process_ends_no_server() {
    let place = Place::new();
    std::fs::write(place.path("annals.toml"), SETTINGS).expect("a file");
    let server = serve(&place, &[]);
    let ended = run(&server, "crash", &Value::Null, 2);
    assert_eq!((&ended["status"], &ended["error"]["code"]), (&"failed".into(), &"crashed".into()));
    let attempts = ended["tasks"][0]["attempts"].as_array().expect("a list");
    assert_eq!(attempts.len(), 2);
    assert!(attempts.iter().all(|attempt| attempt["signal"] == "SIGABRT"), "{ended}");

    let ended = run(&server, "hog", &Value::Null, 1);
    assert_eq!(ended["error"]["code"], "out_of_memory", "{ended}");

    let journal = place.path("journal");
    let ended = run(&server, "note", &json!({"journal": journal, "after_ms": 0}), 1);
    assert_eq!(ended["status"], "completed", "{ended}");
    let noted = std::fs::read_to_string(&journal).expect("a journal");
    assert!(noted.ends_with(" a 1\n"), "{noted:?}");

    let kinds = server.get("/api/v1/kinds").expect(200).json();
    let pools: Vec<_> = kinds["items"].as_array().expect("a list").iter().collect();
    let pool = |kind: &str| &pools.iter().find(|each| each["name"] == kind).expect(kind)["pool"];
    assert_eq!(["crash", "note", "fail"].map(pool), ["apart", "apart", "default"]);
    assert!(!server.end().stderr.contains("ERROR"));
}
