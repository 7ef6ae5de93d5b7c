//! A certificate authority for the tests, and its certificates.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd,
};
use tempfile::TempDir;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};

use crate::support::Trust;

/// The host of every server here.
pub(crate) const HOST: &str = "127.0.0.1";
/// TLS 1.3 and TLS 1.2.
pub(crate) const BOTH: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];
/// TLS 1.2 only.
pub(crate) const OLD: &[&SupportedProtocolVersion] = &[&TLS12];

/// Signs certificates; its own is in a file.
pub(crate) struct Authority {
    dir: TempDir,
    issuer: Issuer<'static, KeyPair>,
    certificate: Certificate,
}

/// Files of a certificate and its key.
pub(crate) struct CertificateFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (key, params) = (KeyPair::generate().unwrap(), authority());
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(dir.path().join("ca.pem"), certificate.pem()).unwrap();
        Self { dir, issuer: Issuer::new(params, key), certificate }
    }

    /// The file with the authority's certificate.
    pub(crate) fn ca(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Signs a certificate for a server, or a client, with these names.
    pub(crate) fn signs(&self, name: &str, hosts: &[&str]) -> CertificateFiles {
        self.signs_params(name, &params(hosts))
    }

    /// Signs a certificate for [`HOST`], valid until the end of 2020.
    pub(crate) fn signed_long_ago(&self) -> CertificateFiles {
        let mut params = params(&[HOST]);
        params.not_before = date_time_ymd(2019, 1, 1);
        params.not_after = date_time_ymd(2020, 12, 31);
        self.signs_params("expired", &params)
    }

    fn signs_params(&self, name: &str, params: &CertificateParams) -> CertificateFiles {
        let key = KeyPair::generate().unwrap();
        let certificate = params.clone().signed_by(&key, &self.issuer).unwrap();
        self.write(name, &certificate, &key)
    }

    /// A self-signed certificate; `as_authority`: it is marked as one that may sign others.
    pub(crate) fn not_signed(&self, name: &str, as_authority: bool) -> CertificateFiles {
        let key = KeyPair::generate().unwrap();
        let mut params = params(&[HOST]);
        if as_authority {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        self.write(name, &params.self_signed(&key).unwrap(), &key)
    }

    fn write(&self, name: &str, certificate: &Certificate, key: &KeyPair) -> CertificateFiles {
        let at = |end: &str| self.dir.path().join(format!("{name}.{end}"));
        let made = CertificateFiles { certificate: at("pem"), key: at("key") };
        std::fs::write(&made.certificate, certificate.pem()).unwrap();
        std::fs::write(&made.key, key.serialize_pem()).unwrap();
        made
    }

    /// A client that trusts this authority.
    pub(crate) fn trust(&self) -> Trust {
        self.client(BOTH, None)
    }

    /// A client that trusts this authority, with these versions of TLS and this certificate of its
    /// own.
    pub(crate) fn client(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        shows: Option<&CertificateFiles>,
    ) -> Trust {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        Arc::new(match shows {
            None => config.with_no_client_auth(),
            Some(made) => {
                let certificate = CertificateDer::from_pem_file(&made.certificate).unwrap();
                let key = PrivateKeyDer::from_pem_file(&made.key).unwrap();
                config.with_client_auth_cert(vec![certificate], key).unwrap()
            }
        })
    }

    /// A client as in [`Authority::trust`], with this certificate of its own.
    pub(crate) fn showing(&self, made: &CertificateFiles) -> Trust {
        self.client(BOTH, Some(made))
    }
}

impl CertificateFiles {
    /// A `listen` item with this certificate; `more` keys of `tls`, each after a comma.
    pub(crate) fn listen(&self, more: &str) -> String {
        let (certificate, key) = (self.certificate.display(), self.key.display());
        format!(
            "listen: [{{address: '{HOST}:0', \
             tls: {{certificate: {certificate}, key: {key}{more}}}}}]\n\
             retry: {{levels: 20ms}}\n"
        )
    }

    /// The certificate, as a peer gets it.
    pub(crate) fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(&self.certificate).unwrap()
    }
}

fn params(hosts: &[&str]) -> CertificateParams {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    CertificateParams::new(hosts).unwrap()
}

fn authority() -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // A random name for each authority: with equal names, a verifier would pick a key by luck.
    let name = format!("test authority {}", fastrand::u64(..));
    params.distinguished_name.push(DnType::CommonName, name);
    params
}
