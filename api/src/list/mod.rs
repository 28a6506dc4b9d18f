//! Lists of jobs: which ones, in pages, the newest first.
//!
//! A [`Filter`] says which jobs are wanted, by the names that HTTP and the command line share; a
//! [`Cursor`] where a list goes on. Jobs that are submitted while somebody goes through a list are
//! newer than its first page, so it neither loses nor repeats one.

mod beginning;
mod cursor;
mod filter;
mod page;

pub use beginning::{Beginning, NoBeginning};
pub use cursor::{BadCursor, Cursor};
pub use filter::{BadFilter, Filter, Span};
pub use page::{Found, LIMIT_MAX, Page, page};
