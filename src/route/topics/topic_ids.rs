//! Topics that were deleted and recreated with the same name: their offsets now mean other records.
//!
//! The cluster reports topic ids in Metadata. Clients with an older version do not receive them,
//! and some ask seldom. The sidecar therefore asks on the members' connections.

use kafka_protocol::messages::{ApiVersionsRequest, MetadataResponse};

use crate::model::TopicName;
use crate::route::Router;
use crate::route::clients::conn::Conn;
use crate::route::convert::topic_of;
use crate::route::topics::metadata::question;
use crate::upstream::{Link, UpstreamError};
use crate::wire::{Api, RequestHead};

/// The first Metadata version with topic ids.
pub(super) const IDS_SINCE: i16 = 10;
/// Shortest interval between Metadata requests for a topic while its members send heartbeats.
pub(in crate::route) const WHILE_CONSUMED_MS: u64 = 30_000;
/// Shortest interval when members join, since they all join at once.
pub(in crate::route) const AT_JOIN_MS: u64 = 1_000;

/// Whether the broker of the connection reports topic ids. Clients send ApiVersions on their first
/// connection, and not all do so on others.
pub(super) async fn tells_ids(
    conn: &Conn,
    link: &mut Link,
    head: &RequestHead,
) -> Result<bool, UpstreamError> {
    if conn.metadata_max().is_none() {
        let asked = ApiVersionsRequest::default();
        let told = link.call_at(Api::ApiVersions, 0, head, &asked).await?;
        conn.learn_versions(&told.api_keys);
    }
    Ok(conn.metadata_max() >= Some(IDS_SINCE))
}

impl Router {
    /// Learns topic ids from a cluster's Metadata. On return the engine knows of recreated topics,
    /// so that no failure in one comes first.
    pub(in crate::route) async fn told(&self, response: &MetadataResponse) {
        let now = self.clock.now().mono;
        for topic in response.topics.iter().filter(|topic| topic.error_code == 0) {
            let Some(name) = topic.name.as_ref().map(topic_of) else { continue };
            if let Some(pair) = self.retry_pair(&name) {
                self.topics_behind.note_partitions(&pair, topic.partitions.len());
            }
            if topic.topic_id.is_nil() {
                continue;
            }
            self.topic_ids.is_asked(&name, now);
            if !self.topic_ids.is_another(&name, topic.topic_id) {
                continue;
            }
            tracing::info!(topic = %name, "the cluster has made this topic anew");
            self.is_gone(&name).await;
        }
    }

    /// Asks for topic ids of the member's topics that are due, on the member's connection. No topic
    /// is created, and the member needs DESCRIBE.
    pub(in crate::route) async fn look_at_ids(
        &self,
        conn: &Conn,
        link: &mut Link,
        head: &RequestHead,
        topics: Vec<TopicName>,
        every_ms: u64,
    ) -> Result<(), UpstreamError> {
        let due = self.topic_ids.due(topics, self.clock.now().mono, every_ms);
        if due.is_empty() || !tells_ids(conn, link, head).await? {
            return Ok(());
        }
        let told = link.call_at(Api::Metadata, IDS_SINCE, head, &question(&due)).await?;
        self.told(&told).await;
        Ok(())
    }

    /// Removes all state of a deleted topic; a topic with the same name later is another one.
    ///
    /// The calls are made before this returns; the future only waits for the engine.
    pub(in crate::route) fn is_gone(&self, topic: &TopicName) -> impl Future<Output = ()> + use<> {
        self.origins.forget(topic);
        self.positions.forget(topic);
        self.watched_topic_gone(topic);
        self.lose_behind(topic);
        self.transactions.topic_gone(topic);
        let (told, topic) = (self.engine.topic_gone(topic), topic.clone());
        async move {
            if let Err(error) = told.await {
                tracing::warn!(
                    %topic, %error,
                    "R0421 the deletion of a topic could not be journalled: a new topic by its \
                     name gets its retries; check the disk"
                );
            }
        }
    }
}
