//! Changes of settings by either `AlterConfigs` API, and the largest message of a topic. Only
//! settings of topics can be changed here.
//!
//! Settings of the broker, and of retry and dead-letter topics, come from its configuration file.
//! A retry topic accepts the largest batch of the origin's topic, with room for headers. So a
//! record that was accepted there can be nacked by value. In front of a cluster the brokers report
//! that bound (`max.message.bytes`); without a report it is `limits.frame_bytes`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::{DescribeConfigsRequest, DescribeConfigsResponse};
use kafka_protocol::protocol::StrBytes;
use tokio::time::timeout;

use crate::broker::error::BrokerError;
use crate::broker::topics::SettingChange;
use crate::engine::RECORD_BYTES_MAX;
use crate::model::TopicName;
use crate::route::configs::describe_configs::{BROKER, TOPIC};
use crate::route::convert::text;
use crate::route::topics::topic_names::TopicKind;
use crate::route::{Router, code};
use crate::upstream::{Link, OwnLinks, Upstream, UpstreamError};
use crate::wire::batch::{Batch, records};
use crate::wire::mark::{self, read_nack};
use crate::wire::{Api, RequestHead, ResponseError};

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

/// The error and its message, when a resource stays unchanged.
pub(super) type AlterError = (ResponseError, String);

#[derive(Debug)]
pub(super) struct AlterTarget {
    /// Values of `ConfigResource.Type`.
    pub(in crate::route) kind: i8,
    pub(in crate::route) name: StrBytes,
    pub(in crate::route) wanted: Result<SettingsUpdate, AlterError>,
}

#[derive(Debug)]
pub(super) enum SettingsUpdate {
    /// Changes the named settings and keeps all others.
    Changes(Vec<SettingChange>),
    /// Sets the named settings and resets all others to their defaults.
    Exactly(Vec<(String, String)>),
}

pub(super) struct AlterOutcome {
    pub(in crate::route) kind: i8,
    pub(in crate::route) name: StrBytes,
    pub(in crate::route) error_code: i16,
    pub(in crate::route) error_message: Option<StrBytes>,
}

impl Router {
    /// Changes resource by resource. A resource that the request names twice stays unchanged.
    pub(super) async fn alter(
        &self,
        asked: Vec<AlterTarget>,
        only_check: bool,
    ) -> Vec<AlterOutcome> {
        let mut named = BTreeMap::new();
        for one in asked {
            let key = (one.kind, one.name);
            let twice = "the request names this resource more than once";
            named
                .entry(key)
                .and_modify(|wanted| *wanted = Err(invalid(twice.to_owned())))
                .or_insert(one.wanted);
        }
        let mut altered = Vec::with_capacity(named.len());
        for ((kind, name), wanted) in named {
            let (error_code, error_message) =
                match self.alter_one(kind, &name, wanted, only_check).await {
                    Ok(()) => (0, None),
                    Err((error, why)) => (error.code(), Some(StrBytes::from_string(why))),
                };
            altered.push(AlterOutcome { kind, name, error_code, error_message });
        }
        altered
    }

    async fn alter_one(
        &self,
        kind: i8,
        name: &str,
        wanted: Result<SettingsUpdate, AlterError>,
        only_check: bool,
    ) -> Result<(), AlterError> {
        let wanted = wanted?;
        let name = self.alterable(kind, name)?;
        let topics = &self.broker.topics;
        let altered = match &wanted {
            SettingsUpdate::Changes(changes) => self
                .may_set(&name, changes.iter().map(SettingChange::setting))
                .and_then(|()| topics.alter(&name, changes, only_check)),
            SettingsUpdate::Exactly(settings) => {
                let named = settings.iter().map(|(name, value)| (&**name, Some(&**value)));
                self.may_set(&name, named).and_then(|()| {
                    let settings = self.with_retry_settings(&name, settings.clone());
                    topics.replace(&name, settings, only_check)
                })
            }
        };
        let seq = altered.map_err(|error| refusal(&error))?;
        self.broker.durable(seq).await.map_err(|error| refusal(&error))?;
        if seq > 0 {
            tracing::info!(topic = %name, ?wanted, "settings of a topic changed");
        }
        Ok(())
    }

    /// Returns the name of a topic whose settings can be changed.
    fn alterable(&self, kind: i8, name: &str) -> Result<TopicName, AlterError> {
        match kind {
            TOPIC => {
                let name = TopicName::new(name);
                self.changeable(&name).map_err(|error| refusal(&error))?;
                Ok(name)
            }
            BROKER => Err(invalid(
                "settings of this broker are in its configuration file; none is changed here"
                    .to_owned(),
            )),
            _ => Err(invalid("only settings of topics can be changed here".to_owned())),
        }
    }

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

/// Refuses a request that names a setting more than once.
pub(super) fn named_once<'a>(names: impl Iterator<Item = &'a StrBytes>) -> Result<(), AlterError> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name.as_str()) {
            return Err(invalid(format!("setting {} is named more than once", name.as_str())));
        }
    }
    Ok(())
}

/// The error for a setting without a value.
pub(super) fn without_value(name: &str) -> AlterError {
    invalid(format!("setting {name}: a value is missing"))
}

pub(super) fn invalid(why: String) -> AlterError {
    (ResponseError::InvalidRequest, why)
}

fn refusal(error: &BrokerError) -> AlterError {
    (code::of_broker(error), error.to_string())
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
