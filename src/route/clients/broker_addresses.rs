//! Broker addresses in answers of the cluster: learned, then replaced by ports of this sidecar.

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::ProduceResponse;
use kafka_protocol::protocol::StrBytes;

use crate::broker::nodes::Nodes;
use crate::route::Router;
use crate::route::clients::broker_ports::BrokerPorts;
use crate::route::clients::conn::Conn;
use crate::route::convert::text;
use crate::upstream::{Address, Brokers, UpstreamError};
use crate::wire::endpoints::{Naming, produce, share};
use crate::wire::{Api, BrokerAnswerError, encode_at};

/// A broker in an answer of the cluster.
pub(in crate::route) struct RealBroker<'a> {
    pub(in crate::route) node: i32,
    pub(in crate::route) host: &'a StrBytes,
    pub(in crate::route) port: i32,
}

impl RealBroker<'_> {
    /// `None`: no connection can be made to this host and port.
    pub(in crate::route) fn address(&self) -> Option<(i32, Address)> {
        Address::of_wire(self.host, self.port).map(|address| (self.node, address))
    }
}

impl Router {
    /// Rewrites the broker addresses of an answer; returns the frame to send to the client.
    pub async fn without_brokers(
        &self,
        conn: &Conn,
        naming: Naming,
        frame: &Bytes,
    ) -> Result<Bytes, UpstreamError> {
        match naming {
            Naming::Produce(version) => self.of_produce(conn, version, frame).await,
            Naming::ShareFetch(_) | Naming::ShareAcknowledge(_) => {
                let place = share::find(naming, frame).map_err(BrokerAnswerError::from)?;
                let mut nodes = Vec::new();
                for mut node in share::nodes(place, frame).map_err(BrokerAnswerError::from)? {
                    let host = text(&node.host);
                    let real = RealBroker { node: node.id, host: &host, port: node.port };
                    if let Some((host, port)) = replace(self, conn, &real).await {
                        (node.host, node.port) = (host, port);
                        nodes.push(node);
                    }
                }
                let bytes =
                    share::replaced(place, frame, &nodes).map_err(BrokerAnswerError::from)?;
                Ok(framed(&bytes))
            }
        }
    }

    async fn of_produce(
        &self,
        conn: &Conn,
        version: i16,
        frame: &Bytes,
    ) -> Result<Bytes, UpstreamError> {
        let correlation_id = frame.first_chunk().map_or(0, |id| i32::from_be_bytes(*id));
        let mut response = produce::decode(version, correlation_id, frame)?;
        self.replace_brokers(conn, &mut response).await;
        Ok(encode_at(Api::Produce, version, correlation_id, &response)?)
    }

    /// Rewrites the broker addresses of a broker's answer to a Produce.
    pub(in crate::route) async fn replace_brokers(
        &self,
        conn: &Conn,
        response: &mut ProduceResponse,
    ) {
        for mut node in std::mem::take(&mut response.node_endpoints) {
            let real = RealBroker { node: node.node_id.0, host: &node.host, port: node.port };
            if let Some((host, port)) = replace(self, conn, &real).await {
                (node.host, node.port) = (text(&host), port);
                response.node_endpoints.push(node);
            }
        }
    }

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

/// Learns the real address and returns the sidecar's host and port for that broker.
pub(in crate::route) async fn replace(
    router: &Router,
    conn: &Conn,
    real: &RealBroker<'_>,
) -> Option<(String, i32)> {
    let (node, address) = real.address()?;
    router.upstream.as_ref()?.learn(node, address);
    let (host, port) = conn.address_of(node).await?;
    Some((host, i32::from(port)))
}

/// Puts the length prefix before the bytes.
fn framed(bytes: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(bytes.len() + 4);
    out.put_i32(i32::try_from(bytes.len()).unwrap_or(i32::MAX));
    out.put_slice(bytes);
    out.freeze()
}
