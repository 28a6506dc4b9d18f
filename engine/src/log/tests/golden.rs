//! Encoded samples of every event and version. They must decode for ever, and no encoding may
//! change: a new form is a new version, with samples of its own.
//!
//! Samples that are missing are written when `ANNALS_WRITE_SAMPLES` is set. One that is there is
//! never replaced.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use annals_tasks_sdk::{JobId, Timestamp};

use super::samples;
use crate::job::{Event, IdempotencyKey, Origin, Recorded};
use crate::log::{Head, Position, decode_row, encode_row, payload, types};

/// What fields show that older versions do not have, and the first version that has them.
const LATER: [(u16, &str); 10] = [
    (4, ", compensate_on: [Cancelled]"),
    (4, "compensate: None, "),
    (2, "deadline: None, "),
    (2, "heartbeat_timeout: None, "),
    (3, "when: None, "),
    (3, ", fail_fast: false, finally: []"),
    (3, "by: Request, "),
    (3, "part: Tasks, "),
    (3, " { mode: Orderly }"),
    (4, "for_each: None, "),
];

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src/log/golden"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digits).collect()
}

/// What an event means, in words that do not change when events come to have more: what later
/// builds know of is not shown where it is left out.
fn meaning(event: &Event) -> String {
    format!("{event:?}").replace("exclusive: None, ", "")
}

/// The text of a sample file: pairs of a line of bytes and what they mean.
fn sample(bytes: &[u8], meaning: &str) -> String {
    format!("{}\n{meaning}\n", hex(bytes))
}

/// Compares with what is stored under a name, or stores it.
fn check(name: &str, text: &str) {
    let path = folder().join(name);
    if !path.exists() && std::env::var_os("ANNALS_WRITE_SAMPLES").is_some() {
        std::fs::create_dir_all(folder()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(stored, text, "the encoding of {name} has changed, or it has no sample");
}

#[test]
fn the_payload_of_every_event_is_as_it_was() {
    let mut files = BTreeMap::<String, String>::new();
    for event in samples::events() {
        let mut bytes = Vec::new();
        payload::put(&event, &mut bytes).unwrap();
        let number = types::number(&event);
        let name = format!("{number:03}_{}_v{}.txt", event.type_name(), payload::version(&event));
        *files.entry(name).or_default() += &sample(&bytes, &meaning(&event));
        assert_eq!(types::name(number), Some(event.type_name()));
    }
    assert_eq!(files.len(), types::ALL.len(), "every type that is written has a sample");
    for (name, text) in &files {
        check(name, text);
    }
}

#[test]
fn every_stored_payload_still_decodes() {
    let (mut decoded, mut upcast) = (0, 0);
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let Ok(number) = name[..3].parse::<u16>() else { continue };
        let version = name.rsplit_once("_v").unwrap().1.strip_suffix(".txt").unwrap();
        let version = version.parse::<u16>().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for pair in lines.chunks(2) {
            let event = payload::get(number, version, &unhex(pair[0])).unwrap();
            let event = event.expect("a known type");
            let mut meaning = meaning(&event);
            if version < payload::version(&event) {
                let later = LATER.iter().filter(|(since, _)| *since > version);
                meaning = later.fold(meaning, |text, (_, field)| text.replace(field, ""));
                upcast += 1;
            } else {
                decoded += 1;
            }
            assert_eq!(meaning, pair[1], "{name}");
        }
    }
    assert_eq!(decoded, samples::events().len());
    assert_eq!(upcast, 21, "samples of events as they were before");
}

#[test]
fn a_row_with_a_key_is_as_it_was() {
    let origin = Origin { reason: Some("again".into()), ..Origin::actor("ada") };
    let keyed = |seq, origin, key: Option<IdempotencyKey>| Recorded {
        seq,
        time: Timestamp::from_millis(1_700_000_000_000),
        origin,
        leads: key.is_some(),
        key: key.map(Box::new),
        event: Event::JobReopened { held: false },
    };
    let key = |name| IdempotencyKey::new("ada", "/api/v1/jobs", name, br#"{"paused": false}"#);
    let events = [
        keyed(1, Origin::ENGINE, Some(key("one"))),
        keyed(2, Origin::ENGINE, None),
        keyed(3, origin, Some(key("other"))),
    ];
    let job = JobId::from_u128(0x0197_f0c2_7b3e_7c11_9f0e_1d2c_3b4a_5968);
    let (mut row, hash) = encode_row(job, &Head::default(), &events, Vec::new()).unwrap();
    row.place(Position(80));
    check("row_format_1_keys.txt", &sample(&row.bytes, &hex(&hash)));
    assert_eq!(decode_row(Position(80), &row.bytes).unwrap().events, events);
}

/// Who caused an event, in every combination of what may be left out.
fn origins() -> Vec<Origin> {
    let some = |text: &str, there: bool| there.then(|| text.into());
    let origin = |bits: u8| Origin {
        actor: some("ada", bits & 1 != 0),
        request_id: some("", bits & 2 != 0),
        reason: some("wrong host – again", bits & 4 != 0),
    };
    (0..8).map(origin).collect()
}

#[test]
fn a_row_is_as_it_was() {
    let before = Head { row: Position(77), seq: 40, hash: [9; 32] };
    let recorded = |(origin, seq)| Recorded {
        seq,
        time: Timestamp::from_millis(1_700_000_000_000),
        origin,
        leads: seq == 41,
        key: None,
        event: Event::JobReopened { held: true },
    };
    let events: Vec<_> = origins().into_iter().zip(41..).map(recorded).collect();
    let job = JobId::from_u128(0x0197_f0c2_7b3e_7c11_9f0e_1d2c_3b4a_5968);
    let (mut row, hash) = encode_row(job, &before, &events, Vec::new()).unwrap();
    row.place(Position(80));
    check("row_format_1.txt", &sample(&row.bytes, &hex(&hash)));
    let read = decode_row(Position(80), &row.bytes).unwrap();
    assert_eq!((read.job, read.before, &read.events), (job, before, &events));
    assert_eq!(read.after, Head { row: Position(80), seq: 48, hash });
}
