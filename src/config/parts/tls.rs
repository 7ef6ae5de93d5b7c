//! `listen[].tls` and `upstream.tls`: the files of certificates and keys. The check of the
//! configuration reads them, so that all problems are reported at once; each reload and each change
//! of a file reads them again.

use std::path::Path;

use serde::Serialize;

use crate::clock::Clock;
use crate::config::node::Value;
use crate::config::section::{Section, text};
use crate::socket::{ClientTls, FileProblem, ServerTls, ValidUntil};

/// The certificate of a listener.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ListenerTls {
    /// The listener's certificate, then the chain to its authority.
    pub certificate: String,
    /// The private key of the listener's certificate.
    pub key: String,
    /// The authorities of client certificates; when set, clients must show one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_ca: Option<String>,
}

/// The authorities that sign brokers' certificates, and the certificate of the sidecar.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UpstreamTls {
    /// The authorities of brokers; `None`: those that the system trusts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// Our own certificate, where brokers ask for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// The private key of that certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl ListenerTls {
    pub(super) fn read(above: &mut Section<'_>) -> Option<Self> {
        if !above.has("tls") {
            return None;
        }
        let mut s = above.section("tls");
        let mut tls = Self::default();
        s.take("certificate", &mut tls.certificate, text);
        s.take("key", &mut tls.key, text);
        s.take("client_ca", &mut tls.client_ca, |v| text(v).map(Some));
        for key in ["certificate", "key"].into_iter().filter(|key| !s.has(key)) {
            s.problem(key, "is missing; the path of a PEM file");
        }
        if !tls.certificate.is_empty() && !tls.key.is_empty() {
            judge(&s, tls.load(), ServerTls::valid_until);
        }
        s.finish();
        Some(tls)
    }

    /// Reads certificate and key from their files.
    pub fn load(&self) -> Result<ServerTls, Vec<FileProblem>> {
        let client_ca = self.client_ca.as_deref().map(Path::new);
        ServerTls::load(Path::new(&self.certificate), Path::new(&self.key), client_ca)
    }
}

impl UpstreamTls {
    pub(super) fn read(above: &mut Section<'_>) -> Option<Self> {
        if !above.has("tls") {
            return None;
        }
        let mut s = above.section("tls");
        let mut tls = Self::default();
        s.take("ca", &mut tls.ca, |v| text(v).map(Some));
        s.take("certificate", &mut tls.certificate, |v| text(v).map(Some));
        s.take("key", &mut tls.key, |v| text(v).map(Some));
        s.take("verify", &mut (), always);
        for (key, other) in [("certificate", "key"), ("key", "certificate")] {
            if s.has(other) && !s.has(key) {
                s.problem(key, &format!("is missing; {other} is of no use without it"));
            }
        }
        if tls.certificate.is_some() == tls.key.is_some() {
            judge(&s, tls.load(), ClientTls::valid_until);
        }
        s.finish();
        Some(tls)
    }

    /// Reads authorities and certificate from their files.
    pub fn load(&self) -> Result<ClientTls, Vec<FileProblem>> {
        let identity = self.certificate.as_deref().zip(self.key.as_deref());
        let identity = identity.map(|(certificate, key)| (Path::new(certificate), Path::new(key)));
        ClientTls::load(self.ca.as_deref().map(Path::new), identity)
    }
}

/// Verification of brokers cannot be switched off.
fn always(value: &Value) -> Result<(), String> {
    match value {
        Value::Bool(true) => Ok(()),
        _ => Err("brokers are always verified; put the certificate of the authority that signed \
             theirs into a file, and the file into ca"
            .to_owned()),
    }
}

fn judge<T>(
    s: &Section<'_>,
    loaded: Result<T, Vec<FileProblem>>,
    until: impl Fn(&T) -> Option<&ValidUntil>,
) {
    match loaded {
        Err(problems) => {
            for problem in problems {
                s.problem(problem.key, &problem.says);
            }
        }
        Ok(loaded) => {
            let now = Clock::start().now().wall;
            if let Some(until) = until(&loaded).filter(|until| until.at < now) {
                s.warn("certificate", &format!("has expired, on {}; renew it", until.text));
            }
        }
    }
}
