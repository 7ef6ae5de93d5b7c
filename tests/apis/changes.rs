//! Topics that grow, take other settings, and begin later.

use kafka_protocol::messages::alter_configs_request::{
    AlterConfigsResource as Replaced, AlterableConfig as ReplacedConfig,
};
use kafka_protocol::messages::create_partitions_request::{
    CreatePartitionsAssignment, CreatePartitionsTopic,
};
use kafka_protocol::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsTopic,
};
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_log_dirs_request::DescribableLogDirTopic;
use kafka_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use kafka_protocol::messages::{
    AlterConfigsRequest, CreatePartitionsRequest, DeleteRecordsRequest, DescribeConfigsRequest,
    DescribeLogDirsRequest, IncrementalAlterConfigsRequest,
};
use reprise::wire::ResponseError;

use crate::support::batch::plain;
use crate::support::client::s;
use crate::support::{Client, Consumer, Rec, Server, settle};

const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

fn grown(name: &str, count: i32) -> CreatePartitionsTopic {
    let mut topic = CreatePartitionsTopic::default();
    (topic.name, topic.count, topic.assignments) = (s(name), count, None);
    topic
}

/// A topic that says where its new partitions are to be.
fn placed(name: &str, count: i32, brokers: &[i32]) -> CreatePartitionsTopic {
    let mut topic = grown(name, count);
    let on = |broker: &i32| {
        CreatePartitionsAssignment::default().with_broker_ids(vec![(*broker).into()])
    };
    topic.assignments = Some(brokers.iter().map(on).collect());
    topic
}

/// What became of the topics, by name.
fn grow(
    client: &mut Client,
    version: i16,
    topics: Vec<CreatePartitionsTopic>,
) -> Vec<(String, i16)> {
    let request = CreatePartitionsRequest::default().with_topics(topics);
    let answer = client.call(version, &request);
    for result in &answer.results {
        let says = result.error_message.as_ref().is_some_and(|words| words.len() > 9);
        assert_eq!(says, result.error_code != 0, "{result:?}");
    }
    answer.results.iter().map(|one| (one.name.to_string(), one.error_code)).collect()
}

fn partitions(client: &mut Client, topic: &str) -> usize {
    client.metadata(9, &[topic]).topics[0].partitions.len()
}

#[test]
fn topics_grow_in_every_version_and_every_refusal_has_its_code() {
    let server = Server::start();
    let mut client = server.client();
    let here = server.node_id();
    for version in 0..=3 {
        let name = format!("t{version}");
        client.create(&name, 2);
        let before = client.put(&name, 1, &[Rec::new("x")]);
        assert_eq!(before, 0);
        let mut only = CreatePartitionsRequest::default().with_topics(vec![grown(&name, 5)]);
        only.validate_only = true;
        assert_eq!(client.call(version, &only).results[0].error_code, 0);
        assert_eq!(partitions(&mut client, &name), 2, "v{version}: only looked at");

        assert_eq!(grow(&mut client, version, vec![grown(&name, 4)]), [(name.clone(), 0)]);
        assert_eq!(partitions(&mut client, &name), 4, "v{version}");
        let with = placed(&name, 6, &[here, here]);
        assert_eq!(grow(&mut client, version, vec![with])[0].1, 0);
        assert_eq!(client.put(&name, 5, &[Rec::new("new")]), 0, "v{version}: at once usable");
        assert_eq!(client.put(&name, 1, &[Rec::new("y")]), 1, "v{version}: the old ones go on");

        let no = |error: ResponseError| error.code();
        for (asked, error) in [
            (grown(&name, 6), no(ResponseError::InvalidPartitions)),
            (grown(&name, 5), no(ResponseError::InvalidPartitions)),
            (grown(&name, -1), no(ResponseError::InvalidPartitions)),
            (grown(&name, 10_001), no(ResponseError::InvalidPartitions)),
            (grown("nowhere", 3), no(ResponseError::UnknownTopicOrPartition)),
            (grown("retry.shop", 3), no(ResponseError::PolicyViolation)),
            (grown("dlq.shop", 3), no(ResponseError::PolicyViolation)),
            (placed(&name, 8, &[here]), no(ResponseError::InvalidReplicaAssignment)),
            (placed(&name, 7, &[here + 1]), no(ResponseError::InvalidReplicaAssignment)),
        ] {
            let said = format!("v{version} {asked:?}");
            assert_eq!(grow(&mut client, version, vec![asked])[0].1, error, "{said}");
        }
        let twice = vec![grown(&name, 7), grown("nowhere", 3), grown(&name, 8)];
        let codes = grow(&mut client, version, twice);
        let invalid = ResponseError::InvalidRequest.code();
        let unknown = ResponseError::UnknownTopicOrPartition.code();
        assert_eq!(codes, [("nowhere".to_owned(), unknown), (name.clone(), invalid)]);
        assert_eq!(partitions(&mut client, &name), 6, "v{version}: nothing of that was done");
    }
}

#[test]
fn what_a_topic_has_grown_by_is_there_after_a_kill() {
    let server = Server::start();
    let mut client = server.client();
    client.create("orders", 1);
    let id = client.metadata(12, &["orders"]).topics[0].topic_id;
    assert_eq!(grow(&mut client, 3, vec![grown("orders", 3)])[0].1, 0);
    assert_eq!(client.put("orders", 2, &[Rec::new("x")]), 0);
    let after = server.killed();
    let mut client = after.client();
    assert_eq!(partitions(&mut client, "orders"), 3);
    assert_eq!(client.metadata(12, &["orders"]).topics[0].topic_id, id);
    assert_eq!(client.put("orders", 2, &[Rec::new("y")]), 1);
}

#[test]
fn members_by_kip_848_are_given_what_is_added() {
    let server = Server::start();
    let mut client = server.client();
    client.create("orders", 2);
    let mut member = Consumer::new(&server, "shop", &["orders"]);
    member.enter();
    settle(&mut [&mut member]);
    assert_eq!(member.orders(), [0, 1]);
    assert_eq!(grow(&mut client, 3, vec![grown("orders", 4)])[0].1, 0);
    settle(&mut [&mut member]);
    assert_eq!(member.orders(), [0, 1, 2, 3]);
}

fn change(name: &str, operation: i8, value: Option<&str>) -> AlterableConfig {
    let mut config = AlterableConfig::default();
    (config.name, config.config_operation) = (s(name), operation);
    config.value = value.map(s);
    config
}

fn of_topic(name: &str, configs: Vec<AlterableConfig>) -> AlterConfigsResource {
    let mut resource = AlterConfigsResource::default();
    (resource.resource_type, resource.resource_name, resource.configs) = (2, s(name), configs);
    resource
}

/// The error of one resource, and what is said of it.
fn alter(client: &mut Client, version: i16, resource: AlterConfigsResource) -> (i16, String) {
    let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
    let answer = client.call(version, &request);
    assert_eq!(answer.responses.len(), 1);
    let one = &answer.responses[0];
    assert_eq!(one.error_code != 0, one.error_message.is_some());
    (one.error_code, one.error_message.as_ref().map(ToString::to_string).unwrap_or_default())
}

/// Value and source of one setting.
fn setting(client: &mut Client, topic: &str, name: &str) -> (String, i8) {
    let mut asked = DescribeConfigsResource::default();
    (asked.resource_type, asked.resource_name) = (2, s(topic));
    asked.configuration_keys = Some(vec![s(name)]);
    let request = DescribeConfigsRequest::default().with_resources(vec![asked]);
    let answer = client.call(4, &request);
    let found = &answer.results[0].configs[0];
    (found.value.as_ref().unwrap().to_string(), found.config_source)
}

#[test]
fn settings_are_changed_one_by_one_in_every_version() {
    let server = Server::start();
    let mut client = server.client();
    client.create("orders", 1);
    let (_, default) = setting(&mut client, "orders", "retention.ms");
    assert_eq!(default, 5);
    for version in 0..=1 {
        let set =
            |name: &str, value: &str| of_topic("orders", vec![change(name, SET, Some(value))]);
        let both = vec![
            change("retention.ms", SET, Some("60000")),
            change("retention.bytes", SET, Some("9000")),
        ];
        let mut only = IncrementalAlterConfigsRequest::default()
            .with_resources(vec![of_topic("orders", both.clone())]);
        only.validate_only = true;
        assert_eq!(client.call(version, &only).responses[0].error_code, 0);
        assert_eq!(setting(&mut client, "orders", "retention.ms").1, 5, "only looked at");
        assert_eq!(alter(&mut client, version, of_topic("orders", both)).0, 0);
        assert_eq!(setting(&mut client, "orders", "retention.ms"), ("60000".to_owned(), 1));
        assert_eq!(setting(&mut client, "orders", "retention.bytes"), ("9000".to_owned(), 1));

        // a batch that fits no more is refused from now on
        assert_eq!(alter(&mut client, version, set("max.message.bytes", "90")).0, 0);
        let large = plain(&[Rec::new(&"x".repeat(90))]);
        let refused = client.produce("orders", 0, large.clone());
        assert_eq!(refused.error_code, ResponseError::MessageTooLarge.code(), "v{version}");
        let back = ["max.message.bytes", "retention.ms", "retention.bytes", "segment.bytes"];
        let back = back.iter().map(|name| change(name, DELETE, None)).collect();
        assert_eq!(alter(&mut client, version, of_topic("orders", back)).0, 0);
        assert_eq!(client.produce("orders", 0, large).error_code, 0, "v{version}");
        assert_eq!(setting(&mut client, "orders", "retention.ms").1, 5);

        // what is set is the topic's own, also when it is what holds anyway
        let (value, _) = setting(&mut client, "orders", "retention.ms");
        assert_eq!(alter(&mut client, version, set("retention.ms", &value)).0, 0);
        assert_eq!(setting(&mut client, "orders", "retention.ms"), (value, 1));
        let back = of_topic("orders", vec![change("retention.ms", DELETE, None)]);
        assert_eq!(alter(&mut client, version, back).0, 0);
    }
}

#[test]
fn a_setting_that_is_refused_says_why_and_changes_nothing() {
    let server = Server::start();
    let mut client = server.client();
    client.create("orders", 1);
    let (config, invalid) = (ResponseError::InvalidConfig, ResponseError::InvalidRequest);
    let of_broker = |name: &str| {
        let mut resource = of_topic(name, vec![change("log.retention.ms", SET, Some("1"))]);
        resource.resource_type = 4;
        resource
    };
    let own = |name: &str| of_topic(name, vec![change("retention.ms", SET, Some("1"))]);
    let orders = |configs: Vec<AlterableConfig>| of_topic("orders", configs);
    let good = change("retention.bytes", SET, Some("5"));
    for (asked, error, says) in [
        (
            orders(vec![good.clone(), change("retention.ms", SET, Some("soon"))]),
            config,
            "retention.ms=soon",
        ),
        (
            orders(vec![good.clone(), change("segment.bytes", SET, Some("1"))]),
            config,
            "segment.bytes",
        ),
        (
            orders(vec![good.clone(), change("min.insync.replicas", SET, Some("1"))]),
            config,
            "known:",
        ),
        (orders(vec![change("cleanup.policy", SET, Some("compact"))]), config, "compaction"),
        (orders(vec![change("cleanup.policy", APPEND, Some("compact"))]), config, "delete,compact"),
        (
            orders(vec![change("cleanup.policy", SUBTRACT, Some("delete"))]),
            config,
            "cleanup.policy",
        ),
        (orders(vec![change("retention.ms", APPEND, Some("5"))]), config, "not a list"),
        (orders(vec![change("retention.ms", SET, None)]), invalid, "a value is missing"),
        (orders(vec![change("retention.ms", 9, Some("1"))]), invalid, "operations"),
        (orders(vec![good.clone(), good]), invalid, "more than once"),
        (own("nowhere"), ResponseError::UnknownTopicOrPartition, "no such topic"),
        (own("retry.shop"), ResponseError::PolicyViolation, "retry topic of a group"),
        (own("dlq.shop"), ResponseError::PolicyViolation, "retry.dead_letters"),
        (of_broker(""), invalid, "configuration file"),
        (of_broker("7"), invalid, "configuration file"),
    ] {
        for version in 0..=1 {
            let (code, why) = alter(&mut client, version, asked.clone());
            assert_eq!(code, error.code(), "{asked:?}: {why}");
            assert!(why.contains(says), "{why}");
        }
        assert_eq!(setting(&mut client, "orders", "retention.bytes"), ("-1".to_owned(), 5));
    }
    let twice = vec![own("orders"), own("nowhere"), own("orders")];
    let request = IncrementalAlterConfigsRequest::default().with_resources(twice);
    let answer = client.call(1, &request);
    let codes: Vec<i16> = answer.responses.iter().map(|one| one.error_code).collect();
    assert_eq!(codes, [ResponseError::UnknownTopicOrPartition.code(), invalid.code()]);
    assert_eq!(setting(&mut client, "orders", "retention.ms").1, 5);
}

#[test]
fn all_settings_are_replaced_in_every_version() {
    let server = Server::start();
    let mut client = server.client();
    client.create("orders", 1);
    for version in 0..=2 {
        let mut replace = |topic: &str, settings: &[(&str, Option<&str>)]| {
            let mut resource = Replaced::default();
            (resource.resource_type, resource.resource_name) = (2, s(topic));
            let config = |(name, value): &(&str, Option<&str>)| {
                ReplacedConfig::default().with_name(s(name)).with_value(value.map(s))
            };
            resource.configs = settings.iter().map(config).collect();
            let request = AlterConfigsRequest::default().with_resources(vec![resource]);
            client.call(version, &request).responses[0].error_code
        };
        assert_eq!(replace("orders", &[("retention.ms", Some("60000"))]), 0, "v{version}");
        assert_eq!(replace("orders", &[("retention.bytes", Some("9"))]), 0, "v{version}");
        let invalid = ResponseError::InvalidRequest.code();
        assert_eq!(replace("orders", &[("retention.ms", None)]), invalid);
        let twice = [("retention.ms", Some("1")), ("retention.ms", Some("2"))];
        assert_eq!(replace("orders", &twice), invalid);
        let config = ResponseError::InvalidConfig.code();
        assert_eq!(replace("orders", &[("cleanup.policy", Some("compact"))]), config);
        assert_eq!(replace("dlq.shop", &[]), ResponseError::PolicyViolation.code());
        assert_eq!(setting(&mut client, "orders", "retention.bytes"), ("9".to_owned(), 1));
        assert_eq!(setting(&mut client, "orders", "retention.ms").1, 5, "back at its default");
    }
}

#[test]
fn settings_are_there_after_a_kill() {
    let server = Server::start();
    let mut client = server.client();
    client.create("orders", 1);
    let asked = of_topic("orders", vec![change("retention.ms", SET, Some("60000"))]);
    assert_eq!(alter(&mut client, 1, asked).0, 0);
    assert_eq!(grow(&mut client, 3, vec![grown("orders", 2)])[0].1, 0);
    let after = server.killed();
    let mut client = after.client();
    assert_eq!(setting(&mut client, "orders", "retention.ms"), ("60000".to_owned(), 1));
    assert_eq!(partitions(&mut client, "orders"), 2);
}

#[test]
fn a_setting_is_told_with_its_type_its_words_and_what_it_would_be() {
    let server = Server::start();
    let mut client = server.client();
    client.create("orders", 1);
    let asked = of_topic("orders", vec![change("retention.ms", SET, Some("60000"))]);
    assert_eq!(alter(&mut client, 1, asked).0, 0);
    for version in 1..=4 {
        let mut asked = DescribeConfigsResource::default();
        (asked.resource_type, asked.resource_name) = (2, s("orders"));
        asked.configuration_keys = None;
        let mut request = DescribeConfigsRequest::default().with_resources(vec![asked]);
        request.include_synonyms = true;
        request.include_documentation = version >= 3;
        let configs = client.call(version, &request).results.remove(0).configs;
        let of = |name: &str| configs.iter().find(|one| one.name.as_str() == name).unwrap();
        let keep = of("retention.ms");
        let synonyms: Vec<(&str, i8)> =
            keep.synonyms.iter().map(|one| (one.name.as_str(), one.source)).collect();
        assert_eq!(synonyms, [("retention.ms", 1), ("log.retention.ms", 5)], "v{version}");
        assert_eq!(of("max.message.bytes").synonyms[0].name.as_str(), "message.max.bytes");
        assert!(!keep.read_only && of("cleanup.policy").read_only, "v{version}");
        if version >= 3 {
            assert_eq!((keep.config_type, of("cleanup.policy").config_type), (5, 7));
            let words = keep.documentation.as_ref().unwrap();
            assert!(words.contains("milliseconds"), "{words:?}");
        }
    }
}

/// What became of each deletion: the first offset kept, and the error.
fn delete(
    client: &mut Client,
    version: i16,
    topic: &str,
    before: &[(i32, i64)],
) -> Vec<(i64, i16)> {
    let partition = |(index, offset): &(i32, i64)| {
        DeleteRecordsPartition::default().with_partition_index(*index).with_offset(*offset)
    };
    let mut asked = DeleteRecordsTopic::default();
    (asked.name, asked.partitions) = (s(topic), before.iter().map(partition).collect());
    let request = DeleteRecordsRequest::default().with_topics(vec![asked]);
    let answer = client.call(version, &request);
    let results = answer.topics[0].partitions.iter();
    results.map(|one| (one.low_watermark, one.error_code)).collect()
}

#[test]
fn records_are_deleted_up_to_an_offset_in_every_version() {
    let server = Server::start();
    let mut client = server.client();
    client.nack("shop", "orders-0@0", Rec::new("x").header("x-retry-level", "-1"));
    for version in 0..=2 {
        let name = format!("t{version}");
        client.create(&name, 3);
        for (index, batches) in [(0, 5), (1, 3)] {
            for _ in 0..batches {
                client.put(&name, index, &[Rec::new("a"), Rec::new("b")]);
            }
        }
        let out = ResponseError::OffsetOutOfRange.code();
        let unknown = ResponseError::UnknownTopicOrPartition.code();
        let asked = [(0, 3), (1, -1), (2, -1), (0, 11), (0, -2), (7, 0)];
        let done = [(3, 0), (6, 0), (0, 0), (-1, out), (-1, out), (-1, unknown)];
        assert_eq!(delete(&mut client, version, &name, &asked), done, "v{version}");
        assert_eq!(delete(&mut client, version, &name, &[(0, 1)]), [(3, 0)], "never back");
        assert_eq!(delete(&mut client, version, &name, &[(0, 10)]), [(10, 0)], "all of it");
        assert_eq!(client.list_offset(&name, 1, -2).1, 6, "v{version}: where it begins");
        assert_eq!(client.fetch(&name, 1, 5, 0).error_code, out, "v{version}: gone");
        assert_eq!(client.put(&name, 1, &[Rec::new("new")]), 6, "offsets go on");

        let unknown = [(-1, ResponseError::UnknownTopicOrPartition.code())];
        assert_eq!(delete(&mut client, version, "nowhere", &[(0, -1)]), unknown);
        let ours = [(-1, ResponseError::PolicyViolation.code())];
        for topic in ["retry.shop", "dlq.shop"] {
            assert_eq!(delete(&mut client, version, topic, &[(0, -1)]), ours, "{topic}");
        }
    }
    assert_eq!(client.read_all("dlq.shop").len(), 1, "the dead letter is still there");
}

#[test]
fn a_deletion_inside_a_batch_is_where_the_partition_begins_after_a_kill_too() {
    let server = Server::start();
    let mut client = server.client();
    client.create("orders", 1);
    client.put("orders", 0, &[Rec::new("a"), Rec::new("b"), Rec::new("c")]);
    assert_eq!(delete(&mut client, 2, "orders", &[(0, 2)]), [(2, 0)]);
    for server in [&server, &server.killed()] {
        let mut client = server.client();
        assert_eq!(client.list_offset("orders", 0, -2).1, 2);
        let refused = client.fetch("orders", 0, 1, 0);
        assert_eq!(refused.error_code, ResponseError::OffsetOutOfRange.code());
        let data = client.fetch("orders", 0, 2, 0);
        assert_eq!((data.error_code, data.log_start_offset), (0, 2));
    }
}

#[test]
fn log_dirs_are_described_in_every_version() {
    let server = Server::start();
    let mut client = server.client();
    client.create("orders", 2);
    client.put("orders", 1, &[Rec::new("x")]);
    client.nack("shop", "orders-0@0", Rec::new("x").header("x-retry-level", "-1"));
    for version in 1..=4 {
        let all = client.call(version, &DescribeLogDirsRequest::default().with_topics(None));
        assert_eq!((all.error_code, all.results.len()), (0, 1), "v{version}");
        let dir = &all.results[0];
        assert_eq!((dir.error_code, dir.usable_bytes > 0), (0, version >= 4));
        let names: Vec<&str> = dir.topics.iter().map(|topic| topic.name.as_str()).collect();
        assert_eq!(names, ["dlq.shop", "orders"], "v{version}: what waits is no log");
        let sizes: Vec<(i32, bool)> = dir.topics[1]
            .partitions
            .iter()
            .map(|one| (one.partition_index, one.partition_size > 0))
            .collect();
        assert_eq!(sizes, [(0, false), (1, true)], "v{version}");

        let asked = |name: &str, partitions: Vec<i32>| {
            DescribableLogDirTopic::default().with_topic(s(name)).with_partitions(partitions)
        };
        let some = vec![asked("orders", vec![1, 9]), asked("nowhere", vec![0])];
        let some = DescribeLogDirsRequest::default().with_topics(Some(some));
        let topics = client.call(version, &some).results.remove(0).topics;
        assert_eq!((topics.len(), topics[0].partitions.len()), (1, 1), "v{version}");
    }
}
