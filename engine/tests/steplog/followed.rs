//! Whoever follows a log gets each byte once, whatever becomes of its files meanwhile.

use std::fs;
use std::io::Write;

use annals_engine::steplog::{BUDGET, Entry, Filter, Follower, Part};
use annals_tasks_sdk::Stream;

use crate::support::{Begun, all, begin, lines, only};

/// What was written of one stream, and how far a follower of it is.
struct Reader {
    follower: Follower,
    position: u64,
    gaps: u64,
}

impl Reader {
    fn new(log: &Begun, filter: Filter) -> Self {
        Self { follower: log.logs.follow(log.name, filter), position: filter.after, gaps: 0 }
    }

    /// Takes what is there: each part must be what was written at its place.
    fn check(&mut self, written: &[u8]) {
        while let Some(entry) = self.follower.read().unwrap() {
            let mut text = match entry.part {
                Part::Gap { bytes } => {
                    self.gaps += 1;
                    self.position += bytes;
                    assert_eq!(self.position, entry.after);
                    continue;
                }
                Part::Piece { bytes, .. } => bytes,
                Part::Line { mut bytes, .. } => {
                    bytes.push(b'\n');
                    bytes
                }
            };
            let begin = usize::try_from(self.position).unwrap();
            let end = usize::try_from(entry.after).unwrap();
            assert_eq!(
                String::from_utf8_lossy(&text),
                String::from_utf8_lossy(&written[begin..end])
            );
            self.position += text.drain(..).len() as u64;
            assert_eq!(self.position, entry.after);
        }
    }
}

fn chunk(random: &mut fastrand::Rng) -> Vec<u8> {
    let lengths = [0..40, 0..40, 0..40, 0..2_000, 0..40_000];
    let most = random.choice(lengths).unwrap();
    let length = random.usize(most);
    let mut chunk = Vec::new();
    while chunk.len() < length {
        let line = random.usize(0..200);
        chunk.extend(std::iter::repeat_with(|| random.alphanumeric() as u8).take(line));
        chunk.push(b'\n');
    }
    chunk.truncate(length);
    chunk
}

#[test]
fn each_byte_comes_once_or_is_told_as_a_gap() {
    let (mut gaps, mut whole) = (0, 0);
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let log = begin(random.choice([4 << 10, 64 << 10, BUDGET]).unwrap());
        let (mut written, mut other) = (Vec::new(), Vec::new());
        let mut readers = vec![Reader::new(&log, only(Stream::Stdout))];
        for _ in 0..random.usize(1..80) {
            match random.u8(0..10) {
                0..6 => {
                    let chunk = chunk(&mut random);
                    log.log.write(Stream::Stdout, &chunk);
                    written.extend_from_slice(&chunk);
                }
                6 => {
                    other.extend_from_slice(b"beside\n");
                    log.log.write(Stream::Stderr, b"beside\n");
                }
                7 if readers.len() < 4 => {
                    // One that comes back after a while, somewhere in the middle.
                    let after = random.u64(0..=written.len() as u64);
                    readers.push(Reader::new(&log, Filter { after, ..only(Stream::Stdout) }));
                }
                _ => random.choice(&mut readers).unwrap().check(&written),
            }
        }
        log.log.clone().finish();
        for reader in &mut readers {
            reader.check(&written);
            // What ends in the middle of a character or before a reader began is none of these.
            assert_eq!(reader.position, written.len() as u64, "seed {seed}");
            gaps += reader.gaps;
            whole += u64::from(reader.gaps == 0);
        }
    }
    assert!(gaps > 50 && whole > 50, "{gaps} gaps, {whole} without");
}

/// Whether waiting for growth is over at once.
async fn has_grown(follower: &Follower) -> bool {
    tokio::select! {
        biased;
        () = follower.growth() => true,
        () = std::future::ready(()) => false,
    }
}

#[tokio::test]
async fn followers_are_woken_by_what_is_written_and_by_nothing_else() {
    let log = begin(BUDGET);
    let (mut first, mut second) =
        (log.logs.follow(log.name, all()), log.logs.follow(log.name, only(Stream::Stderr)));
    assert!(first.read().unwrap().is_none());
    assert!(!has_grown(&first).await);
    log.log.write(Stream::Stdout, b"one\n");
    first.growth().await;
    // Growth is told until it has been looked for.
    first.growth().await;
    assert_eq!(first.read().unwrap().map(|entry| entry.after), Some(4));
    assert!(first.read().unwrap().is_none());
    assert!(!has_grown(&first).await);
    second.growth().await;
    assert!(second.read().unwrap().is_none());
}

#[test]
fn a_follower_keeps_pace_with_a_writer() {
    let log = begin(BUDGET);
    let writer = log.log.clone();
    let line = |number: u32| format!("line {number}\n");
    let writing = std::thread::spawn(move || {
        (0..20_000).for_each(|number| writer.write(Stream::Stdout, line(number).as_bytes()));
        writer.finish();
    });
    let written: String = (0..20_000).map(line).collect();
    let mut reader = Reader::new(&log, all());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    while reader.position < written.len() as u64 {
        runtime.block_on(reader.follower.growth());
        reader.check(written.as_bytes());
    }
    writing.join().unwrap();
    assert_eq!(reader.gaps, 0);
}

#[test]
fn what_the_writer_takes_back_is_not_read_into_the_middle_of_a_line() {
    let log = begin(BUDGET);
    let mut follower = log.logs.follow(log.name, all());
    log.log.write(Stream::Stdout, b"one\ntwo\n");
    let mut seen: Vec<Entry> = std::iter::from_fn(|| follower.read().unwrap()).collect();
    // As after a write of which the disk took a part only: the file ends where it ended before,
    // and a mark stands for what is not there.
    let path = log.folder.path().join(format!("logs/{}/1.2.log", log.name.job));
    let text = fs::read_to_string(&path).unwrap();
    let (first, second) = text.split_once('\n').unwrap();
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.set_len(first.len() as u64 + 1).unwrap();
    let time = second.split(' ').next().unwrap();
    seen.extend(std::iter::from_fn(|| follower.read().unwrap()));
    writeln!(file, "{time} mark F 10 0").unwrap();
    log.log.write(Stream::Stdout, b"three, which is longer than what was there before\n");
    seen.extend(std::iter::from_fn(|| follower.read().unwrap()));
    let rest = "three, which is longer than what was there before";
    assert_eq!(lines(&seen), ["one", "two", "gap 2", rest]);
}

#[test]
fn the_extent_is_the_end_of_what_can_be_read() {
    let log = begin(64 << 10);
    let extent = |stream| log.logs.extent(log.name, stream).unwrap();
    assert_eq!((extent(None).after, extent(None).total), (0, 0));
    for number in 0..10_000 {
        log.log.write(Stream::Stdout, format!("{number:0>20}\n").as_bytes());
        log.log.write(Stream::Stderr, b"?\n");
    }
    for _ in 0..2 {
        let (all, errors) = (extent(None), extent(Some(Stream::Stderr)));
        assert_eq!(
            (all.after, all.total, errors.after, errors.total),
            (230_000, 230_000, 20_000, 230_000)
        );
        assert!(all.damage.is_none());
        log.log.clone().finish();
    }
    let path = log.folder.path().join(format!("logs/{}/1.2.log", log.name.job));
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 64].fill(0xff);
    fs::write(&path, &bytes).unwrap();
    let damaged = extent(None);
    assert!(damaged.damage.is_some() && damaged.after < 230_000, "{damaged:?}");
    bytes.truncate(middle);
    fs::write(&path, &bytes).unwrap();
    assert!(extent(None).damage.is_some());
}

#[test]
fn bytes_are_read_up_to_a_place_and_no_further() {
    use std::io::Read;
    let log = begin(BUDGET);
    log.log.write(Stream::Stdout, b"one\ntwo\n");
    for upto in 0..10_u64 {
        let mut text = String::new();
        let mut raw = log.logs.read(log.name, Filter { after: 2, ..all() }).unwrap().upto(upto);
        raw.read_to_string(&mut text).unwrap();
        let end = usize::try_from(upto.clamp(2, 8)).unwrap();
        assert_eq!(text, "one\ntwo\n"[2..end], "up to {upto}");
    }
}
