//! Authentication between clients, sidecar and cluster: none, TLS and SASL, or users of the
//! sidecar's own.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::rig::program::Program;

/// User that `tests/support/real-kafka` creates.
const USER: &str = "reprise";
const PASSWORD: &str = "reprise-secret";

/// Lifetime of a login at the sidecar, equal to that at the cluster (`connections.max.reauth.ms`).
const SESSION: &str = "10s";

/// Credentials of one user.
#[derive(Clone, Debug)]
pub(crate) struct Login {
    at: At,
    mechanism: String,
    pub(crate) password: String,
}

/// Server that checks the credentials.
#[derive(Clone, Debug)]
enum At {
    /// The cluster, with TLS on both sides of the sidecar. The directory holds `ca.pem` and
    /// `server.pem`, a certificate of this host.
    Cluster(PathBuf),
    /// A sidecar without a cluster, which has this file of users.
    Sidecar(PathBuf),
}

impl Login {
    /// Login from `CLIENTS_LOGIN` (a mechanism) and `CLIENTS_KAFKA` (the directory of the
    /// certificates).
    pub(crate) fn wanted() -> Option<Self> {
        let mechanism = std::env::var("CLIENTS_LOGIN").ok().filter(|name| !name.is_empty())?;
        let dir = std::env::var("CLIENTS_KAFKA").expect("the cluster's directory").into();
        Some(Self { at: At::Cluster(dir), mechanism, password: PASSWORD.to_owned() })
    }

    /// Login of a user that `reprise user` writes for a sidecar without a cluster.
    pub(crate) fn of_users(dir: &Path, mechanism: &str) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_reprise"))
            .args(["user", USER])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(PASSWORD.as_bytes()).unwrap();
        let told = child.wait_with_output().unwrap();
        assert!(told.status.success());
        let file = dir.join("users");
        fs::write(&file, told.stdout).unwrap();
        let (mechanism, password) = (mechanism.to_owned(), PASSWORD.to_owned());
        Self { at: At::Sidecar(file), mechanism, password }
    }

    /// Configuration behind the address of a listener.
    pub(crate) fn listener(&self) -> String {
        match &self.at {
            At::Cluster(dir) => {
                let pem = dir.join("server.pem");
                format!(", tls: {{certificate: '{0}', key: '{0}'}}", pem.display())
            }
            At::Sidecar(file) => {
                let file = file.display();
                format!(", sasl: {{users_file: '{file}', session_max: {SESSION}}}")
            }
        }
    }

    /// Configuration behind the bootstrap brokers, with a user of the sidecar's own.
    pub(crate) fn upstream(&self) -> String {
        let At::Cluster(dir) = &self.at else { return String::new() };
        let (ca, file) = (dir.join("ca.pem"), dir.join("password"));
        // Another sidecar may be about to read the file: it is written once, and moved into place.
        if !file.exists() {
            let unique = dir.join(format!("password-{:?}", std::thread::current().id()));
            fs::write(&unique, PASSWORD).unwrap();
            fs::rename(unique, &file).unwrap();
        }
        let (ca, file) = (ca.display(), file.display());
        format!(
            ", tls: {{ca: '{ca}'}}, sasl: {{mechanism: PLAIN, username: {USER}, \
             password_file: '{file}'}}"
        )
    }

    pub(crate) fn settings(&self, program: Program) -> Vec<String> {
        let is_java = program.library.is_java();
        let mut settings = vec![format!("sasl.mechanism={}", self.mechanism)];
        if is_java {
            settings.push(format!("sasl.jaas.config={}", self.java_module()));
        } else {
            settings.extend(self.librdkafka_words());
        }
        let protocol = if self.ca().is_some() { "SASL_SSL" } else { "SASL_PLAINTEXT" };
        settings.push(format!("security.protocol={protocol}"));
        match self.ca() {
            Some(ca) if is_java => {
                settings.push("ssl.truststore.type=PEM".to_owned());
                settings.push(format!("ssl.truststore.location={ca}"));
            }
            Some(ca) => settings.push(format!("ssl.ca.location={ca}")),
            None => {}
        }
        settings
    }

    fn java_module(&self) -> String {
        let password = &self.password;
        let (module, options) = match self.mechanism.as_str() {
            "OAUTHBEARER" => (
                "oauthbearer.OAuthBearerLoginModule",
                format!("unsecuredLoginStringClaim_sub=\"{USER}\""),
            ),
            mechanism => (
                if mechanism == "PLAIN" {
                    "plain.PlainLoginModule"
                } else {
                    "scram.ScramLoginModule"
                },
                format!("username=\"{USER}\" password=\"{password}\""),
            ),
        };
        format!("org.apache.kafka.common.security.{module} required {options};")
    }

    fn librdkafka_words(&self) -> Vec<String> {
        if self.mechanism == "OAUTHBEARER" {
            let config = format!("sasl.oauthbearer.config=principal={USER}");
            return vec!["enable.sasl.oauthbearer.unsecure.jwt=true".to_owned(), config];
        }
        vec![format!("sasl.username={USER}"), format!("sasl.password={}", self.password)]
    }

    /// File of the CA that clients have to trust.
    fn ca(&self) -> Option<String> {
        match &self.at {
            At::Cluster(dir) => Some(dir.join("ca.pem").display().to_string()),
            At::Sidecar(_) => None,
        }
    }
}
