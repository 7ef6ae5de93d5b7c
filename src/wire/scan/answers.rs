//! Layouts of the answers that are read on their way from a broker to a client. A broker is
//! believed no more than a client: its counts are held against its bytes as well.

use super::schema::{BOOL, I8, I16, I32, I64, Kind, Schema, Tagged, UUID, always, since, within};
use crate::wire::api::Api;

/// The layout of an answer; `None` for one that is never read here.
pub(in crate::wire) fn of(api: Api) -> Option<&'static Schema> {
    Some(match api {
        Api::ApiVersions => &API_VERSIONS,
        Api::Metadata => &METADATA,
        Api::FindCoordinator => &FIND_COORDINATOR,
        Api::DescribeCluster => &DESCRIBE_CLUSTER,
        Api::JoinGroup => &JOIN_GROUP,
        Api::SyncGroup => &SYNC_GROUP,
        Api::Heartbeat => &HEARTBEAT,
        Api::LeaveGroup => &LEAVE_GROUP,
        Api::OffsetCommit => &OFFSET_COMMIT,
        Api::OffsetFetch => &OFFSET_FETCH,
        Api::Fetch => &FETCH,
        Api::Produce => &PRODUCE,
        Api::ConsumerGroupHeartbeat => &CONSUMER_GROUP_HEARTBEAT,
        _ => return None,
    })
}

/// Name, highest and lowest level of a feature.
const FEATURES: Kind = Kind::Structs(&[always(Kind::Text), always(I16), always(I16)], &[]);

const API_VERSIONS: Schema = Schema {
    flexible: 3,
    fields: &[
        always(I16), // error_code
        always(Kind::Structs(
            &[
                always(I16), // api_key
                always(I16), // min_version
                always(I16), // max_version
            ],
            &[],
        )),
        since(1, I32), // throttle_time_ms
    ],
    tagged: &[
        Tagged { tag: 0, versions: (3, i16::MAX), kind: FEATURES }, // supported_features
        Tagged { tag: 1, versions: (3, i16::MAX), kind: I64 },      // finalized_features_epoch
        Tagged { tag: 2, versions: (3, i16::MAX), kind: FEATURES }, // finalized_features
        Tagged { tag: 3, versions: (3, i16::MAX), kind: BOOL },     // zk_migration_ready
    ],
};

const METADATA: Schema = Schema {
    flexible: 9,
    fields: &[
        since(3, I32), // throttle_time_ms
        always(Kind::Structs(
            &[
                always(I32),          // node_id
                always(Kind::Text),   // host
                always(I32),          // port
                since(1, Kind::Text), // rack
            ],
            &[],
        )),
        since(2, Kind::Text), // cluster_id
        since(1, I32),        // controller_id
        always(Kind::Structs(
            &[
                always(I16),        // error_code
                always(Kind::Text), // name
                since(10, UUID),    // topic_id
                since(1, BOOL),     // is_internal
                always(Kind::Structs(
                    &[
                        always(I16),                // error_code
                        always(I32),                // partition_index
                        always(I32),                // leader_id
                        since(7, I32),              // leader_epoch
                        always(Kind::List(&I32)),   // replica_nodes
                        always(Kind::List(&I32)),   // isr_nodes
                        since(5, Kind::List(&I32)), // offline_replicas
                    ],
                    &[],
                )),
                since(8, I32), // topic_authorized_operations
            ],
            &[],
        )),
        within(8, 10, I32), // cluster_authorized_operations
        since(13, I16),     // error_code
    ],
    tagged: &[],
};

const FIND_COORDINATOR: Schema = Schema {
    flexible: 3,
    fields: &[
        since(1, I32),            // throttle_time_ms
        within(0, 3, I16),        // error_code
        within(1, 3, Kind::Text), // error_message
        within(0, 3, I32),        // node_id
        within(0, 3, Kind::Text), // host
        within(0, 3, I32),        // port
        since(
            4,
            Kind::Structs(
                &[
                    always(Kind::Text), // key
                    always(I32),        // node_id
                    always(Kind::Text), // host
                    always(I32),        // port
                    always(I16),        // error_code
                    always(Kind::Text), // error_message
                ],
                &[],
            ),
        ),
    ],
    tagged: &[],
};

const DESCRIBE_CLUSTER: Schema = Schema {
    flexible: 0,
    fields: &[
        always(I32),        // throttle_time_ms
        always(I16),        // error_code
        always(Kind::Text), // error_message
        since(1, I8),       // endpoint_type
        always(Kind::Text), // cluster_id
        always(I32),        // controller_id
        always(Kind::Structs(
            &[
                always(I32),        // broker_id
                always(Kind::Text), // host
                always(I32),        // port
                always(Kind::Text), // rack
                since(2, BOOL),     // is_fenced
            ],
            &[],
        )),
        always(I32), // cluster_authorized_operations
    ],
    tagged: &[],
};

const JOIN_GROUP: Schema = Schema {
    flexible: 6,
    fields: &[
        since(2, I32),        // throttle_time_ms
        always(I16),          // error_code
        always(I32),          // generation_id
        since(7, Kind::Text), // protocol_type
        always(Kind::Text),   // protocol_name
        always(Kind::Text),   // leader
        since(9, BOOL),       // skip_assignment
        always(Kind::Text),   // member_id
        always(Kind::Structs(
            &[
                always(Kind::Text),   // member_id
                since(5, Kind::Text), // group_instance_id
                always(Kind::Blob),   // metadata
            ],
            &[],
        )),
    ],
    tagged: &[],
};

const CONSUMER_GROUP_HEARTBEAT: Schema = Schema {
    flexible: 0,
    fields: &[
        always(I32),        // throttle_time_ms
        always(I16),        // error_code
        always(Kind::Text), // error_message
        always(Kind::Text), // member_id
        always(I32),        // member_epoch
        always(I32),        // heartbeat_interval_ms
        // assignment: topic_id and partitions of each topic
        always(Kind::Maybe(&[always(Kind::Structs(
            &[always(UUID), always(Kind::List(&I32))],
            &[],
        ))])),
    ],
    tagged: &[],
};

/// Since version 10, in which it may name brokers.
const PRODUCE: Schema = Schema {
    flexible: 9,
    fields: &[
        always(Kind::Structs(
            &[
                within(0, 12, Kind::Text), // name
                since(13, UUID),           // topic_id
                always(Kind::Structs(
                    &[
                        always(I32), // index
                        always(I16), // error_code
                        always(I64), // base_offset
                        always(I64), // log_append_time_ms
                        always(I64), // log_start_offset
                        always(Kind::Structs(
                            &[
                                always(I32),        // batch_index
                                always(Kind::Text), // batch_index_error_message
                            ],
                            &[],
                        )),
                        always(Kind::Text), // error_message
                    ],
                    &[Tagged {
                        tag: 0, // current_leader: leader_id, leader_epoch
                        versions: (10, i16::MAX),
                        kind: Kind::Struct(&[always(I32), always(I32)], &[]),
                    }],
                )),
            ],
            &[],
        )),
        always(I32), // throttle_time_ms
    ],
    tagged: &[Tagged {
        tag: 0, // node_endpoints: node_id, host, port, rack
        versions: (10, i16::MAX),
        kind: Kind::Structs(
            &[always(I32), always(Kind::Text), always(I32), always(Kind::Text)],
            &[],
        ),
    }],
};

/// Version 4 only, in which single records are read back.
const FETCH: Schema = Schema {
    flexible: 12,
    fields: &[
        always(I32), // throttle_time_ms
        always(Kind::Structs(
            &[
                always(Kind::Text), // topic
                always(Kind::Structs(
                    &[
                        always(I32), // partition_index
                        always(I16), // error_code
                        always(I64), // high_watermark
                        always(I64), // last_stable_offset
                        always(Kind::Structs(
                            &[
                                always(I64), // producer_id
                                always(I64), // first_offset
                            ],
                            &[],
                        )),
                        always(Kind::Blob), // records
                    ],
                    &[],
                )),
            ],
            &[],
        )),
    ],
    tagged: &[],
};

const SYNC_GROUP: Schema = Schema {
    flexible: 4,
    fields: &[
        since(1, I32),        // throttle_time_ms
        always(I16),          // error_code
        since(5, Kind::Text), // protocol_type
        since(5, Kind::Text), // protocol_name
        always(Kind::Blob),   // assignment
    ],
    tagged: &[],
};

const HEARTBEAT: Schema = Schema {
    flexible: 4,
    fields: &[
        since(1, I32), // throttle_time_ms
        always(I16),   // error_code
    ],
    tagged: &[],
};

const LEAVE_GROUP: Schema = Schema {
    flexible: 4,
    fields: &[
        since(1, I32), // throttle_time_ms
        always(I16),   // error_code
        since(
            3,
            Kind::Structs(
                &[
                    always(Kind::Text), // member_id
                    always(Kind::Text), // group_instance_id
                    always(I16),        // error_code
                ],
                &[],
            ),
        ),
    ],
    tagged: &[],
};

const OFFSET_COMMIT: Schema = Schema {
    flexible: 8,
    fields: &[
        since(3, I32), // throttle_time_ms
        always(Kind::Structs(
            &[
                always(Kind::Text), // name
                always(Kind::Structs(
                    &[
                        always(I32), // partition_index
                        always(I16), // error_code
                    ],
                    &[],
                )),
            ],
            &[],
        )),
    ],
    tagged: &[],
};

/// A topic's committed offsets.
const COMMITTED: Kind = Kind::Structs(
    &[
        always(Kind::Text), // name
        always(Kind::Structs(
            &[
                always(I32),        // partition_index
                always(I64),        // committed_offset
                since(5, I32),      // committed_leader_epoch
                always(Kind::Text), // metadata
                always(I16),        // error_code
            ],
            &[],
        )),
    ],
    &[],
);

const OFFSET_FETCH: Schema = Schema {
    flexible: 6,
    fields: &[
        since(3, I32),           // throttle_time_ms
        within(0, 7, COMMITTED), // topics
        within(2, 7, I16),       // error_code
        since(
            8,
            Kind::Structs(
                &[
                    always(Kind::Text), // group_id
                    always(COMMITTED),  // topics
                    always(I16),        // error_code
                ],
                &[],
            ),
        ),
    ],
    tagged: &[],
};

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use kafka_protocol::messages as m;
    use kafka_protocol::protocol::{Encodable, StrBytes};

    use super::*;
    use crate::wire::scan::check;

    /// Every version of a fully filled answer is walked to its last byte.
    fn walks<R: Encodable>(api: Api, answer: impl Fn(i16) -> R) {
        let schema = of(api).unwrap();
        let (min, max) = api.served();
        for version in min..=max {
            let mut bytes = BytesMut::new();
            answer(version).encode(&mut bytes, version).unwrap();
            assert_eq!(check(schema, version, &bytes), Ok(bytes.len()), "{api:?} v{version}");
            for end in 0..bytes.len() {
                let whole = check(schema, version, &bytes[..end]) == Ok(end);
                assert!(!whole, "{api:?} v{version} cut at {end} is seen to be cut");
            }
        }
    }

    fn text(text: &str) -> StrBytes {
        StrBytes::from_string(text.to_owned())
    }

    #[test]
    fn answers_about_the_cluster_are_walked_whole() {
        walks(Api::ApiVersions, |version| {
            let mut answer = m::ApiVersionsResponse::default();
            answer.api_keys.push(m::api_versions_response::ApiVersion::default());
            if version >= 3 {
                let mut feature = m::api_versions_response::FinalizedFeatureKey::default();
                feature.name = text("metadata.version");
                answer.finalized_features.push(feature);
                answer.finalized_features_epoch = 7;
                answer.zk_migration_ready = true;
            }
            answer
        });
        walks(Api::Metadata, |_| {
            let mut answer = m::MetadataResponse::default();
            let mut broker = m::metadata_response::MetadataResponseBroker::default();
            broker.host = text("kafka-1");
            answer.brokers.push(broker);
            answer.cluster_id = Some(text("c"));
            let mut topic = m::metadata_response::MetadataResponseTopic::default();
            topic.name = Some(m::TopicName(text("orders")));
            let mut partition = m::metadata_response::MetadataResponsePartition::default();
            partition.replica_nodes = vec![1.into(), 2.into()];
            partition.isr_nodes = vec![1.into()];
            topic.partitions.push(partition);
            answer.topics.push(topic);
            answer
        });
        walks(Api::FindCoordinator, |version| {
            let mut answer = m::FindCoordinatorResponse::default();
            if version >= 4 {
                let mut one = m::find_coordinator_response::Coordinator::default();
                one.key = text("g");
                one.host = text("kafka-1");
                answer.coordinators.push(one);
            } else {
                answer.host = text("kafka-1");
            }
            answer
        });
        walks(Api::DescribeCluster, |_| {
            let mut answer = m::DescribeClusterResponse::default();
            answer.brokers.push(m::describe_cluster_response::DescribeClusterBroker::default());
            answer
        });
    }

    #[test]
    fn answers_about_groups_are_walked_whole() {
        walks(Api::JoinGroup, |_| {
            let mut answer = m::JoinGroupResponse::default();
            answer.protocol_name = Some(text("range"));
            let mut member = m::join_group_response::JoinGroupResponseMember::default();
            member.member_id = text("m");
            member.metadata = bytes::Bytes::from_static(b"abc");
            answer.members.push(member);
            answer
        });
        walks(Api::SyncGroup, |_| {
            let mut answer = m::SyncGroupResponse::default();
            answer.assignment = bytes::Bytes::from_static(b"abc");
            answer
        });
        walks(Api::Heartbeat, |_| m::HeartbeatResponse::default());
        walks(Api::ConsumerGroupHeartbeat, |_| {
            use m::consumer_group_heartbeat_response as r;
            let mut topic = r::TopicPartitions::default();
            topic.partitions = vec![1, 2];
            let mut assignment = r::Assignment::default();
            assignment.topic_partitions = vec![topic];
            let mut answer = m::ConsumerGroupHeartbeatResponse::default();
            answer.assignment = Some(assignment);
            answer
        });
        walks(Api::LeaveGroup, |version| {
            let mut answer = m::LeaveGroupResponse::default();
            if version >= 3 {
                answer.members.push(m::leave_group_response::MemberResponse::default());
            }
            answer
        });
        walks(Api::OffsetCommit, |_| {
            let mut answer = m::OffsetCommitResponse::default();
            let mut topic = m::offset_commit_response::OffsetCommitResponseTopic::default();
            topic
                .partitions
                .push(m::offset_commit_response::OffsetCommitResponsePartition::default());
            answer.topics.push(topic);
            answer
        });
        walks(Api::OffsetFetch, |version| {
            use m::offset_fetch_response as r;
            let mut answer = m::OffsetFetchResponse::default();
            if version >= 8 {
                let mut group = r::OffsetFetchResponseGroup::default();
                let mut topic = r::OffsetFetchResponseTopics::default();
                topic.partitions.push(r::OffsetFetchResponsePartitions::default());
                group.topics.push(topic);
                answer.groups.push(group);
            } else {
                let mut topic = r::OffsetFetchResponseTopic::default();
                topic.partitions.push(r::OffsetFetchResponsePartition::default());
                answer.topics.push(topic);
            }
            answer
        });
    }

    #[test]
    fn a_fetch_of_version_4_is_walked_whole() {
        use m::fetch_response as r;
        let mut partition = r::PartitionData::default();
        partition.aborted_transactions = Some(vec![r::AbortedTransaction::default()]);
        partition.records = Some(bytes::Bytes::from_static(b"records"));
        let mut topic = r::FetchableTopicResponse::default();
        topic.partitions = vec![partition];
        let mut answer = m::FetchResponse::default();
        answer.responses = vec![topic];
        let mut bytes = BytesMut::new();
        answer.encode(&mut bytes, 4).unwrap();
        assert_eq!(check(&FETCH, 4, &bytes), Ok(bytes.len()));
    }

    #[test]
    fn a_count_a_broker_makes_up_is_refused() {
        let lie = [0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff];
        assert!(check(&METADATA, 3, &lie).is_err());
        assert!(check(&OFFSET_COMMIT, 3, &lie).is_err());
    }
}
