//! The certificates and users in force: read at start, and again at each reload. New handshakes and
//! logins use the new ones; an open connection keeps its own.

use std::sync::Arc;

use tokio::sync::watch;
use uuid::Uuid;

use crate::client::ListenerSpec;
use crate::config::{Config, ConfigError};
use crate::sasl::Users;
use crate::socket::{ClientTls, ServerTls, ValidUntil};

/// The certificates and users that the files hold.
pub(super) struct ServerCredentials {
    /// TLS and users of each listener, in the order of the configuration.
    listeners: Vec<(Option<ServerTls>, Option<Arc<Users>>)>,
    upstream: Option<ClientTls>,
    decoy: [u8; 32],
}

/// The channels through which new handshakes and logins get certificates and users.
#[derive(Debug)]
pub(super) struct CredentialChannels {
    listeners: Vec<ListenerChannels>,
    upstream: Option<watch::Sender<ClientTls>>,
    /// Random bytes, see [`Users::read`].
    decoy: [u8; 32],
}

#[derive(Debug)]
struct ListenerChannels {
    tls: Option<watch::Sender<ServerTls>>,
    users: Option<watch::Sender<Arc<Users>>>,
}

impl ServerCredentials {
    /// Reads all files, or reports every problem with them.
    pub(super) fn read(config: &Config) -> Result<Self, ConfigError> {
        let mut decoy = [0; 32];
        let random = [Uuid::new_v4(), Uuid::new_v4()].map(Uuid::into_bytes).concat();
        decoy.iter_mut().zip(random).for_each(|(to, from)| *to = from);
        Self::read_with(config, decoy)
    }

    fn read_with(config: &Config, decoy: [u8; 32]) -> Result<Self, ConfigError> {
        let (tls, users) = (config.listener_tls()?, config.listener_users(decoy)?);
        for ((listener, tls), users) in config.listen.iter().zip(&tls).zip(&users) {
            let of = format!("listener {}", listener.address);
            if let Some(until) = tls.as_ref().and_then(ServerTls::valid_until) {
                tell(&of, until);
            }
            if let Some(users) = users {
                tracing::info!(of, users = users.count(), "users read");
            }
        }
        let upstream = config.upstream_tls()?;
        if let Some(until) = upstream.as_ref().and_then(ClientTls::valid_until) {
            tell("upstream", until);
        }
        Ok(Self { listeners: tls.into_iter().zip(users).collect(), upstream, decoy })
    }

    /// Makes channels from which new handshakes and logins take the credentials.
    pub(super) fn put_to_use(self) -> CredentialChannels {
        let sender = |(tls, users): (Option<ServerTls>, Option<Arc<Users>>)| ListenerChannels {
            tls: tls.map(|tls| watch::channel(tls).0),
            users: users.map(|users| watch::channel(users).0),
        };
        CredentialChannels {
            listeners: self.listeners.into_iter().map(sender).collect(),
            upstream: self.upstream.map(|tls| watch::channel(tls).0),
            decoy: self.decoy,
        }
    }
}

impl CredentialChannels {
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

    /// Reads the files again; later handshakes and logins use what they hold.
    pub(super) fn renew(&self, config: &Config) -> Result<(), ConfigError> {
        let new = ServerCredentials::read_with(config, self.decoy)?;
        for (slot, (tls, users)) in self.listeners.iter().zip(new.listeners) {
            if let (Some(slot), Some(tls)) = (&slot.tls, tls) {
                slot.send_replace(tls);
            }
            if let (Some(slot), Some(users)) = (&slot.users, users) {
                slot.send_replace(users);
            }
        }
        if let (Some(slot), Some(tls)) = (&self.upstream, new.upstream) {
            slot.send_replace(tls);
        }
        Ok(())
    }
}

fn tell(of: &str, until: &ValidUntil) {
    tracing::info!(of, valid_until = %until.text, "certificate read");
}
