//! `AlterPartitionReassignments` 0–1 and `ListPartitionReassignments` 0: this node is the one
//! replica a partition can have, so none is ever in progress.

use kafka_protocol::messages::alter_partition_reassignments_request::ReassignablePartition;
use kafka_protocol::messages::alter_partition_reassignments_response::{
    ReassignablePartitionResponse, ReassignableTopicResponse,
};
use kafka_protocol::messages::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse,
};

use crate::route::convert::{some_text, topic_of};
use crate::route::{NODE_ID, Router};
use crate::wire::ResponseError;

pub(in crate::route) fn alter(
    router: &Router,
    request: AlterPartitionReassignmentsRequest,
) -> AlterPartitionReassignmentsResponse {
    let mut response = AlterPartitionReassignmentsResponse::default();
    response.allow_replication_factor_change = request.allow_replication_factor_change;
    for topic in request.topics {
        let place = router.place(&topic_of(&topic.name));
        let known = place.map_or(0, |place| place.partitions());
        let mut result = ReassignableTopicResponse::default();
        for asked in &topic.partitions {
            let mut one = ReassignablePartitionResponse::default();
            one.partition_index = asked.partition_index;
            one.error_message = None;
            let is_there = (0..known).contains(&asked.partition_index);
            if let Some((error, why)) = refusal(NODE_ID, is_there, asked) {
                (one.error_code, one.error_message) = (error.code(), some_text(why));
            }
            result.partitions.push(one);
        }
        result.name = topic.name;
        response.responses.push(result);
    }
    response
}

pub(in crate::route) fn list(
    _: ListPartitionReassignmentsRequest,
) -> ListPartitionReassignmentsResponse {
    let mut response = ListPartitionReassignmentsResponse::default();
    response.error_message = None;
    response
}

/// The error for a partition that cannot have these replicas; `None`: it has them already.
fn refusal(
    node_id: i32,
    is_there: bool,
    asked: &ReassignablePartition,
) -> Option<(ResponseError, &'static str)> {
    if !is_there {
        let why = "there is no such partition here";
        return Some((ResponseError::UnknownTopicOrPartition, why));
    }
    match asked.replicas.as_deref() {
        None => {
            let why = "no reassignment of this partition is in progress";
            Some((ResponseError::NoReassignmentInProgress, why))
        }
        Some([only]) if only.0 == node_id => None,
        Some(_) => {
            let why = "this node is the only broker: every partition has one replica, here";
            Some((ResponseError::InvalidReplicaAssignment, why))
        }
    }
}
