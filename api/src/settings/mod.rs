//! What can be set: by flags, then by `ANNALS_*` variables, then by `annals.toml`, then by
//! defaults.
//!
//! A setting has one name everywhere: `header_timeout` in the file, `ANNALS_HEADER_TIMEOUT` in
//! the environment, `--header-timeout` on the command line. [`KEYS`] is the list, from which help,
//! file and variables are made. Only the file can say what pools there are. Nothing here opens
//! anything but the file.

mod file;
mod key;
mod layers;
mod pools;
#[cfg(test)]
mod tests;
mod values;

pub(crate) use file::File;
pub(crate) use key::{KEYS, Key, Scope};
pub(crate) use layers::{BadSetting, Given, Settings};
pub(crate) use values::LogFormat;
