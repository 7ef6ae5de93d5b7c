//! Retry topics of the embedded cluster: made when a client first names them, and served by the
//! engine.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, PoisonError};

use uuid::Uuid;

use crate::broker::error::BrokerError;
use crate::broker::settings::TopicSpec;
use crate::broker::topic::{Partition, Topic};
use crate::engine::RetryPartitionLog;
use crate::model::{GroupId, MonoMs, RetryPair, RetryPlace, TopicName};
use crate::route::Router;
use crate::route::topics::topic_names::TopicKind;
use crate::wire::assignment::Subscription;

/// Settings of a retry topic: a retry is kept until the group has committed past it.
const SETTINGS: &[(&str, &str)] = &[("retention.ms", "-1"), ("retention.bytes", "-1")];

/// Time for which a retry stays in its topic after the group has committed past it.
const KEPT_MS: u64 = 24 * HOUR_MS;
const HOUR_MS: u64 = 60 * 60 * 1_000;

/// The topics of failed records; `None`: a record without an origin.
pub type RetrySources = BTreeSet<Option<TopicName>>;

/// Committed offsets of retry topics, one an hour for each partition.
#[derive(Debug, Default)]
pub struct TrimMarks(BTreeMap<(TopicName, i32), VecDeque<(MonoMs, i64)>>);

impl TrimMarks {
    /// Notes a committed offset. Returns the offset below which nothing is kept.
    pub fn note(&mut self, of: (TopicName, i32), now: MonoMs, committed: i64) -> Option<i64> {
        let marks = self.0.entry(of).or_default();
        if marks.back().is_none_or(|(last, _)| HOUR_MS <= now.since(*last)) {
            marks.push_back((now, committed));
        }
        let mut end = None;
        while let Some((_, offset)) = marks.pop_front_if(|(at, _)| KEPT_MS <= now.since(*at)) {
            end = Some(offset.min(committed));
        }
        end
    }
}

fn retry_settings() -> impl Iterator<Item = (String, String)> {
    SETTINGS.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
}

impl Router {
    /// Deletes the retries that their group had committed past a day ago. Blocks on the disk.
    pub fn trim_retry_topics(&self, marks: &mut TrimMarks) -> Result<(), BrokerError> {
        let now = self.clock.now().mono;
        let mut trimmed = Ok(());
        for topic in self.broker.topics.list() {
            let Some(group) = self.group_served_here(&topic.name) else { continue };
            for partition in &topic.partitions {
                let index = partition.index;
                let known = self.broker.offsets.committed(&group, &topic.name, index);
                let Some(known) = known.filter(|known| known.offset >= 0) else { continue };
                let end = marks.note((topic.name.clone(), index), now, known.offset);
                let Some(end) = end else { continue };
                let end = end.min(self.broker.bounds(partition).visible_end);
                let done = self.broker.delete_records(partition, end);
                trimmed = trimmed.and(done.map(|_| ()));
            }
        }
        trimmed
    }

    /// The topic kind of a name; a retry topic of this node is made if it is missing.
    pub(in crate::route) fn place_or_make(&self, name: &TopicName) -> Option<TopicKind> {
        let place = self.place(name);
        let Some(pair) = self.pair_served_here(name) else { return place };
        if let Some(TopicKind::Local(topic)) = &place {
            if !self.engine.serves_retry_topic(&pair) {
                self.serve_retry_topic(&pair, topic);
            }
            return place;
        }
        match self.make_retry_topic(&pair, name) {
            Ok(topic) => Some(TopicKind::Local(topic)),
            Err(error) => {
                tracing::warn!(
                    group = %pair.group, topic = %name, %error,
                    "R0429 the retry topic of a group cannot be made: its retries wait; check the \
                     disk"
                );
                None
            }
        }
    }

    /// The owner of the retry topic with that name, if the topic is one of this node.
    pub(in crate::route) fn pair_served_here(&self, name: &TopicName) -> Option<RetryPair> {
        if self.upstream.is_some() { None } else { self.retry_pair(name) }
    }

    /// The group of a retry topic of this node.
    pub(in crate::route) fn group_served_here(&self, name: &TopicName) -> Option<GroupId> {
        self.pair_served_here(name).map(|pair| pair.group)
    }

    /// The number of partitions that a new retry topic of the group gets.
    pub(super) fn new_partitions(&self, group: &GroupId) -> i32 {
        let policies = self.policies.read().unwrap_or_else(PoisonError::into_inner);
        policies.of(group).partitions
    }

    fn make_retry_topic(
        &self,
        pair: &RetryPair,
        name: &TopicName,
    ) -> Result<Arc<Topic>, BrokerError> {
        let settings = retry_settings().collect();
        let partitions = self.new_partitions(&pair.group);
        let spec = TopicSpec { name: name.clone(), partitions, settings };
        // A topic made anew has another id, so that its readers begin at its start.
        let topic = match self.broker.topics.create(&spec, Uuid::new_v4()) {
            // A record of the topic follows its creation in the log.
            Ok((topic, _)) => topic,
            Err(BrokerError::TopicExists(_)) => {
                self.broker.topics.find(name).ok_or(BrokerError::UnknownTopicOrPartition)?
            }
            Err(error) => return Err(error),
        };
        let group = &pair.group;
        tracing::info!(%group, topic = %name, partitions, "retry topic created");
        self.serve_retry_topic(pair, &topic);
        Ok(topic)
    }

    fn serve_retry_topic(&self, pair: &RetryPair, topic: &Topic) {
        let log = |partition: &Partition| {
            let known = self.broker.offsets.committed(&pair.group, &topic.name, partition.index);
            let committed = known.map_or(0, |known| known.offset);
            RetryPartitionLog { stream: partition.stream, committed }
        };
        self.engine.serve_retry_topic(pair, topic.partitions.iter().map(log).collect());
    }

    /// A topic was created, grown or deleted: the engine learns of it if it is a retry topic.
    pub(in crate::route) fn retry_topic_changed(&self, name: &TopicName) {
        let Some(pair) = self.pair_served_here(name) else { return };
        match self.broker.topics.find(name) {
            Some(topic) => self.serve_retry_topic(&pair, &topic),
            None => self.engine.serve_retry_topic(&pair, Vec::new()),
        }
    }

    /// Tells the engine the retry topics of the last run, and what their groups committed.
    pub fn reopen_retry_topics(&self) {
        if self.upstream.is_some() {
            return;
        }
        for topic in self.broker.topics.list() {
            let Some(pair) = self.pair_served_here(&topic.name) else { continue };
            self.serve_retry_topic(&pair, &topic);
        }
        self.engine.retry_topics_reopened();
    }

    /// The settings that a client gives a topic. A retry topic keeps its own retention.
    pub(in crate::route) fn with_retry_settings(
        &self,
        topic: &TopicName,
        mut settings: Vec<(String, String)>,
    ) -> Vec<(String, String)> {
        if self.group_served_here(topic).is_some() {
            settings.retain(|(name, _)| SETTINGS.iter().all(|(own, _)| own != name));
            settings.extend(retry_settings());
        }
        settings
    }

    /// The retry topics that members of the group read; without any, those that they have to.
    pub fn retry_topics(&self, group: &GroupId) -> BTreeSet<TopicName> {
        let read = self.subscribed_pairs(group);
        if !read.is_empty() {
            return read.iter().map(|pair| self.names.retry_topic(pair)).collect();
        }
        let name = |source| self.names.retry_topic(&self.names.pair(group, source));
        let sources = self.subscribed(group);
        let wanted: BTreeSet<TopicName> = sources.iter().map(|source| name(Some(source))).collect();
        if wanted.is_empty() { BTreeSet::from([name(None)]) } else { wanted }
    }

    /// [`Router::retry_topics`] as text for people.
    pub fn retry_topics_text(&self, group: &GroupId) -> String {
        let topics = self.retry_topics(group);
        topics.iter().map(TopicName::as_str).collect::<Vec<_>>().join(", ")
    }

    /// The topic whose retries a record of a topic belongs to: itself, or that of a retry topic.
    pub(in crate::route) fn source_of(&self, topic: &TopicName) -> Option<TopicName> {
        match self.retry_pair(topic) {
            Some(pair) => pair.source,
            None => Some(topic.clone()),
        }
    }

    /// The owner of the retry topic for the retries of `source`: that of the whole group if the
    /// group has one, and none for `source`.
    pub fn pair_in_use(&self, group: &GroupId, source: Option<&TopicName>) -> RetryPair {
        let (own, shared) = (self.names.pair(group, source), RetryPair::of_group(group));
        let is_shared = self.engine.serves_retry_topic(&shared);
        if is_shared && !self.engine.serves_retry_topic(&own) { shared } else { own }
    }

    /// Nacks produced to the retry topic of a pair have begun retries of these topics. The retry
    /// topics are made, or opened.
    pub(in crate::route) fn retries_began(&self, named: &RetryPair, sources: &RetrySources) {
        let group = &named.group;
        self.place_or_make(&self.names.retry_topic(named));
        self.topics_behind.want(named);
        for source in sources {
            let pair = self.pair_in_use(group, source.as_ref());
            self.names.register(&pair);
            if !self.names.is_owner(&pair) {
                let topic = self.names.retry_topic(&pair);
                tracing::warn!(
                    %group, source = source.as_ref().map_or("", TopicName::as_str), %topic,
                    "R0433 two pairs of group and topic give one retry topic: retries of the \
                     second pair wait; rename the group or set names.retry"
                );
            }
            self.place_or_make(&self.names.retry_topic(&pair));
            self.topics_behind.want(&pair);
        }
    }

    /// Whether the retry topic of a pair ever had a reader: only such a topic gets retries.
    pub fn had_retry_reader(&self, pair: &RetryPair) -> bool {
        let has_retries =
            |topic: Arc<Topic>| topic.partitions.iter().any(|of| self.broker.bounds(of).next > 0);
        self.engine.had_retry_reader(pair)
            || self.broker.topics.find(&self.names.retry_topic(pair)).is_some_and(has_retries)
    }

    /// Refuses a change of the settings that keep retries in their topic.
    pub(in crate::route) fn may_set<'a>(
        &self,
        topic: &TopicName,
        mut settings: impl Iterator<Item = (&'a str, Option<&'a str>)>,
    ) -> Result<(), BrokerError> {
        let is_other = |(name, value): (&str, Option<&str>)| {
            SETTINGS.iter().any(|(fixed, kept)| *fixed == name && value != Some(*kept))
        };
        if self.group_served_here(topic).is_some() && settings.any(is_other) {
            let why = "a retry topic keeps each retry until its group has committed past it, so \
                       retention.ms and retention.bytes stay -1";
            return Err(BrokerError::Policy { name: topic.to_string(), why });
        }
        Ok(())
    }

    /// Records of a retry topic were deleted: retries below the new start are not waited for.
    pub(super) fn retries_deleted(&self, name: &TopicName, partition: i32, start: i64) {
        if let Some(group) = self.group_served_here(name) {
            self.engine.note_commits(&group, vec![(name.clone(), partition, start)]);
        }
    }

    /// Makes the retry topics that a subscription of the group names.
    pub(in crate::route) fn make_subscribed(&self, group: &GroupId, metadata: &bytes::Bytes) {
        if let Ok(subscription) = Subscription::parse(metadata) {
            self.names.learn(group, &subscription.topics);
            for topic in &subscription.topics {
                self.place_for_member(topic, group);
            }
        }
    }

    /// The topic kind of a name in a subscription of the group.
    pub(in crate::route) fn place_for_member(
        &self,
        name: &TopicName,
        group: &GroupId,
    ) -> Option<TopicKind> {
        let place = self.place_or_make(name);
        if let Some(pair) = self.pair_served_here(name).filter(|pair| pair.group == *group) {
            self.engine.subscribes_to_retries(&pair);
        }
        place
    }

    /// The number of partitions of a retry topic. In front of a cluster each may be named: the
    /// topic may have grown there.
    pub(in crate::route) fn retry_partitions(&self, pair: &RetryPair) -> i32 {
        if self.upstream.is_some() {
            return i32::MAX;
        }
        match self.broker.topics.find(&self.names.retry_topic(pair)) {
            Some(topic) => i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX),
            None => self.new_partitions(&pair.group),
        }
    }

    /// The delivery at an offset of a retry topic.
    pub fn delivery_at(
        &self,
        topic: &TopicName,
        partition: i32,
        offset: i64,
    ) -> Option<RetryPlace> {
        let pair = self.names.retry_pair(topic)?;
        if self.upstream.is_some() {
            let of = self.topics_behind.opened(&pair)?;
            let index = u16::try_from(partition).ok().filter(|_| offset >= 0)?;
            return Some(pair.partition(of.number.0, index).at(offset));
        }
        let topic = self.broker.topics.find(topic)?;
        let of = topic.partition(partition)?;
        let is_released = (0..self.broker.bounds(of).next).contains(&offset);
        let index = u16::try_from(partition).ok().filter(|_| is_released)?;
        Some(pair.partition(of.stream.0, index).at(offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_is_kept_for_a_day_after_the_commit() {
        let (mut marks, of) = (TrimMarks::default(), (TopicName::new("reprise.retry.shop"), 0));
        let mut note = |hour: u64, offset| marks.note(of.clone(), MonoMs(hour * HOUR_MS), offset);
        assert_eq!([note(0, 5), note(1, 7), note(23, 9)], [None; 3]);
        assert_eq!(note(24, 9), Some(5));
        assert_eq!(note(25, 3), Some(3), "never above the commit, which was reset");
        assert_eq!(note(46, 20), None);
        assert_eq!(note(47, 20), Some(9));
    }
}
