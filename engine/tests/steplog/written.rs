//! Every byte comes back, within the budget, also while the log is written.

use std::io::Read;

use annals_engine::steplog::{BUDGET, Entry, Filter, Part, StepLogs, layer};
use annals_tasks_sdk::{AttemptId, Stream};
use tracing_subscriber::layer::SubscriberExt;

use crate::support::{Begun, all, attempt, begin, files, lines, only};

#[test]
fn a_log_without_a_byte_has_no_file() {
    let log = begin(BUDGET);
    log.log.write(Stream::Stdout, b"");
    let size = log.log.clone().finish();
    assert_eq!((size.bytes, size.lines), (0, 0));
    assert_eq!(files(log.folder.path()), 0);
    assert!(log.raw(all()).is_empty());
    assert!(log.entries(all()).is_empty());
    log.log.write(Stream::Stdout, b"too late");
    assert_eq!(files(log.folder.path()), 0);
}

#[test]
fn bytes_of_any_kind_come_back_from_any_chunks() {
    for seed in 0..30 {
        let mut random = fastrand::Rng::with_seed(seed);
        let log = begin(BUDGET);
        let mut written = [Vec::new(), Vec::new()];
        for _ in 0..random.usize(1..60) {
            let stream = random.usize(0..2);
            let length = if random.u8(0..8) == 0 { 70_000 } else { random.usize(0..60) };
            let alphabet = [b"\n".as_slice(), b"a", b"\r", b"\0", b"\xff", "ä€😀".as_bytes()];
            let mut chunk = Vec::new();
            while chunk.len() < length {
                chunk.extend_from_slice(random.choice(alphabet).unwrap());
            }
            chunk.truncate(length);
            log.log.write([Stream::Stdout, Stream::Stderr][stream], &chunk);
            written[stream].extend_from_slice(&chunk);
        }
        let check = || {
            assert!(log.raw(only(Stream::Stdout)) == written[0], "seed {seed}");
            assert!(log.raw(only(Stream::Stderr)) == written[1], "seed {seed}");
            let after = random.clone().u64(0..written[0].len() as u64 + 2);
            let filter = Filter { after, ..only(Stream::Stdout) };
            let at = written[0].len().min(usize::try_from(after).unwrap());
            assert!(log.raw(filter) == written[0][at..], "seed {seed} after {after}");
        };
        let size = log.log.clone().finish();
        check();
        let total = (written[0].len() + written[1].len()) as u64;
        assert_eq!(size.bytes, total);
        let count = |bytes: &[u8]| bytes.split_inclusive(|byte| *byte == b'\n').count() as u64;
        assert_eq!(size.lines, count(&written[0]) + count(&written[1]));
    }
}

#[test]
fn a_megabyte_without_a_line_feed_is_exact() {
    let log = begin(BUDGET);
    for _ in 0..1024 {
        log.log.write(Stream::Stderr, &[0xff; 1024]);
    }
    assert!(log.raw(all()) == vec![0xff; 1 << 20]);
    assert_eq!(log.log.clone().finish().lines, 1);
    assert!(log.raw(all()) == vec![0xff; 1 << 20]);
}

#[test]
fn entries_are_lines_and_whole_characters() {
    let log = begin(BUDGET);
    log.log.write(Stream::Stdout, b"one\ntw");
    log.log.write(Stream::Stdout, b"o \xe2\x82");
    assert_eq!(lines(&log.entries(all())), ["one", "two ..."]);
    log.log.write(Stream::Stdout, b"\xac\nthree");
    log.log.write(Stream::Stderr, b"!\n");
    log.log.write(Stream::Stdout, b"\n");
    let entries = log.entries(all());
    assert_eq!(lines(&entries), ["one", "two €", "three...", "!", ""]);
    assert_eq!(lines(&log.entries(only(Stream::Stdout))), ["one", "two €", "three"]);
    for (index, entry) in entries.iter().enumerate() {
        let rest = log.entries(Filter { after: entry.after, ..all() });
        assert_eq!(rest, entries[index + 1..]);
    }
    let tail = log.logs.tail(log.name, only(Stream::Stdout), 2).unwrap();
    assert_eq!(lines(&tail), ["two €", "three"]);
    assert!(log.logs.tail(log.name, all(), 0).unwrap().is_empty());
}

#[test]
fn the_beginning_of_a_character_counts_although_it_never_ends() {
    let log = begin(BUDGET);
    log.log.write(Stream::Stdout, b"\xc3");
    assert_eq!((log.log.bytes(), log.raw(all())), (1, Vec::new()));
    log.log.write(Stream::Stderr, b"ab\xe2\x82");
    assert_eq!(log.log.bytes(), 5);
    let size = log.log.clone().finish();
    assert_eq!((size.bytes, size.lines, log.log.bytes()), (5, 2, 5));
    assert_eq!(log.raw(only(Stream::Stdout)), b"\xc3");
    assert_eq!(log.raw(only(Stream::Stderr)), b"ab\xe2\x82");
}

#[test]
fn the_budget_keeps_head_and_tail_and_tells_the_gap() {
    let log = begin(64 * 1024);
    let line = |number: u32| format!("line {number:0>20}\n");
    let total: u64 = (0..20_000).map(|number| line(number).len() as u64).sum();
    for number in 0..20_000 {
        log.log.write(Stream::Stdout, line(number).as_bytes());
        if number == 10_000 {
            check_gap(&log, &line(0), &line(number));
        }
    }
    check_gap(&log, &line(0), &line(19_999));
    let while_written = log.raw(all());
    let size = log.log.clone().finish();
    assert_eq!((size.bytes, size.lines), (total, 20_000));
    check_gap(&log, &line(0), &line(19_999));
    assert!(log.raw(all()) == while_written);
    assert_eq!(files(log.folder.path()), 1);
    log.logs.remove(log.name.job).unwrap();
    assert_eq!(files(log.folder.path()), 0);
}

fn check_gap(log: &Begun, first: &str, last: &str) {
    let entries = log.entries(all());
    let gaps: Vec<&Entry> =
        entries.iter().filter(|entry| matches!(entry.part, Part::Gap { .. })).collect();
    let [gap] = gaps.as_slice() else { panic!("{} gaps", gaps.len()) };
    let Part::Gap { bytes } = gap.part else { unreachable!() };
    let kept: u64 = (entries.len() as u64 - 1) * first.len() as u64;
    assert_eq!(kept + bytes, log.log.bytes());
    assert!(kept > 48 * 1024 && kept < 72 * 1024, "{kept}");
    assert_eq!(lines(&entries).first().map(String::as_str), Some(first.trim_end()));
    assert_eq!(lines(&entries).last().map(String::as_str), Some(last.trim_end()));
    let raw = String::from_utf8(log.raw(all())).unwrap();
    assert!(raw.contains(&format!("[{bytes} bytes were dropped here]")));
    // Who read up to the middle of the gap is told the rest of it.
    let rest = log.entries(Filter { after: gap.after - 10, ..all() });
    assert_eq!(rest[0].part, Part::Gap { bytes: 10 });
}

#[test]
fn a_log_can_be_followed_while_it_is_written_and_packed() {
    let log = begin(1 << 30);
    let writer = log.log.clone();
    let writing = std::thread::spawn(move || {
        let mut written = Vec::new();
        for number in 0..3_000 {
            let text = format!("{number}{}", "\n".repeat(number % 3));
            writer.write(Stream::Stdout, text.as_bytes());
            written.extend_from_slice(text.as_bytes());
        }
        writer.finish();
        written
    });
    let mut seen = Vec::new();
    let mut over = false;
    while !over {
        over = writing.is_finished();
        let mut raw =
            log.logs.read(log.name, Filter { after: seen.len() as u64, ..all() }).unwrap();
        raw.read_to_end(&mut seen).unwrap();
        assert_eq!(raw.after(), seen.len() as u64);
    }
    assert!(writing.join().unwrap() == seen);
}

#[test]
fn small_segments_can_be_read_while_they_are_dropped() {
    let log = begin(4096);
    let writer = log.log.clone();
    let writing = std::thread::spawn(move || {
        for number in 0..5_000_u32 {
            writer.write(Stream::Stdout, format!("{number}\n").as_bytes());
        }
        writer.finish();
    });
    while !writing.is_finished() {
        // A reader that loses the race says so, and never gives wrong bytes.
        let Ok(entries) = log.logs.entries(log.name, all()) else { continue };
        let numbers = entries.map(Result::unwrap).filter_map(|entry| match entry.part {
            Part::Line { bytes, .. } => Some(String::from_utf8(bytes).unwrap()),
            _ => None,
        });
        let numbers: Vec<u32> = numbers.map(|number| number.parse().unwrap()).collect();
        assert!(numbers.is_sorted());
    }
    writing.join().unwrap();
    assert_eq!(lines(&log.entries(all())).last().map(String::as_str), Some("4999"));
}

#[test]
fn what_cannot_be_stored_is_told_as_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("logs");
    std::fs::write(&path, "in the way").unwrap();
    let logs = StepLogs::new(&path, BUDGET);
    let id = attempt(9);
    let log = logs.open(&id);
    log.write(Stream::Stdout, b"lost\n");
    std::fs::remove_file(&path).unwrap();
    log.write(Stream::Stdout, b"kept\n");
    let size = log.finish();
    assert_eq!((size.bytes, size.lines), (10, 2));
    let entries: Vec<Entry> =
        logs.entries((&id).into(), all()).unwrap().map(Result::unwrap).collect();
    assert_eq!(lines(&entries), ["gap 5", "kept"]);
}

#[test]
fn a_disk_that_is_nearly_full_is_left_to_the_event_log() {
    let folder = tempfile::tempdir().unwrap();
    let id = attempt(9);
    let roomy = StepLogs::new(folder.path(), BUDGET).leaving(0);
    let log = roomy.open(&id);
    let text = b"a line\n".repeat(10_000);
    log.write(Stream::Stdout, &text);
    // No disk has so much.
    let tight = StepLogs::new(folder.path(), BUDGET).leaving(u64::MAX);
    let other = AttemptId { attempt: 3, ..id.clone() };
    let dropped = tight.open(&other);
    dropped.write(Stream::Stderr, &text);
    assert_eq!(dropped.finish().bytes, text.len() as u64, "what was dropped is counted");
    assert_eq!(log.finish().bytes, text.len() as u64);
    for (id, expected) in [(&id, &text[..]), (&other, b"")] {
        let mut kept = Vec::new();
        roomy.read(id.into(), all()).unwrap().read_to_end(&mut kept).unwrap();
        assert_eq!(kept, expected);
    }
}

#[test]
fn a_line_that_a_crash_cut_off_is_left_out() {
    let log = begin(BUDGET);
    log.log.write(Stream::Stdout, b"one\ntwo\n");
    let file = log.folder.path().join(format!("logs/{}/1.2.log", log.name.job));
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() - 2]).unwrap();
    assert_eq!(log.raw(all()), b"one\n");
}

#[test]
fn events_inside_the_span_of_an_attempt_land_in_its_log() {
    let subscriber = tracing_subscriber::registry().with(layer());
    let log = begin(BUDGET);
    let id = attempt(7);
    tracing::subscriber::with_default(subscriber, || {
        tracing::info!("outside");
        let span = tracing::info_span!("attempt", job = %id.job, task = %id.task, attempt = 2);
        let _inside = span.enter();
        tracing::warn!(count = 3, "disk {}", "full");
        let _deeper = tracing::info_span!("part").entered();
        tracing::info!("deeper");
    });
    let entries = log.entries(only(Stream::Stderr));
    assert_eq!(
        lines(&entries),
        [" WARN steplog::written: disk full count=3", " INFO steplog::written: deeper"]
    );
}

#[test]
#[ignore = "a measurement: run it with --release"]
fn how_long_a_flood_takes() {
    let log = begin(BUDGET);
    let block = b"y\n".repeat(32 * 1024);
    let begun = std::time::Instant::now();
    for _ in 0..(1 << 30) / block.len() {
        log.log.write(Stream::Stdout, &block);
    }
    let written = begun.elapsed();
    let begun = std::time::Instant::now();
    let size = log.log.clone().finish();
    println!("{size:?} written in {written:?}, packed in {:?}", begun.elapsed());
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    println!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap());
}
