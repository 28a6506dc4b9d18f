//! The client that all attempts share, and how it finds addresses.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use reqwest::Client;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::net::lookup_host;

use super::handler::HttpSettings;
use super::targets::Targets;
use super::tls;

/// Who asks.
const AGENT: &str = concat!("annals/", env!("CARGO_PKG_VERSION"));

/// Makes a client. Reads root certificates, which takes a while.
pub(super) fn build(settings: &HttpSettings, targets: &Arc<Targets>) -> io::Result<Client> {
    Client::builder()
        .tls_backend_preconfigured(tls::config()?)
        .dns_resolver(Resolver(Arc::clone(targets)))
        // Each hop is checked, logged and stripped of credentials here, not there.
        .redirect(reqwest::redirect::Policy::none())
        // A proxy would connect to what may not be connected to.
        .no_proxy()
        // What is tried again is for the plan to say.
        .retry(reqwest::retry::never())
        .referer(false)
        .http1_only()
        .connect_timeout(settings.connect_timeout)
        // A connection that is kept may be closed by the server just as the next request is sent,
        // and that would be a failure of a task that has one attempt.
        .pool_max_idle_per_host(0)
        .user_agent(AGENT)
        .build()
        .map_err(io::Error::other)
}

/// Gives those addresses of a name that may be connected to.
struct Resolver(Arc<Targets>);

/// The system does not know a name.
#[derive(Debug, thiserror::Error)]
#[error("the name {name:?} cannot be resolved: {why}")]
pub(super) struct Unresolved {
    name: String,
    why: String,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let targets = Arc::clone(&self.0);
        Box::pin(async move {
            let name = name.as_str();
            let unresolved = |why: String| Unresolved { name: name.to_owned(), why };
            // The port is put in by who connects.
            let found = lookup_host((name, 0)).await;
            let found = found.map_err(|error| unresolved(error.to_string()))?;
            let addresses = targets.filter(name, found.map(|address| address.ip()))?;
            if addresses.is_empty() {
                return Err(unresolved("it has no address".to_owned()).into());
            }
            let addresses = addresses.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(addresses) as Addrs)
        })
    }
}
