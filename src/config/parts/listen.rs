//! `listen`: the addresses that clients connect to.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::str::FromStr;

use serde::{Serialize, Serializer};

use super::{ListenerSasl, ListenerTls};
use crate::config::node::{ConfigNode, MappingEntry, Value};
use crate::config::section::{Section, choice, text};
use crate::upstream::Address;

/// A host (name or address, IPv6 without its brackets) and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    pub host: String,
    /// 0: any free port.
    pub port: u16,
}

/// The addresses of this host that a listener binds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BindMode {
    /// A plaintext listener on 127.0.0.1 without `advertised` binds every address, to tell client
    /// objects apart; any other listener binds its own address.
    #[default]
    Auto,
    /// The address of the listener and no other.
    Exact,
}

/// One address clients connect to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListenerConfig {
    /// The configured address.
    pub address: HostPort,
    /// Whether other addresses of this host are bound too.
    #[serde(skip_serializing_if = "is_default")]
    pub bind: BindMode,
    /// The address that clients are told to connect to; `None`: the one that they came to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advertised: Option<HostPort>,
    /// The one group whose members use this listener.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The certificate of the listener; `None`: plain text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ListenerTls>,
    /// The login of clients; `None`: no login.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sasl: Option<ListenerSasl>,
}

impl Default for ListenerConfig {
    fn default() -> Self {
        let address = HostPort { host: "127.0.0.1".to_owned(), port: 9092 };
        let bind = BindMode::Auto;
        Self { address, bind, advertised: None, group: None, tls: None, sasl: None }
    }
}

impl ListenerConfig {
    /// The key under which the listeners are configured.
    pub(in crate::config) const KEY: &str = "listen";

    /// The listeners when the configuration has none.
    pub(crate) fn defaults() -> Vec<Self> {
        vec![Self::default()]
    }

    /// Replaces short forms by full listeners: one address (`listen: 127.0.0.1:9092`), several with
    /// commas between them, or addresses as items of the list.
    pub(in crate::config) fn spell_out(tree: &mut ConfigNode) {
        let Value::Map(entries) = &mut tree.value else { return };
        for MappingEntry { node, .. } in entries.iter_mut().filter(|entry| entry.key == Self::KEY) {
            if let Value::Text(text) | Value::FromEnv(text) = &node.value {
                let item = |address: &str| ConfigNode {
                    place: node.place.clone(),
                    value: Value::Text(address.trim().into()),
                };
                node.value = Value::List(text.split(',').map(item).collect());
            }
            let Value::List(items) = &mut node.value else { continue };
            for item in items.iter_mut().filter(|item| matches!(item.value, Value::Text(_))) {
                let (key, place) = ("address".to_owned(), item.place.clone());
                let address = std::mem::replace(item, ConfigNode::empty());
                let entry = MappingEntry { key, place: place.clone(), node: address };
                *item = ConfigNode { place, value: Value::Map(vec![entry]) };
            }
        }
    }

    /// Whether a connection to `address` arrives at this listener, as far as names and interfaces
    /// of this host show it.
    pub(in crate::config) fn is_reached_by(&self, address: &HostPort) -> bool {
        let named = |own: &HostPort| {
            own.port == address.port && own.host.eq_ignore_ascii_case(&address.host)
        };
        if named(&self.address) || self.advertised.as_ref().is_some_and(named) {
            return true;
        }
        let (Some(own), Some(to)) = (ip(&self.address.host), ip(&address.host)) else {
            return false;
        };
        let is_exact = self.bind == BindMode::Exact || !own.is_loopback();
        let arrives = match to {
            _ if to == own => true,
            _ if own.is_unspecified() => UdpSocket::bind((to, 0)).is_ok(),
            // A connection to 0.0.0.0 goes to this host.
            _ if to.is_unspecified() => own.is_loopback(),
            _ => !is_exact && to.is_loopback() && to.is_ipv4() == own.is_ipv4(),
        };
        arrives && self.address.port == address.port
    }

    pub(in crate::config) fn read_all(root: &mut Section<'_>) -> Vec<Self> {
        let Some(items) = root.list(Self::KEY) else { return Self::defaults() };
        let mut all: Vec<Self> = Vec::new();
        if items.is_empty() {
            root.problem("listen", "at least one listener is needed");
        }
        for mut item in items {
            let mut listener = Self::default();
            item.take("address", &mut listener.address, host_port);
            let modes = [("auto", BindMode::Auto), ("exact", BindMode::Exact)];
            item.take("bind", &mut listener.bind, choice(&modes));
            item.take("advertised", &mut listener.advertised, |v| host_port(v).map(Some));
            item.take("group", &mut listener.group, |v| text(v).map(Some));
            listener.tls = ListenerTls::read(&mut item);
            let is_open = listener.tls.is_none() && !listener.address.to_address().is_loopback();
            listener.sasl = ListenerSasl::read(&mut item, is_open);
            if !item.has("address") {
                item.problem("address", "is missing; such as 127.0.0.1:9092");
            }
            if listener.advertised.as_ref().is_some_and(|a| a.port == 0) {
                item.problem("advertised", "clients need a real port, not 0");
            }
            let twice = all.iter().any(|l| l.address == listener.address);
            if twice && listener.address.port != 0 {
                item.problem("address", "two listeners cannot share one address");
            }
            item.finish();
            all.push(listener);
        }
        all
    }
}

impl HostPort {
    /// Converts to the address type of outgoing connections.
    pub fn to_address(&self) -> Address {
        Address { host: self.host.clone(), port: self.port }
    }
}

/// The address that a text is, without a look-up.
fn ip(host: &str) -> Option<IpAddr> {
    if host.eq_ignore_ascii_case("localhost") {
        return Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    host.parse().ok().map(|ip: IpAddr| ip.to_canonical())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape serde asks for")]
fn is_default(bind: &BindMode) -> bool {
    *bind == BindMode::default()
}

pub(in crate::config) fn host_port(value: &Value) -> Result<HostPort, String> {
    text(value)?.parse()
}

impl FromStr for HostPort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("{text:?} is no address; such as 127.0.0.1:9092 or [::1]:9092");
        let (host, port) = text.rsplit_once(':').ok_or_else(expected)?;
        let bracketed = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        let host = bracketed.unwrap_or(host);
        let legal = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        let plausible = match bracketed {
            Some(v6) => v6.parse::<std::net::Ipv6Addr>().is_ok(),
            None => !host.is_empty() && host.chars().all(legal),
        };
        if !plausible || !port.bytes().all(|b| b.is_ascii_digit()) {
            return Err(expected());
        }
        let port = port.parse().map_err(|_| expected())?;
        Ok(Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl Serialize for HostPort {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upstream_that_is_the_sidecar_itself_is_found() {
        let listener = |address: &str, bind, advertised: Option<&str>| ListenerConfig {
            address: address.parse().unwrap(),
            bind,
            advertised: advertised.map(|to| to.parse().unwrap()),
            ..ListenerConfig::default()
        };
        let auto = listener("127.0.0.1:9092", BindMode::Auto, None);
        let exact = listener("127.0.0.1:9092", BindMode::Exact, None);
        let named = listener("10.255.255.1:9092", BindMode::Auto, Some("Kafka-Proxy:9093"));
        let open = listener("0.0.0.0:9092", BindMode::Auto, None);
        let open_6 = listener("[::]:9092", BindMode::Auto, None);
        for (of, own, other) in [
            (&auto, "localhost:9092 127.0.0.7:9092 0.0.0.0:9092", "127.0.0.1:9093 10.0.0.1:9092"),
            (&exact, "LocalHost:9092 [::ffff:127.0.0.1]:9092", "127.0.0.2:9092 [::1]:9092"),
            (&named, "kafka-proxy:9093 10.255.255.1:9092", "kafka-proxy:9092 127.0.0.1:9092"),
            (&open, "127.0.0.9:9092 localhost:9092 0.0.0.0:9092", "192.0.2.1:9092 kafka:9092"),
            (&open_6, "127.0.0.1:9092 [::]:9092", "192.0.2.1:9092"),
        ] {
            let reaches = |to: &str| of.is_reached_by(&to.parse().unwrap());
            assert!(own.split(' ').all(reaches), "{}: {own}", of.address);
            assert!(!other.split(' ').any(reaches), "{}: {other}", of.address);
        }
    }

    #[test]
    fn an_address_is_parsed_back_from_its_text() {
        for text in ["127.0.0.1:9092", "localhost:0", "[::1]:65535", "kafka-0.kafka.svc:9092"] {
            assert_eq!(text.parse::<HostPort>().unwrap().to_string(), text);
        }
        for text in ["", ":1", "host", "host:", "host:65536", "host:-1", "::1:9092", "a b:1"] {
            assert!(text.parse::<HostPort>().is_err(), "{text}");
        }
    }
}
