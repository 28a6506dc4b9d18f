//! The `annals` binary.

fn main() {
    // First of all, because this process may be the supervisor of a shell attempt.
    annals_engine::isolated_entry();
}
