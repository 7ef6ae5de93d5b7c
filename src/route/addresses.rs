//! Addresses of brokers in what a cluster answers: learned, and never passed on as they are.

use bytes::Bytes;
use kafka_protocol::protocol::StrBytes;

use crate::route::Router;
use crate::route::conn::Conn;
use crate::route::convert::text;
use crate::upstream::{Address, UpstreamError};
use crate::wire::{Api, encode_at, endpoints};

/// A broker as the cluster names it.
pub(super) struct Real<'a> {
    pub(super) node: i32,
    pub(super) host: &'a StrBytes,
    pub(super) port: i32,
}

impl Real<'_> {
    /// Its address; `None` for none a connection can be made to.
    pub(super) fn address(&self) -> Option<(i32, Address)> {
        Address::of_wire(self.host, self.port).map(|address| (self.node, address))
    }
}

/// What the client is told instead.
pub(super) async fn replace(
    router: &Router,
    conn: &Conn,
    real: &Real<'_>,
) -> Option<(String, i32)> {
    let (node, address) = real.address()?;
    router.upstream.as_ref()?.learn(node, address);
    let (host, port) = conn.address_of(node).await?;
    Some((host, i32::from(port)))
}

impl Router {
    /// The version of an answer that passes and may name brokers; `None`: it names none.
    pub fn may_name_brokers(&self, api_key: i16, version: i16) -> Option<i16> {
        let may = api_key == Api::Produce.key() && version >= endpoints::NAMED_SINCE;
        may.then_some(version)
    }

    /// Such an answer as a frame to send on, with addresses clients reach the brokers by.
    pub async fn without_brokers(
        &self,
        conn: &Conn,
        version: i16,
        frame: &Bytes,
    ) -> Result<Bytes, UpstreamError> {
        let correlation_id = frame.first_chunk().map_or(0, |id| i32::from_be_bytes(*id));
        let mut response = endpoints::decode(version, correlation_id, frame)?;
        for mut node in std::mem::take(&mut response.node_endpoints) {
            let real = Real { node: node.node_id.0, host: &node.host, port: node.port };
            if let Some((host, port)) = replace(self, conn, &real).await {
                (node.host, node.port) = (text(&host), port);
                response.node_endpoints.push(node);
            }
        }
        Ok(encode_at(Api::Produce, version, correlation_id, &response)?)
    }
}
