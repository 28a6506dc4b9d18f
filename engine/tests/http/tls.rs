//! TLS with a certificate that only some trust.
//!
//! It and its key were made for these tests, for localhost and 127.0.0.1, by `openssl req -x509
//! -newkey ec`. Nobody else has a use for them.

use std::process::Command;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;

use super::house::{call, http, input, output, told};
use super::server::{Server, answer};

const CERTIFICATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/http/tls/certificate.pem");
const KEY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/http/tls/key.pem");

async fn server() -> Server {
    let certificate = CertificateDer::from_pem_file(CERTIFICATE).unwrap();
    let key = PrivateKeyDer::from_pem_file(KEY).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    Server::wild(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
                    return;
                }
            }
            let _ = stream.write_all(&answer(200, "", "in private")).await;
            let _ = stream.shutdown().await;
        }
    })
    .await
}

fn secured(server: &Server) -> String {
    server.url("/").replace("http:", "https:")
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_refused() {
    let server = server().await;
    let run = call(&http(), &input(&secured(&server), "")).await;
    assert_eq!(told(run.error()), "tls_failed final");
    assert!(run.error().message().contains("certificate"), "{}", run.error());
}

#[tokio::test]
async fn what_speaks_no_tls_is_told_so() {
    let server = Server::answering(|_| Vec::new()).await;
    let plain = Server::wild(|mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        super::server::until_closed(&mut stream).await;
    })
    .await;
    let run = call(&http(), &input(&secured(&plain), "")).await;
    assert_eq!(told(run.error()), "tls_failed final");
    drop(server);
}

/// The roots are read once in a process, so each choice of them has a process of its own.
#[test]
fn roots_can_be_chosen() {
    for (file, expected) in [
        (CERTIFICATE, "in private"),
        ("/nowhere/roots.pem", "tls_failed final"),
        ("/dev/null", "tls_failed final"),
    ] {
        let mut test = Command::new(std::env::current_exe().unwrap());
        test.args(["--exact", "tls::asks_with_the_roots_of_its_environment", "--ignored"]);
        test.arg("--nocapture").env("SSL_CERT_FILE", file).env_remove("SSL_CERT_DIR");
        let answered = test.output().unwrap();
        let said = String::from_utf8_lossy(&answered.stdout);
        assert!(answered.status.success(), "{file}: {said}");
        assert!(said.contains(&format!("<{expected}>")), "{file}: {said}");
    }
}

#[tokio::test]
#[ignore = "run by roots_can_be_chosen"]
async fn asks_with_the_roots_of_its_environment() {
    let server = server().await;
    let run = call(&http(), &input(&secured(&server), "")).await;
    match &run.result {
        Ok(_) => println!("<{}>", output(&run)["text"].as_str().unwrap()),
        Err(error) => println!("<{}>", told(error)),
    }
}
