//! Step logs.
