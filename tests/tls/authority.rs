//! An authority of the test's own, and what it signs.

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
/// Both versions.
pub(crate) const BOTH: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];
/// The older one.
pub(crate) const OLD: &[&SupportedProtocolVersion] = &[&TLS12];

/// Signs certificates; its own lies in a file.
pub(crate) struct Authority {
    dir: TempDir,
    issuer: Issuer<'static, KeyPair>,
    certificate: Certificate,
}

/// A certificate and its key, in files.
pub(crate) struct Made {
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

    /// The file with its own certificate.
    pub(crate) fn ca(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// For a server, or a client, of these names.
    pub(crate) fn signs(&self, name: &str, hosts: &[&str]) -> Made {
        self.signs_params(name, &params(hosts))
    }

    /// For [`HOST`], until the end of 2020.
    pub(crate) fn signed_long_ago(&self) -> Made {
        let mut params = params(&[HOST]);
        params.not_before = date_time_ymd(2019, 1, 1);
        params.not_after = date_time_ymd(2020, 12, 31);
        self.signs_params("expired", &params)
    }

    fn signs_params(&self, name: &str, params: &CertificateParams) -> Made {
        let key = KeyPair::generate().unwrap();
        let certificate = params.clone().signed_by(&key, &self.issuer).unwrap();
        self.write(name, &certificate, &key)
    }

    /// Nobody's signature but its own; `as_authority`: it says it may sign others.
    pub(crate) fn not_signed(&self, name: &str, as_authority: bool) -> Made {
        let key = KeyPair::generate().unwrap();
        let mut params = params(&[HOST]);
        if as_authority {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        self.write(name, &params.self_signed(&key).unwrap(), &key)
    }

    fn write(&self, name: &str, certificate: &Certificate, key: &KeyPair) -> Made {
        let at = |end: &str| self.dir.path().join(format!("{name}.{end}"));
        let made = Made { certificate: at("pem"), key: at("key") };
        std::fs::write(&made.certificate, certificate.pem()).unwrap();
        std::fs::write(&made.key, key.serialize_pem()).unwrap();
        made
    }

    /// A client that trusts what this signs.
    pub(crate) fn trust(&self) -> Trust {
        self.client(BOTH, None)
    }

    /// The same with these versions of TLS, showing this.
    pub(crate) fn client(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        shows: Option<&Made>,
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

    /// The same as [`Authority::trust`], showing this.
    pub(crate) fn showing(&self, made: &Made) -> Trust {
        self.client(BOTH, Some(made))
    }
}

impl Made {
    /// `listen` with this certificate; `more` keys of `tls`, each behind a comma.
    pub(crate) fn listen(&self, more: &str) -> String {
        let (certificate, key) = (self.certificate.display(), self.key.display());
        format!(
            "listen: [{{address: '{HOST}:0', \
             tls: {{certificate: {certificate}, key: {key}{more}}}}}]\n\
             retry: {{levels: 20ms}}\n"
        )
    }

    /// What it is, as a peer shows it.
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
    // Each of its own name: which key signed is then never a question of luck.
    let name = format!("test authority {}", fastrand::u64(..));
    params.distinguished_name.push(DnType::CommonName, name);
    params
}
