//! The command line, as people and scripts use it: the real binary on real stores.

#[path = "../common/mod.rs"]
mod common;

mod approval;
mod commands;
mod files;
mod foreign;
mod order_saga;
mod output;
mod run;
mod signals;
mod stores;
mod terminal;

use common::Place;

/// Two steps that count their executions; the second fails while the file `broken` is there.
const TWO_STEPS: &str = r"
name: two steps
input: {dir: ., big: 3544790567247868102}
tasks:
  - id: first
    kind: shell
    input:
      env: {DIR: {$input: /dir}}
      script: |
        echo first >> $DIR/ran
        printf '{\042n\042: 18446744073709551616}' > $ANNALS_OUTPUT
  - id: second
    kind: shell
    input:
      env: {DIR: {$input: /dir}}
      script: |
        echo second >> $DIR/ran
        if [ -e $DIR/broken ]; then echo 'it is broken' >&2; exit 7; fi
        echo fine
";

/// A place with the file `plan.yaml`, and the `--set` that has its tasks work there.
fn two_steps() -> (Place, String) {
    let place = Place::new();
    place.write("plan.yaml", TWO_STEPS);
    let set = format!("/dir={}", place.path("").display());
    (place, set)
}

/// The same with a job that has failed; its id.
fn failed() -> (Place, String) {
    let (place, set) = two_steps();
    place.write("broken", "");
    place.annals(&["run", "plan.yaml", "--set", &set]).expect(1);
    let id = place.newest_id();
    (place, id)
}
