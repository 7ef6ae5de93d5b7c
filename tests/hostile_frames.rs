//! Frames that lie about their counts are refused; nothing panics and nothing is allocated by
//! their say-so. Every API and version we serve is decoded from what the codec crate encodes.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop at a surprise")]

use std::alloc::System;
use std::fmt::Debug;

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_topic_partitions_request::{Cursor, TopicRequest};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Encodable, Request, StrBytes};
use reprise::wire::{self, Api, HeadError, RequestHead};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use uuid::Uuid;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// What any frame of this file may make us allocate, all together.
const ALLOCATED_BYTES_MAX: usize = 1 << 20;
const ID: Uuid = Uuid::from_u128(0x1111_2222_3333_4444_5555_6666_7777_8888);

fn s<T: From<StrBytes>>() -> T {
    StrBytes::from_static_str("shop").into()
}

/// Whether the body decodes; the second argument asks for equality with the sample.
type Reads = Box<dyn Fn(&RequestHead, bool) -> bool>;

/// One API: a request with something in every field at every version, and how it is read.
struct Case {
    api: Api,
    frame: Box<dyn Fn(i16) -> Bytes>,
    reads: Reads,
}

fn case<R>(build: impl Fn(i16, &mut R) + Clone + 'static) -> Case
where
    R: Request + Default + PartialEq + Debug,
{
    let sample = move |version| {
        let mut request = R::default();
        build(version, &mut request);
        request
    };
    let again = sample.clone();
    Case {
        api: Api::from_key(R::KEY).unwrap(),
        frame: Box::new(move |version| framed(version, &sample(version))),
        reads: Box::new(move |head, equal| match wire::decode::<R>(head) {
            Ok(seen) if equal => {
                assert_eq!(seen, again(head.version), "version {}", head.version);
                true
            }
            answer => answer.is_ok(),
        }),
    }
}

fn framed<R: Request>(version: i16, request: &R) -> Bytes {
    let header_version = R::header_version(version);
    let mut out = BytesMut::new();
    RequestHeader::default()
        .with_request_api_key(R::KEY)
        .with_request_api_version(version)
        .with_correlation_id(77)
        .with_client_id(Some(s()))
        .encode(&mut out, header_version)
        .unwrap();
    request.encode(&mut out, version).unwrap();
    out.freeze()
}

fn cases() -> Vec<Case> {
    let mut all = data_cases();
    all.extend(member_cases());
    all.extend(offset_cases());
    all.extend(topic_cases());
    all
}

fn data_cases() -> Vec<Case> {
    vec![
        case(|v, r: &mut ProduceRequest| {
            r.transactional_id = Some(s());
            (r.acks, r.timeout_ms) = (-1, 30_000);
            let mut topic = TopicProduceData::default();
            if v >= 13 {
                topic.topic_id = ID;
            } else {
                topic.name = s();
            }
            let mut partition = PartitionProduceData::default();
            partition.records = Some(Bytes::from_static(b"records"));
            topic.partition_data.push(partition);
            r.topic_data.push(topic);
        }),
        case(|v, r: &mut FetchRequest| {
            let mut topic = FetchTopic::default();
            let mut partition = FetchPartition::default();
            (partition.partition, partition.fetch_offset) = (3, 812);
            if v >= 17 {
                partition.replica_directory_id = ID;
            }
            if v >= 18 {
                partition.high_watermark = 900;
            }
            topic.partitions.push(partition);
            let mut forgotten = ForgottenTopic::default();
            forgotten.partitions.push(1);
            if v >= 13 {
                (topic.topic_id, forgotten.topic_id) = (ID, ID);
            } else {
                (topic.topic, forgotten.topic) = (s(), s());
            }
            r.topics.push(topic);
            if v >= 7 {
                r.forgotten_topics_data.push(forgotten);
            }
            if v >= 11 {
                r.rack_id = s();
            }
            if v >= 12 {
                r.cluster_id = Some(s());
            }
            if v >= 15 {
                r.replica_state.replica_epoch = 5;
            }
        }),
        case(|v, r: &mut ListOffsetsRequest| {
            let mut topic = ListOffsetsTopic::default();
            topic.name = s();
            let mut partition = ListOffsetsPartition::default();
            partition.timestamp = -2;
            if v >= 4 {
                partition.current_leader_epoch = 1;
            }
            topic.partitions.push(partition);
            r.topics.push(topic);
        }),
        case(|v, r: &mut OffsetForLeaderEpochRequest| {
            if v >= 3 {
                r.replica_id = 1.into();
            }
            let mut topic = OffsetForLeaderTopic::default();
            topic.topic = s();
            topic.partitions.push(OffsetForLeaderPartition::default());
            r.topics.push(topic);
        }),
    ]
}

fn member_cases() -> Vec<Case> {
    vec![
        case(
            |v, r: &mut FindCoordinatorRequest| {
                if v >= 4 { r.coordinator_keys.push(s()) } else { r.key = s() }
            },
        ),
        case(|v, r: &mut JoinGroupRequest| {
            (r.group_id, r.member_id, r.protocol_type) = (s(), s(), s());
            if v >= 5 {
                r.group_instance_id = Some(s());
            }
            if v >= 8 {
                r.reason = Some(s());
            }
            let mut protocol = JoinGroupRequestProtocol::default();
            (protocol.name, protocol.metadata) = (s(), Bytes::from_static(&[0, 1, 2]));
            r.protocols.push(protocol);
        }),
        case(|v, r: &mut SyncGroupRequest| {
            (r.group_id, r.member_id) = (s(), s());
            if v >= 3 {
                r.group_instance_id = Some(s());
            }
            if v >= 5 {
                (r.protocol_type, r.protocol_name) = (Some(s()), Some(s()));
            }
            let mut assignment = SyncGroupRequestAssignment::default();
            (assignment.member_id, assignment.assignment) = (s(), Bytes::from_static(&[7]));
            r.assignments.push(assignment);
        }),
        case(|v, r: &mut HeartbeatRequest| {
            (r.group_id, r.member_id) = (s(), s());
            if v >= 3 {
                r.group_instance_id = Some(s());
            }
        }),
        case(|v, r: &mut LeaveGroupRequest| {
            r.group_id = s();
            if v <= 2 {
                r.member_id = s();
            }
            if v >= 3 {
                let mut member = MemberIdentity::default();
                (member.member_id, member.group_instance_id) = (s(), Some(s()));
                if v >= 5 {
                    member.reason = Some(s());
                }
                r.members.push(member);
            }
        }),
    ]
}

fn offset_cases() -> Vec<Case> {
    vec![
        case(|v, r: &mut OffsetCommitRequest| {
            (r.group_id, r.member_id) = (s(), s());
            if v >= 7 {
                r.group_instance_id = Some(s());
            }
            let mut topic = OffsetCommitRequestTopic::default();
            topic.name = s();
            let mut partition = OffsetCommitRequestPartition::default();
            (partition.committed_offset, partition.committed_metadata) = (812, Some(s()));
            topic.partitions.push(partition);
            r.topics.push(topic);
        }),
        case(|v, r: &mut OffsetFetchRequest| {
            if v <= 7 {
                r.group_id = s();
                let mut topic = OffsetFetchRequestTopic::default();
                (topic.name, topic.partition_indexes) = (s(), vec![3]);
                r.topics = Some(vec![topic]);
            } else {
                let mut topic = OffsetFetchRequestTopics::default();
                (topic.name, topic.partition_indexes) = (s(), vec![3]);
                let mut group = OffsetFetchRequestGroup::default();
                (group.group_id, group.topics) = (s(), Some(vec![topic]));
                if v >= 9 {
                    (group.member_id, group.member_epoch) = (Some(s()), 4);
                }
                r.groups.push(group);
            }
            if v >= 7 {
                r.require_stable = true;
            }
        }),
        case(|v, r: &mut DescribeGroupsRequest| {
            r.groups.push(s());
            if v >= 3 {
                r.include_authorized_operations = true;
            }
        }),
        case(|v, r: &mut ListGroupsRequest| {
            if v >= 4 {
                r.states_filter.push(s());
            }
            if v >= 5 {
                r.types_filter.push(s());
            }
        }),
    ]
}

fn topic_cases() -> Vec<Case> {
    vec![
        case(|_, r: &mut InitProducerIdRequest| r.transactional_id = Some(s())),
        case(|v, r: &mut ApiVersionsRequest| {
            if v >= 3 {
                (r.client_software_name, r.client_software_version) = (s(), s());
            }
        }),
        case(|v, r: &mut MetadataRequest| {
            let mut topic = MetadataRequestTopic::default();
            topic.name = Some(s());
            if v >= 10 {
                topic.topic_id = ID;
            }
            r.topics = Some(vec![topic]);
            if v >= 8 {
                r.include_topic_authorized_operations = true;
            }
        }),
        case(|v, r: &mut DescribeClusterRequest| {
            r.include_cluster_authorized_operations = true;
            if v >= 2 {
                r.include_fenced_brokers = true;
            }
        }),
        case(|_, r: &mut DescribeTopicPartitionsRequest| {
            let mut topic = TopicRequest::default();
            topic.name = s();
            r.topics.push(topic);
            let mut cursor = Cursor::default();
            (cursor.topic_name, cursor.partition_index) = (s(), 3);
            r.cursor = Some(cursor);
        }),
        case(|_, r: &mut CreateTopicsRequest| {
            let mut topic = CreatableTopic::default();
            (topic.name, topic.num_partitions, topic.replication_factor) = (s(), -1, -1);
            let mut assignment = CreatableReplicaAssignment::default();
            assignment.broker_ids.push(1.into());
            topic.assignments.push(assignment);
            let mut config = CreatableTopicConfig::default();
            (config.name, config.value) = (s(), Some(s()));
            topic.configs.push(config);
            r.topics.push(topic);
        }),
        case(|v, r: &mut DeleteTopicsRequest| {
            if v >= 6 {
                let mut topic = DeleteTopicState::default();
                (topic.name, topic.topic_id) = (Some(s()), ID);
                r.topics.push(topic);
            } else {
                r.topic_names.push(s());
            }
        }),
        case(|_, r: &mut DescribeConfigsRequest| {
            let mut resource = DescribeConfigsResource::default();
            (resource.resource_type, resource.resource_name) = (2, s());
            resource.configuration_keys = Some(vec![s()]);
            r.resources.push(resource);
        }),
    ]
}

/// Every frame of every API and version.
fn every(mut look: impl FnMut(&Case, i16, Bytes)) {
    let mut apis = Vec::new();
    for case in cases() {
        apis.push(case.api);
        let (min, max) = case.api.served();
        for version in min..=max {
            look(&case, version, (case.frame)(version));
        }
    }
    apis.sort_unstable();
    let mut all = Api::ALL.to_vec();
    all.sort_unstable();
    assert_eq!(apis, all, "an API has no case here");
}

/// `work`, whose allocations must stay under the bound.
fn bounded<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let region = Region::new(ALLOCATOR);
    let answer = work();
    let change = region.change();
    let grown = usize::try_from(change.bytes_reallocated.max(0)).unwrap();
    let allocated = change.bytes_allocated + grown;
    assert!(allocated <= ALLOCATED_BYTES_MAX, "{what}: {allocated} bytes allocated");
    answer
}

/// The allocator's count is the process's, so the promises of this file are kept one by one.
#[test]
fn hostile_frames_are_refused_without_panic_or_allocation() {
    what_the_codec_crate_encodes_is_read_back_equal();
    a_frame_cut_anywhere_is_refused();
    a_lying_number_anywhere_costs_no_memory();
    the_frame_that_aborts_the_bare_crate_is_refused();
    many_small_elements_cost_a_bounded_multiple_of_their_frame();
    unknown_keys_and_versions_keep_their_correlation_id();
}

fn what_the_codec_crate_encodes_is_read_back_equal() {
    every(|case, version, frame| {
        let head = RequestHead::parse(&frame).unwrap();
        assert_eq!((head.api, head.version, head.correlation_id), (case.api, version, 77));
        assert_eq!(head.client_id, Some("shop".into()));
        assert_eq!(
            wire::scan::message_bytes(&head),
            Ok(head.body.len()),
            "{:?} {version}",
            case.api
        );
        assert!((case.reads)(&head, true), "{:?} {version}", case.api);
        let mut longer = BytesMut::from(&frame[..]);
        longer.put_slice(b"rubbish behind the message");
        let head = RequestHead::parse(&longer.freeze()).unwrap();
        assert!((case.reads)(&head, true), "{:?} {version} with bytes behind it", case.api);
    });
}

fn a_frame_cut_anywhere_is_refused() {
    every(|case, version, frame| {
        for len in 0..frame.len() {
            let head = RequestHead::parse(&frame.slice(..len));
            let read = head.is_ok_and(|head| (case.reads)(&head, false));
            assert!(!read, "{:?} {version} cut at {len} of {}", case.api, frame.len());
        }
    });
}

fn a_lying_number_anywhere_costs_no_memory() {
    let lies: [&[u8]; 8] = [
        &[0x7f, 0xff, 0xff, 0xff],       // i32 maximum: a count of 2^31 − 1
        &[0x7f, 0xff],                   // i16 maximum
        &[0xff, 0xff, 0xff, 0xff, 0x07], // the same as a varint, and minus one
        &[0xff, 0xff, 0xff, 0xff, 0x0f], // varint maximum
        &[0xff; 10],                     // a varint without end, and −1 everywhere
        &[0x80, 0, 0, 0],                // i32 minimum
        &[0, 0x0f, 0xff, 0xff],          // a count of a million
        &[0x80, 0x80, 0x40],             // the same as a varint
    ];
    let mut refused = 0_u32;
    every(|case, version, frame| {
        for at in 8..frame.len() {
            for lie in lies {
                let mut bytes = frame.to_vec();
                for (place, byte) in bytes[at..].iter_mut().zip(lie) {
                    *place = *byte;
                }
                let bytes = Bytes::from(bytes);
                let read = bounded(&format!("{:?} {version} at {at}", case.api), || {
                    RequestHead::parse(&bytes).is_ok_and(|head| (case.reads)(&head, false))
                });
                refused += u32::from(!read);
            }
        }
    });
    assert!(refused > 10_000, "only {refused} lies were noticed");
}

/// Metadata version 1, one topic array of 2^31 − 1 elements: 206 GB in the crate.
fn the_frame_that_aborts_the_bare_crate_is_refused() {
    let bytes = Bytes::from_static(&[0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff]);
    let head = RequestHead::parse(&bytes).unwrap();
    let error = bounded("14 bytes", || wire::decode::<MetadataRequest>(&head)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a request body is broken: an array of 2147483647 elements cannot fit the 0 bytes behind \
         it"
    );
}

fn many_small_elements_cost_a_bounded_multiple_of_their_frame() {
    use wire::scan::{COST_BYTES_PER_ITEM, TAGGED_FIELD_ITEMS};
    // OffsetFetch 8: groups of an empty name and no topics, without and with one tagged field
    let (bare, tagged): (&[u8], &[u8]) = (&[1, 0, 0], &[1, 0, 1, 9, 0]);
    for (group, items) in [(bare, 1), (tagged, 1 + TAGGED_FIELD_ITEMS)] {
        let head = offset_fetch(1_000, group);
        let region = Region::new(ALLOCATOR);
        let read = wire::decode::<OffsetFetchRequest>(&head).unwrap();
        let allocated = region.change().bytes_allocated;
        assert_eq!(read.groups.len(), 1_000);
        let bound = 1_000 * items * COST_BYTES_PER_ITEM;
        assert!(allocated <= bound, "{items} items each: {allocated} bytes, not {bound}");
    }
    let large = offset_fetch(250_000, bare);
    let error = bounded("250 000", || wire::decode::<OffsetFetchRequest>(&large)).unwrap_err();
    assert!(error.to_string().contains("more than 200000 elements"), "{error}");
}

fn offset_fetch(count: u32, group: &[u8]) -> RequestHead {
    let mut out = BytesMut::from(&[0, 9, 0, 8, 0, 0, 0, 1, 0xff, 0xff, 0][..]);
    let mut plus_one = count + 1;
    while plus_one >= 0x80 {
        out.put_u8(plus_one.to_le_bytes()[0] | 0x80);
        plus_one >>= 7;
    }
    out.put_u8(plus_one.to_le_bytes()[0]);
    (0..count).for_each(|_| out.put_slice(group));
    out.put_slice(&[0, 0]);
    RequestHead::parse(&out.freeze()).unwrap()
}

fn unknown_keys_and_versions_keep_their_correlation_id() {
    let of = |key: i16, version: i16| {
        let mut out = BytesMut::new();
        out.put_i16(key);
        out.put_i16(version);
        out.put_i32(4711);
        RequestHead::parse(&out.freeze()).unwrap_err()
    };
    let correlation_id = 4711;
    for key in [-1, 26, 99, i16::MAX] {
        let error = HeadError::UnknownApi { api_key: key, version: 0, correlation_id };
        assert_eq!(of(key, 0), error);
    }
    for (api, version) in [(Api::ApiVersions, 5), (Api::Produce, 2), (Api::Fetch, -1)] {
        let error = HeadError::UnsupportedVersion { api, version, correlation_id };
        assert_eq!(of(api.key(), version), error);
    }
}
