//! Settings of topics: changed, replaced, described.

use kafka_protocol::messages::alter_configs_request::{
    AlterConfigsResource as Replaced, AlterableConfig as ReplacedConfig,
};
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use kafka_protocol::messages::{
    AlterConfigsRequest, DescribeConfigsRequest, IncrementalAlterConfigsRequest,
};
use reprise::wire::ResponseError;

use crate::support::batch::plain;
use crate::support::client::s;
use crate::support::{Client, Rec, Server};

const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

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

/// Alters one resource. Returns its error code and message.
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

        // a batch larger than the new limit is refused from now on
        assert_eq!(alter(&mut client, version, set("max.message.bytes", "90")).0, 0);
        let large = plain(&[Rec::new(&"x".repeat(90))]);
        let refused = client.produce("orders", 0, large.clone());
        assert_eq!(refused.error_code, ResponseError::MessageTooLarge.code(), "v{version}");
        let back = ["max.message.bytes", "retention.ms", "retention.bytes", "segment.bytes"];
        let back = back.iter().map(|name| change(name, DELETE, None)).collect();
        assert_eq!(alter(&mut client, version, of_topic("orders", back)).0, 0);
        assert_eq!(client.produce("orders", 0, large).error_code, 0, "v{version}");
        assert_eq!(setting(&mut client, "orders", "retention.ms").1, 5);

        // a value set on the topic is the topic's own, even if it equals the default
        let (value, _) = setting(&mut client, "orders", "retention.ms");
        assert_eq!(alter(&mut client, version, set("retention.ms", &value)).0, 0);
        assert_eq!(setting(&mut client, "orders", "retention.ms"), (value, 1));
        let back = of_topic("orders", vec![change("retention.ms", DELETE, None)]);
        assert_eq!(alter(&mut client, version, back).0, 0);
    }
}

#[test]
fn settings_without_effect_on_one_node_are_stored_and_listed() {
    let mut server = Server::start();
    let mut client = server.client();
    client.create("orders", 1);
    let set = change("segment.bytes", SET, Some("52428800"));
    assert_eq!(alter(&mut client, 1, of_topic("orders", vec![set])).0, 0);
    server.restart();
    client = server.client();
    assert_eq!(setting(&mut client, "orders", "segment.bytes"), ("52428800".to_owned(), 1));
    let back = change("segment.bytes", DELETE, None);
    assert_eq!(alter(&mut client, 1, of_topic("orders", vec![back])).0, 0);
    let mut asked = DescribeConfigsResource::default();
    (asked.resource_type, asked.resource_name) = (2, s("orders"));
    let request = DescribeConfigsRequest::default().with_resources(vec![asked]);
    let listed = &client.call(4, &request).results[0].configs;
    assert!(listed.iter().all(|config| config.name.as_str() != "segment.bytes"));
}

#[test]
fn every_compression_type_of_kafka_is_kept_and_listed() {
    let server = Server::start();
    let mut client = server.client();
    client.create("orders", 1);
    let asked = |value| of_topic("orders", vec![change("compression.type", SET, Some(value))]);
    for codec in ["gzip", "snappy", "lz4", "zstd", "uncompressed", "producer"] {
        assert_eq!(alter(&mut client, 1, asked(codec)).0, 0, "{codec}");
        assert_eq!(setting(&mut client, "orders", "compression.type"), (codec.to_owned(), 1));
    }
    let (code, why) = alter(&mut client, 1, asked("brotli"));
    assert_eq!(code, ResponseError::InvalidConfig.code());
    assert!(why.contains("expected uncompressed, zstd"), "{why}");
}

#[test]
fn an_unlimited_retention_of_a_listed_topic_overrides_the_default() {
    let mut server = Server::with(
        "topics:
           retention: 1d
           retention_bytes: 1MiB
           list:
             - {name: kept, retention: unlimited, retention_bytes: unlimited}
             - {name: some, retention: 2d}",
    );
    for _ in 0..2 {
        let mut client = server.client();
        let mut value = |topic: &str, name: &str| setting(&mut client, topic, name).0;
        assert_eq!(value("kept", "retention.ms"), "-1");
        assert_eq!(value("kept", "retention.bytes"), "-1");
        assert_eq!(value("some", "retention.ms"), "172800000");
        assert_eq!(value("some", "retention.bytes"), "1048576");
        server.restart();
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
            orders(vec![good.clone(), change("segment.weight", SET, Some("1"))]),
            config,
            "known: retention.ms",
        ),
        (
            orders(vec![good.clone(), change("min.insync.replicas", SET, Some("2"))]),
            config,
            "min.insync.replicas=2: expected 1",
        ),
        (orders(vec![change("cleanup.policy", SET, Some("compact"))]), config, "compaction"),
        (orders(vec![change("cleanup.policy", APPEND, Some("compact"))]), config, "delete,compact"),
        (
            orders(vec![change("cleanup.policy", SUBTRACT, Some("delete"))]),
            config,
            "cleanup.policy",
        ),
        (orders(vec![change("retention.ms", APPEND, Some("5"))]), config, "not a list"),
        (
            orders(vec![change("max.message.bytes", SET, Some("104857601"))]),
            config,
            "no request is larger than 104857600 bytes",
        ),
        (orders(vec![change("retention.ms", SET, None)]), invalid, "a value is missing"),
        (orders(vec![change("retention.ms", 9, Some("1"))]), invalid, "operation 9 is none of"),
        (orders(vec![good.clone(), good]), invalid, "more than once"),
        (own("nowhere"), ResponseError::UnknownTopicOrPartition, "no such topic"),
        (own("reprise.dlq.shop"), ResponseError::PolicyViolation, "retry.dead_letters"),
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
        assert_eq!(replace("reprise.dlq.shop", &[]), ResponseError::PolicyViolation.code());
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
    let after = server.killed();
    let mut client = after.client();
    assert_eq!(setting(&mut client, "orders", "retention.ms"), ("60000".to_owned(), 1));
}

#[test]
fn a_setting_is_described_with_type_documentation_and_default() {
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

/// Turns retention off for a topic.
pub(crate) fn keep_for_ever(client: &mut Client, topic: &str) {
    let kept = of_topic(topic, vec![change("retention.ms", SET, Some("-1"))]);
    assert_eq!(alter(client, 1, kept).0, 0);
}

#[test]
fn a_changed_retention_applies_to_the_next_expiry() {
    let server = Server::told("{}");
    let mut client = server.client();
    client.create("orders", 1);
    client.put("orders", 0, &[Rec::new("old")]);
    let look = || server.router().broker.expire().unwrap();
    look();
    server.pass(100_000);
    client.put("orders", 0, &[Rec::new("new")]);
    look();
    assert_eq!(client.list_offset("orders", 0, -2).1, 0, "a week by default");
    let asked = of_topic("orders", vec![change("retention.ms", SET, Some("50000"))]);
    assert_eq!(alter(&mut client, 1, asked).0, 0);
    look();
    assert_eq!(client.list_offset("orders", 0, -2).1, 1);
}
