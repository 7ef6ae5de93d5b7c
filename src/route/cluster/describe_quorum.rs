//! `DescribeQuorum` 0–2: a quorum of this node alone, its leader, which is never behind.

use kafka_protocol::messages::describe_quorum_response::{
    Listener, Node, PartitionData, ReplicaState, TopicData,
};
use kafka_protocol::messages::{BrokerId, DescribeQuorumRequest, DescribeQuorumResponse};

use crate::route::clients::conn::Conn;
use crate::route::convert::{some_text, text};
use crate::route::{NODE_ID, Router};
use crate::wire::{RequestHead, ResponseError};

/// The topic whose one partition has the quorum.
const METADATA_TOPIC: &str = "__cluster_metadata";
/// Clients accept the listener name only in capitals.
const LISTENER: &str = "CONTROLLER";
/// First version with error messages of partitions and with nodes (KIP-853).
const NODES_SINCE: i16 = 2;
/// First version with fetch times of replicas (KIP-836).
const TIMES_SINCE: i16 = 1;

pub(in crate::route) fn answer(
    router: &Router,
    conn: &Conn,
    head: &RequestHead,
    request: DescribeQuorumRequest,
) -> DescribeQuorumResponse {
    let mut response = DescribeQuorumResponse::default();
    response.error_message = None;
    for topic in request.topics {
        let mut described = TopicData::default();
        let is_quorum = topic.topic_name.as_str() == METADATA_TOPIC;
        for asked in &topic.partitions {
            let mut partition = PartitionData::default();
            partition.partition_index = asked.partition_index;
            partition.error_message = None;
            if is_quorum && asked.partition_index == 0 {
                partition.leader_id = BrokerId(NODE_ID);
                partition.current_voters = vec![voter(router, head.version)];
            } else {
                partition.error_code = ResponseError::UnknownTopicOrPartition.code();
                if head.version >= NODES_SINCE {
                    partition.error_message = some_text("only __cluster_metadata-0 has a quorum");
                }
            }
            described.partitions.push(partition);
        }
        described.topic_name = topic.topic_name;
        response.topics.push(described);
    }
    if head.version >= NODES_SINCE {
        response.nodes = vec![node(conn)];
    }
    response
}

fn voter(router: &Router, version: i16) -> ReplicaState {
    let mut voter = ReplicaState::default();
    voter.replica_id = BrokerId(NODE_ID);
    if version >= TIMES_SINCE {
        let now = router.clock.now().wall.0;
        (voter.last_fetch_timestamp, voter.last_caught_up_timestamp) = (now, now);
    }
    voter
}

fn node(conn: &Conn) -> Node {
    let (host, port) = &conn.advertised;
    let mut listener = Listener::default();
    (listener.name, listener.host, listener.port) = (text(LISTENER), text(host), *port);
    let mut node = Node::default();
    (node.node_id, node.listeners) = (BrokerId(NODE_ID), vec![listener]);
    node
}
