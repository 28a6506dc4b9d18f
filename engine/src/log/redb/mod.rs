//! The log in redb files: records in files that are rolled and then never written again, views
//! in a file of their own. Only this folder knows redb.

mod backend;
mod connection;
mod disk;
mod file;
mod folder;
mod holes;
mod keys;
mod mark;
mod records;
mod seal;
mod store;
mod values;
mod views;

pub use disk::{Access, Disk, DiskFile, Hold};
pub use file::Notice;
pub use store::{Options, RedbLog};
