//! Several processes want one store: one has it, the others are told whose it is, and it goes on
//! as if nobody had asked.

use std::process::{Child, Stdio};
use std::thread;

use serde_json::Value;

use crate::common::server::Server;
use crate::common::{Place, finish};
use crate::{nothing, outcomes, script, shown, submit};

const SERVE: [&str; 7] =
    ["serve", "--json", "--listen", "127.0.0.1:0", "--lock-timeout", "100ms", "--allow-shell"];

#[test]
fn a_store_that_is_served_is_refused_to_all_others() {
    let place = Place::new();
    let server = Server::start(&place, &["--allow-shell"]);
    let dir = place.path("").display().to_string();
    let busy = script("busy", &format!("until [ -e {dir}/go ]; do sleep 0.01; done"));
    let busy = submit(&server, &busy);
    place.write("plan.json", nothing("other").to_string());
    let intruders: [&[&str]; 3] = [&SERVE, &["verify", "--json"], &["run", "plan.json", "--json"]];
    thread::scope(|scope| {
        for args in intruders {
            let (place, server) = (&place, &server);
            scope.spawn(move || {
                for _ in 0..5 {
                    let answer = place.annals(args).expect(7);
                    let problem: Value =
                        serde_json::from_str(answer.stderr.lines().next_back().unwrap()).unwrap();
                    assert_eq!(problem["code"], "store_in_use", "{problem}");
                    let detail = problem["detail"].as_str().unwrap();
                    assert!(detail.contains(&server.url), "{detail}");
                }
            });
        }
        // The one that has it works all the while.
        for _ in 0..20 {
            let job = submit(&server, &nothing("first"));
            assert_eq!(shown(&server, &job)["status"], "completed");
        }
    });
    place.write("go", "");
    let busy = shown(&server, &busy);
    assert_eq!(outcomes(&busy, 0), ["completed"], "{busy}");
    server.get("/readyz").expect(200);
    server.end();
    let report = place.json(&["verify"]);
    assert_eq!(report["sound"], true, "{report}");
}

/// Processes that all begin at once, in a place where there is no store yet.
#[test]
fn of_many_first_starts_one_makes_the_store() {
    for _ in 0..5 {
        let place = Place::new();
        let begin = |_| {
            let mut command = place.command(&SERVE);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let mut children: Vec<Child> = (0..6).map(begin).collect();
        let mut refused = 0;
        crate::common::until("all but one to be refused", || {
            let over = |child: &mut Child| child.try_wait().unwrap().is_some();
            if let Some(at) = children.iter_mut().position(over) {
                let answer = finish(children.swap_remove(at)).expect(7);
                assert!(answer.stderr.contains("store_in_use"), "{answer:?}");
                refused += 1;
            }
            refused == 5
        });
        let server = children.pop().expect("one has the store");
        place.wait_for("annals-data/server");
        crate::common::signal(&server, rustix::process::Signal::TERM);
        finish(server).expect(0);
        let report = place.json(&["verify"]);
        assert_eq!(report["sound"], true, "{report}");
    }
}
