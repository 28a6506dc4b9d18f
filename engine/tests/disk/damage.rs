//! A closed store is damaged, one place at a time: what it answers then is what it answered
//! before, or an error that says what is damaged. Never another answer, and nothing is missing
//! without a word.

mod answers;
mod harm;
mod house;
mod stored;

use std::panic::PanicHookInfo;
use std::sync::Once;

use annals_engine::Mode;
use annals_engine::log::Notice;
use annals_engine::runtime::StartError;

use self::answers::Refusals;
use self::harm::{Harmed, harm};
use self::house::{House, Notices};
use self::stored::{Stored, VARIANTS};
use super::ioerr::Tried;
use super::setting;
use super::sim::SimDisk;

/// How many cases the ordinary test tries.
const CASES: u64 = 60;
/// Cases that failed once. In all four an error said that an earlier operation had failed, and not
/// what was damaged: the operation was a read of a row that nobody had asked for.
const FAILED_ONCE: [u64; 4] = [1_000_265, 1_000_857, 1_005_265, 2_001_441];

/// What came of the cases that passed.
#[derive(Default)]
struct Sum {
    reported: u64,
    rebuilt: u64,
    without_effect: u64,
}

#[test]
fn damage_is_told_or_has_no_effect() {
    let cases = setting("ANNALS_DAMAGE_ROUNDS").unwrap_or(CASES);
    let chosen = setting("ANNALS_DAMAGE_SEED");
    let first = chosen.unwrap_or(0);
    let known = if chosen.is_none() { &FAILED_ONCE[..] } else { &[] };
    quieten();
    let mut variants = [const { None }; VARIANTS];
    let (mut tried, mut sum) = (Tried::new("damaged stores"), Sum::default());
    let seeds = (first..).take(usize::try_from(cases).unwrap_or(usize::MAX));
    for seed in known.iter().copied().chain(seeds) {
        let variant = usize::try_from(seed % VARIANTS as u64).expect("it is small");
        let stored = &*variants[variant].get_or_insert_with(|| Stored::new(variant));
        let Harmed { tree, how } = harm(stored, &mut fastrand::Rng::with_seed(seed));
        let again = format!("again with `cargo xtask damage --rounds 1 --seed {seed}`");
        let name = || format!("seed {seed}, {how} ({again})");
        tried.case(name, || sum.add(&look(stored, &SimDisk::holding(tree))));
    }
    let Sum { reported, rebuilt, without_effect } = sum;
    println!("{reported} reported, {rebuilt} rebuilt the views, {without_effect} had no effect");
    tried.end();
}

/// What nobody can notice: all files are as they were at some moment. That is a store, and what it
/// answers was right then.
#[test]
fn an_older_copy_of_everything_is_an_undamaged_store() {
    let stored = Stored::new(0);
    for tree in &stored.older {
        let (disk, notices) = (SimDisk::holding(tree.clone()), Notices::default());
        let mut house = House::start(&disk, &stored.clock, (Mode::Hold, &notices)).unwrap();
        stored.answers.check_beginning(&mut house);
        assert!(!is_rebuilt(&notices));
    }
}

/// What became of one case.
struct Seen {
    refusals: Refusals,
    has_rebuilt: bool,
}

impl Sum {
    fn add(&mut self, seen: &Seen) {
        if seen.refusals.any() {
            self.reported += 1;
        } else if seen.has_rebuilt {
            self.rebuilt += 1;
        } else {
            self.without_effect += 1;
        }
    }
}

/// Two engines one after the other, each of which is asked for everything: what the first one
/// finds, it may leave to the second one to mend.
fn look(stored: &Stored, disk: &SimDisk) -> Seen {
    let (notices, mut refusals) = (Notices::default(), Refusals::default());
    let files = records(disk);
    for again in [false, true] {
        let finds_more = refusals.any() || is_rebuilt(&notices);
        if again && (!finds_more || refusals.has_forgotten) {
            break;
        }
        match House::start(disk, &stored.clock, (Mode::Hold, &notices)) {
            Ok(mut house) => {
                stored.answers.check(&mut house, &stored.keyed, &mut refusals);
            }
            Err(StartError::Log(error)) => refusals.log(&error),
            Err(other) => panic!("an error does not say what is damaged: {other}"),
        }
    }
    let (now, may_grow) = (records(disk), refusals.has_forgotten);
    assert!(now == files || (may_grow && now.starts_with(&files)), "other files: {now:?}");
    let has_rebuilt = is_rebuilt(&notices);
    Seen { refusals, has_rebuilt }
}

/// Whether the views were begun anew.
fn is_rebuilt(notices: &Notices) -> bool {
    let notices = notices.lock().expect("nobody panicked with it");
    notices.iter().any(|notice| matches!(notice, Notice::ViewsRebuilt { .. }))
}

/// The names of the record files.
fn records(disk: &SimDisk) -> Vec<std::path::PathBuf> {
    let names = disk.tree().names.into_keys();
    names.filter(|path| path.parent().is_some_and(|folder| folder.ends_with("records"))).collect()
}

/// redb panics on some damaged files, which the store expects.
fn quieten() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
            if !info.location().is_some_and(|place| place.file().contains("/redb-")) {
                before(info);
            }
        }));
    });
}
