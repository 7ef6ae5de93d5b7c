//! `ListPartitionReassignments` 0: always empty, since a single node has no reassignments.

use kafka_protocol::messages::{
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse,
};

pub(in crate::route) fn answer(
    _: ListPartitionReassignmentsRequest,
) -> ListPartitionReassignmentsResponse {
    let mut response = ListPartitionReassignmentsResponse::default();
    response.error_message = None;
    response
}
