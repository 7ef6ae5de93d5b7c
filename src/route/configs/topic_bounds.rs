//! The largest batch that retry and dead-letter topics accept: the origin topic's bound, and room
//! for headers. A record that its topic accepted can thus be nacked by value.
//!
//! In front of a cluster the brokers report the bound (`max.message.bytes`). Without a report the
//! bound is `limits.frame_bytes`.

use std::time::Duration;

use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::{DescribeConfigsRequest, DescribeConfigsResponse};
use tokio::time::timeout;

use crate::engine::RECORD_BYTES_MAX;
use crate::model::TopicName;
use crate::route::Router;
use crate::route::configs::describe_configs::TOPIC;
use crate::route::convert::text;
use crate::route::topics::topic_kind::TopicKind;
use crate::upstream::{Link, OwnLinks, Upstream, UpstreamError};
use crate::wire::batch::{Batch, records};
use crate::wire::mark::{self, read_nack};
use crate::wire::{Api, RequestHead};

/// Room for the request headers of a nack, and for our headers (at most 4 KiB) that an application
/// copies from a retry.
const HEADERS_BYTES: usize = 16 << 10;
/// The only setting that the sidecar asks the brokers for.
const SETTING: &str = "max.message.bytes";
/// The lowest DescribeConfigs version that Kafka 4 still serves.
const DESCRIBE_CONFIGS: i16 = 1;
/// Bound of topics in one DescribeConfigs request.
const ASKED_MAX: usize = 100;
/// Longest wait for a broker: a client waits at least 10 s for the answer behind this one.
const PATIENCE: Duration = Duration::from_secs(4);

impl Router {
    /// The largest batch of any retry or dead-letter topic.
    fn ceiling(&self) -> usize {
        self.config.frame_bytes_max.min(RECORD_BYTES_MAX)
    }

    /// Adds room for headers, at most up to the bound of a request.
    fn with_headers(&self, bytes: usize) -> usize {
        bytes.saturating_add(HEADERS_BYTES).min(self.ceiling())
    }

    /// Every retry and dead-letter topic accepts a batch of this size, for any origin.
    fn retry_bytes_min(&self) -> usize {
        self.with_headers(self.broker.topics.defaults().max_message_bytes)
    }

    /// The largest batch that any topic of this node accepts.
    fn local_bytes_max(&self) -> usize {
        let topics = self.broker.topics.list();
        let local = topics.iter().filter(|topic| !topic.dead_letters);
        let own = self.broker.topics.defaults().max_message_bytes;
        local.map(|topic| topic.settings.max_message_bytes).fold(own, usize::max)
    }

    /// Whether the bound of the origin topics decides if the batch is accepted.
    pub(in crate::route) fn is_oversize(&self, bytes: usize) -> bool {
        bytes > self.retry_bytes_min()
    }

    /// Whether the cluster has to be asked for the bound of the topic.
    pub(in crate::route) fn is_bound_unknown(&self, topic: &TopicName) -> bool {
        self.upstream.is_some() && self.bounds.known(topic, self.clock.now().mono).is_none()
    }

    /// The batch size that dead-letter topics accept.
    pub(in crate::route) fn letter_bytes_max(&self) -> usize {
        self.with_headers(self.local_bytes_max())
    }

    /// The largest batch of nacks for records of that topic.
    fn topic_bytes_max(&self, topic: &TopicName) -> usize {
        if self.upstream.is_some() {
            let told = self.bounds.known(topic, self.clock.now().mono).flatten();
            return told.map_or_else(|| self.ceiling(), |bytes| self.with_headers(bytes));
        }
        match self.place(topic) {
            Some(TopicKind::Local(of)) if self.retry_group(topic).is_none() => {
                self.with_headers(of.settings.max_message_bytes)
            }
            // A retry keeps the size of its record, which its own topic accepted.
            Some(TopicKind::Local(_) | TopicKind::DeadLetters(_)) => self.letter_bytes_max(),
            None => 0,
        }
    }

    /// The bound for a batch of nacks: the largest bound among the origin topics of its records.
    pub(in crate::route) fn nack_bytes_max(
        &self,
        batch: &Batch,
        unpacked_bytes_max: usize,
    ) -> usize {
        let least = self.retry_bytes_min();
        if !self.is_oversize(batch.bytes.len()) {
            return least;
        }
        let Ok(records) = records(batch, unpacked_bytes_max) else { return least };
        let topics = records.map_while(Result::ok).filter_map(|record| {
            let (asked, _) = read_nack(&record.headers).ok()?;
            match asked.named {
                mark::NackedRecord::Origin(origin) => Some(origin.topic.clone()),
                mark::NackedRecord::None => None,
            }
        });
        topics.map(|topic| self.topic_bytes_max(&topic)).fold(least, usize::max)
    }

    /// Asks the cluster for the bounds of these topics on the client's connection. Topics that the
    /// client may not describe are asked for on a connection of our own. An error ends the client's
    /// connection.
    pub(in crate::route) async fn ask_bounds(
        &self,
        link: &mut Link,
        head: &RequestHead,
        mut topics: Vec<TopicName>,
    ) -> Result<(), UpstreamError> {
        topics.truncate(ASKED_MAX);
        topics.retain(|topic| self.is_bound_unknown(topic));
        let Some(upstream) = self.upstream.as_ref().filter(|_| !topics.is_empty()) else {
            return Ok(());
        };
        let request = question(&topics);
        let asked = link.call_at(Api::DescribeConfigs, DESCRIBE_CONFIGS, head, &request);
        // A timeout ends the connection: a late answer would be taken for that of the next request.
        let told = timeout(PATIENCE, asked).await.unwrap_or(Err(UpstreamError::TooSlow))?;
        self.learn_bounds(&told, &mut topics);
        if !topics.is_empty() && !upstream.is_anonymous() {
            self.ask_bounds_ourselves(upstream, &mut topics).await;
        }
        let now = self.clock.now().mono;
        for topic in topics {
            self.bounds.put(topic, None, now);
        }
        Ok(())
    }

    async fn ask_bounds_ourselves(&self, upstream: &Upstream, topics: &mut Vec<TopicName>) {
        let request = question(topics);
        let (mut links, api) = (OwnLinks::default(), (Api::DescribeConfigs, DESCRIBE_CONFIGS));
        let asked = links.call(upstream, None, api, &request);
        match timeout(PATIENCE, asked).await.unwrap_or(Err(UpstreamError::TooSlow)) {
            Ok(told) => self.learn_bounds(&told, topics),
            Err(error) => tracing::debug!(%error, "the cluster does not say what a topic holds"),
        }
    }

    /// Stores the reported bounds and removes their topics from `topics`.
    fn learn_bounds(&self, told: &DescribeConfigsResponse, topics: &mut Vec<TopicName>) {
        let now = self.clock.now().mono;
        for of in told.results.iter().filter(|of| of.error_code == 0) {
            let mut settings = of.configs.iter().filter(|one| one.name.as_str() == SETTING);
            let bytes = settings.find_map(|one| one.value.as_ref()?.as_str().parse().ok());
            let topic = TopicName::new(&of.resource_name);
            if bytes.is_some() && topics.contains(&topic) {
                topics.retain(|known| *known != topic);
                self.bounds.put(topic, bytes, now);
            }
        }
    }
}

fn question(topics: &[TopicName]) -> DescribeConfigsRequest {
    let mut request = DescribeConfigsRequest::default();
    let resource = |topic: &TopicName| {
        let mut resource = DescribeConfigsResource::default();
        (resource.resource_type, resource.resource_name) = (TOPIC, text(topic.as_str()));
        resource.configuration_keys = Some(vec![text(SETTING)]);
        resource
    };
    request.resources = topics.iter().map(resource).collect();
    request
}
