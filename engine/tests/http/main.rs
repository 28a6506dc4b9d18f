//! The kind `http` against servers that answer well, badly, late, or not at all.
#![forbid(unsafe_code)]

mod answers;
mod bounds;
mod engine;
mod failures;
mod house;
mod redirects;
mod requests;
mod secrets;
mod server;
mod tls;
