use annals_tasks_sdk::prelude::*;

struct Order;
struct Reservation;
struct Receipt;

const RESERVE: TaskKind<Order, Reservation> = TaskKind::new("reserve");
const CHARGE: TaskKind<(Order, Reservation), Receipt> = TaskKind::new("charge");

fn fulfil(flow: &Flow, order: Wire<Order>) -> Wire<Receipt> {
    let reservation = flow.task(RESERVE, order);
    flow.task(CHARGE, (reservation, reservation)).wire()
}

fn main() {}
