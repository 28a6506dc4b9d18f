//! Errors, and the exit codes that tell them apart.

mod cli_error;
mod exit;
mod from;

pub(super) use cli_error::CliError;
pub(super) use exit::Exit;
