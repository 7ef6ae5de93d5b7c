//! Requests of a few kilobytes that name one thing thousands of times, each time with a large
//! answer.

use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_producers_request::TopicRequest;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::{
    DescribeConfigsRequest, DescribeGroupsRequest, DescribeProducersRequest, ListOffsetsRequest,
    MetadataRequest, OffsetFetchRequest,
};

use crate::bounded::Bounded;
use crate::support::client::{fetch_request, s};
use crate::support::{Client, Member, Rec, until};

/// Low enough that a build which answers each repetition does not exhaust the machine.
const TIMES: usize = 2000;
/// One answer of each kind, the largest half a MiB, and memory that the allocator retains.
const GROWN_MIB_MAX: f64 = 24.0;

fn often<T: Clone>(one: T) -> Vec<T> {
    vec![one; TIMES]
}

fn of_topics(client: &mut Client) {
    client.create("wide", 1000);
    let wide = MetadataRequestTopic::default().with_name(Some(s("wide")));
    let told = client.call(9, &MetadataRequest::default().with_topics(Some(often(wide))));
    let partitions: Vec<usize> = told.topics.iter().map(|topic| topic.partitions.len()).collect();
    assert!(partitions == [1000], "told {} times", partitions.len());

    let resource = DescribeConfigsResource::default().with_resource_type(2);
    let resource = resource.with_resource_name(s("wide")).with_configuration_keys(None);
    let mut request = DescribeConfigsRequest::default().with_resources(often(resource));
    (request.include_synonyms, request.include_documentation) = (true, true);
    assert_eq!(client.call(3, &request).results.len(), 1);

    let partition = ListOffsetsPartition::default().with_timestamp(-3);
    let wide = ListOffsetsTopic::default().with_name(s("wide"));
    let wide = often(wide.with_partitions(often(partition)[..10].to_vec()));
    let told = client.call(7, &ListOffsetsRequest::default().with_topics(wide));
    assert_eq!(told.topics.iter().map(|topic| topic.partitions.len()).sum::<usize>(), 1);

    let wide = TopicRequest::default().with_name(s("wide")).with_partition_indexes(often(0));
    let told = client.call(0, &DescribeProducersRequest::default().with_topics(vec![wide]));
    assert_eq!(told.topics[0].partitions.len(), 1);
}

fn of_groups(house: &Bounded) {
    let mut member = Member::on(house.client(), "shop", &[&"t".repeat(30_000)]);
    member.join(&[]);
    let client = &mut member.client;
    let told = client.call(5, &DescribeGroupsRequest::default().with_groups(often(s("shop"))));
    assert_eq!(told.groups.len(), 1);
    assert!(told.groups[0].members[0].member_metadata.len() > 30_000);

    let request = member.commit_request("wide", 0, 1, &"note".repeat(1000));
    assert_eq!(member.client.call(8, &request).topics[0].partitions[0].error_code, 0);
    let wide = OffsetFetchRequestTopic::default().with_name(s("wide"));
    let wide = wide.with_partition_indexes(often(0));
    let request = OffsetFetchRequest::default().with_group_id(s("shop"));
    let told = member.client.call(7, &request.with_topics(Some(often(wide)[..10].to_vec())));
    let told = told.topics.iter().flat_map(|topic| &topic.partitions);
    let notes: Vec<usize> = told.map(|of| of.metadata.as_ref().unwrap().len()).collect();
    assert!(notes == [4000], "told {} times", notes.len());

    let wide = OffsetFetchRequestTopics::default().with_name(s("wide"));
    let group = OffsetFetchRequestGroup::default().with_group_id(s("shop"));
    let group = group.with_topics(Some(vec![wide.with_partition_indexes(vec![0])]));
    let request = OffsetFetchRequest::default().with_groups(often(group));
    assert_eq!(member.client.call(8, &request).groups.len(), 1);
}

fn of_retries(client: &mut Client) {
    let record = Rec::new(&"x".repeat(500 << 10));
    assert_eq!(client.nack("other", "wide-0@0", record).error_code, 0);
    let mut request = fetch_request("reprise.retry.other", 0, 0, 0);
    let partition = request.topics[0].partitions[0].clone();
    request.topics[0].partitions = often(partition)[..400].to_vec();
    let bytes = |of: &kafka_protocol::messages::fetch_response::PartitionData| {
        of.records.as_ref().map_or(0, bytes::Bytes::len)
    };
    until("the retry is released", || {
        let told = client.call(12, &request);
        let bytes: Vec<usize> = told.responses[0].partitions.iter().map(bytes).collect();
        assert_eq!(bytes.len(), 1, "told {} times", bytes.len());
        bytes[0] > 500 << 10
    });
}

#[test]
fn names_repeated_a_thousand_times_are_answered_once() {
    let house = Bounded::start(&["retry.levels=20ms"]);
    let mut client = house.client();
    of_topics(&mut client);
    house.has_grown_less_than(GROWN_MIB_MAX, "topics again and again");
    of_groups(&house);
    house.has_grown_less_than(GROWN_MIB_MAX, "groups again and again");
    of_retries(&mut client);
    house.has_grown_less_than(GROWN_MIB_MAX, "retries again and again");
}
