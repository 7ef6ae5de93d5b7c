//! `ListPartitionReassignments` 0: on one node none is ever in progress.

use kafka_protocol::messages::{
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse,
};

pub(super) fn answer(_: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse {
    let mut response = ListPartitionReassignmentsResponse::default();
    response.error_message = None;
    response
}
