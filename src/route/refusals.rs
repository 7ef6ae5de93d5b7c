//! The Kafka errors inside an answer, for `reprise_request_errors_total`.

use kafka_protocol::messages as m;

/// An answer that may carry Kafka error codes, at the top or inside.
pub(super) trait Refusals {
    /// Calls `seen` with every error code; 0 means no error.
    fn each(&self, seen: &mut dyn FnMut(i16));
}

macro_rules! refusals {
    ($($answer:ident: |$it:ident, $seen:ident| $each:expr;)*) => {
        $(impl Refusals for m::$answer {
            fn each(&self, $seen: &mut dyn FnMut(i16)) {
                let $it = self;
                $each
            }
        })*
    };
}

refusals! {
    ApiVersionsResponse: |it, seen| seen(it.error_code);
    SaslHandshakeResponse: |it, seen| seen(it.error_code);
    SaslAuthenticateResponse: |it, seen| seen(it.error_code);
    MetadataResponse: |it, seen| it.topics.iter().for_each(|topic| seen(topic.error_code));
    FindCoordinatorResponse: |it, seen| {
        seen(it.error_code);
        it.coordinators.iter().for_each(|one| seen(one.error_code));
    };
    JoinGroupResponse: |it, seen| seen(it.error_code);
    SyncGroupResponse: |it, seen| seen(it.error_code);
    HeartbeatResponse: |it, seen| seen(it.error_code);
    LeaveGroupResponse: |it, seen| {
        seen(it.error_code);
        it.members.iter().for_each(|member| seen(member.error_code));
    };
    InitProducerIdResponse: |it, seen| seen(it.error_code);
    CreateTopicsResponse: |it, seen| it.topics.iter().for_each(|topic| seen(topic.error_code));
    DeleteTopicsResponse: |it, seen| it.responses.iter().for_each(|topic| seen(topic.error_code));
    CreatePartitionsResponse: |it, seen| it.results.iter().for_each(|one| seen(one.error_code));
    DeleteRecordsResponse: |it, seen| {
        let partitions = it.topics.iter().flat_map(|topic| &topic.partitions);
        partitions.for_each(|partition| seen(partition.error_code));
    };
    AlterConfigsResponse: |it, seen| it.responses.iter().for_each(|one| seen(one.error_code));
    IncrementalAlterConfigsResponse: |it, seen| {
        it.responses.iter().for_each(|one| seen(one.error_code));
    };
    DeleteGroupsResponse: |it, seen| it.results.iter().for_each(|one| seen(one.error_code));
    OffsetDeleteResponse: |it, seen| {
        seen(it.error_code);
        let partitions = it.topics.iter().flat_map(|topic| &topic.partitions);
        partitions.for_each(|partition| seen(partition.error_code));
    };
    DescribeConfigsResponse: |it, seen| it.results.iter().for_each(|one| seen(one.error_code));
    DescribeClusterResponse: |it, seen| seen(it.error_code);
    DescribeTopicPartitionsResponse: |it, seen| {
        it.topics.iter().for_each(|topic| seen(topic.error_code));
    };
    ListGroupsResponse: |it, seen| seen(it.error_code);
    ListTransactionsResponse: |it, seen| seen(it.error_code);
    DescribeLogDirsResponse: |it, seen| seen(it.error_code);
    DescribeTransactionsResponse: |it, seen| {
        it.transaction_states.iter().for_each(|one| seen(one.error_code));
    };
    DescribeProducersResponse: |it, seen| {
        let partitions = it.topics.iter().flat_map(|topic| &topic.partitions);
        partitions.for_each(|partition| seen(partition.error_code));
    };
    AddOffsetsToTxnResponse: |it, seen| seen(it.error_code);
    EndTxnResponse: |it, seen| seen(it.error_code);
    AddPartitionsToTxnResponse: |it, seen| {
        let partitions = it.results_by_topic_v3_and_below.iter();
        let partitions = partitions.flat_map(|topic| &topic.results_by_partition);
        partitions.for_each(|partition| seen(partition.partition_error_code));
    };
    TxnOffsetCommitResponse: |it, seen| {
        let partitions = it.topics.iter().flat_map(|topic| &topic.partitions);
        partitions.for_each(|partition| seen(partition.error_code));
    };
    ElectLeadersResponse: |it, seen| {
        seen(it.error_code);
        let partitions = it.replica_election_results.iter();
        let partitions = partitions.flat_map(|topic| &topic.partition_result);
        partitions.for_each(|partition| seen(partition.error_code));
    };
    AlterPartitionReassignmentsResponse: |it, seen| {
        seen(it.error_code);
        let partitions = it.responses.iter().flat_map(|topic| &topic.partitions);
        partitions.for_each(|partition| seen(partition.error_code));
    };
    ListPartitionReassignmentsResponse: |it, seen| seen(it.error_code);
    AlterReplicaLogDirsResponse: |it, seen| {
        let partitions = it.results.iter().flat_map(|topic| &topic.partitions);
        partitions.for_each(|partition| seen(partition.error_code));
    };
    DescribeQuorumResponse: |it, seen| {
        seen(it.error_code);
        let partitions = it.topics.iter().flat_map(|topic| &topic.partitions);
        partitions.for_each(|partition| seen(partition.error_code));
    };
    ListConfigResourcesResponse: |it, seen| seen(it.error_code);
    DescribeClientQuotasResponse: |it, seen| seen(it.error_code);
    AlterClientQuotasResponse: |it, seen| it.entries.iter().for_each(|one| seen(one.error_code));
    DescribeUserScramCredentialsResponse: |it, seen| {
        seen(it.error_code);
        it.results.iter().for_each(|user| seen(user.error_code));
    };
    AlterUserScramCredentialsResponse: |it, seen| {
        it.results.iter().for_each(|user| seen(user.error_code));
    };
    DescribeAclsResponse: |it, seen| seen(it.error_code);
    CreateAclsResponse: |it, seen| it.results.iter().for_each(|one| seen(one.error_code));
    DeleteAclsResponse: |it, seen| it.filter_results.iter().for_each(|one| seen(one.error_code));
    DescribeGroupsResponse: |it, seen| it.groups.iter().for_each(|group| seen(group.error_code));
    ConsumerGroupHeartbeatResponse: |it, seen| seen(it.error_code);
    ConsumerGroupDescribeResponse: |it, seen| {
        it.groups.iter().for_each(|group| seen(group.error_code));
    };
    ProduceResponse: |it, seen| {
        let partitions = it.responses.iter().flat_map(|topic| &topic.partition_responses);
        partitions.for_each(|partition| seen(partition.error_code));
    };
    FetchResponse: |it, seen| {
        seen(it.error_code);
        let partitions = it.responses.iter().flat_map(|topic| &topic.partitions);
        partitions.for_each(|partition| seen(partition.error_code));
    };
    ListOffsetsResponse: |it, seen| {
        let partitions = it.topics.iter().flat_map(|topic| &topic.partitions);
        partitions.for_each(|partition| seen(partition.error_code));
    };
    OffsetForLeaderEpochResponse: |it, seen| {
        let partitions = it.topics.iter().flat_map(|topic| &topic.partitions);
        partitions.for_each(|partition| seen(partition.error_code));
    };
    OffsetCommitResponse: |it, seen| {
        let partitions = it.topics.iter().flat_map(|topic| &topic.partitions);
        partitions.for_each(|partition| seen(partition.error_code));
    };
    OffsetFetchResponse: |it, seen| {
        seen(it.error_code);
        let partitions = it.topics.iter().flat_map(|topic| &topic.partitions);
        partitions.for_each(|partition| seen(partition.error_code));
        for group in &it.groups {
            seen(group.error_code);
            let partitions = group.topics.iter().flat_map(|topic| &topic.partitions);
            partitions.for_each(|partition| seen(partition.error_code));
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_deep_inside_an_answer_are_seen() {
        let mut partition = m::fetch_response::PartitionData::default();
        partition.error_code = 1;
        let mut topic = m::fetch_response::FetchableTopicResponse::default();
        topic.partitions.push(partition);
        let mut answer = m::FetchResponse::default();
        answer.responses.push(topic);
        let mut seen = Vec::new();
        answer.each(&mut |code| seen.push(code));
        assert_eq!(seen, [0, 1]);
    }
}
