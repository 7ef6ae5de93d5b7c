//! The client's side of TLS: the authorities of brokers, and the certificate of the sidecar.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ProtocolVersion, RootCertStore};
use tokio_rustls::{TlsConnector, TlsStream, client};

use crate::socket::ahead::ReadAhead;
use crate::socket::error::{ConnectError, unusable};
use crate::socket::halves::under_tls;
use crate::socket::pem::{FileProblem, authorities, certificates, private_key};
use crate::socket::validity::{subject, valid_until};
use crate::socket::{Budget, ReadHalf, ValidUntil, WriteHalf, suites};

/// A broker's TLS session, as `check` and the log show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerSeen {
    /// `TLS 1.3` or `TLS 1.2`.
    pub version: &'static str,
    /// The subject of the broker's certificate, such as `CN=kafka-1`; may be empty.
    pub subject: String,
    /// The end of the certificate's validity, if it can be read.
    pub until: Option<ValidUntil>,
}

/// Authorities and certificate, ready for handshakes with brokers.
#[derive(Clone)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
    until: Option<ValidUntil>,
    /// The source of the authorities, for messages.
    roots: Arc<str>,
}

impl ClientTls {
    /// Reads the files: the authorities of brokers (`None`: those of the system), and the sidecar's
    /// certificate with its key, for brokers that ask for one.
    pub fn load(
        ca: Option<&Path>,
        identity: Option<(&Path, &Path)>,
    ) -> Result<Self, Vec<FileProblem>> {
        let roots = match ca {
            Some(path) => authorities("ca", path),
            None => of_the_system(),
        };
        let chain = identity.map(|(path, _)| certificates("certificate", path)).transpose();
        let secret = identity.map(|(_, path)| private_key("key", path)).transpose();
        let (roots, chain, secret) = match (roots, chain, secret) {
            (Ok(roots), Ok(chain), Ok(secret)) => (roots, chain, secret),
            (roots, chain, secret) => {
                let problems = [roots.err(), chain.err(), secret.err()];
                return Err(problems.into_iter().flatten().collect());
            }
        };
        let until = chain.as_ref().and_then(|chain| valid_until(chain.first()?));
        let (certificate, key) = identity.unwrap_or((Path::new(""), Path::new("")));
        let failed = |error| vec![unusable("key", certificate, key, &error)];
        let config = ClientConfig::builder_with_provider(Arc::new(suites::provider()))
            .with_safe_default_protocol_versions()
            .map_err(failed)?
            .with_root_certificates(roots);
        let config = match (chain, secret) {
            (Some(chain), Some(secret)) => {
                config.with_client_auth_cert(chain, secret).map_err(failed)?
            }
            _ => config.with_no_client_auth(),
        };
        let roots = ca.map_or_else(|| "the system's store".to_owned(), shown);
        Ok(Self { config: Arc::new(config), until, roots: roots.into() })
    }

    /// Whether the sidecar has a certificate.
    pub fn has_identity(&self) -> bool {
        self.config.client_auth_cert_resolver.has_certs()
    }

    /// The end of the validity of the sidecar's certificate, if it has one.
    pub fn valid_until(&self) -> Option<&ValidUntil> {
        self.until.as_ref()
    }

    /// The handshake with a broker whose certificate must be for `host`, a name or an address. A
    /// name is sent along (SNI).
    pub async fn connect(
        &self,
        host: &str,
        stream: TcpStream,
        budget: &Budget,
    ) -> Result<(ReadHalf, WriteHalf), ConnectError> {
        let stream = self.handshake(host, stream, budget).await?;
        Ok(under_tls(TlsStream::Client(stream), budget))
    }

    /// [`ClientTls::connect`], with a description of the broker's session.
    pub async fn look(
        &self,
        host: &str,
        stream: TcpStream,
        budget: &Budget,
    ) -> Result<((ReadHalf, WriteHalf), PeerSeen), ConnectError> {
        let stream = self.handshake(host, stream, budget).await?;
        let session = stream.get_ref().1;
        let shown = session.peer_certificates().and_then(<[_]>::first);
        let seen = PeerSeen {
            version: match session.protocol_version() {
                Some(ProtocolVersion::TLSv1_3) => "TLS 1.3",
                _ => "TLS 1.2",
            },
            subject: shown.and_then(|shown| subject(shown)).unwrap_or_default(),
            until: shown.and_then(|shown| valid_until(shown)),
        };
        Ok((under_tls(TlsStream::Client(stream), budget), seen))
    }

    async fn handshake(
        &self,
        host: &str,
        stream: TcpStream,
        budget: &Budget,
    ) -> Result<client::TlsStream<ReadAhead>, ConnectError> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| ConnectError::Name { host: host.to_owned() })?;
        let connected = TlsConnector::from(Arc::clone(&self.config))
            .connect(name, ReadAhead::new(stream, budget))
            .await;
        connected.map_err(|error| ConnectError::of(error, host, &self.roots))
    }
}

fn shown(path: &Path) -> String {
    format!("upstream.tls.ca ({})", path.display())
}

/// The authorities that the system trusts, or those of `SSL_CERT_FILE` and `SSL_CERT_DIR`.
fn of_the_system() -> Result<RootCertStore, FileProblem> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added > 0 {
        return Ok(roots);
    }
    let why = found.errors.first().map(|error| format!(" ({error})")).unwrap_or_default();
    let says = format!(
        "is not given and the system has no certificates of authorities{why}; give the file with \
         the certificate of the authority that signed the brokers'"
    );
    Err(FileProblem { key: "ca", says })
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTls").field("roots", &self.roots).finish_non_exhaustive()
    }
}
