//! `traces`: the OpenTelemetry collector that gets a span for each delivery attempt of a retry.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use super::HostPort;
use super::backoff::{ser_thousandths, thousandths};
use crate::config::section::{Section, text};
use crate::model::Secret;
use crate::retry::THOUSAND;
use crate::socket::ClientTls;

/// The path of the OTLP specification, for an endpoint without one.
const PATH: &str = "/v1/traces";
/// Headers that the exporter sets itself, so the configuration cannot.
const OWN_HEADERS: [&str; 5] =
    ["connection", "content-length", "content-type", "host", "transfer-encoding"];

/// The export of spans to a collector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Traces {
    /// The URL of the collector (OTLP over HTTP, protobuf).
    pub endpoint: Endpoint,
    /// The resource attribute `service.name`.
    pub service_name: String,
    /// Thousandths of the records whose attempts have spans.
    #[serde(serialize_with = "ser_thousandths")]
    pub sample: u32,
    /// Headers of each request, such as a token. Values are never shown.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Secret>,
}

/// A URL of a collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// `https` rather than `http`.
    pub is_secure: bool,
    pub address: HostPort,
    /// Path and query.
    pub path: String,
}

impl Default for Traces {
    fn default() -> Self {
        let address = HostPort { host: "127.0.0.1".to_owned(), port: 4318 };
        Self {
            endpoint: Endpoint { is_secure: false, address, path: PATH.to_owned() },
            service_name: "reprise".to_owned(),
            sample: THOUSAND,
            headers: BTreeMap::new(),
        }
    }
}

impl Traces {
    pub(in crate::config) fn read(root: &mut Section<'_>) -> Option<Self> {
        if !root.has("traces") {
            return None;
        }
        let mut s = root.section("traces");
        let mut traces = Self::default();
        s.take("endpoint", &mut traces.endpoint, |value| text(value)?.parse());
        s.take("service_name", &mut traces.service_name, text);
        s.take("sample", &mut traces.sample, |value| match thousandths(value) {
            Some(share) if share <= THOUSAND => Ok(share),
            _ => Err("expected a share from 0 to 1 in thousandths, such as 0.05".to_owned()),
        });
        s.secrets("headers", &mut traces.headers);
        for (name, value) in &traces.headers {
            if let Some(says) = fault_of_header(name, value.reveal()) {
                s.problem("headers", &format!("{name}: {says}"));
            }
        }
        if !s.has("endpoint") {
            s.problem("endpoint", "is missing; such as http://127.0.0.1:4318/v1/traces");
        } else if let Err(says) = traces.endpoint.client_tls() {
            s.problem("endpoint", &says);
        }
        s.finish();
        if !cfg!(feature = "otlp") {
            let says = "this build has no OTLP export: build with `cargo build --release \
                        --features otlp`, or remove traces";
            root.problem("traces", says);
        }
        Some(traces)
    }
}

/// The reason why a header cannot be sent. The text never contains the value.
fn fault_of_header(name: &str, value: &str) -> Option<&'static str> {
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Some("is no name of an HTTP header");
    }
    if OWN_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
        return Some("is set by reprise itself; remove it");
    }
    let is_visible = |b: u8| b.is_ascii_graphic() || b == b' ' || b == b'\t';
    if !value.bytes().all(is_visible) {
        return Some("its value has other characters than visible ASCII, such as a line's end");
    }
    None
}

impl Endpoint {
    /// The TLS of the connection, which trusts the system's authorities; `None`: plain text. An
    /// error is a sentence.
    pub fn client_tls(&self) -> Result<Option<ClientTls>, String> {
        let tls = self.is_secure.then(|| ClientTls::load(None, None)).transpose();
        tls.map_err(|problems| {
            let says: Vec<_> = problems.into_iter().map(|problem| problem.says).collect();
            format!("the certificate of an authority {}", says.join("; "))
        })
    }
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(url: &str) -> Result<Self, String> {
        let expected = |why: &str| {
            format!("{url:?} {why}; a URL such as http://127.0.0.1:4318/v1/traces is expected")
        };
        if url.contains('@') {
            return Err("has a user in it; give credentials in traces.headers".to_owned());
        }
        let (is_secure, rest) = match url.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            _ => return Err(expected("begins with neither http:// nor https://")),
        };
        if !rest.bytes().all(|b| b.is_ascii_graphic()) || rest.contains('#') {
            return Err(expected("has characters that no URL of a collector has"));
        }
        let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
        let host = match (has_port, is_secure) {
            (true, _) => host.to_owned(),
            (false, true) => format!("{host}:443"),
            (false, false) => format!("{host}:80"),
        };
        let address: HostPort = host.parse().map_err(|_| expected("has no host"))?;
        if address.port == 0 {
            return Err(expected("has port 0"));
        }
        let path = if path.is_empty() { PATH } else { path }.to_owned();
        Ok(Self { is_secure, address, path })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_secure { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.address, self.path)
    }
}

impl Serialize for Endpoint {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_url_of_http() {
        for (url, same) in [
            ("http://127.0.0.1:4318/v1/traces", "http://127.0.0.1:4318/v1/traces"),
            ("http://collector:4318", "http://collector:4318/v1/traces"),
            ("http://collector", "http://collector:80/v1/traces"),
            ("https://a.b/otlp?x=1", "https://a.b:443/otlp?x=1"),
            ("http://[::1]:4318/", "http://[::1]:4318/"),
            ("https://[::1]", "https://[::1]:443/v1/traces"),
        ] {
            assert_eq!(url.parse::<Endpoint>().unwrap().to_string(), same);
            assert_eq!(same.parse::<Endpoint>().unwrap().to_string(), same);
        }
        for url in [
            "",
            "collector:4318",
            "grpc://collector:4317",
            "http://",
            "http://:4318",
            "http://a:0/",
            "http://a:x/",
            "http://u:p@a/",
            "http://a/ b",
            "http://a/\r\nX: y",
            "http://a/#b",
        ] {
            assert!(url.parse::<Endpoint>().is_err(), "{url}");
        }
    }

    #[test]
    fn a_header_that_breaks_a_request_is_refused() {
        assert_eq!(fault_of_header("Authorization", "Bearer a.b=="), None);
        for (name, value) in
            [("", "a"), ("a b", "a"), ("a:", "b"), ("Host", "a"), ("a", "b\r\nc: d"), ("a", "é")]
        {
            assert!(fault_of_header(name, value).is_some(), "{name:?} {value:?}");
        }
    }
}
