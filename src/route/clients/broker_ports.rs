//! Broker ports of one listener: the listener's own port for this node, and one port for each
//! broker of the cluster. The port alone tells which broker a connection is for.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use tokio::sync::{mpsc, oneshot};

use crate::broker::nodes::Nodes;
use crate::route::Router;
use crate::upstream::{Address, Brokers};

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

impl Router {
    /// Loads the stored addresses and ports of the brokers; call it before the first request
    /// upstream. Addresses of another cluster are dropped.
    pub fn remember_brokers(&self) {
        let Some(upstream) = &self.upstream else { return };
        let Nodes { bootstrap, at, .. } = self.broker.nodes.known();
        let is_ours = upstream.bootstrap().iter().any(|from| bootstrap.contains(&from.to_string()));
        if is_ours {
            let at = at.into_iter().map(|(node, (host, port))| (node, Address { host, port }));
            upstream.remember(at.collect());
        } else {
            self.broker.nodes.forget();
        }
    }

    /// Stores the addresses of all brokers, and their ports behind one listener, if they changed.
    pub fn keep_brokers(&self, cluster_id: Option<&str>, brokers: &Brokers, doors: &BrokerPorts) {
        // An empty list does not mean that all brokers were removed.
        let Some(upstream) = self.upstream.as_ref().filter(|_| !brokers.is_empty()) else { return };
        let open = doors.open.read().unwrap_or_else(PoisonError::into_inner).clone();
        self.broker.nodes.keep(|nodes| {
            // The oldest Metadata versions lack the cluster id.
            if let Some(now) = cluster_id {
                let was = nodes.cluster_id.replace(now.to_owned());
                if let Some(was) = was.filter(|was| was != now) {
                    tracing::warn!(
                        was,
                        now,
                        "R0213 this data directory was in front of another cluster: retries in it \
                         belong to that one; take another data_dir, or the former upstream"
                    );
                }
            }
            nodes.bootstrap = upstream.bootstrap().iter().map(ToString::to_string).collect();
            let at = brokers.iter().map(|(node, at)| (*node, (at.host.clone(), at.port)));
            nodes.at = at.collect();
            nodes.doors.insert(doors.listener, open);
            for doors in nodes.doors.values_mut() {
                doors.retain(|node, _| nodes.at.contains_key(node));
            }
        });
    }
}
