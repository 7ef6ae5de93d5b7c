//! `Metadata` 0–13: topics by name, by id (v10+), or all; creates missing topics if allowed.

use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{BrokerId, MetadataRequest, MetadataResponse};
use uuid::Uuid;

use crate::broker::error::BrokerError;
use crate::broker::settings::TopicSpec;
use crate::broker::topics::legal;
use crate::model::TopicName;
use crate::route::clients::broker_addresses::RealBroker;
use crate::route::clients::conn::Conn;
use crate::route::convert::{text, topic_of, wire_topic};
use crate::route::security::authorized_operations::{self, OF_CLUSTER, OF_TOPIC};
use crate::route::topics::topic_names::{IDS_SINCE, TopicKind, tells_ids};
use crate::route::unique_names::once;
use crate::route::{NODE_ID, Router, code};
use crate::upstream::{Brokers, Link, UpstreamError};
use crate::wire::batch::LEADER_EPOCH;
use crate::wire::{Api, RequestHead, ResponseError};

/// First version where a null list asks for all topics; before, an empty list did.
const NONE_IS_ALL_SINCE: i16 = 1;
/// First version that may answer a topic id without a name.
const NAMELESS_SINCE: i16 = 12;
/// First version with `LISTENER_NOT_FOUND`, for a leader without this listener.
const DEAF_LEADERS_SINCE: i16 = 6;
/// Time in which each broker learns of a new topic and its leaders.
const NEWS_MS: u64 = 30_000;
/// Longest wait of one request for a new topic.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause between questions about a new topic.
const PAUSE: Duration = Duration::from_millis(50);

pub(in crate::route) async fn answer(
    router: &Router,
    conn: &Conn,
    head: &RequestHead,
    request: MetadataRequest,
) -> MetadataResponse {
    let mut topics = Vec::new();
    let asks_rights = request.include_topic_authorized_operations;
    match request.topics {
        None => topics.extend(all(router)),
        Some(asked) if asked.is_empty() && head.version < NONE_IS_ALL_SINCE => {
            topics.extend(all(router));
        }
        Some(asked) => {
            for topic in once(asked, |topic| (topic.name.clone(), topic.topic_id)) {
                let name = topic.name.as_ref().map(topic_of);
                let create = request.allow_auto_topic_creation;
                topics.push(one(router, name, topic.topic_id, create).await);
            }
        }
    }
    for topic in &mut topics {
        let is_told = asks_rights && topic.error_code == 0;
        topic.topic_authorized_operations = authorized_operations::told(is_told, OF_TOPIC);
        if head.version < NAMELESS_SINCE {
            topic.name.get_or_insert_default();
        }
    }
    let mut response = MetadataResponse::default();
    response.brokers = vec![node(conn)];
    response.cluster_id = Some(text(router.broker.cluster_id()));
    response.controller_id = BrokerId(NODE_ID);
    response.topics = topics;
    let is_asked = request.include_cluster_authorized_operations;
    response.cluster_authorized_operations = authorized_operations::told(is_asked, OF_CLUSTER);
    response
}

/// In front of a cluster: its topics, and its brokers at their ports here.
pub(in crate::route) async fn relayed(
    router: &Router,
    conn: &Conn,
    link: &mut Link,
    head: &RequestHead,
    mut request: MetadataRequest,
) -> Result<MetadataResponse, UpstreamError> {
    let is_unopened =
        |name: &TopicName| router.names.is_ours(name) && router.open_for(name).is_none();
    let mut names = request.topics.iter().flatten().filter_map(|topic| topic.name.as_ref());
    // The cluster would make such a topic with its own number of partitions and settings.
    request.allow_auto_topic_creation &= !names.any(|name| is_unopened(&topic_of(name)));
    let all = match &request.topics {
        None => true,
        Some(asked) => asked.is_empty() && head.version < NONE_IS_ALL_SINCE,
    };
    let mut response = ask(conn, link, head, &request).await?;
    let began = router.clock.elapsed();
    while router.clock.elapsed().saturating_sub(began) < PATIENCE
        && response.topics.iter().any(|topic| is_news(router, topic))
    {
        tokio::time::sleep(PAUSE).await;
        response = ask(conn, link, head, &request).await?;
    }
    let unknown = ResponseError::UnknownTopicOrPartition.code();
    for topic in response.topics.iter_mut().filter(|topic| topic.error_code == unknown) {
        let Some(name) = topic.name.as_ref().map(topic_of) else { continue };
        if router.open_for(&name).is_some() {
            router.doubt_behind(&name).await;
        }
        if router.open_for(&name).is_some() || router.may_open_soon(&name) {
            // The client asks again soon, as for each topic that a broker is about to make.
            topic.error_code = ResponseError::LeaderNotAvailable.code();
        }
    }
    for topic in response.topics.iter_mut().filter(|_| all) {
        // Clients that subscribe by a pattern leave internal topics out.
        let name = topic.name.as_ref().map(topic_of);
        topic.is_internal |= name.is_some_and(|name| router.names.is_ours(&name));
    }
    readdress(router, conn, &mut response).await;
    router.told(&response).await;
    Ok(response)
}

/// Whether this broker may not know a topic or its leaders yet: the sidecar has opened it lately.
fn is_news(router: &Router, topic: &MetadataResponseTopic) -> bool {
    let waits = [ResponseError::UnknownTopicOrPartition, ResponseError::LeaderNotAvailable];
    let waits = |code: i16| waits.iter().any(|one| one.code() == code);
    if !waits(topic.error_code) && !topic.partitions.iter().any(|of| waits(of.error_code)) {
        return false;
    }
    let open_for = topic.name.as_ref().and_then(|name| router.open_for(&topic_of(name)));
    open_for.is_some_and(|age_ms| age_ms < NEWS_MS)
}

/// The cluster's answer, with topic ids if its broker knows them, so that a recreated topic is
/// noticed. An older client's answer omits the ids. Version 0 is relayed as it is: its empty list
/// has another meaning.
async fn ask(
    conn: &Conn,
    link: &mut Link,
    head: &RequestHead,
    request: &MetadataRequest,
) -> Result<MetadataResponse, UpstreamError> {
    let is_older = (NONE_IS_ALL_SINCE..IDS_SINCE).contains(&head.version);
    if !is_older || !tells_ids(conn, link, head).await? {
        return link.call(head, request).await;
    }
    let mut response = link.call_at(Api::Metadata, IDS_SINCE, head, request).await?;
    if head.version < DEAF_LEADERS_SINCE {
        let partitions = response.topics.iter_mut().flat_map(|topic| &mut topic.partitions);
        let deaf = ResponseError::ListenerNotFound.code();
        for partition in partitions.filter(|partition| partition.error_code == deaf) {
            partition.error_code = ResponseError::LeaderNotAvailable.code();
        }
    }
    Ok(response)
}

/// A request for topics by name that creates none; needs version 4 or later.
pub(super) fn question(names: &[TopicName]) -> MetadataRequest {
    let topic = |name| MetadataRequestTopic::default().with_name(Some(wire_topic(name)));
    let mut request = MetadataRequest::default();
    request.topics = Some(names.iter().map(topic).collect());
    request.allow_auto_topic_creation = false;
    request
}

/// Replaces the brokers' addresses by their ports here.
async fn readdress(router: &Router, conn: &Conn, response: &mut MetadataResponse) {
    let brokers = std::mem::take(&mut response.brokers);
    let real = |broker: &MetadataResponseBroker| {
        RealBroker { node: broker.node_id.0, host: &broker.host, port: broker.port }.address()
    };
    let known: Brokers = brokers.iter().filter_map(real).collect();
    if let Some(upstream) = &router.upstream {
        upstream.learn_all(known.clone());
    }
    for mut broker in brokers {
        if let Some((host, port)) = conn.address_of(broker.node_id.0).await {
            (broker.host, broker.port) = (text(&host), i32::from(port));
            response.brokers.push(broker);
        }
    }
    if let Some(doors) = conn.doors() {
        router.keep_brokers(response.cluster_id.as_deref(), &known, doors);
    }
}

fn node(conn: &Conn) -> MetadataResponseBroker {
    let (host, port) = &conn.advertised;
    let mut broker = MetadataResponseBroker::default();
    broker.node_id = BrokerId(NODE_ID);
    broker.host = text(host);
    broker.port = i32::from(*port);
    broker
}

fn all(router: &Router) -> Vec<MetadataResponseTopic> {
    router
        .listed()
        .into_iter()
        .filter_map(|name| {
            let mut topic = found(router, &name, &router.place(&name)?);
            // Clients that subscribe by a pattern leave internal topics out.
            topic.is_internal = router.names.is_ours(&name);
            Some(topic)
        })
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
    if let Some(place) = router.place_or_make(&resolved) {
        let mut topic = found(router, &resolved, &place);
        // A client that requests the RocketMQ spelling expects it in the answer.
        if let Some(asked) = name {
            topic.name = Some(wire_topic(&asked));
        }
        return topic;
    }
    // A reserved name without a topic (`retry.delivery: off`) never becomes an ordinary topic.
    let may_create = create && router.config.auto_create && !router.names.is_ours(&resolved);
    if !may_create {
        // A reserved name may have the RocketMQ spelling, which is illegal for a Kafka topic.
        let is_ours = router.names.is_ours(&resolved);
        let illegal = legal(&resolved).err().filter(|_| !is_ours);
        return missing(name, id, &illegal.unwrap_or(BrokerError::UnknownTopicOrPartition));
    }
    match create_now(router, &resolved).await {
        Ok(topic) => found(router, &resolved, &TopicKind::Local(topic)),
        Err(error) => missing(name, id, &error),
    }
}

/// Creates a topic with the default number of partitions and waits until it is durable.
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

fn found(router: &Router, name: &TopicName, place: &TopicKind) -> MetadataResponseTopic {
    let node = BrokerId(NODE_ID);
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
