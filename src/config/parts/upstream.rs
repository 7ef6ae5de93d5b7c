//! `upstream`: the Kafka cluster behind the sidecar; without it, the sidecar is a cluster itself.

use std::time::Duration;

use serde::Serialize;

use super::{HostPort, MS, SECOND, UpstreamSasl, UpstreamTls};
use crate::config::node::Value;
use crate::config::section::{Section, duration};
use crate::model::ser_duration;

/// The Kafka cluster behind the sidecar.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UpstreamConfig {
    /// Brokers that are asked first; never empty.
    pub bootstrap: Vec<HostPort>,
    /// Time for opening a connection to a broker.
    #[serde(serialize_with = "ser_duration")]
    pub connect_timeout: Duration,
    /// The TLS of connections to brokers; `None`: plain text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<UpstreamTls>,
    /// The identity of the sidecar on its own connections; `None`: no login.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sasl: Option<UpstreamSasl>,
}

impl Default for UpstreamConfig {
    fn default() -> Self {
        let connect_timeout = Duration::from_secs(10);
        Self { bootstrap: Vec::new(), connect_timeout, tls: None, sasl: None }
    }
}

impl UpstreamConfig {
    pub(in crate::config) fn read(root: &mut Section<'_>) -> Option<Self> {
        if !root.has("upstream") {
            return None;
        }
        let mut s = root.section("upstream");
        let mut upstream = Self::default();
        s.take("bootstrap", &mut upstream.bootstrap, brokers);
        if upstream.bootstrap.is_empty() && !s.has("bootstrap") {
            s.problem("bootstrap", "is missing; name one broker or more, such as kafka-1:9092");
        }
        s.take("connect_timeout", &mut upstream.connect_timeout, duration(MS * 10..=SECOND * 300));
        upstream.tls = UpstreamTls::read(&mut s);
        upstream.sasl = UpstreamSasl::read(&mut s);
        if upstream.sends_secret_in_the_clear() {
            s.warn(
                "sasl.mechanism",
                "sends the secret in plain text, and tls is not set: whoever is on the way reads \
                 it; set upstream.tls, or use SCRAM-SHA-256 or SCRAM-SHA-512",
            );
        }
        s.finish();
        Some(upstream)
    }

    /// Whether a secret crosses the network in plain text, to a broker on another host.
    fn sends_secret_in_the_clear(&self) -> bool {
        let sends = self.sasl.as_ref().is_some_and(|sasl| sasl.mechanism.sends_secret());
        let away = |to: &HostPort| !to.to_address().is_loopback();
        sends && self.tls.is_none() && self.bootstrap.iter().any(away)
    }
}

/// A list of brokers, or text with commas between them, as in Kafka's `bootstrap.servers`.
fn brokers(value: &Value) -> Result<Vec<HostPort>, String> {
    let words: Vec<String> = match value {
        Value::Text(text) => text.split(',').map(|word| word.trim().to_owned()).collect(),
        Value::List(items) => {
            let word = |value: &Value| match value {
                Value::Text(word) => Ok(word.clone()),
                other => {
                    Err(format!("expected addresses such as kafka-1:9092, found {}", other.kind()))
                }
            };
            items.iter().map(|item| word(&item.value)).collect::<Result<_, _>>()?
        }
        other => {
            let found = other.kind();
            return Err(format!("expected addresses such as kafka-1:9092, found {found}"));
        }
    };
    let brokers: Vec<HostPort> = words.iter().map(|w| w.parse()).collect::<Result<_, _>>()?;
    if brokers.is_empty() {
        return Err("names no broker; such as kafka-1:9092".to_owned());
    }
    match brokers.iter().find(|broker| broker.port == 0) {
        Some(broker) => Err(format!("{broker}: a broker needs a real port, not 0")),
        None => Ok(brokers),
    }
}
