use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use annals_engine::Pool;

use super::{BadSetting, File, Given, KEYS, LogFormat, Scope, Settings};

const ALL: [Scope; 3] = [Scope::Everybody, Scope::Engine, Scope::Server];

fn file(text: &str) -> Result<File, BadSetting> {
    File::parse(Path::new("etc/annals.toml"), text)
}

fn flags(given: &[(&str, &str)]) -> Given {
    let key = |name: &str| KEYS.iter().find(|key| key.name == name).expect("a setting");
    given.iter().map(|(name, text)| (key(name), (*text).to_owned())).collect()
}

/// The settings of a file, variables and flags.
fn layered(
    text: &str,
    variables: &[(&str, &str)],
    given: &[(&str, &str)],
) -> Result<Settings, BadSetting> {
    let variables: BTreeMap<_, _> = variables.iter().copied().collect();
    let variable = |name: &str| variables.get(name).map(|text| (*text).to_owned());
    Settings::layered(&ALL, Some(&file(text)?), variable, &flags(given))
}

fn complaint(settings: Result<Settings, BadSetting>) -> String {
    settings.expect_err("it is wrong").to_string()
}

#[test]
fn a_default_is_what_its_help_says() {
    for key in KEYS {
        let mut settings = Settings::default();
        // Some are worked out, and are said in words.
        if !key.default.contains(' ') {
            (key.set)(&mut settings, key.default).expect("a default can be set");
        }
        assert_eq!(settings, Settings::default(), "{}", key.name);
    }
}

#[test]
fn a_name_is_the_same_everywhere() {
    for key in KEYS {
        assert_eq!(key.flag, key.name.replace('_', "-"));
        assert_eq!(key.variable(), format!("ANNALS_{}", key.name.to_uppercase()));
    }
}

#[test]
fn flags_win_over_variables_over_the_file_over_defaults() {
    let text = "header_timeout = '1s'\nbody_timeout = '1s'\nidle_timeout = '1s'\n";
    let variables = [("ANNALS_BODY_TIMEOUT", "2s"), ("ANNALS_IDLE_TIMEOUT", "2s")];
    let settings = layered(text, &variables, &[("idle_timeout", "3s")]).unwrap();
    let seconds = |duration: Duration| duration.as_secs();
    assert_eq!(seconds(settings.header_timeout), 1);
    assert_eq!(seconds(settings.body_timeout), 2);
    assert_eq!(seconds(settings.idle_timeout), 3);
    assert_eq!(settings.write_timeout, Settings::default().write_timeout);
}

#[test]
fn every_setting_can_be_in_the_file() {
    let text = "
        data = 'd'
        listen = '[::1]:80'
        allow_shell = true
        allow_unknown_kinds = true
        log_format = 'json'
        log = 'warn,annals=debug'
        slots = 1_0
        shell_slots = 3
        allow_targets = ['localhost', '10.0.0.0/8']
        lock_timeout = '7s'
        min_free_disk = '1 GiB'
        max_connections = 100
        max_connections_per_peer = 7
        header_timeout = '1s'
        body_timeout = '1m 1s'
        idle_timeout = '500ms'
        write_timeout = 'PT4S'
        shutdown_timeout = '5s'
    ";
    assert_eq!(text.matches('=').count() - 1, KEYS.len(), "the test has them all");
    let settings = layered(text, &[], &[]).unwrap();
    assert_eq!(settings.data, Path::new("etc/d"), "relative to the file's folder");
    assert_eq!(settings.listen, "[::1]:80".parse().unwrap());
    assert!(settings.allow_shell.is_allowed() && settings.allow_unknown_kinds.is_allowed());
    assert_eq!(settings.log_format, LogFormat::Json);
    assert_eq!(settings.log, "warn,annals=debug");
    assert_eq!((settings.slots, settings.shell_slots), (10, 3));
    let targets = settings.allow_targets.iter().map(ToString::to_string);
    assert_eq!(targets.collect::<Vec<_>>(), ["localhost", "10.0.0.0/8"]);
    assert_eq!(settings.min_free_disk, 1 << 30);
    assert_eq!((settings.max_connections, settings.connections_of_a_peer()), (100, 7));
    let timeouts = [settings.header_timeout, settings.body_timeout, settings.idle_timeout];
    assert_eq!(timeouts.map(|each| each.as_millis()), [1_000, 61_000, 500]);
    let timeouts = [settings.write_timeout, settings.shutdown_timeout, settings.lock_timeout];
    assert_eq!(timeouts.map(|each| each.as_secs()), [4, 5, 7]);
}

#[test]
fn pools_are_tables_of_the_file() {
    let text = "
        slots = 3
        [pools.cpu]
        kinds = ['encode', 'resize']
        threads = 2
        niceness = 19
        [pools.apart]
        slots = 1
        isolation = 'process'
        memory = '1GiB'
        cpu_time = '90s'
    ";
    let settings = layered(text, &[("ANNALS_SLOTS", "4")], &[]).unwrap();
    let cpu = Pool::new("cpu").kinds(["encode", "resize"]).threads(2).niceness(19);
    let apart = Pool::new("apart").slots(1).isolated().memory(1 << 30);
    assert_eq!(settings.pools, [apart.cpu_time(Duration::from_secs(90)), cpu]);
    assert_eq!(layered("pools.cpu.slots = 2", &[], &[]).unwrap().pools[0].name(), "cpu");
}

#[test]
fn a_peer_has_its_share_of_the_connections() {
    let share = |most: &str| {
        layered("", &[], &[("max_connections", most)]).unwrap().connections_of_a_peer()
    };
    assert_eq!(["1", "2", "4", "512"].map(share), [1, 2, 3, 384]);
}

#[test]
fn what_the_file_gets_wrong_is_said_with_its_place() {
    let cases = [
        (
            "slots = 1\nlisen = 'x'\n",
            "etc/annals.toml:2:1: there is no setting `lisen`; did you mean `listen`?",
        ),
        (
            "header-timeout = '1s'",
            "1:1: there is no setting `header-timeout`; did you mean `header_timeout`?",
        ),
        ("[server]\nlisten = 'x'", "1:2: there is no setting `server`"),
        ("listen = 7117", "1:10: `listen` is a text such as \"127.0.0.1:7117\", not an integer"),
        ("slots = '4'", "1:9: `slots` is a whole number such as 64, not a string"),
        ("slots = 0x10", "1:9: `slots` is a whole number"),
        ("allow_shell = 'yes'", "1:15: `allow_shell` is true or false, not a string"),
        ("slots = 1\nslots = 2", "2:1: duplicate key"),
        ("slots = ", "1:9: "),
        ("\n\nheader_timeout = '1 lightyear'", "3:18: `header_timeout`: "),
        ("slots = 0", "1:9: `slots`: \"0\" is no whole number from 1 on"),
        ("slots = -1", "1:9: `slots`: \"-1\" is no whole number from 1 on"),
        ("allow_targets = ['a', 1]", "1:17: `allow_targets` is a list of texts such as"),
        ("allow_targets = '10.0.0.0/99'", "1:17: `allow_targets`: \"10.0.0.0/99\" is no target"),
        ("log = '=,='", "1:7: `log`: "),
        ("pools = 3", "1:9: `pools` is a table of pools such as [pools.cpu], not an integer"),
        ("pools.cpu = 3", "1:13: `pools.cpu` is a table of its settings, not an integer"),
        (
            "[pools.cpu]\nthread = 1",
            "2:1: there is no setting `pools.cpu.thread`; did you mean `threads`?",
        ),
        ("pools.cpu.slots = '1'", "1:19: `pools.cpu.slots` is a whole number, not a string"),
        ("pools.cpu.slots = -1", "1:19: `pools.cpu.slots`: -1 is not a number that it can be"),
        (
            "pools.cpu.kinds = 'a'",
            "1:19: `pools.cpu.kinds` is a list of texts such as [\"encode\"]",
        ),
        ("pools.cpu.kinds = ['a', 1]", "1:25: `pools.cpu.kinds` is a list of texts"),
        (
            "pools.cpu.isolation = 'thread'",
            "1:23: `pools.cpu.isolation`: \"thread\" is neither `process` nor `none`",
        ),
        ("pools.cpu.memory = 5", "1:20: `pools.cpu.memory` is a text such as \"512MiB\""),
        ("pools.cpu.memory = '5 apples'", "1:20: `pools.cpu.memory`: \"5 apples\" is no size"),
        ("pools.cpu.cpu_time = 'long'", "1:22: `pools.cpu.cpu_time`: "),
        ("[pool.cpu]", "1:2: there is no setting `pool`; did you mean `pools`?"),
    ];
    for (text, wanted) in cases {
        let found = complaint(layered(text, &[], &[]));
        assert!(found.starts_with("etc/annals.toml:"), "{found}");
        assert!(found.contains(wanted), "{text:?} gave {found}");
        assert!(!found.contains('\n'), "{found:?}");
    }
}

#[test]
fn only_loopback_addresses_are_listened_on() {
    let listen = |text: &str| layered("", &[("ANNALS_LISTEN", text)], &[]);
    for text in ["127.0.0.1:0", "127.8.8.8:80", "[::1]:7117", "[::ffff:127.0.0.1]:1", "localhost:9"]
    {
        assert!(listen(text).is_ok(), "{text}");
    }
    for text in ["0.0.0.0:7117", "[::]:7117", "192.168.0.2:80", "[::ffff:10.0.0.1]:80"] {
        let found = complaint(listen(text));
        assert!(found.starts_with("ANNALS_LISTEN: ") && found.contains("loopback"), "{found}");
    }
    for text in ["127.0.0.1", "7117", "example.org:80", "localhost:x", ":7117"] {
        let found = complaint(listen(text));
        assert!(found.contains("is no address; write one as 127.0.0.1:7117"), "{found}");
    }
}

#[test]
fn flags_and_variables_name_themselves_where_they_are_wrong() {
    let found = complaint(layered("", &[], &[("idle_timeout", "0s")]));
    assert_eq!(found, "--idle-timeout: it must be longer than nothing");
    let found = complaint(layered("", &[("ANNALS_MIN_FREE_DISK", "12 apples")], &[]));
    assert!(found.starts_with("ANNALS_MIN_FREE_DISK: \"12 apples\" is no size"), "{found}");
    let found = complaint(layered("", &[("ANNALS_BODY_TIMEOUT", "2d")], &[]));
    assert_eq!(found, "ANNALS_BODY_TIMEOUT: \"2d\" is longer than a day");
    assert!(layered("", &[("ANNALS_SLOTS", "")], &[]).is_ok(), "empty is as good as not set");
}

#[test]
fn variables_that_concern_somebody_else_are_left_alone() {
    let variable = |name: &str| match name {
        "ANNALS_LISTEN" => Some("0.0.0.0:80".to_owned()),
        "ANNALS_SLOTS" => Some("3".to_owned()),
        _ => None,
    };
    let settings = Settings::layered(&[Scope::Engine], None, variable, &Vec::new()).unwrap();
    assert_eq!(settings.slots, 3);
}

#[test]
fn a_file_that_is_named_must_be_there() {
    let missing = PathBuf::from("/nowhere/annals.toml");
    let error = File::read(Some(&missing)).unwrap_err();
    assert!(error.to_string().starts_with("/nowhere/annals.toml: it cannot be read: "), "{error}");
}
