//! TLS: which certificates are trusted, and by what it is computed.

use std::io;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use rustls_native_certs::CertificateResult;

/// Makes the configuration of a client. The provider is its own; a default that the program has
/// chosen for itself is left alone.
///
/// The roots are the system's, or what `SSL_CERT_FILE` and `SSL_CERT_DIR` name; where the system
/// has none, as in a container with nothing in it, Mozilla's, as they were when this was built.
pub(super) fn config() -> io::Result<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    let mut config = builder.with_root_certificates(roots()).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn roots() -> RootCertStore {
    let found = rustls_native_certs::load_native_certs();
    let chosen = ["SSL_CERT_FILE", "SSL_CERT_DIR"].map(std::env::var_os);
    let chooser = if chosen.iter().any(Option::is_some) { Chooser::User } else { Chooser::System };
    roots_of(found, chooser)
}

/// Who said where the roots are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chooser {
    System,
    User,
}

fn roots_of(found: CertificateResult, chooser: Chooser) -> RootCertStore {
    for error in &found.errors {
        tracing::warn!(%error, "a root certificate cannot be read");
    }
    let mut roots = RootCertStore::empty();
    let (_, unusable) = roots.add_parsable_certificates(found.certs);
    if unusable > 0 {
        tracing::debug!(unusable, "root certificates that no chain can end in");
    }
    // Whoever chose roots meant those and no others.
    if roots.is_empty() && chooser == Chooser::System {
        tracing::info!("this system has no root certificates; those of this build are used");
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    if roots.is_empty() {
        tracing::warn!("no root certificate is known, so no TLS server can be trusted");
    }
    roots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_without_roots_has_those_of_the_build_unless_others_were_chosen() {
        let of_build = webpki_roots::TLS_SERVER_ROOTS.len();
        assert!(of_build > 50, "{of_build}");
        let none = CertificateResult::default;
        assert_eq!(roots_of(none(), Chooser::System).len(), of_build);
        assert!(roots_of(none(), Chooser::User).is_empty());
    }
}
