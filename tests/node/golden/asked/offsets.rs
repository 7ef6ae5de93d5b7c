//! Requests about committed offsets of groups.

use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::{OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest};

use super::{Ask, ask};
use crate::golden::house::{MEMBER, ORDERS};
use crate::support::client::s;

/// `OffsetFetch` version from which a request names several groups.
const OF_GROUPS: i16 = 8;

pub(crate) fn all() -> Vec<Ask> {
    vec![
        ask(|_, r: &mut OffsetCommitRequest| {
            (r.group_id, r.member_id, r.generation_id_or_member_epoch) = (s("till"), s(MEMBER), 1);
            let of = |topic, index| {
                let mut partition = OffsetCommitRequestPartition::default();
                (partition.partition_index, partition.committed_offset) = (index, 2);
                partition.committed_metadata = Some(s("later"));
                let topic = OffsetCommitRequestTopic::default().with_name(s(topic));
                topic.with_partitions(vec![partition])
            };
            r.topics = vec![of(ORDERS.0, 0), of("nowhere", 0)];
        }),
        ask(|version, r: &mut OffsetFetchRequest| {
            if version < OF_GROUPS {
                r.group_id = s("till");
                let orders = OffsetFetchRequestTopic::default().with_name(s(ORDERS.0));
                r.topics = Some(vec![orders.with_partition_indexes(vec![0, 1])]);
            } else {
                let orders = OffsetFetchRequestTopics::default().with_name(s(ORDERS.0));
                let till = OffsetFetchRequestGroup::default().with_group_id(s("till"));
                let topics = Some(vec![orders.with_partition_indexes(vec![0, 1])]);
                let free = OffsetFetchRequestGroup::default().with_group_id(s("free"));
                r.groups = vec![till.with_topics(topics), free.with_topics(None)];
            }
            // A partition is unstable while the open transaction has an offset for it; this one has
            // none.
            r.require_stable = version >= 7;
        }),
        ask(|_, r: &mut OffsetDeleteRequest| {
            r.group_id = s("till");
            let of = |index| OffsetDeleteRequestPartition::default().with_partition_index(index);
            let topic = |name| {
                let topic = OffsetDeleteRequestTopic::default().with_name(s(name));
                topic.with_partitions(vec![of(0)])
            };
            r.topics = vec![topic(ORDERS.0), topic("nowhere")];
        }),
    ]
}
