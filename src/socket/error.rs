//! Reasons why a handshake failed, each with what to do about it.

use std::io;
use std::path::Path;

use tokio_rustls::rustls::{
    AlertDescription, CertificateError, Error as TlsError, InconsistentKeys, InvalidMessage,
};

use crate::socket::pem::FileProblem;

const SECONDS_PER_DAY: u64 = 86_400;
/// The verifier's error for an authority's own certificate in the place of a broker's.
const AUTHORITY_AS_SERVER: &str = "CaUsedAsEndEntity";

/// The reason why a client is refused.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// The client closed the connection before its first byte, as port checks do.
    #[error("the peer closed the connection before the TLS handshake")]
    Closed,
    /// The client's first byte is not that of a TLS handshake.
    #[error(
        "the peer does not speak TLS and this listener does: set its security.protocol to SSL or \
         SASL_SSL"
    )]
    NotTls,
    /// The listener demands a certificate.
    #[error(
        "the peer shows no certificate and this listener has tls.client_ca: give the client a \
         certificate signed by that authority"
    )]
    NoCertificate,
    /// The client's certificate is not valid.
    #[error("the peer's certificate is refused: {0}; see tls.client_ca of this listener")]
    Certificate(CertificateError),
    /// The client refuses our certificate, or both sides have no version or cipher in common.
    #[error(
        "the peer breaks off the TLS handshake ({0:?}): does it trust the authority of this \
         listener's certificate, and is the certificate for the name it connects to?"
    )]
    Refused(AlertDescription),
    /// Any other error of TLS.
    #[error("the TLS handshake failed: {0}")]
    Handshake(TlsError),
    /// The connection broke.
    #[error("the connection broke inside the TLS handshake: {0}")]
    Io(io::Error),
}

impl AcceptError {
    pub(super) fn of(error: io::Error) -> Self {
        match tls_error(&error) {
            None => Self::Io(error),
            Some(TlsError::NoCertificatesPresented) => Self::NoCertificate,
            Some(TlsError::InvalidCertificate(why)) => Self::Certificate(why.clone()),
            Some(TlsError::AlertReceived(alert)) => Self::Refused(*alert),
            Some(other) => Self::Handshake(other.clone()),
        }
    }
}

/// The reason why a TLS connection to a broker failed.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The name is not one that a certificate can contain.
    #[error("{host:?} is no name or address a certificate can be for; see upstream.bootstrap")]
    Name {
        /// The name as configured, or as the cluster advertises it.
        host: String,
    },
    /// The certificate is another host's, or it lacks the name.
    #[error(
        "its certificate is not for {host:?} but for {names}: add that name to the broker's \
         certificate (subjectAltName), or have the cluster advertise a name it is for"
    )]
    OtherName {
        /// The name that was dialled.
        host: String,
        /// The names in the certificate.
        names: String,
    },
    /// The certificate has expired.
    #[error("its certificate has expired {days} days ago: renew the broker's certificate")]
    Expired {
        /// Days since the expiry.
        days: u64,
    },
    /// The certificate is not valid yet, or our clock is wrong.
    #[error("its certificate is not yet valid: compare the clocks of this host and of the broker")]
    NotYetValid,
    /// No known authority has signed the certificate.
    #[error(
        "its certificate is self-signed, or signed by an authority that {roots} does not hold: \
         put that authority's certificate, or the self-signed one, into upstream.tls.ca"
    )]
    UnknownAuthority {
        /// The source of the authorities.
        roots: String,
    },
    /// The certificate is an authority's own, not a server's.
    #[error(
        "its certificate is an authority's own (CA:TRUE), as self-signed ones often are, and no \
         server's: give the broker one that is signed by that authority"
    )]
    Authority,
    /// Any other fault of the certificate.
    #[error("its certificate is refused: {0}")]
    Certificate(CertificateError),
    /// The broker aborts the handshake with an alert.
    #[error(
        "it breaks off the TLS handshake ({0:?}): does it ask for a client certificate \
         (upstream.tls.certificate, upstream.tls.key) it trusts, and does it serve TLS 1.2 or 1.3?"
    )]
    Refused(AlertDescription),
    /// The first bytes are not those of TLS.
    #[error("it does not speak TLS on this port: name its TLS port, or leave out upstream.tls")]
    NotTls,
    /// Any other error of TLS.
    #[error("the TLS handshake failed: {0}")]
    Handshake(TlsError),
    /// The broker closes the connection during the handshake.
    #[error(
        "it closes the connection inside the TLS handshake ({0}): is that its TLS port? Without \
         TLS leave out upstream.tls"
    )]
    Io(io::Error),
}

impl ConnectError {
    pub(super) fn of(error: io::Error, host: &str, roots: &str) -> Self {
        let known = tls_error(&error).cloned();
        match known {
            None => Self::Io(error),
            Some(TlsError::InvalidCertificate(why)) => Self::of_certificate(why, host, roots),
            Some(TlsError::AlertReceived(alert)) => Self::Refused(alert),
            Some(TlsError::InvalidMessage(InvalidMessage::InvalidContentType)) => Self::NotTls,
            Some(other) => Self::Handshake(other),
        }
    }

    fn of_certificate(why: CertificateError, host: &str, roots: &str) -> Self {
        match why {
            CertificateError::NotValidForName => {
                Self::OtherName { host: host.to_owned(), names: "other names".to_owned() }
            }
            CertificateError::NotValidForNameContext { presented, .. } => {
                let names = if presented.is_empty() {
                    "no name at all".to_owned()
                } else {
                    presented.join(", ")
                };
                Self::OtherName { host: host.to_owned(), names }
            }
            CertificateError::ExpiredContext { time, not_after } => {
                let seconds = time.as_secs().saturating_sub(not_after.as_secs());
                Self::Expired { days: seconds / SECONDS_PER_DAY }
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                Self::NotYetValid
            }
            CertificateError::UnknownIssuer => Self::UnknownAuthority { roots: roots.to_owned() },
            CertificateError::Other(ref other)
                if other.to_string().contains(AUTHORITY_AS_SERVER) =>
            {
                Self::Authority
            }
            other => Self::Certificate(other),
        }
    }
}

/// The alert by which a peer refuses our certificate. In TLS 1.3 it arrives after the handshake,
/// with the first read.
pub fn refused_by_peer(error: &io::Error) -> Option<ConnectError> {
    match tls_error(error) {
        Some(TlsError::AlertReceived(alert)) => Some(ConnectError::Refused(*alert)),
        _ => None,
    }
}

/// The reason why certificate and key cannot be used together.
pub(super) fn unusable(
    key_name: &'static str,
    certificate: &Path,
    key: &Path,
    error: &TlsError,
) -> FileProblem {
    match error {
        TlsError::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            let certificate = certificate.display();
            let says = format!(
                "is not the key of the first certificate in {certificate}; give the two that were \
                 made together, the server's or client's own certificate first"
            );
            FileProblem::of(key_name, key, &says)
        }
        TlsError::InvalidCertificate(why) => {
            let says = format!("begins with a certificate that cannot be read: {why}");
            FileProblem::of("certificate", certificate, &says)
        }
        other => FileProblem::of(key_name, key, &format!("cannot be used: {other}")),
    }
}

fn tls_error(error: &io::Error) -> Option<&TlsError> {
    error.get_ref()?.downcast_ref()
}
