//! The addresses of one listener: its own for this node, and a port of its own for every broker of
//! the cluster behind it. The port alone says which broker a connection is meant for.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use tokio::sync::{mpsc, oneshot};

/// A broker nobody could connect to yet: a port is to be opened for it.
#[derive(Debug)]
pub struct OpenDoor {
    /// The broker.
    pub node: i32,
    /// How far behind the listener's own the port lies; `None`: none could be opened.
    pub reply: oneshot::Sender<Option<u16>>,
}

/// Which broker has which port.
#[derive(Debug)]
pub struct Doors {
    /// Distance from the listener's port, by node id.
    open: RwLock<BTreeMap<i32, u16>>,
    asks: mpsc::UnboundedSender<OpenDoor>,
}

impl Doors {
    /// No door is open; whoever receives opens them.
    pub fn new() -> (Self, mpsc::UnboundedReceiver<OpenDoor>) {
        let (asks, asked) = mpsc::unbounded_channel();
        (Self { open: RwLock::default(), asks }, asked)
    }

    /// Opens those of brokers no client has asked for yet: one that knew this sidecar before it was
    /// started anew comes straight to them.
    pub async fn open(&self, nodes: &[i32]) {
        for node in nodes {
            self.distance(*node).await;
        }
    }

    /// How far behind the listener's port that of `node` lies, opened now if need be.
    pub(super) async fn distance(&self, node: i32) -> Option<u16> {
        let known = self.open.read().unwrap_or_else(PoisonError::into_inner).get(&node).copied();
        if known.is_some() {
            return known;
        }
        let (reply, answer) = oneshot::channel();
        self.asks.send(OpenDoor { node, reply }).ok()?;
        let distance = answer.await.ok()??;
        self.open.write().unwrap_or_else(PoisonError::into_inner).insert(node, distance);
        Some(distance)
    }
}
