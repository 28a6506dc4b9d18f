//! Which server or store is meant.

use crate::common::Place;
use crate::{Served, problem};

const SMALL: &str = "name: small\ntasks: [{id: a, kind: noop}]\n";

#[test]
fn a_server_is_named_by_flag_or_variable_or_found_by_its_store() {
    let served = Served::new();
    let id = served.submit(SMALL);
    let elsewhere = Place::new();
    let url = served.server.url.clone();
    let bare = url.trim_start_matches("http://");
    elsewhere.annals(&["show", &id, "--server", bare]).expect(0);
    elsewhere.annals(&["--server", &url, "show", &id]).expect(0);
    let store = served.place.path("annals-data").display().to_string();
    elsewhere.annals(&["show", &id, "--data", &store]).expect(0);
    let asked = elsewhere.command(&["show", &id]).env("ANNALS_SERVER", &url).output().unwrap();
    assert!(asked.status.success(), "{asked:?}");
    // A store by flag counts more than a server by variable.
    let args = ["show", &id, "--data", "nowhere"];
    let asked = elsewhere.command(&args).env("ANNALS_SERVER", &url).output().unwrap();
    assert_eq!(asked.status.code(), Some(7), "{asked:?}");
    elsewhere.annals(&["show", &id, "--data", &store, "--server", &url]).expect(2);
    elsewhere.annals(&["show", &id, "--server", "ftp://x"]).expect(2);
}

#[test]
fn what_to_type_next_names_the_server_where_it_must() {
    let served = Served::new();
    let elsewhere = Place::new();
    elsewhere.write("plan.yaml", SMALL);
    let url = &served.server.url;
    let answer = elsewhere.annals(&["submit", "plan.yaml", "--server", url]).expect(0);
    assert!(answer.stdout.ends_with(&format!(" --server {url}\n")), "{}", answer.stdout);
    let mut command = elsewhere.command(&["submit", "plan.yaml"]);
    let answer = command.env("ANNALS_SERVER", url).output().unwrap();
    let stdout = String::from_utf8(answer.stdout).unwrap();
    assert!(!stdout.contains("--server"), "the variable says it already: {stdout}");
    let store = served.place.path("annals-data").display().to_string();
    let answer = elsewhere.annals(&["submit", "plan.yaml", "--data", &store]).expect(0);
    assert!(answer.stdout.ends_with(&format!(" --data {store}\n")), "{}", answer.stdout);
}

#[test]
fn what_works_on_a_store_takes_no_server() {
    let served = Served::new();
    let place = &served.place;
    place.write("plan.yaml", SMALL);
    for args in [&["run", "plan.yaml"][..], &["verify"], &["validate", "plan.yaml"]] {
        let answer = place.annals(&[args, &["--server", &served.server.url]].concat()).expect(2);
        assert!(answer.stderr.contains("not on a server"), "{}", answer.stderr);
    }
    let mut command = place.command(&["validate", "plan.yaml"]);
    let answer = command.env("ANNALS_SERVER", &served.server.url).output().unwrap();
    assert!(answer.status.success(), "the variable is for others: {answer:?}");
}

#[test]
fn where_no_server_is_reading_fails_at_once_and_asking_after_a_while() {
    let place = Place::new();
    place.write("plan.yaml", SMALL);
    let id = "01890000-0000-7000-8000-000000000000";
    let nowhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nowhere = nowhere.to_string();
    let words = format!("annals: no server answers at http://{nowhere}: Connection refused");
    for args in [
        &["list"][..],
        &["show", id],
        &["show", "01"],
        &["watch", id],
        &["events", id],
        &["events", id, "--follow"],
        &["logs", id, "a"],
        &["logs", id, "a", "--follow"],
    ] {
        let answer = place.annals(&[args, &["--server", &nowhere]].concat()).expect(7);
        assert!(answer.stderr.starts_with(&words), "{args:?}: {}", answer.stderr);
        assert!(answer.stderr.ends_with("`annals serve`\n"), "{args:?}: {}", answer.stderr);
        assert_eq!(answer.stderr.lines().count(), 1, "{args:?}: {}", answer.stderr);
        let json = place.annals(&[args, &["--server", &nowhere, "--json"]].concat()).expect(7);
        assert_eq!(problem(&json.stderr)["code"], "no_server", "{args:?}");
    }
    for args in [&["submit", "plan.yaml"][..], &["cancel", id], &["remove", id, "a"]] {
        let place_args = ["--server", &nowhere, "--retry-for", "200ms"];
        let answer = place.annals(&[args, &place_args].concat()).expect(7);
        let told: Vec<&str> = answer.stderr.lines().collect();
        assert_eq!(told.len(), 2, "{args:?}: {told:?}");
        assert!(told[0].starts_with(&words) && told[0].ends_with("trying again for 200ms"));
        assert!(told[1].starts_with(&words) && told[1].ends_with("`annals serve`"), "{told:?}");
        let json = place.annals(&[args, &place_args, &["--json"]].concat()).expect(7);
        assert_eq!(problem(&json.stderr)["code"], "no_server", "{args:?}");
    }
}

#[test]
fn what_is_no_annals_is_said_to_be_none() {
    use std::io::{Read, Write};
    let place = Place::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // The head of a request with no body comes at once.
            let _ = stream.read(&mut [0; 4_096]);
            let _ = stream.write_all(
                b"HTTP/1.1 404 Not Found\r\ncontent-type: text/html\r\n\
                    content-length: 3\r\n\r\n<p>",
            );
        }
    });
    let answer = place.annals(&["list", "--server", &url]).expect(7);
    let words = format!("annals: {url} answers, but not as Annals does");
    assert!(answer.stderr.starts_with(&words), "{}", answer.stderr);
}
