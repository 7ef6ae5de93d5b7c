//! `admin`: the HTTP port for people and probes.

use std::net::IpAddr;

use serde::Serialize;

use super::{HostPort, host_port};
use crate::config::node::Value;
use crate::config::section::{Section, choice, text};

/// Whether record keys, headers and values are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Payloads {
    /// In full, text or base64.
    #[default]
    Show,
    /// Only their sizes.
    Hide,
}

/// The admin port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Admin {
    /// Where to listen; `None` = no admin port.
    #[serde(serialize_with = "address_or_off")]
    pub address: Option<HostPort>,
    /// The address of probes and metrics alone; `None` = only the admin port has them.
    #[serde(serialize_with = "address_or_off")]
    pub probes: Option<HostPort>,
    /// Host names served besides `localhost`, plain addresses and the host of `address`.
    pub hosts: Vec<String>,
    /// Whether records are shown.
    pub payloads: Payloads,
    /// A file with the token that callers from other hosts must send.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<String>,
}

impl Default for Admin {
    fn default() -> Self {
        let address = HostPort { host: "127.0.0.1".to_owned(), port: 9664 };
        Self {
            address: Some(address),
            probes: None,
            hosts: Vec::new(),
            payloads: Payloads::Show,
            token_file: None,
        }
    }
}

impl Admin {
    pub(in crate::config) fn read(mut s: Section<'_>) -> Self {
        let mut admin = Self::default();
        s.take("address", &mut admin.address, host_port_or_off);
        s.take("probes", &mut admin.probes, host_port_or_off);
        s.take("hosts", &mut admin.hosts, host_names);
        let payloads = [("show", Payloads::Show), ("hide", Payloads::Hide)];
        s.take("payloads", &mut admin.payloads, choice(&payloads));
        s.take("token_file", &mut admin.token_file, |v| text(v).map(Some));
        if let Err(error) = admin.token() {
            s.problem("token_file", &error);
        }
        if let Some(address) = &admin.address
            && admin.token_file.is_none()
            && !is_loopback(&address.host)
        {
            s.problem("address", &open_without_token(address));
        }
        if let (Some(address), Some(probes)) = (&admin.address, &admin.probes)
            && address == probes
            && address.port != 0
        {
            s.problem("probes", "is also admin.address; give it a port of its own");
        }
        s.finish();
        admin
    }

    /// The token callers must send; `None` = none.
    pub(in crate::config) fn token(&self) -> Result<Option<String>, String> {
        let Some(file) = &self.token_file else { return Ok(None) };
        let text = std::fs::read_to_string(file);
        let text = text.map_err(|error| format!("{file} cannot be read: {error}"))?;
        match text.trim() {
            "" => Err(format!("{file} is empty; put the token into it")),
            token => Ok(Some(token.to_owned())),
        }
    }
}

fn host_port_or_off(value: &Value) -> Result<Option<HostPort>, String> {
    match value {
        Value::Bool(false) => Ok(None),
        Value::Text(word) if word == "off" => Ok(None),
        other => host_port(other).map(Some).map_err(|says| format!("{says}, or off")),
    }
}

/// A list of names, or text with commas between them.
fn host_names(value: &Value) -> Result<Vec<String>, String> {
    let names: Vec<String> = match value {
        Value::List(items) => {
            items.iter().map(|item| text(&item.value)).collect::<Result<_, _>>()?
        }
        other => text(other)?.split(',').map(|name| name.trim().to_owned()).collect(),
    };
    let legal = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    match names.iter().find(|name| name.is_empty() || !name.chars().all(legal)) {
        Some(name) => Err(format!("{name:?} is no host name; such as reprise or reprise.shop.svc")),
        None => Ok(names),
    }
}

/// Whether an address binds this host only. A name counts as open: its addresses may change.
fn is_loopback(host: &str) -> bool {
    let address = host.parse::<IpAddr>().map(|address| address.to_canonical());
    address.map_or_else(|_| host.eq_ignore_ascii_case("localhost"), |ip| ip.is_loopback())
}

fn open_without_token(address: &HostPort) -> String {
    format!(
        "{address} is not a loopback address, and there is no admin.token_file: every host that \
         reaches it would read records; set admin.token_file, or keep admin.address on 127.0.0.1 \
         and give probes and metrics an address of their own with admin.probes"
    )
}

#[expect(clippy::ref_option, reason = "the shape serde asks for")]
fn address_or_off<S>(address: &Option<HostPort>, s: S) -> Result<S::Ok, S::Error>
where
    S: serde::Serializer,
{
    match address {
        Some(address) => address.serialize(s),
        None => s.serialize_str("off"),
    }
}
