//! `admin`: the HTTP port for people and probes.

use std::net::IpAddr;

use serde::Serialize;

use super::{HostPort, host_port};
use crate::config::node::Value;
use crate::config::section::{Section, choice, text};
use crate::model::{OperatorToken, Secret};

/// The name of a token in a file that has one token and no names.
const LONE_TOKEN: &str = "admin";
/// Characters of a name.
const NAME_MAX: usize = 64;
/// Paths of `mask.json`.
const MASK_PATHS_MAX: usize = 64;
/// Characters of a named token at least.
const SECRET_LEAST: usize = 16;

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

/// Calls from this host that need a token, where there is a token file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TokenOnLoopback {
    #[default]
    ToChange,
    Required,
}

/// Parts of records that no answer shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MaskKeys {
    /// Names of headers.
    pub headers: Vec<String>,
    /// Paths in JSON: names with dots between them.
    pub json: Vec<String>,
}

impl MaskKeys {
    fn read(mut s: Section<'_>) -> Self {
        let mut mask = Self::default();
        s.take("headers", &mut mask.headers, mask_headers);
        s.take("json", &mut mask.json, mask_paths);
        s.finish();
        mask
    }
}

/// The admin port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AdminConfig {
    /// `None`: no admin port.
    #[serde(serialize_with = "address_or_off")]
    pub address: Option<HostPort>,
    /// An address with probes and metrics only; `None`: only the admin port has them.
    #[serde(serialize_with = "address_or_off")]
    pub probes: Option<HostPort>,
    /// Host names served besides `localhost`, plain addresses and the host of `address`.
    pub hosts: Vec<String>,
    /// Whether records are shown.
    pub payloads: Payloads,
    /// Parts of records that are not shown.
    pub mask: MaskKeys,
    /// A file with the tokens. Changes and callers from other hosts need one of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<String>,
    pub token_on_loopback: TokenOnLoopback,
    /// The header in which a proxy of `trusted_proxies` names the person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity_header: Option<String>,
    pub trusted_proxies: Vec<IpAddr>,
    /// The tokens of `token_file`, read once with the configuration.
    #[serde(skip)]
    pub tokens: Vec<OperatorToken>,
}

impl Default for AdminConfig {
    fn default() -> Self {
        let address = HostPort { host: "127.0.0.1".to_owned(), port: 9664 };
        Self {
            address: Some(address),
            probes: None,
            hosts: Vec::new(),
            payloads: Payloads::Show,
            mask: MaskKeys::default(),
            token_file: None,
            token_on_loopback: TokenOnLoopback::default(),
            identity_header: None,
            trusted_proxies: Vec::new(),
            tokens: Vec::new(),
        }
    }
}

impl AdminConfig {
    pub(in crate::config) fn read(mut s: Section<'_>) -> Self {
        let mut admin = Self::default();
        s.take("address", &mut admin.address, host_port_or_off);
        s.take("probes", &mut admin.probes, host_port_or_off);
        s.take("hosts", &mut admin.hosts, host_names);
        let payloads = [("show", Payloads::Show), ("hide", Payloads::Hide)];
        s.take("payloads", &mut admin.payloads, choice(&payloads));
        admin.mask = MaskKeys::read(s.section("mask"));
        s.take("token_file", &mut admin.token_file, |v| text(v).map(Some));
        match admin.load_tokens() {
            Ok(tokens) => admin.tokens = tokens,
            Err(error) => s.problem("token_file", &error),
        }
        let on_loopback =
            [("to-change", TokenOnLoopback::ToChange), ("required", TokenOnLoopback::Required)];
        s.take("token_on_loopback", &mut admin.token_on_loopback, choice(&on_loopback));
        if admin.token_on_loopback == TokenOnLoopback::Required && admin.token_file.is_none() {
            s.problem("token_on_loopback", "needs token_file, the file with the tokens");
        }
        s.take("identity_header", &mut admin.identity_header, |v| header_name(v).map(Some));
        s.take("trusted_proxies", &mut admin.trusted_proxies, proxies);
        if admin.identity_header.is_some() == admin.trusted_proxies.is_empty() {
            s.problem("identity_header", "goes with trusted_proxies, the proxies that send it");
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

    /// The tokens from the file as it is now.
    pub fn load_tokens(&self) -> Result<Vec<OperatorToken>, String> {
        self.token_file.as_deref().map_or(Ok(Vec::new()), read_token_file)
    }
}

fn read_token_file(file: &str) -> Result<Vec<OperatorToken>, String> {
    let text = std::fs::read_to_string(file);
    let text = text.map_err(|error| format!("{file} cannot be read: {error}"))?;
    let tokens = read_tokens(&text).map_err(|says| format!("{file}{says}"))?;
    if tokens.is_empty() {
        return Err(format!("{file} is empty; put the token into it"));
    }
    Ok(tokens)
}

/// One token, or a line `name role token` for each. An error never contains a word of the file: any
/// of them may be a misplaced secret.
fn read_tokens(text: &str) -> Result<Vec<OperatorToken>, String> {
    let lines = (1..).zip(text.lines()).map(|(number, line)| (number, line.trim()));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let lines: Vec<(usize, &str)> = lines.collect();
    if let [(_, line)] = lines[..]
        && !line.contains(char::is_whitespace)
    {
        let secret = Secret::new(line);
        return Ok(vec![OperatorToken { name: LONE_TOKEN.to_owned(), may_change: true, secret }]);
    }
    let mut tokens: Vec<OperatorToken> = Vec::new();
    for (number, line) in lines {
        let wrong = |says: &str| Err(format!(", line {number}: {says}"));
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, role, secret] = words[..] else {
            return wrong("a line is `name role token`; the role is read or operate");
        };
        let legal = |c: char| c.is_ascii_alphanumeric() || "-._@".contains(c);
        if name.len() > NAME_MAX || !name.chars().all(legal) {
            return wrong("a name has at most 64 letters, digits, and the signs - . _ @");
        }
        let may_change = match role {
            "read" => false,
            "operate" => true,
            _ => return wrong("the second word is the role: read or operate"),
        };
        if secret.len() < SECRET_LEAST {
            return wrong("a token has at least 16 characters, such as of openssl rand -hex 16");
        }
        if tokens.iter().any(|known| known.name == name || known.secret.reveal() == secret) {
            return wrong("the name or the token stands above already");
        }
        tokens.push(OperatorToken {
            name: name.to_owned(),
            may_change,
            secret: Secret::new(secret),
        });
    }
    Ok(tokens)
}

fn host_port_or_off(value: &Value) -> Result<Option<HostPort>, String> {
    match value {
        Value::Bool(false) => Ok(None),
        Value::Text(word) if word == "off" => Ok(None),
        other => host_port(other).map(Some).map_err(|says| format!("{says}, or off")),
    }
}

/// A list, or text with commas between its items.
fn items(value: &Value) -> Result<Vec<String>, String> {
    match value {
        Value::List(items) => items.iter().map(|item| text(&item.value)).collect(),
        other => Ok(text(other)?.split(',').map(|item| item.trim().to_owned()).collect()),
    }
}

fn mask_headers(value: &Value) -> Result<Vec<String>, String> {
    let names = items(value)?;
    if names.iter().any(String::is_empty) {
        return Err("a name of a header is empty; such as authorization or x-api-key".to_owned());
    }
    Ok(names)
}

fn header_name(value: &Value) -> Result<String, String> {
    let name = text(value)?;
    let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || !name.chars().all(is_legal) {
        return Err(format!("{name:?} is no name of a header; such as X-Forwarded-User"));
    }
    Ok(name)
}

/// A list of addresses, or text with commas between them.
fn proxies(value: &Value) -> Result<Vec<IpAddr>, String> {
    let address = |text: &String| {
        let address = text.parse::<IpAddr>().map(|address| address.to_canonical());
        address.map_err(|_| format!("{text:?} is no IP address; such as 127.0.0.1"))
    };
    items(value)?.iter().map(address).collect()
}

fn mask_paths(value: &Value) -> Result<Vec<String>, String> {
    let paths = items(value)?;
    if paths.len() > MASK_PATHS_MAX {
        return Err(format!("has {} paths; {MASK_PATHS_MAX} are the most", paths.len()));
    }
    match paths.iter().find(|path| path.split('.').any(str::is_empty) || path.starts_with('$')) {
        Some(path) => Err(format!(
            "{path:?} is no path; names with dots between them, and * for any member or element, \
             such as card.number or items.*.iban"
        )),
        None => Ok(paths),
    }
}

/// A list of names, or text with commas between them.
fn host_names(value: &Value) -> Result<Vec<String>, String> {
    let names = items(value)?;
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
