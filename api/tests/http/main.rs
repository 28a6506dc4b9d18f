//! The API, asked as a service: no sockets, one request in and one answer out.

mod bodies;
mod description;
mod edge;
mod face;
mod read;
mod repeat;
mod steer;
mod submit;
mod trouble;
