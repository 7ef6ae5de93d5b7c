//! `DescribeCluster` 0–2: this node, or the cluster's brokers.

use kafka_protocol::messages::describe_cluster_response::DescribeClusterBroker;
use kafka_protocol::messages::{BrokerId, DescribeClusterRequest, DescribeClusterResponse};

use crate::route::clients::broker_addresses::{self, RealBroker};
use crate::route::clients::conn::Conn;
use crate::route::convert::text;
use crate::route::security::authorized_operations::{self, OF_CLUSTER};
use crate::route::{NODE_ID, Router};
use crate::upstream::{Link, UpstreamError};
use crate::wire::RequestHead;

/// `DescribeClusterRequest.endpoint_type` of controllers (KIP-919).
const CONTROLLERS: i8 = 2;

pub(in crate::route) fn answer(
    router: &Router,
    conn: &Conn,
    request: DescribeClusterRequest,
) -> DescribeClusterResponse {
    let mut response = DescribeClusterResponse::default();
    response.endpoint_type = request.endpoint_type;
    response.cluster_id = text(router.broker.cluster_id());
    response.controller_id = BrokerId(NODE_ID);
    response.brokers = vec![node(conn)];
    let is_asked = request.include_cluster_authorized_operations;
    response.cluster_authorized_operations = authorized_operations::told(is_asked, OF_CLUSTER);
    response
}

fn node(conn: &Conn) -> DescribeClusterBroker {
    let (host, port) = &conn.advertised;
    let mut node = DescribeClusterBroker::default();
    node.broker_id = BrokerId(NODE_ID);
    node.host = text(host);
    node.port = i32::from(*port);
    node
}

/// In front of a cluster: its brokers at their ports here.
pub(in crate::route) async fn relayed(
    router: &Router,
    conn: &Conn,
    link: &mut Link,
    head: &RequestHead,
    request: DescribeClusterRequest,
) -> Result<DescribeClusterResponse, UpstreamError> {
    let mut response = link.call(head, &request).await?;
    // Controllers are no brokers: clients do not produce to them, and they have no port here.
    let brokers = std::mem::take(&mut response.brokers);
    if response.error_code != 0 || request.endpoint_type == CONTROLLERS {
        return Ok(response);
    }
    for mut broker in brokers {
        let real = RealBroker { node: broker.broker_id.0, host: &broker.host, port: broker.port };
        if let Some((host, port)) = broker_addresses::replace(router, conn, &real).await {
            (broker.host, broker.port) = (text(&host), port);
            response.brokers.push(broker);
        }
    }
    Ok(response)
}
