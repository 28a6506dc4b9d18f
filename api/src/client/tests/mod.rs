//! The client against a server that does what a test tells it: cuts connections, is slow, is away.

mod follow;
mod script;
mod send;
