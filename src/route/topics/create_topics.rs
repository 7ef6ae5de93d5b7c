//! `CreateTopics` 2–7: creates topics of this node.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::create_topics_response::{
    CreatableTopicConfigs, CreatableTopicResult,
};
use kafka_protocol::messages::{CreateTopicsRequest, CreateTopicsResponse};
use uuid::Uuid;

use crate::broker::error::BrokerError;
use crate::broker::settings::{SettingError, TopicSettings, TopicSpec};
use crate::model::TopicName;
use crate::route::convert::{some_text, text, topic_of};
use crate::route::topics::topic_names::TopicKind;
use crate::route::{NODE_ID, Router, code};
use crate::wire::RequestHead;

/// `ConfigSource` of DescribeConfigs and CreateTopics: set on the topic, or a default.
pub(in crate::route) const SOURCE_TOPIC: i8 = 1;
pub(in crate::route) const SOURCE_DEFAULT: i8 = 5;
/// First version whose answer lists the settings (KIP-525).
const SETTINGS_SINCE: i16 = 5;

pub(in crate::route) async fn answer(
    router: &Router,
    head: &RequestHead,
    request: CreateTopicsRequest,
) -> CreateTopicsResponse {
    let mut named = BTreeMap::new();
    for asked in &request.topics {
        *named.entry(topic_of(&asked.name)).or_insert(0_u32) += 1;
    }
    let mut response = CreateTopicsResponse::default();
    for asked in request.topics {
        let made = match named.remove(&topic_of(&asked.name)) {
            Some(1) => create(router, &asked, request.validate_only).await,
            Some(_) => Err(BrokerError::NamedTwice(asked.name.to_string())),
            // The request named this topic before, and that result covers it.
            None => continue,
        };
        let mut result = CreatableTopicResult::default();
        result.name = asked.name;
        match made {
            Ok(made) => {
                result.topic_id = made.id;
                result.error_message = None;
                result.num_partitions = made.partitions;
                result.replication_factor = 1;
                result.configs =
                    (head.version >= SETTINGS_SINCE).then(|| settings(router, &made.settings));
            }
            Err(error) => {
                result.error_code = code::of_broker(&error).code();
                result.error_message = some_text(&error.to_string());
                result.num_partitions = -1;
                result.replication_factor = -1;
                result.configs = (head.version >= SETTINGS_SINCE).then(Vec::new);
            }
        }
        response.topics.push(result);
    }
    response
}

struct CreatedTopic {
    id: Uuid,
    partitions: i32,
    settings: TopicSettings,
}

async fn create(
    router: &Router,
    asked: &CreatableTopic,
    validate_only: bool,
) -> Result<CreatedTopic, BrokerError> {
    let mut spec = spec(router, asked)?;
    spec.settings = router.with_retry_settings(&spec.name, spec.settings);
    if let Some(refusal) = taken(router, &spec.name) {
        return Err(refusal);
    }
    if validate_only {
        let settings = router.broker.topics.check(&spec)?;
        return Ok(CreatedTopic { id: Uuid::nil(), partitions: spec.partitions, settings });
    }
    let (topic, seq) = router.broker.topics.create(&spec, Uuid::new_v4())?;
    router.retry_topic_changed(&spec.name);
    router.broker.durable(seq).await?;
    tracing::info!(topic = %spec.name, partitions = spec.partitions, "topic created");
    Ok(CreatedTopic { id: topic.id, partitions: spec.partitions, settings: topic.settings.clone() })
}

/// The error if a topic has this name already, or if the name is reserved for a retry topic.
fn taken(router: &Router, name: &TopicName) -> Option<BrokerError> {
    let group = router.names.group_of(name);
    match router.place(name) {
        Some(TopicKind::DeadLetters(_)) => {
            let group = group.as_ref().map(ToString::to_string).unwrap_or_default();
            Some(BrokerError::Served { name: name.to_string(), group })
        }
        Some(TopicKind::Local(_)) => Some(BrokerError::TopicExists(name.to_string())),
        None if router.group_served_here(name).is_some() => None,
        None => group.is_some().then(|| BrokerError::InvalidTopic {
            name: name.to_string(),
            why: "names of this form are retry topics, and this group has none (retry.delivery: \
                  off)",
        }),
    }
}

fn spec(router: &Router, asked: &CreatableTopic) -> Result<TopicSpec, BrokerError> {
    if !matches!(asked.replication_factor, -1 | 1) && asked.assignments.is_empty() {
        return Err(BrokerError::InvalidReplicationFactor(asked.replication_factor));
    }
    let partitions = match asked.num_partitions {
        -1 if asked.assignments.is_empty() => router.config.default_partitions,
        -1 => assigned(asked)?,
        partitions if asked.assignments.is_empty() => partitions,
        partitions => {
            let said = format!("{partitions} partitions, and replicas of some");
            return Err(BrokerError::InvalidAssignment(said));
        }
    };
    let mut settings = Vec::new();
    for config in &asked.configs {
        let name = config.name.to_string();
        let Some(value) = &config.value else { return Err(SettingError::Missing(name).into()) };
        settings.push((name, value.to_string()));
    }
    Ok(TopicSpec { name: topic_of(&asked.name), partitions, settings })
}

/// Checks that each assigned partition has one replica, on this node; returns the partition count.
fn assigned(asked: &CreatableTopic) -> Result<i32, BrokerError> {
    let node = NODE_ID;
    let mut indexes = BTreeSet::new();
    for partition in &asked.assignments {
        let here = matches!(&partition.broker_ids[..], [one] if one.0 == node);
        if !here || !indexes.insert(partition.partition_index) {
            let said = format!("partition {}", partition.partition_index);
            return Err(BrokerError::InvalidAssignment(said));
        }
    }
    let count = i32::try_from(indexes.len()).unwrap_or(i32::MAX);
    if !indexes.into_iter().eq(0..count) {
        return Err(BrokerError::InvalidAssignment("not from 0 on".to_owned()));
    }
    Ok(count)
}

fn settings(router: &Router, settings: &TopicSettings) -> Vec<CreatableTopicConfigs> {
    let defaults = router.broker.topics.defaults().list();
    settings
        .list()
        .into_iter()
        .zip(defaults)
        .map(|((name, value), (_, default))| {
            let mut config = CreatableTopicConfigs::default();
            config.name = text(name);
            config.config_source = if value == default { SOURCE_DEFAULT } else { SOURCE_TOPIC };
            config.value = some_text(&value);
            config
        })
        .collect()
}
