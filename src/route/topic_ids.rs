//! Topics that were deleted and made again by the same name: their origins are other records now.
//!
//! The cluster tells a topic's id in Metadata. Clients that ask for it in an older version are not
//! told, and some ask seldom: so it is asked for here as well, in a member's name.

use kafka_protocol::messages::{ApiVersionsRequest, MetadataResponse};

use crate::model::TopicName;
use crate::route::Router;
use crate::route::conn::Conn;
use crate::route::convert::topic_of;
use crate::route::metadata::question;
use crate::upstream::{Link, UpstreamError};
use crate::wire::{Api, RequestHead};

/// The first Metadata that tells ids.
pub(super) const IDS_SINCE: i16 = 10;
/// A topic is asked for this often while its consumers go on, at most.
pub(super) const WHILE_CONSUMED_MS: u64 = 30_000;
/// The same when they join: they all do at once.
pub(super) const AT_JOIN_MS: u64 = 1_000;

/// Whether the broker of a client's connection tells ids. Clients ask on their first connection
/// what it serves, not all of them on the others.
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
    /// The cluster has told of these topics. On return the engine knows which are other ones than
    /// before, so that nobody fails in one of them first.
    pub(super) async fn told(&self, response: &MetadataResponse) {
        let now = self.clock.now().mono;
        for topic in response.topics.iter().filter(|topic| topic.error_code == 0) {
            let Some(name) = topic.name.as_ref().map(topic_of) else { continue };
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

    /// Asks for the ids of those of a member's topics that nobody has asked for in that time, on
    /// the member's connection: none is made, and only what it may DESCRIBE is told.
    pub(super) async fn look_at_ids(
        &self,
        conn: &Conn,
        link: &mut Link,
        head: &RequestHead,
        mut topics: Vec<TopicName>,
        every_ms: u64,
    ) -> Result<(), UpstreamError> {
        topics.retain(|topic| !self.is_own(&self.names.canonical(topic)));
        let due = self.topic_ids.due(topics, self.clock.now().mono, every_ms);
        if due.is_empty() || !tells_ids(conn, link, head).await? {
            return Ok(());
        }
        let told = link.call_at(Api::Metadata, IDS_SINCE, head, &question(&due)).await?;
        self.told(&told).await;
        Ok(())
    }

    /// A topic is no more; one by its name is another one.
    ///
    /// All is told when this returns, whoever waits or does not for it to be durable.
    pub(super) fn is_gone(&self, topic: &TopicName) -> impl Future<Output = ()> + use<> {
        self.origins.forget(topic);
        self.positions.forget(topic);
        self.watched_topic_gone(topic);
        self.transactions.topic_gone(topic);
        let (told, topic) = (self.engine.topic_gone(topic), topic.clone());
        async move {
            if let Err(error) = told.await {
                tracing::warn!(%topic, %error, "its retries would answer for a topic by its name");
            }
        }
    }
}
