//! `kill -9` of the real server at any moment, while clients submit and steer jobs: in its start,
//! in recovery, between a commit and its answer. What was acknowledged is there, what was not is
//! settled by its key, and nothing that has completed runs again.

#[path = "../common/mod.rs"]
mod common;
mod history;
mod load;

use std::process::Stdio;
use std::time::Duration;

use common::Place;
use common::server::Server;
use fastrand::Rng;
use load::Load;

/// How many times the server is killed.
const KILLS: usize = 50;
/// Of so many kills one comes before the server has said that it is ready.
const EARLY_ONE_IN: usize = 4;

#[test]
fn what_a_killed_server_has_acknowledged_holds() {
    let place = Place::new();
    // What takes its time comes before the clients.
    common::annals();
    let load = Load::new(&place);
    let mut rng = Rng::with_seed(0x5e2e_4a11);
    let server = std::thread::scope(|scope| {
        load.begin(scope);
        for kill in 0..KILLS {
            if kill % EARLY_ONE_IN == 0 {
                kill_early(&place, &mut rng);
            }
            kill_amid(&place, &load, &mut rng);
        }
        let server = Server::start(&place, &["--allow-shell"]);
        load.reach(Some(server.address));
        load.end();
        server
    });
    let ledger = load.ledger();
    history::settle(&server, &ledger);
    history::check(&server, &ledger);
    assert_eq!(place.read("leftovers"), "", "an attempt began beside what another left");
    server.end();
    let report = place.json(&["verify"]);
    assert_eq!(report["sound"], true, "{report}");
    let unknown = ledger.iter().filter(|deed| deed.tries > 1).count();
    println!("{KILLS} kills, {} deeds, {unknown} of them tried more than once", ledger.len());
    assert!(unknown > KILLS / 4, "kills that no client notices prove little: {unknown}");
}

/// While it opens the store, recovers it, or ends what was left behind.
fn kill_early(place: &Place, rng: &mut Rng) {
    let mut command = place.command(&["serve", "--listen", "127.0.0.1:0", "--allow-shell"]);
    let mut server = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_micros(rng.u64(..250_000)));
    server.kill().unwrap();
    server.wait().unwrap();
}

/// Some way behind the first step that ends, so that every server gets on.
fn kill_amid(place: &Place, load: &Load, rng: &mut Rng) {
    let server = Server::start(place, &["--allow-shell"]);
    let before = load.progress();
    load.reach(Some(server.address));
    common::until("a step and an answer", || load.progress().is_beyond(before));
    std::thread::sleep(Duration::from_micros(rng.u64(..60_000)));
    // Its drop is the kill.
    drop(server);
    load.reach(None);
}
