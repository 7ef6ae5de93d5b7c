//! The certificates in use: read at start, and again at each reload. New handshakes take the new
//! ones; a connection keeps what its handshake was made with.

use tokio::sync::watch;

use crate::config::{Config, ConfigError};
use crate::socket::{ClientTls, ServerTls, ValidUntil};

/// What the files hold.
pub(super) struct Certificates {
    /// One per listener, in the order of the configuration.
    listeners: Vec<Option<ServerTls>>,
    upstream: Option<ClientTls>,
}

/// Where new handshakes find them.
#[derive(Debug)]
pub(super) struct InUse {
    listeners: Vec<Option<watch::Sender<ServerTls>>>,
    upstream: Option<watch::Sender<ClientTls>>,
}

impl Certificates {
    /// All of them, or what is wrong.
    pub(super) fn read(config: &Config) -> Result<Self, ConfigError> {
        let read = Self { listeners: config.listener_tls()?, upstream: config.upstream_tls()? };
        for (listener, tls) in config.listen.iter().zip(&read.listeners) {
            if let Some(until) = tls.as_ref().and_then(ServerTls::valid_until) {
                tell(&format!("listener {}", listener.address), until);
            }
        }
        if let Some(until) = read.upstream.as_ref().and_then(ClientTls::valid_until) {
            tell("upstream", until);
        }
        Ok(read)
    }

    /// From now on for new handshakes.
    pub(super) fn put_to_use(self) -> InUse {
        let sender = |tls: Option<ServerTls>| tls.map(|tls| watch::channel(tls).0);
        InUse {
            listeners: self.listeners.into_iter().map(sender).collect(),
            upstream: self.upstream.map(|tls| watch::channel(tls).0),
        }
    }
}

impl InUse {
    /// What the listener of this index shows.
    pub(super) fn listener(&self, index: usize) -> Option<watch::Receiver<ServerTls>> {
        self.listeners.get(index)?.as_ref().map(watch::Sender::subscribe)
    }

    /// Whom connections to brokers trust.
    pub(super) fn upstream(&self) -> Option<watch::Receiver<ClientTls>> {
        self.upstream.as_ref().map(watch::Sender::subscribe)
    }

    /// Takes `new` for handshakes to come.
    pub(super) fn replace(&self, new: Certificates) {
        for (slot, tls) in self.listeners.iter().zip(new.listeners) {
            if let (Some(slot), Some(tls)) = (slot, tls) {
                slot.send_replace(tls);
            }
        }
        if let (Some(slot), Some(tls)) = (&self.upstream, new.upstream) {
            slot.send_replace(tls);
        }
    }
}

fn tell(of: &str, until: &ValidUntil) {
    tracing::info!(of, valid_until = %until.text, "certificate read");
}
