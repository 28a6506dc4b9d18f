//! `kill -9` of the real server at any moment, while clients submit and steer jobs: in its start,
//! in recovery, between a commit and its answer, in its end. What was acknowledged is there, what
//! was not is settled by its key, and nothing that has completed runs again.

#[path = "../common/mod.rs"]
mod common;
mod history;
mod killer;
mod load;

use std::panic::{AssertUnwindSafe, catch_unwind};

use common::Place;
use common::server::Server;
use fastrand::Rng;
use killer::Killer;
use load::Load;

/// How many times servers are killed in all.
const KILLS: &str = "ANNALS_KILL_ROUNDS";
/// Where the random numbers begin.
const SEED: &str = "ANNALS_KILL_SEED";
/// So many kills a store bears, then all that happened in it is looked at.
const KILLS_EACH: u64 = 100;

#[test]
fn what_a_killed_server_has_acknowledged_holds() {
    let (kills, seed) = (number(KILLS, 40), number(SEED, 0x5e2e_4a11));
    // What takes its time comes before the clients.
    common::annals();
    let mut failed = 0;
    for begun in (0..kills).step_by(usize::try_from(KILLS_EACH).unwrap()) {
        let (place, seed, kills) = (Place::new(), seed + begun, KILLS_EACH.min(kills - begun));
        // What went wrong says so itself.
        if catch_unwind(AssertUnwindSafe(|| kill_and_look(&place, seed, kills))).is_err() {
            failed += 1;
            let kept = place.keep();
            println!("{SEED}={seed} {KILLS}={kills} has failed; see {}", kept.display());
        }
    }
    println!("kills of a server: {kills} tried, {failed} failed");
    assert_eq!(failed, 0, "of the stores some have not held what their servers acknowledged");
}

fn number(name: &str, otherwise: u64) -> u64 {
    let Ok(number) = std::env::var(name) else { return otherwise };
    number.parse().unwrap_or_else(|_| panic!("{name} is no number: {number}"))
}

/// Kills the server of one store again and again, and holds it to what its clients were told.
fn kill_and_look(place: &Place, seed: u64, kills: u64) {
    let load = Load::new(place);
    let (server, told) = std::thread::scope(|scope| {
        let clients = load.begin(scope);
        let mut killer = Killer::new(place, &load, Rng::with_seed(seed));
        for _ in 0..kills {
            killer.kill_one();
        }
        let server = Server::start(place, &["--allow-shell"]);
        load.reach(Some(server.address));
        drop(clients);
        (server, killer.tell())
    });
    let ledger = load.ledger();
    history::settle(&server, &ledger);
    history::check(&server, &ledger);
    assert_eq!(place.read("leftovers"), "", "an attempt began beside what another left");
    server.end();
    let report = place.json(&["verify"]);
    assert_eq!(report["sound"], true, "{report}");
    let unknown = ledger.iter().filter(|deed| deed.tries > 1).count();
    println!("{told}, {} deeds, {unknown} of them tried more than once", ledger.len());
    assert!(unknown as u64 > kills / 4, "kills that no client notices prove little: {unknown}");
}
