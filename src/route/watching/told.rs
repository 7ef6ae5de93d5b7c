//! Lines of the log about what the watch of a group observes and decides.

use crate::model::{GroupId, TopicPartition};
use crate::retry::suspects::Decision;

pub(super) fn seek_back_told(group: &GroupId, partition: &TopicPartition, offset: i64) {
    tracing::info!(
        %group, %partition, offset,
        "R0510 a member went back to this record three times, and nothing is concluded from that; \
         if this is how the application retries: groups: [{{match: {group}, on_seek_back: retry}}]"
    );
}

pub(super) fn suspicion_told(group: &GroupId, decision: &Decision) {
    match decision {
        Decision::TestBegins => tracing::info!(
            %group,
            "R0511 the group's consumers ended again and again with the same records outstanding; \
             these records are delivered a part at a time until one is left (reprise group explain)"
        ),
        Decision::Failed { origin, failures } => tracing::warn!(
            %group, record = %origin, failures,
            "R0512 a consumer of the group ended each time it had this record, and had nothing \
             else; after retry.in_place_limit failures it is a dead letter"
        ),
        Decision::Exempted(topic) => tracing::info!(
            %group, %topic,
            "R0513 the group never commits this topic: no record of it is suspected"
        ),
        Decision::Isolated(_)
        | Decision::Retry { .. }
        | Decision::DeadLetter { .. }
        | Decision::Changed => {}
    }
}
