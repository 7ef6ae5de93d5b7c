//! The certificates, users and tokens in force. New handshakes, logins and calls use the newest
//! ones; an open connection keeps its own.

use std::sync::Arc;

use tokio::sync::watch;
use uuid::Uuid;

use crate::admin::OperatorTokens;
use crate::client::ListenerSpec;
use crate::config::{Config, ConfigError, ListenerConfig};
use crate::model::OperatorToken;
use crate::sasl::Users;
use crate::socket::{ClientTls, ServerTls, ValidUntil};

/// Files that are read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CredentialPart {
    /// Certificate, key and client authorities of a listener.
    ListenerTls(usize),
    /// The users of a listener.
    Users(usize),
    /// Authorities of brokers, and our own certificate and key.
    UpstreamTls,
    /// The tokens of operators.
    Tokens,
}

/// The content of a part's files.
enum Credential {
    ListenerTls(usize, ServerTls),
    Users(usize, Arc<Users>),
    UpstreamTls(ClientTls),
    Tokens(Vec<OperatorToken>),
}

/// The channels through which new handshakes, logins and calls get credentials. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct CredentialChannels {
    listeners: Vec<ListenerChannels>,
    upstream: Option<watch::Sender<ClientTls>>,
    pub(super) tokens: OperatorTokens,
    /// Random bytes, see [`Users::read`].
    decoy: [u8; 32],
}

#[derive(Clone, Debug)]
struct ListenerChannels {
    tls: Option<watch::Sender<ServerTls>>,
    users: Option<watch::Sender<Arc<Users>>>,
}

impl CredentialPart {
    /// Every part of a configuration, those without files included.
    pub(super) fn all(config: &Config) -> Vec<Self> {
        let listeners = 0..config.listen.len();
        let listeners = listeners.flat_map(|index| [Self::ListenerTls(index), Self::Users(index)]);
        listeners.chain([Self::UpstreamTls, Self::Tokens]).collect()
    }

    /// The paths of the part's files.
    pub(super) fn paths(self, config: &Config) -> Vec<String> {
        let tls = |listener: &ListenerConfig| {
            let tls = listener.tls.clone()?;
            Some([Some(tls.certificate), Some(tls.key), tls.client_ca])
        };
        let paths = match self {
            Self::ListenerTls(index) => config.listen.get(index).and_then(tls),
            Self::Users(index) => config.listen.get(index).and_then(|listener| {
                Some([Some(listener.sasl.as_ref()?.users_file.clone()), None, None])
            }),
            Self::UpstreamTls => config.upstream.as_ref().and_then(|upstream| {
                let tls = upstream.tls.clone()?;
                Some([tls.ca, tls.certificate, tls.key])
            }),
            Self::Tokens => Some([config.admin.token_file.clone(), None, None]),
        };
        paths.into_iter().flatten().flatten().collect()
    }

    /// Reads the files; `None`: the part has none.
    fn read(self, config: &Config, decoy: [u8; 32]) -> Result<Option<Credential>, ConfigError> {
        let read = match self {
            Self::ListenerTls(index) => {
                listener_tls(config, index)?.map(|tls| Credential::ListenerTls(index, tls))
            }
            Self::Users(index) => {
                listener_users(config, index, decoy)?.map(|users| Credential::Users(index, users))
            }
            Self::UpstreamTls => upstream_tls(config)?.map(Credential::UpstreamTls),
            Self::Tokens => Some(Credential::Tokens(config.operator_tokens()?)),
        };
        Ok(read)
    }
}

impl CredentialChannels {
    /// Reads all files, and makes channels from which new handshakes, logins and calls take them.
    pub(super) fn open(config: &Config) -> Result<Self, ConfigError> {
        let mut decoy = [0; 32];
        let random = [Uuid::new_v4(), Uuid::new_v4()].map(Uuid::into_bytes).concat();
        decoy.iter_mut().zip(random).for_each(|(to, from)| *to = from);
        let channels = |index| {
            let (tls, users) =
                (listener_tls(config, index)?, listener_users(config, index, decoy)?);
            Ok(ListenerChannels {
                tls: tls.map(|tls| watch::channel(tls).0),
                users: users.map(|users| watch::channel(users).0),
            })
        };
        Ok(Self {
            listeners: (0..config.listen.len()).map(channels).collect::<Result<_, _>>()?,
            upstream: upstream_tls(config)?.map(|tls| watch::channel(tls).0),
            tokens: OperatorTokens::new(config.admin.tokens.clone()),
            decoy,
        })
    }

    /// The listener of this index, with its certificate and its users.
    pub(super) fn listener(&self, config: &Config, index: usize) -> Option<ListenerSpec> {
        let of = self.listeners.get(index)?;
        let tls = of.tls.as_ref().map(watch::Sender::subscribe);
        config.listener(index, tls, of.users.as_ref().map(watch::Sender::subscribe))
    }

    /// The TLS of connections to brokers.
    pub(super) fn upstream(&self) -> Option<watch::Receiver<ClientTls>> {
        self.upstream.as_ref().map(watch::Sender::subscribe)
    }

    /// Reads the files of these parts again; later handshakes, logins and calls use them. With an
    /// error nothing changes.
    pub(super) fn renew(
        &self,
        config: &Config,
        parts: impl IntoIterator<Item = CredentialPart>,
    ) -> Result<(), ConfigError> {
        let read = parts.into_iter().map(|part| part.read(config, self.decoy));
        let read: Vec<Option<Credential>> = read.collect::<Result<_, _>>()?;
        read.into_iter().flatten().for_each(|credential| self.put_in_force(credential));
        Ok(())
    }

    fn put_in_force(&self, credential: Credential) {
        let listener = |index: usize| self.listeners.get(index);
        match credential {
            Credential::ListenerTls(index, tls) => {
                replace(listener(index).and_then(|to| to.tls.as_ref()), tls);
            }
            Credential::Users(index, users) => {
                replace(listener(index).and_then(|to| to.users.as_ref()), users);
            }
            Credential::UpstreamTls(tls) => replace(self.upstream.as_ref(), tls),
            Credential::Tokens(tokens) => self.tokens.replace(tokens),
        }
    }
}

fn replace<T>(channel: Option<&watch::Sender<T>>, new: T) {
    if let Some(channel) = channel {
        channel.send_replace(new);
    }
}

fn listener_tls(config: &Config, index: usize) -> Result<Option<ServerTls>, ConfigError> {
    let tls = config.listener_tls(index)?;
    log(&listener_name(config, index), tls.as_ref().and_then(ServerTls::valid_until));
    Ok(tls)
}

fn upstream_tls(config: &Config) -> Result<Option<ClientTls>, ConfigError> {
    let tls = config.upstream_tls()?;
    log("upstream", tls.as_ref().and_then(ClientTls::valid_until));
    Ok(tls)
}

fn listener_users(
    config: &Config,
    index: usize,
    decoy: [u8; 32],
) -> Result<Option<Arc<Users>>, ConfigError> {
    let users = config.listener_users(index, decoy)?;
    if let Some(users) = &users {
        tracing::info!(of = listener_name(config, index), users = users.count(), "users read");
    }
    Ok(users)
}

fn listener_name(config: &Config, index: usize) -> String {
    let listener = config.listen.get(index);
    format!("listener {}", listener.map_or_else(String::new, |to| to.address.to_string()))
}

fn log(of: &str, until: Option<&ValidUntil>) {
    if let Some(until) = until {
        tracing::info!(of, valid_until = %until.text, "certificate read");
    }
}
