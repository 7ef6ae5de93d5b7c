//! The admin port's view of the broker, the engine and the journal.

mod admin_nacks;
mod admin_source;
pub(super) mod dead_letter_reads;
mod delayed_records;
mod detector_state;
pub(super) mod empty_groups;
mod group_gauges;
mod group_members;
pub(super) mod job_runner;
mod journal_state;
mod letter_transfer;
mod operator_actions;
mod record_history;
mod redrive_receivers;
mod retry_list;
mod selection;
pub(super) mod topic_sends;
pub(super) mod waiting_counts;
mod waiting_retries;
mod waiting_shapes;

use std::collections::BTreeSet;
use std::sync::PoisonError;

use crate::admin::{
    ActionReport, ActionRequest, DeadLetterView, DelayedView, DrainView, EntryImportOutcome,
    FailedRecord, FailedRefused, FailedTaken, FingerprintList, GroupExplanation, GroupView,
    JobPlan, JournalView, LevelView, OffsetView, Overview, PolicyView, Portable, PortableLetters,
    Readiness, RecordHistory, RetryFingerprintList, RetryRecord, RetryView, RuleView, Selected,
    Source, StateCounts, Unavailable,
};
use crate::api::Selector;
use crate::config::ActiveKey;
use crate::engine::{
    self, AuditRecord, EngineError, HistoryQuery, Job, JobChange, JobError, JobTerms, Operator,
};
use crate::group::member_key;
use crate::model::{EntryId, GroupId, Origin, TopicName, WallMs};
use crate::observe::GroupGauges;
use crate::retry::StateKind;
use crate::route::groups::members::list_readers;
use crate::route::topics::retry_topics::RetrySources;
use crate::server::readiness::readiness;
use crate::server::source::detector_state::{breaker, explained};
use crate::server::source::group_members::{MembershipView, elsewhere, seen, states};
use crate::server::source::record_history::told;

pub(super) use admin_source::AdminSource;

impl From<EngineError> for Unavailable {
    fn from(error: EngineError) -> Self {
        Self(error.to_string())
    }
}

/// Dead letters of a group.
fn dead(known: &engine::GroupSummary) -> u64 {
    known.counts.of(StateKind::Dead)
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

impl Source for AdminSource {
    fn readiness(&self) -> Readiness {
        readiness(self)
    }

    fn config(&self) -> Result<serde_json::Value, Unavailable> {
        let encoded = serde_json::to_value(&*self.config.borrow());
        encoded.map_err(|error| {
            Unavailable(format!("the configuration cannot be encoded as JSON: {error}"))
        })
    }

    async fn overview(&self) -> Result<Overview, Unavailable> {
        let groups = self.router.engine.groups().await?;
        let delayed = self.router.engine.delayed_totals().await?;
        let states: StateCounts = groups.iter().map(states).sum();
        let local = self.router.broker.topics.list();
        Ok(Overview {
            cluster_id: self.router.broker.cluster_id().to_owned(),
            uptime_ms: self.router.clock.now().mono.0,
            listen: self.listening.clone(),
            connections: number(self.acceptor.connections()),
            topics: number(local.iter().filter(|topic| !topic.dead_letters).count()),
            groups: number(self.group_ids().await?.len()),
            pending: states.pending(),
            states,
            dead_letters: groups.iter().map(dead).sum(),
            delayed: delayed.records,
            delayed_unreadable: delayed.unreadable,
            journal_bytes: self.journal.stats().bytes,
        })
    }

    async fn journal(&self) -> Result<JournalView, Unavailable> {
        self.journal_view().await
    }

    async fn group_ids(&self) -> Result<Vec<String>, Unavailable> {
        let mut ids: BTreeSet<GroupId> =
            self.router.broker.groups.list().into_iter().map(|seen| seen.group).collect();
        ids.extend(self.router.broker.offsets.groups());
        ids.extend(self.router.members.groups());
        ids.extend(self.router.engine.groups().await?.into_iter().map(|group| group.group));
        Ok(ids.iter().map(ToString::to_string).collect())
    }

    async fn group(&self, group: &str) -> Result<Option<GroupView>, Unavailable> {
        let id = GroupId::new(group);
        let seen = seen(&self.router, &id);
        let retries = self.router.engine.group(&id).await?;
        if seen.is_none() && retries.is_none() && !self.router.broker.offsets.has(&id) {
            return Ok(None);
        }
        Ok(Some(self.view(&id, seen, retries.as_ref())))
    }

    async fn explain(&self, group: &str) -> Result<Option<GroupExplanation>, Unavailable> {
        let known = self.group(group).await?;
        Ok(known.map(|_| explained(&self.router, &GroupId::new(group))))
    }

    fn in_force(&self, group: &str, topic: Option<&str>) -> Vec<RuleView> {
        let in_force = self.config.borrow().in_force(group, topic).into_iter();
        in_force.map(|ActiveKey { key, value, from }| RuleView { key, value, from }).collect()
    }

    async fn past(
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
        let engine = self.router.engine.clone();
        let past = tokio::task::spawn_blocking(move || engine.past(&sought)).await;
        let past = past.map_err(|error| Unavailable(error.to_string()))??;
        Ok(told(&self.router, record, &past))
    }

    async fn retries(
        &self,
        group: &str,
        selector: &Selector,
        after: Option<i64>,
        limit: usize,
    ) -> Result<Selected<RetryView>, Unavailable> {
        self.selected_retries(&GroupId::new(group), selector, after, limit).await
    }

    async fn waiting(
        &self,
        group: &str,
        after: Option<(i64, u64)>,
        limit: usize,
    ) -> Result<Vec<RetryView>, Unavailable> {
        let after = after.map(|(due, id)| (WallMs(due), EntryId(id)));
        self.due(&GroupId::new(group), after, limit).await
    }

    async fn retry_fingerprints(
        &self,
        group: &str,
        limit: usize,
    ) -> Result<RetryFingerprintList, Unavailable> {
        let counted = self.counted(&GroupId::new(group)).await?;
        let beyond: u64 = counted.items.iter().skip(limit).map(|kind| kind.retries).sum();
        let items = counted.items.iter().take(limit).cloned().collect();
        Ok(RetryFingerprintList { items, rest: counted.rest + beyond, ..*counted })
    }

    fn now_ms(&self) -> i64 {
        self.router.clock.now().wall.0
    }

    async fn retry(&self, group: &str, id: u64) -> Result<Option<RetryRecord>, Unavailable> {
        self.retry_record(&GroupId::new(group), EntryId(id)).await
    }

    async fn dead_letters(
        &self,
        group: &str,
        selector: &Selector,
        after: Option<i64>,
        limit: usize,
    ) -> Result<Selected<DeadLetterView>, Unavailable> {
        self.selected_letters(&GroupId::new(group), selector, after, limit).await
    }

    async fn fingerprints(
        &self,
        group: &str,
        limit: usize,
    ) -> Result<FingerprintList, Unavailable> {
        self.fingerprint_list(&GroupId::new(group), limit).await
    }

    async fn dead_letter(
        &self,
        group: &str,
        offset: i64,
    ) -> Result<Option<DeadLetterView>, Unavailable> {
        self.letter(&GroupId::new(group), offset).await
    }

    async fn delayed(
        &self,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<DelayedView>, Unavailable> {
        self.put_off(after, limit).await
    }

    async fn cancel_delayed(&self, records: Vec<Origin>) -> Result<Vec<bool>, Unavailable> {
        self.cancel(records).await
    }

    async fn drain(&self) -> Result<DrainView, Unavailable> {
        self.pending().await
    }

    fn cluster_id(&self) -> String {
        self.router.broker.cluster_id().to_owned()
    }

    async fn portable_letters(
        &self,
        group: &str,
        selector: &Selector,
        after: Option<i64>,
        limit: usize,
    ) -> Result<PortableLetters, Unavailable> {
        self.copied(&GroupId::new(group), selector, after, limit).await
    }

    async fn import(
        &self,
        source: String,
        entries: Vec<Portable>,
        by: Operator,
    ) -> Result<Vec<EntryImportOutcome>, Unavailable> {
        self.bring(source, entries, by).await
    }

    async fn nack(
        &self,
        failed: FailedRecord,
    ) -> Result<Result<FailedTaken, FailedRefused>, Unavailable> {
        Ok(self.fail(failed).await)
    }

    async fn operate(&self, request: ActionRequest) -> Result<ActionReport, Unavailable> {
        self.act(request).await
    }

    async fn audit(
        &self,
        group: Option<String>,
        from: i64,
        limit: usize,
    ) -> Result<Vec<(i64, AuditRecord)>, Unavailable> {
        self.audited(group, from, limit).await
    }

    async fn plan_job(&self, terms: JobTerms) -> Result<JobPlan, Unavailable> {
        self.plan(terms).await
    }

    async fn start_job(
        &self,
        terms: JobTerms,
        by: Operator,
    ) -> Result<Result<Job, JobError>, Unavailable> {
        self.begin_job(terms, by).await
    }

    async fn change_job(
        &self,
        id: u64,
        change: JobChange,
        by: Operator,
    ) -> Result<Result<Job, JobError>, Unavailable> {
        self.alter_job(id, change, by).await
    }

    async fn jobs(&self, id: Option<u64>) -> Result<Vec<Job>, Unavailable> {
        self.list_jobs(id).await
    }

    async fn receivers(
        &self,
        group: &str,
        letters: Vec<i64>,
    ) -> Result<Result<String, String>, Unavailable> {
        self.receivers_of_letters(&GroupId::new(group), letters).await
    }

    fn audit_end(&self) -> i64 {
        self.router.engine.audit_end()
    }

    async fn gauges(&self) -> Result<Vec<GroupGauges>, Unavailable> {
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
}

impl AdminSource {
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
        retries: Option<&engine::GroupSummary>,
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

fn levels(known: &engine::GroupSummary) -> Vec<LevelView> {
    let waiting = known.counts.waiting.iter();
    waiting.map(|(level, records)| LevelView { level: *level, records: *records }).collect()
}
