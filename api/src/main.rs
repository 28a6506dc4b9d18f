//! The `annals` binary.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    // First of all, because this process may be the supervisor of a shell attempt.
    annals_engine::isolated_entry();
    annals::cli::main(std::env::args_os())
}
