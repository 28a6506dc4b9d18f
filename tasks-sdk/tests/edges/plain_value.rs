use annals_tasks_sdk::prelude::*;

const SHOUT: TaskKind<String, String> = TaskKind::new("shout");

fn shout(flow: &Flow, _: Wire<String>) -> Wire<String> {
    flow.task(SHOUT, String::from("hello")).wire()
}

fn main() {}
