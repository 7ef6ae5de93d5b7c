//! Broker ports of one listener: the listener's own port for this node, and one port for each
//! broker of the cluster. The port alone tells which broker a connection is for.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use tokio::sync::{mpsc, oneshot};

/// A request to open a port for a broker that has none.
#[derive(Debug)]
pub struct PortRequest {
    pub node: i32,
    /// The port's distance from the listener's port before the last restart.
    pub before: Option<u16>,
    /// The port's distance from the listener's port; `None`: no port could be opened.
    pub reply: oneshot::Sender<Option<u16>>,
}

/// The broker ports of one listener.
#[derive(Debug)]
pub struct BrokerPorts {
    listener: u16,
    /// Distances from before the last restart, which clients still use.
    before: BTreeMap<i32, u16>,
    /// Open ports: distance from the listener's port, by node id.
    open: RwLock<BTreeMap<i32, u16>>,
    asks: mpsc::UnboundedSender<PortRequest>,
}

impl BrokerPorts {
    /// Starts without open broker ports. The receiver opens them on request, at the distance from
    /// `before` if possible.
    pub fn new(
        listener: u16,
        before: BTreeMap<i32, u16>,
    ) -> (Self, mpsc::UnboundedReceiver<PortRequest>) {
        let (asks, asked) = mpsc::unbounded_channel();
        (Self { listener, before, open: RwLock::default(), asks }, asked)
    }

    pub fn listener(&self) -> u16 {
        self.listener
    }

    /// Opens the ports of these brokers before a client asks: after a restart, clients connect to
    /// the ports they know.
    pub async fn open(&self, nodes: &[i32]) {
        for node in nodes {
            self.distance(*node).await;
        }
    }

    /// The open ports: distance from the listener's port, by node id.
    pub(super) fn open_ports(&self) -> BTreeMap<i32, u16> {
        self.open.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The distance of the port of `node` from the listener's port; opens the port if it is not
    /// open.
    pub(super) async fn distance(&self, node: i32) -> Option<u16> {
        let known = self.open.read().unwrap_or_else(PoisonError::into_inner).get(&node).copied();
        if known.is_some() {
            return known;
        }
        let (reply, answer) = oneshot::channel();
        let before = self.before.get(&node).copied();
        self.asks.send(PortRequest { node, before, reply }).ok()?;
        let distance = answer.await.ok()??;
        self.open.write().unwrap_or_else(PoisonError::into_inner).insert(node, distance);
        Some(distance)
    }
}
