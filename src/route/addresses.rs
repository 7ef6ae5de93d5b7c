//! Addresses of brokers in what a cluster answers: learned, and never passed on as they are.

use kafka_protocol::protocol::StrBytes;

use crate::route::Router;
use crate::route::conn::Conn;
use crate::upstream::Address;

/// A broker as the cluster names it.
pub(super) struct Real<'a> {
    pub(super) node: i32,
    pub(super) host: &'a StrBytes,
    pub(super) port: i32,
}

impl Real<'_> {
    /// Its address; `None` for none a connection can be made to.
    pub(super) fn address(&self) -> Option<(i32, Address)> {
        let port = u16::try_from(self.port).ok().filter(|port| *port != 0)?;
        Some((self.node, Address { host: self.host.to_string(), port }))
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
