//! `http`: one request, and what came back.
//!
//! The input is `{method, url, headers, json|text|body_base64, expect, max_response_bytes}`, the
//! output `{status, headers, json|text|body_base64}`. A status that `expect` has is a success, any
//! other the failure `http_status`, of which [`HttpSettings`] and the reference say which are
//! worth another attempt.
//!
//! - **Targets.** Only public addresses are connected to, unless a setting allows more
//!   ([`AllowedTarget`]). What is checked is the address itself, after the name was resolved and
//!   before a connection is made, at each redirect anew: a name that changes its address meanwhile
//!   gets no further. Proxies of the environment are not used, since they would go where this may
//!   not.
//! - **Secrets.** What a request carries (headers, userinfo, query) stands in no message, log line
//!   or output. Cookies that an answer sets are left out of the output.
//! - **Bounds.** A body is read to its limit and no further, also when it unfolds from a compressed
//!   one; connecting has a timeout of its own; redirects have a limit. How long the whole may take
//!   is for the task's `timeout` to say.
//! - **Ends.** An attempt that is told to stop closes its connection at once.
//!
//! Nothing here keeps cookies, follows `Refresh`, or speaks HTTP/2.

mod address;
mod client;
mod exchange;
mod expect;
mod failure;
mod handler;
mod input;
mod output;
mod redirect;
mod retry_after;
mod secrets;
mod shown;
mod targets;
mod tls;

#[cfg(test)]
mod input_tests;

pub use handler::{Http, HttpSettings};
pub use targets::{AllowedTarget, BadTarget};
