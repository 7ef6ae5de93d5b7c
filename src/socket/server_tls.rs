//! The server's side of TLS: the certificate of a listener, and the authorities of its clients.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsStream};

use crate::socket::ahead::ReadAhead;
use crate::socket::error::{AcceptError, unusable};
use crate::socket::halves::under_tls;
use crate::socket::pem::{FileProblem, authorities, certificates, private_key};
use crate::socket::validity::valid_until;
use crate::socket::{Budget, ReadHalf, ValidUntil, WriteHalf, suites};

/// The first byte of every TLS handshake.
const HANDSHAKE: u8 = 0x16;
/// Time and bytes that a refused client has to read the alert and close.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: u64 = 64 << 10;

/// Certificate and key of a listener, ready for handshakes.
#[derive(Clone)]
pub struct ServerTls {
    config: Arc<ServerConfig>,
    until: Option<ValidUntil>,
}

impl ServerTls {
    /// Reads the files: the certificate with its chain, its key, and the authorities of clients.
    /// With such authorities a client must show a certificate.
    pub fn load(
        certificate: &Path,
        key: &Path,
        client_ca: Option<&Path>,
    ) -> Result<Self, Vec<FileProblem>> {
        let chain = certificates("certificate", certificate);
        let secret = private_key("key", key);
        let clients = client_ca.map(|path| authorities("client_ca", path)).transpose();
        let (chain, secret, clients) = match (chain, secret, clients) {
            (Ok(chain), Ok(secret), Ok(clients)) => (chain, secret, clients),
            (chain, secret, clients) => {
                return Err([chain.err(), secret.err(), clients.err()]
                    .into_iter()
                    .flatten()
                    .collect());
            }
        };
        let until = chain.first().and_then(|leaf| valid_until(leaf));
        let provider = Arc::new(suites::provider());
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| vec![unusable("certificate", certificate, key, &error)])?;
        let config = match clients {
            None => config.with_no_client_auth(),
            Some(roots) => config.with_client_cert_verifier(verifier(roots, provider, client_ca)?),
        };
        let mut config = config
            .with_single_cert(chain, secret)
            .map_err(|error| vec![unusable("key", certificate, key, &error)])?;
        // The server's order counts: clients offer the more expensive cipher first.
        config.ignore_client_order = true;
        Ok(Self { config: Arc::new(config), until })
    }

    /// The end of the certificate's validity, if it can be read.
    pub fn valid_until(&self) -> Option<&ValidUntil> {
        self.until.as_ref()
    }

    /// The handshake with a client. A client without TLS gets no answer. A Kafka client would read
    /// the seven bytes of an alert as a frame of 336 MiB and allocate memory for it.
    pub async fn accept(
        &self,
        stream: TcpStream,
        budget: &Budget,
    ) -> Result<(ReadHalf, WriteHalf), AcceptError> {
        let mut first = [0];
        match stream.peek(&mut first).await.map_err(AcceptError::of)? {
            0 => return Err(AcceptError::Closed),
            _ if first != [HANDSHAKE] => return Err(AcceptError::NotTls),
            _ => {}
        }
        let accepting =
            TlsAcceptor::from(Arc::clone(&self.config)).accept(ReadAhead::new(stream, budget));
        match accepting.into_fallible().await {
            Ok(stream) => Ok(under_tls(TlsStream::Server(stream), budget)),
            Err((error, stream)) => {
                linger(stream).await;
                Err(AcceptError::of(error))
            }
        }
    }
}

/// Waits for the alert to arrive: closing a connection with unread bytes resets it, and the alert
/// would be lost.
async fn linger(mut stream: ReadAhead) {
    let unread = async {
        stream.shutdown().await?;
        let mut left = stream.take(LINGER_BYTES);
        tokio::io::copy(&mut left, &mut tokio::io::sink()).await
    };
    drop(tokio::time::timeout(LINGER, unread).await);
}

fn verifier(
    roots: RootCertStore,
    provider: Arc<CryptoProvider>,
    client_ca: Option<&Path>,
) -> Result<Arc<dyn ClientCertVerifier>, Vec<FileProblem>> {
    let built = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
    built.map_err(|error| {
        let path = client_ca.unwrap_or(Path::new(""));
        vec![FileProblem::of("client_ca", path, &format!("cannot be used: {error}"))]
    })
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls").field("until", &self.until).finish_non_exhaustive()
    }
}
