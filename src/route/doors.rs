//! The addresses of one listener: its own for this node, and a port of its own for every broker of
//! the cluster behind it. The port alone says which broker a connection is meant for.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use tokio::sync::{mpsc, oneshot};

use crate::broker::nodes::Nodes;
use crate::route::Router;
use crate::upstream::{Address, Brokers};

/// A broker nobody could connect to yet: a port is to be opened for it.
#[derive(Debug)]
pub struct OpenDoor {
    /// The broker.
    pub node: i32,
    /// How far behind the listener's own it lay before this start.
    pub before: Option<u16>,
    /// How far behind the listener's own the port lies; `None`: none could be opened.
    pub reply: oneshot::Sender<Option<u16>>,
}

/// Which broker has which port.
#[derive(Debug)]
pub struct Doors {
    /// The listener's own port.
    listener: u16,
    /// Distances of an earlier start: clients know them.
    before: BTreeMap<i32, u16>,
    /// Distance from the listener's port, by node id.
    open: RwLock<BTreeMap<i32, u16>>,
    asks: mpsc::UnboundedSender<OpenDoor>,
}

impl Doors {
    /// No door behind that port is open; whoever receives opens them, where they were `before` if
    /// that can be.
    pub fn new(
        listener: u16,
        before: BTreeMap<i32, u16>,
    ) -> (Self, mpsc::UnboundedReceiver<OpenDoor>) {
        let (asks, asked) = mpsc::unbounded_channel();
        (Self { listener, before, open: RwLock::default(), asks }, asked)
    }

    /// The listener's own port.
    pub fn listener(&self) -> u16 {
        self.listener
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
        let before = self.before.get(&node).copied();
        self.asks.send(OpenDoor { node, before, reply }).ok()?;
        let distance = answer.await.ok()??;
        self.open.write().unwrap_or_else(PoisonError::into_inner).insert(node, distance);
        Some(distance)
    }
}

impl Router {
    /// Where the cluster's brokers were, and their ports here, when this was last written down: to
    /// be called before anything is asked. What is of another cluster is forgotten.
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

    /// Writes down where all brokers of the cluster are, as it has just said, and their ports
    /// behind one listener, if that is news.
    pub fn keep_brokers(&self, cluster_id: Option<&str>, brokers: &Brokers, doors: &Doors) {
        // An empty list says nothing.
        let Some(upstream) = self.upstream.as_ref().filter(|_| !brokers.is_empty()) else { return };
        let open = doors.open.read().unwrap_or_else(PoisonError::into_inner).clone();
        self.broker.nodes.keep(|nodes| {
            // The oldest Metadata do not tell it.
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
