//! Addresses and ports of the cluster's brokers, stored so that they outlive a restart.

use crate::broker::nodes::Nodes;
use crate::route::Router;
use crate::route::clients::broker_ports::BrokerPorts;
use crate::upstream::{Address, Brokers};

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
        let open = doors.open_ports();
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
            nodes.doors.insert(doors.listener(), open);
            for doors in nodes.doors.values_mut() {
                doors.retain(|node, _| nodes.at.contains_key(node));
            }
        });
    }
}
