use annals_tasks_sdk::{Payload, flow, prelude::*};

const COUNT: TaskKind<String, u64> = TaskKind::new("count");
const WRONG: Workflow<String, String> = Workflow::new("wrong");

fn wrong(flow: &Flow, text: Wire<String>) -> Wire<u64> {
    flow.task(COUNT, text).wire()
}

fn main() {
    let _ = flow::build_plan(WRONG, wrong, Payload::NULL);
}
