//! Metadata 0–13: topics by name, by id (v10+) or all of them; makes missing ones if allowed.

use std::sync::Arc;

use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{BrokerId, MetadataRequest, MetadataResponse};
use uuid::Uuid;

use crate::broker::error::BrokerError;
use crate::broker::settings::TopicSpec;
use crate::model::TopicName;
use crate::route::conn::Conn;
use crate::route::convert::{text, topic_of, wire_topic};
use crate::route::place::Place;
use crate::route::{Router, code};
use crate::wire::RequestHead;
use crate::wire::batch::LEADER_EPOCH;

/// Before, an empty list asked for all topics; since, no list does.
const NONE_IS_ALL_SINCE: i16 = 1;
/// A topic asked for by id may be answered without a name.
const NAMELESS_SINCE: i16 = 12;

pub(super) async fn answer(
    router: &Router,
    conn: &Conn,
    head: &RequestHead,
    request: MetadataRequest,
) -> MetadataResponse {
    let mut topics = Vec::new();
    match request.topics {
        None => topics.extend(all(router)),
        Some(asked) if asked.is_empty() && head.version < NONE_IS_ALL_SINCE => {
            topics.extend(all(router));
        }
        Some(asked) => {
            for topic in asked {
                let name = topic.name.as_ref().map(topic_of);
                let create = request.allow_auto_topic_creation;
                topics.push(one(router, name, topic.topic_id, create).await);
            }
        }
    }
    if head.version < NAMELESS_SINCE {
        for topic in &mut topics {
            topic.name.get_or_insert_default();
        }
    }
    let mut response = MetadataResponse::default();
    response.brokers = vec![node(router, conn)];
    response.cluster_id = Some(text(router.broker.cluster_id()));
    response.controller_id = BrokerId(router.config.node_id);
    response.topics = topics;
    response
}

fn node(router: &Router, conn: &Conn) -> MetadataResponseBroker {
    let (host, port) = &conn.advertised;
    let mut broker = MetadataResponseBroker::default();
    broker.node_id = BrokerId(router.config.node_id);
    broker.host = text(host);
    broker.port = i32::from(*port);
    broker
}

fn all(router: &Router) -> Vec<MetadataResponseTopic> {
    router
        .listed()
        .into_iter()
        .filter_map(|name| router.place(&name).map(|place| found(router, &name, &place)))
        .collect()
}

async fn one(
    router: &Router,
    name: Option<TopicName>,
    id: Uuid,
    create: bool,
) -> MetadataResponseTopic {
    let asked = name.clone().unwrap_or_else(|| TopicName::new(""));
    let resolved = match router.named(&asked, id) {
        Ok(name) => name,
        Err(error) => return missing(None, id, &error),
    };
    if let Some(place) = router.place(&resolved) {
        let mut topic = found(router, &resolved, &place);
        // A client that asked by the RocketMQ spelling looks for its own words in the answer.
        if let Some(asked) = name {
            topic.name = Some(wire_topic(&asked));
        }
        return topic;
    }
    // A name of ours that has no place (`retry.lane: off`) is never made an ordinary topic.
    let may_create =
        create && router.config.auto_create && !router.names.is_ours(resolved.as_str());
    if !may_create {
        return missing(name, id, &BrokerError::UnknownTopicOrPartition);
    }
    match create_now(router, &resolved).await {
        Ok(topic) => found(router, &resolved, &Place::Local(topic)),
        Err(error) => missing(name, id, &error),
    }
}

/// Makes a topic with the default number of partitions and waits until it is durable.
pub(super) async fn create_now(
    router: &Router,
    name: &TopicName,
) -> Result<Arc<crate::broker::topic::Topic>, BrokerError> {
    let spec = TopicSpec {
        name: name.clone(),
        partitions: router.config.default_partitions,
        settings: Vec::new(),
    };
    match router.broker.topics.create(&spec, Uuid::new_v4()) {
        Ok((topic, seq)) => {
            router.broker.durable(seq).await?;
            tracing::info!(topic = %name, partitions = spec.partitions, "topic created");
            Ok(topic)
        }
        Err(BrokerError::TopicExists(_)) => {
            router.broker.topics.find(name).ok_or(BrokerError::UnknownTopicOrPartition)
        }
        Err(error) => Err(error),
    }
}

fn found(router: &Router, name: &TopicName, place: &Place) -> MetadataResponseTopic {
    let node = BrokerId(router.config.node_id);
    let mut topic = MetadataResponseTopic::default();
    topic.name = Some(wire_topic(name));
    topic.topic_id = router.id_of(name, place);
    topic.partitions = (0..place.partitions())
        .map(|index| {
            let mut partition = MetadataResponsePartition::default();
            partition.partition_index = index;
            partition.leader_id = node;
            partition.leader_epoch = LEADER_EPOCH;
            partition.replica_nodes = vec![node];
            partition.isr_nodes = vec![node];
            partition
        })
        .collect();
    topic
}

fn missing(name: Option<TopicName>, id: Uuid, error: &BrokerError) -> MetadataResponseTopic {
    let mut topic = MetadataResponseTopic::default();
    topic.error_code = code::of_broker(error).code();
    topic.name = name.as_ref().map(wire_topic);
    topic.topic_id = id;
    topic
}
