//! Which ciphers are offered and taken. AES-128-GCM comes before AES-256-GCM: neither can be
//! searched, and it costs the sidecar a fifth less, which pays for every byte twice. A broker
//! chooses for itself.

use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::{CipherSuite, SupportedCipherSuite};

/// The cryptography of every connection under TLS.
pub(super) fn provider() -> CryptoProvider {
    let mut provider = ring::default_provider();
    // Stable: what is left keeps the order of the library.
    provider.cipher_suites.sort_by_key(|suite| (is_tls_1_2(suite), !is_aes_128(suite)));
    provider
}

fn is_tls_1_2(suite: &SupportedCipherSuite) -> bool {
    suite.tls13().is_none()
}

fn is_aes_128(suite: &SupportedCipherSuite) -> bool {
    matches!(
        suite.suite(),
        CipherSuite::TLS13_AES_128_GCM_SHA256
            | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
            | CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
    )
}
