//! The API, asked as a service: no sockets, one request in and one answer out.

mod edge;
mod face;
