//! Members of a KIP-848 group that fetch one topic, mostly the retry topic: join, fetch, commit.
#![allow(dead_code, reason = "each program uses a part of it")]

use std::net::SocketAddr;

use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::{
    ConsumerGroupHeartbeatRequest, GroupId, OffsetCommitRequest, OffsetFetchRequest,
};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use crate::batch::{Got, unpack};
use crate::wire::{Wire, name};

const HEARTBEAT: i16 = 1;
const OFFSETS: i16 = 9;

/// A member and its connection.
pub(crate) struct Member {
    pub(crate) wire: Wire,
    group: String,
    topic: String,
    id: String,
    epoch: i32,
    /// The partition of `topic` that is read, and the next fetch offset.
    partition: i32,
    pub(crate) next: i64,
    /// Partitions of the last assignment, by topic id.
    pub(crate) assigned: Vec<(Uuid, Vec<i32>)>,
}

impl Member {
    /// Joins a group, subscribed to its retry topic alone. Call [`Member::beat`] on all members
    /// after the last one has joined.
    pub(crate) fn join(addr: SocketAddr, group: &str) -> Self {
        Self::subscribe(addr, group, &format!("reprise.retry.{group}"))
    }

    /// Joins a group, subscribed to this topic alone.
    pub(crate) fn subscribe(addr: SocketAddr, group: &str, topic: &str) -> Self {
        Self::with(addr, group, topic, &[])
    }

    /// Joins a group, subscribed to its retry topic and this one.
    pub(crate) fn of(addr: SocketAddr, group: &str, topic: &str) -> Self {
        Self::with(addr, group, &format!("reprise.retry.{group}"), &[topic])
    }

    fn with(addr: SocketAddr, group: &str, topic: &str, more: &[&str]) -> Self {
        let (wire, id) = (Wire::connect(addr), Uuid::new_v4().to_string());
        let (group, topic) = (group.to_owned(), topic.to_owned());
        let assigned = Vec::new();
        let mut member = Self { wire, group, topic, id, epoch: 0, partition: 0, next: 0, assigned };
        let mut whole = member.heartbeat();
        whole.rebalance_timeout_ms = 10_000;
        let topics = std::iter::once(member.topic.as_str()).chain(more.iter().copied());
        whole.subscribed_topic_names = Some(topics.map(name).collect());
        whole.topic_partitions = Some(Vec::new());
        member.beats(&whole);
        member
    }

    /// Sends heartbeats until each member has one partition of its topic, and reads from there.
    pub(crate) fn settle(members: &mut [Self]) {
        loop {
            members.iter_mut().for_each(Self::beat);
            let held = |member: &Self| member.assigned.iter().map(|of| of.1.len()).sum::<usize>();
            if members.iter().all(|member| held(member) == 1) {
                return;
            }
        }
    }

    /// Sends a heartbeat and reads the committed offset of the first partition it has.
    pub(crate) fn beat(&mut self) {
        // the member owns exactly its last assignment
        let owned = self.assigned.iter().map(|(topic, partitions)| {
            let owned = TopicPartitions::default().with_topic_id(*topic);
            owned.with_partitions(partitions.clone())
        });
        let quiet = self.heartbeat().with_topic_partitions(Some(owned.collect()));
        self.beats(&quiet);
        let first = self.assigned.iter().flat_map(|(_, partitions)| partitions).next();
        self.partition = first.copied().unwrap_or(0);
        let asked = OffsetFetchRequestTopics::default()
            .with_name(name(&self.topic))
            .with_partition_indexes(vec![self.partition]);
        let group = OffsetFetchRequestGroup::default()
            .with_group_id(self.group())
            .with_topics(Some(vec![asked]))
            .with_member_id(Some(self.id()))
            .with_member_epoch(self.epoch);
        let request = OffsetFetchRequest::default().with_groups(vec![group]);
        let answer = self.wire.call(OFFSETS, &request);
        self.next = answer.groups[0].topics[0].partitions[0].committed_offset;
    }

    /// Sends one Fetch and returns its records.
    pub(crate) fn fetch(&mut self, wait_ms: i32) -> Vec<Got> {
        let data = self.wire.fetch(&self.topic, self.partition, self.next, wait_ms);
        let got = unpack(&data.records.unwrap_or_default());
        if let Some(last) = got.last() {
            self.next = last.offset + 1;
        }
        got
    }

    /// Commits everything fetched so far; durable on return.
    pub(crate) fn commit(&mut self) {
        self.commit_beside(&[]);
    }

    /// Commits everything fetched so far, and these offsets of other topics.
    pub(crate) fn commit_beside(&mut self, others: &[(&str, i32, i64)]) {
        let place = (self.topic.as_str(), self.partition, self.next);
        let topics = std::iter::once(&place).chain(others).map(|(topic, partition, offset)| {
            let partition = OffsetCommitRequestPartition::default()
                .with_partition_index(*partition)
                .with_committed_offset(*offset);
            OffsetCommitRequestTopic::default()
                .with_name(name(topic))
                .with_partitions(vec![partition])
        });
        let request = OffsetCommitRequest::default()
            .with_group_id(self.group())
            .with_member_id(self.id())
            .with_generation_id_or_member_epoch(self.epoch)
            .with_topics(topics.collect());
        let answer = self.wire.call(OFFSETS, &request);
        for topic in answer.topics {
            assert_eq!(topic.partitions[0].error_code, 0, "{:?} is committed", topic.name);
        }
    }

    /// Leaves the group: a heartbeat with epoch −1.
    pub(crate) fn leave(mut self) {
        self.epoch = -1;
        let gone = self.heartbeat();
        self.beats(&gone);
    }

    fn heartbeat(&self) -> ConsumerGroupHeartbeatRequest {
        ConsumerGroupHeartbeatRequest::default()
            .with_group_id(self.group())
            .with_member_id(self.id())
            .with_member_epoch(self.epoch)
    }

    fn beats(&mut self, request: &ConsumerGroupHeartbeatRequest) {
        let answer = self.wire.call(HEARTBEAT, request);
        assert_eq!(answer.error_code, 0, "{:?}", answer.error_message);
        self.epoch = answer.member_epoch;
        if let Some(told) = answer.assignment {
            let told = told.topic_partitions.into_iter();
            self.assigned = told.map(|one| (one.topic_id, one.partitions)).collect();
        }
    }

    fn group(&self) -> GroupId {
        GroupId(StrBytes::from_string(self.group.clone()))
    }

    fn id(&self) -> StrBytes {
        StrBytes::from_string(self.id.clone())
    }
}
