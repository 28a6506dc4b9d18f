//! Shell tasks with real processes. The program is its own supervisor and, for one test, its
//! own engine that gets killed, so it has a main of its own instead of the test harness.

#[expect(dead_code, reason = "the tests of the runtime use it all")]
#[path = "../runtime/support/clock.rs"]
mod clock;
mod ending;
mod environment;
mod house;
mod results;
mod silent;

fn main() {
    annals_engine::isolated_entry();
    if std::env::args().nth(1).as_deref() == Some(ending::ENGINE) {
        return ending::be_an_engine();
    }
    // As with the test harness; what stands behind an option may be its value.
    let wanted = std::env::args().nth(1).filter(|argument| !argument.starts_with('-'));
    let tests = [ending::TESTS, environment::TESTS, results::TESTS, silent::TESTS].concat();
    let chosen = |name: &str| wanted.as_deref().is_none_or(|wanted| name.contains(wanted));
    let mut count = 0;
    for (name, test) in tests.into_iter().filter(|(name, _)| chosen(name)) {
        let begun = std::time::Instant::now();
        test();
        println!("test {name} ... ok ({:?})", begun.elapsed());
        count += 1;
    }
    println!("test result: ok. {count} passed");
}
