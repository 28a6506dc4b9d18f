//! Settings as they reach the real program.

use crate::common::Place;
use crate::common::server::Server;

#[test]
fn help_names_every_setting_with_its_variable_and_default() {
    let place = Place::new();
    let help = place.annals(&["serve", "--help"]).expect(0).stdout;
    // The width of the terminal decides where lines end.
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "--listen <ADDR>",
        "[env: ANNALS_LISTEN=] [default: 127.0.0.1:7117]",
        "[env: ANNALS_DATA=]",
        "[default: ./annals-data]",
        "--allow-shell[=<BOOL>]",
        "[env: ANNALS_SHUTDOWN_TIMEOUT=] [default: 25s]",
        "--config <FILE>",
    ] {
        assert!(help.contains(words), "{words} is not in {help}");
    }
}

#[test]
fn an_address_that_others_reach_is_refused() {
    let place = Place::new();
    for listen in ["0.0.0.0:0", "[::]:0", "192.0.2.1:7117"] {
        let answer = place.annals(&["serve", "--listen", listen]).expect(2);
        let says = |words: &str| answer.stderr.contains(words);
        assert!(says("annals: --listen: ") && says("loopback"), "{}", answer.stderr);
        assert_eq!(answer.stderr.lines().count(), 1, "{}", answer.stderr);
        let answer = place.command(&["serve"]).env("ANNALS_LISTEN", listen).output().unwrap();
        assert_eq!(answer.status.code(), Some(2));
    }
    assert!(!place.path("annals-data").exists());
}

#[test]
fn the_file_is_read_where_it_is_or_where_it_is_named() {
    let place = Place::new();
    place.write("annals.toml", "data = 'here'\nlisten = '127.0.0.1:0'\n");
    std::fs::create_dir(place.path("etc")).unwrap();
    place.write("etc/other.toml", "data = 'there'\nlisten = '[::1]:0'\n");
    let serve = |args: &[&str]| {
        let server = Server::of(place.command(&[&["serve", "--json"], args].concat()));
        let url = server.url.clone();
        server.end();
        url
    };
    assert!(serve(&[]).starts_with("http://127.0.0.1:"));
    assert!(place.path("here/format").exists());
    assert!(serve(&["--config", "etc/other.toml"]).starts_with("http://[::1]:"));
    assert!(place.path("etc/there/format").exists());
    assert!(serve(&["--data", "flag"]).starts_with("http://127.0.0.1:"));
    assert!(place.path("flag/format").exists());
    // The folder of the store is the same for all commands.
    place.annals(&["list"]).expect(0);
    place.annals(&["list", "--data", "nowhere"]).expect(7);
}

#[test]
fn what_is_wrong_in_the_file_is_said_with_its_line() {
    let place = Place::new();
    place.write("annals.toml", "# settings\nlog_format = 'json'\nlisten_on = '127.0.0.1:0'\n");
    let answer = place.annals(&["serve"]).expect(2);
    let begins = "annals: annals.toml:3:1: there is no setting `listen_on`";
    assert!(answer.stderr.starts_with(begins), "{}", answer.stderr);
    let answer = place.annals(&["serve", "--config", "missing.toml", "--json"]).expect(2);
    let problem: serde_json::Value = serde_json::from_str(&answer.stderr).unwrap();
    assert_eq!(problem["code"], "bad_setting");
    assert!(problem["detail"].as_str().unwrap().starts_with("missing.toml: it cannot be read"));
    place.write("annals.toml", "header_timeout = '1 fortnight'\n");
    let answer = place.annals(&["serve"]).expect(2);
    let begins = "annals: annals.toml:1:18: `header_timeout`: ";
    assert!(answer.stderr.starts_with(begins), "{}", answer.stderr);
}

#[test]
fn a_pool_that_no_kind_runs_in_is_told_of() {
    let place = Place::new();
    place.write("annals.toml", "[pools.idle]\nslots = 2\n[pools.used]\nkinds = ['noop']\n");
    let told = Server::start(&place, &[]).end().stderr;
    let lines: Vec<&str> =
        told.lines().filter(|line| line.contains("no kind runs in this pool")).collect();
    assert!(matches!(&lines[..], [line] if line.contains("idle")), "{told}");
}
