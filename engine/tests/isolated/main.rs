//! Attempts in processes of their own. The program is its own engine, one that gets killed, and
//! the process of each attempt, so it has a main of its own instead of the test harness.

mod deaths;
mod house;
mod life;
mod steps;
mod stops;

use annals_engine::Engine;

fn main() {
    annals_engine::isolated_entry();
    if std::env::args().nth(1).as_deref() == Some(stops::ENGINE) {
        // Its attempts come this way, too, up to the start of the engine.
        return stops::be_an_engine();
    }
    house::kinds(Engine::open("")).serve_isolated();
    // As with the test harness; what stands behind an option may be its value.
    let wanted = std::env::args().nth(1).filter(|argument| !argument.starts_with('-'));
    let tests = [life::TESTS, steps::TESTS, deaths::TESTS, stops::TESTS].concat();
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
