//! Groups: their members, rules, offsets, suspects and gauges.

use std::collections::BTreeSet;
use std::sync::PoisonError;
use std::time::Duration;

use crate::api::{
    GroupExplanation, GroupView, LevelView, OffsetView, PolicyView, RecordHistory, RuleView,
};
use crate::config::ActiveKey;
use crate::engine::{GroupSummary, HistoryQuery};
use crate::group::member_key;
use crate::model::{GroupId, Origin, TopicName, WallMs};
use crate::observe::GroupGauges;
use crate::operations::explanations::{breaker, explained, told};
use crate::operations::group_members::{MembershipView, elsewhere, seen, states};
use crate::operations::{Operations, Unavailable, dead, number};
use crate::retry::detector::BreakerView;
use crate::route::groups::members::list_readers;
use crate::route::topics::retry_topics::RetrySources;

impl Operations {
    /// Every group with members, offsets, retries or dead letters, in order of name.
    pub async fn group_ids(&self) -> Result<Vec<String>, Unavailable> {
        let mut ids: BTreeSet<GroupId> =
            self.router.broker.groups.list().into_iter().map(|seen| seen.group).collect();
        ids.extend(self.router.broker.offsets.groups());
        ids.extend(self.router.members.groups());
        ids.extend(self.router.engine.groups().await?.into_iter().map(|group| group.group));
        Ok(ids.iter().map(ToString::to_string).collect())
    }

    /// One group; `None` when nothing is known of it.
    pub async fn group(&self, group: &str) -> Result<Option<GroupView>, Unavailable> {
        let id = GroupId::new(group);
        let seen = seen(&self.router, &id);
        let retries = self.router.engine.group(&id).await?;
        if seen.is_none() && retries.is_none() && !self.router.broker.offsets.has(&id) {
            return Ok(None);
        }
        Ok(Some(self.view(&id, seen, retries.as_ref())))
    }

    /// The state and the suspects of a group's consumers; `None` when the group is not known.
    pub async fn explain(&self, group: &str) -> Result<Option<GroupExplanation>, Unavailable> {
        let known = self.group(group).await?;
        Ok(known.map(|_| explained(&self.router, &GroupId::new(group))))
    }

    /// Every key of `retry` in force for a group, or for records of one topic in it.
    pub fn in_force(&self, group: &str, topic: Option<&str>) -> Vec<RuleView> {
        let in_force = self.config.borrow().in_force(group, topic).into_iter();
        in_force.map(|ActiveKey { key, value, from }| RuleView { key, value, from }).collect()
    }

    /// The history that the journal has of a record, in one group or in all. The present state of
    /// the partition is left empty.
    pub async fn past(
        &self,
        group: Option<&str>,
        record: &Origin,
    ) -> Result<RecordHistory, Unavailable> {
        let group = group.map(GroupId::new);
        let place = self.router.delivery_at(&record.topic, record.partition, record.offset);
        let sought = match (self.router.names.retry_pair(&record.topic), place) {
            (Some(owner), Some(place)) => HistoryQuery::HandOut(owner.group, place),
            _ => HistoryQuery::Origin(group, record.clone()),
        };
        let past = self.read(move |engine| engine.past(&sought)).await?;
        Ok(told(&self.router, record, &past))
    }

    /// The gauges of every group, read at each scrape.
    pub async fn gauges(&self) -> Result<Vec<GroupGauges>, Unavailable> {
        let now = self.router.clock.now().wall;
        self.router.metrics.set_open_transactions(number(self.router.broker.transactions.open()));
        let retries = self.router.engine.groups().await?;
        let mut gauges = Vec::new();
        for name in self.group_ids().await? {
            let id = GroupId::new(&name);
            let known = retries.iter().find(|known| known.group == id);
            let dead_oldest_s = self.dead_since(&id).await;
            gauges.push(GroupGauges { dead_oldest_s, ..self.gauge(name, &id, known, now) });
        }
        Ok(gauges)
    }

    fn gauge(
        &self,
        group: String,
        id: &GroupId,
        known: Option<&GroupSummary>,
        now: WallMs,
    ) -> GroupGauges {
        let mut gauge = GroupGauges {
            group,
            members: number(self.router.live_members(id)),
            levels_in_force: self.policy(id).levels_ms.len(),
            topics: self.topics(id).iter().map(ToString::to_string).collect(),
            retry_topics: self.router.retry_topics(id).iter().map(ToString::to_string).collect(),
            dead: known.map_or(0, dead),
            dead_bytes: known.map_or(0, |known| known.letter_bytes),
            dead_fingerprints: known.map_or(0, |known| number(known.fingerprints)),
            stalled: self.router.stalled(id),
            breaker_open: matches!(
                self.router.breaker(id),
                BreakerView::Paused { .. } | BreakerView::Testing { .. }
            ),
            ..GroupGauges::default()
        };
        let Some(known) = known else { return gauge };
        let states = states(known);
        gauge.waiting = states.waiting;
        gauge.due = states.due;
        gauge.unread = states.unread;
        gauge.blocked = states.blocked;
        gauge.levels = known
            .counts
            .waiting
            .iter()
            .map(|(level, n)| (level.and_then(|l| usize::try_from(l).ok()).unwrap_or(0), *n))
            .collect();
        let overdue_ms = known.first_due.map_or(0, |due| now.since(due));
        gauge.overdue_s = seconds(overdue_ms);
        gauge.unread_oldest_s = known.oldest_out.map_or(0.0, |since| seconds(now.since(since)));
        gauge
    }

    /// Topics whose records may fail in a group: subscribed to, or committed by a consumer that
    /// assigns partitions to itself.
    fn topics(&self, group: &GroupId) -> BTreeSet<TopicName> {
        let committed = self.router.broker.offsets.fetch(group, None).into_iter();
        let committed = committed.map(|(topic, ..)| topic);
        let mut topics = self.router.subscribed(group);
        let committed = committed.chain(self.router.positions.topics(group));
        topics.extend(committed.filter(|topic| !self.router.names.is_ours(topic)));
        topics
    }

    /// The reason why no record of the group could be sent back to it; `None`: a retry topic is
    /// read, or was.
    fn no_receiver(&self, group: &GroupId) -> Option<String> {
        if self.router.is_retry_read(group) {
            return None;
        }
        let mut sources: RetrySources = self.topics(group).into_iter().map(Some).collect();
        if sources.is_empty() {
            sources.insert(None);
        }
        self.receivers_of(group, &sources).err()
    }

    fn view(
        &self,
        group: &GroupId,
        seen: Option<MembershipView>,
        retries: Option<&GroupSummary>,
    ) -> GroupView {
        let (retry_topic, names) = (self.router.retry_topics_text(group), &self.router.names);
        let dead_letter_topic = self.router.names.dead_letter_topic(group);
        let seen = seen.unwrap_or_else(MembershipView::empty);
        let states = retries.map(states).unwrap_or_default();
        let mut view = GroupView {
            group: group.to_string(),
            kind: seen.kind.as_str().to_owned(),
            phase: seen.phase,
            generation: seen.generation,
            protocol: seen.protocol,
            retry_topic: retry_topic.clone(),
            dead_letter_topic: dead_letter_topic.to_string(),
            policy: self.policy(group),
            in_cluster: self.router.upstream.is_some(),
            elsewhere: elsewhere(&self.router, group),
            pending: states.pending(),
            states,
            levels: retries.map(levels).unwrap_or_default(),
            dead_letters: retries.map_or(0, dead),
            is_read: self.router.is_retry_read(group),
            no_receiver: self.no_receiver(group),
            refused: retries.map_or(0, |known| number(known.blocked.len())),
            refusal: retries.and_then(|known| known.blocked.values().next().cloned()),
            dead_letter_bytes: retries.map_or(0, |known| known.letter_bytes),
            breaker: breaker(self.router.breaker(group)),
            dead_letters_full: retries.is_some_and(|known| known.is_full),
            letter_trouble: retries.and_then(|known| known.letter_trouble.clone()),
            offsets: self.offsets(group),
            ..GroupView::default()
        };
        let readers = self.router.reader_topics_of(group);
        if readers.len() > 1 {
            view.advice.push(format!(
                "members read {retry_topic} beside unlike topics ({}): a retry may reach one that \
                 does not read its topic. Let each listener read the retry topics of its own \
                 topics, or give each the handlers of all",
                list_readers(&readers)
            ));
        }
        if let Some(known) = retries.filter(|_| self.router.is_retry_read(group)) {
            for (source, count) in &known.unserved {
                let topic = names.retry_topic(&names.pair(group, source.as_ref()));
                view.advise_reader(*count, topic.as_str());
            }
        }
        let disconnected = self.router.disconnected_members(group);
        for mut member in seen.members {
            let id = member.member_id.as_str().into();
            let key = member_key(&id, member.instance_id.as_deref());
            member.disconnected = disconnected.contains(&key);
            view.members.push(member);
        }
        view
    }

    pub(super) fn policy(&self, group: &GroupId) -> PolicyView {
        let policies = self.router.policies.read().unwrap_or_else(PoisonError::into_inner);
        let policy = policies.of(group);
        PolicyView {
            levels_ms: policy.levels.iter().collect(),
            delays_ms: policy.levels.of_retries(policy.max_reconsume_times).collect(),
            max_reconsume_times: policy.max_reconsume_times,
            consume_timeout_ms: policy.consume_timeout_ms,
            keep_dead_letters: policy.keep_dead_letters,
            dead_letters_max_bytes: policy.dead_letters_bytes_max,
        }
    }

    fn offsets(&self, group: &GroupId) -> Vec<OffsetView> {
        if self.router.upstream.is_some() {
            let known = self.router.positions.of_group(group).into_iter();
            let view = |(topic, partition, committed): (TopicName, i32, i64)| OffsetView {
                topic: topic.to_string(),
                partition,
                committed,
                end: None,
            };
            return known.map(view).collect();
        }
        let known = self.router.broker.offsets.fetch(group, None).into_iter();
        known
            .filter_map(|(topic, partition, committed)| {
                Some(OffsetView {
                    committed: committed?.offset,
                    end: self.end(&topic, partition),
                    topic: topic.to_string(),
                    partition,
                })
            })
            .collect()
    }

    fn end(&self, topic: &TopicName, partition: i32) -> Option<i64> {
        let topic = self.router.broker.topics.find(topic)?;
        Some(self.router.broker.bounds(topic.partition(partition)?).visible_end)
    }
}

fn levels(known: &GroupSummary) -> Vec<LevelView> {
    let waiting = known.counts.waiting.iter();
    waiting.map(|(level, records)| LevelView { level: *level, records: *records }).collect()
}

fn seconds(ms: u64) -> f64 {
    Duration::from_millis(ms).as_secs_f64()
}
