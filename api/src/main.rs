//! The `annals` binary.
#![forbid(unsafe_code)]

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    // First of all, because this process may be the supervisor of a shell attempt.
    annals_engine::isolated_entry();
    annals::cli::main(std::env::args_os())
}
