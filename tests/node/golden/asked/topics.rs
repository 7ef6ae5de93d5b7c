//! Requests about topics and their settings.

use kafka_protocol::messages::alter_configs_request as replaced;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use kafka_protocol::messages::{
    AlterConfigsRequest, CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest,
    DescribeConfigsRequest, IncrementalAlterConfigsRequest,
};
use uuid::Uuid;

use super::{Ask, ask};
use crate::golden::house::{MADE, ORDERS, RETRY};
use crate::support::client::s;

/// Resource types of the protocol.
const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const RETENTION: &str = "retention.ms";

pub(crate) fn all() -> Vec<Ask> {
    let mut all = topic_requests();
    all.extend(setting_requests());
    all
}

fn topic_requests() -> Vec<Ask> {
    vec![
        ask(|_, r: &mut CreateTopicsRequest| {
            let of = |name| {
                let topic = CreatableTopic::default().with_name(s(name));
                topic.with_num_partitions(2).with_replication_factor(1)
            };
            let setting = CreatableTopicConfig::default().with_name(s(RETENTION));
            let made = of(MADE.0).with_configs(vec![setting.with_value(Some(s("1000")))]);
            r.topics = vec![made, of(ORDERS.0), of(RETRY.0), of("no name")];
            r.timeout_ms = 30_000;
        }),
        ask(|version, r: &mut DeleteTopicsRequest| {
            r.timeout_ms = 30_000;
            if version < 6 {
                r.topic_names = vec![s(ORDERS.0), s(RETRY.0), s("nowhere")];
            } else {
                let of = |name| DeleteTopicState::default().with_name(Some(s(name)));
                let by_id = |id| DeleteTopicState::default().with_name(None).with_topic_id(id);
                let nobodys = by_id(Uuid::from_u128(5));
                r.topics = vec![by_id(ORDERS.1), of(RETRY.0), of("nowhere"), nobodys];
            }
        }),
        ask(|_, r: &mut CreatePartitionsRequest| {
            let of =
                |name, count| CreatePartitionsTopic::default().with_name(s(name)).with_count(count);
            let none = |topic: CreatePartitionsTopic| topic.with_assignments(None);
            r.topics = vec![none(of(ORDERS.0, 4)), none(of(RETRY.0, 2)), none(of("nowhere", 2))];
            r.timeout_ms = 30_000;
        }),
    ]
}

fn setting_requests() -> Vec<Ask> {
    vec![
        ask(|version, r: &mut DescribeConfigsRequest| {
            let of = |kind, name| {
                let resource = DescribeConfigsResource::default().with_resource_type(kind);
                resource.with_resource_name(s(name)).with_configuration_keys(None)
            };
            r.resources = vec![of(TOPIC, ORDERS.0), of(BROKER, "1"), of(TOPIC, "nowhere")];
            (r.include_synonyms, r.include_documentation) = (true, version >= 3);
        }),
        ask(|_, r: &mut AlterConfigsRequest| {
            let of = |topic, name, value| {
                let setting = replaced::AlterableConfig::default().with_name(s(name));
                let resource = replaced::AlterConfigsResource::default();
                let resource = resource.with_resource_type(TOPIC).with_resource_name(s(topic));
                resource.with_configs(vec![setting.with_value(Some(s(value)))])
            };
            let good = of(ORDERS.0, RETENTION, "1000");
            r.resources = vec![good, of(RETRY.0, RETENTION, "1000"), of("nowhere", "x", "y")];
        }),
        ask(|_, r: &mut IncrementalAlterConfigsRequest| {
            let of = |topic, name, value| {
                let setting = AlterableConfig::default().with_name(s(name));
                let resource = AlterConfigsResource::default().with_resource_type(TOPIC);
                let resource = resource.with_resource_name(s(topic));
                resource.with_configs(vec![setting.with_value(Some(s(value)))])
            };
            let good = of(ORDERS.0, RETENTION, "1000");
            r.resources = vec![good, of(RETRY.0, RETENTION, "1000"), of("nowhere", "x", "y")];
        }),
    ]
}
