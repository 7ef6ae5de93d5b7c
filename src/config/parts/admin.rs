//! `admin`: the HTTP port for people and probes.

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
    /// Whether records are shown.
    pub payloads: Payloads,
    /// A file with the token that callers from other hosts must send.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<String>,
}

impl Default for Admin {
    fn default() -> Self {
        let address = HostPort { host: "127.0.0.1".to_owned(), port: 9664 };
        Self { address: Some(address), payloads: Payloads::Show, token_file: None }
    }
}

impl Admin {
    pub(in crate::config) fn read(mut s: Section<'_>) -> Self {
        let mut admin = Self::default();
        s.take("address", &mut admin.address, |value| match value {
            Value::Bool(false) => Ok(None),
            Value::Text(word) if word == "off" => Ok(None),
            other => host_port(other).map(Some).map_err(|says| format!("{says}, or off")),
        });
        let payloads = [("show", Payloads::Show), ("hide", Payloads::Hide)];
        s.take("payloads", &mut admin.payloads, choice(&payloads));
        s.take("token_file", &mut admin.token_file, |v| text(v).map(Some));
        if let Err(error) = admin.token() {
            s.problem("token_file", &error);
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
