//! DescribeCluster 0–2: one node.

use kafka_protocol::messages::describe_cluster_response::DescribeClusterBroker;
use kafka_protocol::messages::{BrokerId, DescribeClusterRequest, DescribeClusterResponse};

use crate::route::Router;
use crate::route::conn::Conn;
use crate::route::convert::text;

pub(super) fn answer(
    router: &Router,
    conn: &Conn,
    request: DescribeClusterRequest,
) -> DescribeClusterResponse {
    let (host, port) = &conn.advertised;
    let mut node = DescribeClusterBroker::default();
    node.broker_id = BrokerId(router.config.node_id);
    node.host = text(host);
    node.port = i32::from(*port);
    let mut response = DescribeClusterResponse::default();
    response.endpoint_type = request.endpoint_type;
    response.cluster_id = text(router.broker.cluster_id());
    response.controller_id = BrokerId(router.config.node_id);
    response.brokers = vec![node];
    response
}
