//! How clients, sidecar and cluster know each other: by nothing, or by TLS and SASL.

use std::path::PathBuf;

use crate::program::Program;

/// As `tests/support/real-kafka` has it.
const USER: &str = "reprise";
const PASSWORD: &str = "reprise-secret";

/// TLS on both sides of the sidecar and one user who logs in at the cluster.
#[derive(Clone, Debug)]
pub(crate) struct Login {
    /// `ca.pem` and `server.pem`, the latter for this host.
    dir: PathBuf,
    /// The SASL mechanism.
    mechanism: String,
    pub(crate) password: String,
}

impl Login {
    /// What `CLIENTS_LOGIN` (a mechanism) and `CLIENTS_KAFKA` (where the certificates are) say.
    pub(crate) fn wanted() -> Option<Self> {
        let mechanism = std::env::var("CLIENTS_LOGIN").ok().filter(|name| !name.is_empty())?;
        let dir = std::env::var("CLIENTS_KAFKA").expect("the cluster's directory").into();
        Some(Self { dir, mechanism, password: PASSWORD.to_owned() })
    }

    /// Behind the address of a listener.
    pub(crate) fn listener(&self) -> String {
        let pem = self.dir.join("server.pem");
        format!(", tls: {{certificate: '{0}', key: '{0}'}}", pem.display())
    }

    /// Behind the bootstrap brokers.
    pub(crate) fn upstream(&self) -> String {
        format!(", tls: {{ca: '{}'}}", self.ca())
    }

    /// Settings of a client.
    pub(crate) fn settings(&self, program: Program) -> Vec<String> {
        let mut settings = vec![
            "security.protocol=SASL_SSL".to_owned(),
            format!("sasl.mechanism={}", self.mechanism),
        ];
        if program.library.is_java() {
            settings.push("ssl.truststore.type=PEM".to_owned());
            settings.push(format!("ssl.truststore.location={}", self.ca()));
            settings.push(format!("sasl.jaas.config={}", self.java_module()));
        } else {
            settings.push(format!("ssl.ca.location={}", self.ca()));
            settings.extend(self.librdkafka_words());
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

    fn ca(&self) -> String {
        self.dir.join("ca.pem").display().to_string()
    }
}
