use annals_tasks_sdk::prelude::*;

struct Page;
struct Word;

const SCAN: TaskKind<Page, u64> = TaskKind::new("scan");

fn count(flow: &Flow, words: Wire<Vec<Word>>) -> Wire<Vec<u64>> {
    flow.each(SCAN, words).wire()
}

fn main() {}
