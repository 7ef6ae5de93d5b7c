//! The order of ciphers. AES-128-GCM comes before AES-256-GCM: both are out of reach of a search,
//! and AES-128 costs a fifth less. The sidecar handles each byte twice. A broker chooses for
//! itself.

use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::{CipherSuite, SupportedCipherSuite};

/// The cryptography of all TLS connections.
pub(super) fn provider() -> CryptoProvider {
    let mut provider = ring::default_provider();
    // Stable sort: otherwise the order of the library stays.
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
