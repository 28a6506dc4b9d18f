//! The power goes anywhere in a small work with redb alone: plain inserts, by which the file
//! grows.
//!
//! This is built with the redb of the workspace, which must lose nothing, and with an old one of
//! which some files could not be opened any more after a crash while they grew: what looks for
//! faults of crashes must find that one.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::{Builder, Database, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition};

use super::images::{LOSSES, Power, cut_somewhere};
use super::tree::{Change, FileId, Tree};

const TABLE: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("work");
const CACHE_BYTES: usize = 1 << 20;

/// A work makes so many commits...
const COMMITS: usize = 12;
/// ...of so many values at most...
const VALUES_MAX: usize = 12;
/// ...of so many bytes at most: the first megabytes make the file grow twice.
const VALUE_MAX: usize = 60_000;

/// What was looked at.
#[derive(Default)]
pub(crate) struct Looked {
    /// How many images.
    pub(crate) images: u64,
    /// What was wrong with some of them.
    pub(crate) failed: Vec<String>,
}

/// Looks at images of disks of one work after the other as long as it is told to go on.
pub(crate) fn look(mut go_on: impl FnMut(&Looked) -> bool) -> Looked {
    let mut looked = Looked::default();
    for seed in 0.. {
        let work = Work::record(seed);
        let mut random = fastrand::Rng::with_seed(seed);
        let mut power = Power::on(one_file());
        for at in 0..=work.journal.len() {
            // Before it is made nothing was promised of the file.
            let losses = if at < work.made { &[][..] } else { &LOSSES[..] };
            for loss in losses {
                if !go_on(&looked) {
                    return looked;
                }
                let tree = power.cut(*loss, &mut random);
                let again = random.u8(0..4) == 0;
                let seen = catch_unwind(AssertUnwindSafe(|| {
                    work.check(if again { crash_again(tree, &mut random)? } else { tree }, at)
                }));
                looked.images += 1;
                if let Err(fault) = seen.unwrap_or_else(|panic| Err(text(&*panic))) {
                    let place = format!("seed {seed}, after {at} changes, lost: {loss:?}, {again}");
                    looked.failed.push(format!("{place}: {fault}"));
                }
            }
            work.journal.get(at).into_iter().for_each(|change| power.step(change));
        }
    }
    looked
}

/// The power goes again while the file is opened after a crash.
fn crash_again(tree: Tree, random: &mut fastrand::Rng) -> Result<Tree, String> {
    let memory = Memory::holding(tree.clone());
    drop(open(&memory).map_err(|error| format!("it does not open: {error}"))?);
    Ok(cut_somewhere(tree, &memory.journal(), random))
}

fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("redb panics: {}", text.unwrap_or("it does not say why"))
}

/// What was done to a file, and when which commits were acknowledged.
struct Work {
    journal: Vec<Change>,
    /// How many changes made the file.
    made: usize,
    /// The values of each commit, as bytes that repeat.
    commits: Vec<Vec<(u8, usize)>>,
    /// After how many changes each commit began, and after how many it was acknowledged.
    spans: Vec<(usize, usize)>,
}

impl Work {
    fn record(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let value = |random: &mut fastrand::Rng| (random.u8(..), random.usize(..VALUE_MAX));
        let commits: Vec<Vec<_>> = (0..COMMITS)
            .map(|_| (0..random.usize(1..=VALUES_MAX)).map(|_| value(&mut random)).collect())
            .collect();
        let memory = Memory::holding(one_file());
        let database = open(&memory).expect("it is made");
        let (made, mut spans, mut next) = (memory.changes(), Vec::new(), 0);
        for commit in &commits {
            let begun = memory.changes();
            next = insert(&database, next, commit).expect("nothing fails");
            spans.push((begun, memory.changes()));
        }
        drop(database);
        Self { journal: memory.journal(), made, commits, spans }
    }

    /// What was acknowledged after so many changes is there, a commit is there as a whole or not
    /// at all, and the file takes more.
    fn check(&self, tree: Tree, at: usize) -> Result<(), String> {
        let memory = Memory::holding(tree);
        let acked = self.spans.partition_point(|(_, acked)| *acked <= at);
        let sent = self.spans.partition_point(|(begun, _)| *begun < at);
        let (database, next) = self.check_once(&memory, acked, sent)?;
        let known = self.commits_with(next).ok_or("half a commit is there")?;
        let Some(more) = self.commits.get(known) else { return Ok(()) };
        insert(&database, next, more).map_err(|error| format!("it takes nothing: {error}"))?;
        drop(database);
        self.check_once(&memory, known + 1, known + 1).map(drop)
    }

    fn check_once(
        &self,
        memory: &Memory,
        acked: usize,
        sent: usize,
    ) -> Result<(Database, u64), String> {
        let database = open(memory).map_err(|error| format!("it does not open: {error}"))?;
        let count =
            self.read(&database).map_err(|error| format!("it cannot be read: {error}"))??;
        match self.commits_with(count) {
            Some(known) if known < acked => Err(format!("{known} commits of {acked} are there")),
            Some(known) if known > sent => Err(format!("{known} commits of {sent} are there")),
            Some(_) => Ok((database, count)),
            None => Err(format!("half a commit is there: {count} values")),
        }
    }

    /// How many commits have so many values.
    fn commits_with(&self, values: u64) -> Option<usize> {
        let mut sum = 0;
        let ends = self.commits.iter().map(|commit| {
            sum += commit.len() as u64;
            sum
        });
        std::iter::once(0).chain(ends).position(|end| end == values)
    }

    /// How many values there are, if they are right.
    fn read(&self, database: &Database) -> Result<Result<u64, String>, redb::Error> {
        let transaction = database.begin_read()?;
        let table = match transaction.open_table(TABLE) {
            Err(redb::TableError::TableDoesNotExist(_)) => return Ok(Ok(0)),
            other => other?,
        };
        let mut expected = (0..).zip(self.commits.iter().flatten());
        for entry in table.iter()? {
            let (key, value) = entry?;
            let (key, value) = (key.value(), value.value());
            let right = expected.next().is_some_and(|(due, (byte, len))| {
                due == key && value.len() == *len && value.iter().all(|found| found == byte)
            });
            if !right {
                return Ok(Err(format!("value {key} is another one than was written")));
            }
        }
        Ok(Ok(table.last()?.map_or(0, |(key, _)| key.value() + 1)))
    }
}

/// Inserts the values of a commit. Gives the key behind them.
fn insert(database: &Database, mut next: u64, values: &[(u8, usize)]) -> Result<u64, redb::Error> {
    let transaction = database.begin_write()?;
    {
        let mut table = transaction.open_table(TABLE)?;
        for (byte, len) in values {
            table.insert(next, vec![*byte; *len].as_slice())?;
            next += 1;
        }
    }
    transaction.commit()?;
    Ok(next)
}

fn open(memory: &Memory) -> Result<Database, redb::DatabaseError> {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES);
    builder.create_with_backend(memory.clone())
}

const FILE: FileId = 0;

fn one_file() -> Tree {
    let mut tree = Tree::default();
    tree.apply(&Change::Make { path: "/redb".into(), file: FILE });
    tree
}

/// A disk with one file, which writes down what is done to it. Clones are the same disk.
#[derive(Clone)]
struct Memory(Arc<Mutex<(Tree, Vec<Change>)>>);

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a file in memory")
    }
}

impl Memory {
    fn holding(tree: Tree) -> Self {
        Self(Arc::new(Mutex::new((tree, Vec::new()))))
    }

    fn state(&self) -> MutexGuard<'_, (Tree, Vec<Change>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changes(&self) -> usize {
        self.state().1.len()
    }

    fn journal(&self) -> Vec<Change> {
        std::mem::take(&mut self.state().1)
    }

    fn change(&self, change: Change) {
        let mut state = self.state();
        state.0.apply(&change);
        state.1.push(change);
    }
}

impl StorageBackend for Memory {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state().0.files[FILE].len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.state();
        let begin = usize::try_from(offset).map_err(io::Error::other)?;
        let bytes = state.0.files[FILE].get(begin..begin + out.len());
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let size = usize::try_from(len).map_err(io::Error::other)?;
        self.change(Change::SetSize { file: FILE, size });
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.change(Change::Sync { file: FILE });
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        self.change(Change::Write { file: FILE, offset, bytes: data.to_vec() });
        Ok(())
    }
}
