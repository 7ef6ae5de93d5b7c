//! Members of a consumer group, step by step; the leader assigns ranges.

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, OffsetCommitRequest,
    OffsetFetchRequest, SyncGroupRequest,
};
use reprise::model::TopicName;
use reprise::wire::ResponseError;
use reprise::wire::assignment::{Assignment, Subscription};

use super::batch::{Got, Rec, unpack};
use super::client::{Client, SentRequest, s};
use super::{Server, until};

/// The version of `JoinGroup` and the other membership APIs, with every field.
const JOIN: i16 = 9;
const SYNC: i16 = 5;
const HEARTBEAT: i16 = 4;

/// Topics and their partitions, as the leader knows them.
pub type Partitions<'a> = &'a [(&'a str, i32)];

/// A member and its connection.
pub struct Member {
    pub client: Client,
    pub group: String,
    pub topics: Vec<String>,
    pub id: String,
    pub instance: Option<String>,
    /// Generation of the member; −1 outside the group.
    pub generation: i32,
    /// The assignment in the answer of `SyncGroup`, in its order.
    pub assigned: Vec<(String, Vec<i32>)>,
    pub protocol: String,
    pub session_ms: i32,
    /// Whether the member was the leader of the last round.
    pub leads: bool,
}

impl Member {
    pub fn new(server: &Server, group: &str, topics: &[&str]) -> Self {
        Self::on(server.client(), group, topics)
    }

    /// The only member of `shop`. It subscribes to `orders`, with one partition, and the retry
    /// topic.
    pub fn of_shop(server: &Server) -> Self {
        if server.client().metadata(9, &["orders"]).topics[0].error_code != 0 {
            server.client().create("orders", 1);
        }
        let mut member = Self::new(server, "shop", &["orders", "reprise.retry.shop"]);
        member.join(&[("orders", 1), ("reprise.retry.shop", 1)]);
        member
    }

    /// Creates a member on this connection.
    pub fn on(client: Client, group: &str, topics: &[&str]) -> Self {
        Self {
            client,
            group: group.to_owned(),
            topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
            id: String::new(),
            instance: None,
            generation: -1,
            assigned: Vec::new(),
            protocol: "range".to_owned(),
            session_ms: 10_000,
            leads: false,
        }
    }

    pub fn fixed(mut self, instance: &str) -> Self {
        self.instance = Some(instance.to_owned());
        self
    }

    /// The name of the group's retry topic.
    pub fn retry(&self) -> String {
        format!("reprise.retry.{}", self.group)
    }

    pub fn join_request(&self) -> JoinGroupRequest {
        let mut protocol = JoinGroupRequestProtocol::default();
        (protocol.name, protocol.metadata) = (s(&self.protocol), subscription(&self.topics));
        let mut request = JoinGroupRequest::default();
        request.group_id = s(&self.group);
        request.session_timeout_ms = self.session_ms;
        request.rebalance_timeout_ms = 10_000;
        request.member_id = s(&self.id);
        request.group_instance_id = self.instance.as_deref().map(s);
        request.protocol_type = s("consumer");
        request.protocols = vec![protocol];
        request
    }

    /// A dynamic member first gets its id (KIP-394).
    fn introduce(&mut self) {
        if self.id.is_empty() && self.instance.is_none() {
            let answer = self.client.call(JOIN, &self.join_request());
            assert_eq!(answer.error_code, ResponseError::MemberIdRequired.code());
            self.id = answer.member_id.to_string();
        }
    }

    fn send_join(&mut self) -> SentRequest {
        self.introduce();
        self.client.send(JOIN, &self.join_request())
    }

    fn joined(&mut self, sent: SentRequest) -> JoinGroupResponse {
        let answer = self.client.receive::<JoinGroupRequest>(sent);
        assert_eq!(answer.error_code, 0, "{} joins {}", self.id, self.group);
        self.id = answer.member_id.to_string();
        self.generation = answer.generation_id;
        self.leads = answer.leader.as_str() == self.id;
        answer
    }

    fn send_sync(&mut self, given: &[(String, Bytes)]) -> SentRequest {
        let mut request = SyncGroupRequest::default();
        request.group_id = s(&self.group);
        request.member_id = s(&self.id);
        request.group_instance_id = self.instance.as_deref().map(s);
        request.generation_id = self.generation;
        request.protocol_type = Some(s("consumer"));
        request.protocol_name = Some(s(&self.protocol));
        request.assignments = given
            .iter()
            .map(|(member, bytes)| {
                let mut one = SyncGroupRequestAssignment::default();
                (one.member_id, one.assignment) = (s(member), bytes.clone());
                one
            })
            .collect();
        self.client.send(SYNC, &request)
    }

    fn synced(&mut self, sent: SentRequest) {
        let answer = self.client.receive::<SyncGroupRequest>(sent);
        assert_eq!(answer.error_code, 0, "{} syncs {}", self.id, self.group);
        self.assigned = assigned(&answer.assignment);
    }

    /// Joins a group that has no other member.
    pub fn join(&mut self, partitions: Partitions<'_>) {
        rebalance(&mut [self], partitions);
    }

    /// The error code of a heartbeat.
    pub fn heartbeat(&mut self) -> i16 {
        let mut request = HeartbeatRequest::default();
        (request.group_id, request.member_id) = (s(&self.group), s(&self.id));
        request.generation_id = self.generation;
        request.group_instance_id = self.instance.as_deref().map(s);
        self.client.call(HEARTBEAT, &request).error_code
    }

    pub fn leave(&mut self) -> i16 {
        let mut member = MemberIdentity::default();
        (member.member_id, member.group_instance_id) =
            (s(&self.id), self.instance.as_deref().map(s));
        let request =
            LeaveGroupRequest::default().with_group_id(s(&self.group)).with_members(vec![member]);
        let answer = self.client.call(5, &request);
        self.generation = -1;
        answer.members.first().map_or(answer.error_code, |member| member.error_code)
    }

    /// Puts four records into `orders` and nacks each: two small ones whose keys look alike, one
    /// with another key, and a large one. `nack` makes the nack of a record at its offset.
    pub fn nack_kinds(&mut self, other_key: Option<&str>, nack: impl Fn(Rec, i64) -> Rec) {
        let large = "x".repeat(20_000);
        let keys = [Some("user-1"), Some("user-2"), other_key, Some("user-3")];
        for (key, value) in keys.into_iter().zip(["a", "b", "c", &large]) {
            let key = key.map(|key| key.to_owned().into());
            let record = Rec { key, ..Rec::new(value) };
            let offset = self.client.put("orders", 0, std::slice::from_ref(&record));
            let origin = format!("orders-0@{offset}");
            self.client.nack(&self.group, &origin, nack(record, offset));
        }
    }

    /// The error code of a commit.
    pub fn commit(&mut self, topic: &str, index: i32, offset: i64) -> i16 {
        let request = self.commit_request(topic, index, offset, "");
        self.client.call(9, &request).topics[0].partitions[0].error_code
    }

    pub fn commit_request(
        &self,
        topic: &str,
        index: i32,
        offset: i64,
        metadata: &str,
    ) -> OffsetCommitRequest {
        let mut partition = OffsetCommitRequestPartition::default();
        (partition.partition_index, partition.committed_offset) = (index, offset);
        partition.committed_metadata = Some(s(metadata));
        let topic = OffsetCommitRequestTopic::default()
            .with_name(s(topic))
            .with_partitions(vec![partition]);
        let mut request = OffsetCommitRequest::default();
        (request.group_id, request.member_id) = (s(&self.group), s(&self.id));
        request.generation_id_or_member_epoch = self.generation;
        request.group_instance_id = self.instance.as_deref().map(s);
        request.topics = vec![topic];
        request
    }

    /// The committed offset by `OffsetFetch` 9 with the member id.
    pub fn position_of(&mut self, topic: &str, index: i32) -> i64 {
        let mut asked = OffsetFetchRequestTopics::default();
        (asked.name, asked.partition_indexes) = (s(topic), vec![index]);
        let mut group = OffsetFetchRequestGroup::default();
        (group.group_id, group.topics) = (s(&self.group), Some(vec![asked]));
        (group.member_id, group.member_epoch) = (Some(s(&self.id)), self.generation);
        let request = OffsetFetchRequest::default().with_groups(vec![group]);
        self.client.call(9, &request).groups[0].topics[0].partitions[0].committed_offset
    }

    /// The committed offset of the member's retry partition.
    pub fn position(&mut self) -> i64 {
        let retry = self.retry();
        self.position_of(&retry, 0)
    }

    /// One Fetch of the retry partition.
    pub fn fetch_retries(&mut self, from: i64, wait_ms: i32) -> PartitionData {
        let retry = self.retry();
        self.client.fetch(&retry, 0, from, wait_ms)
    }

    /// Waits for the next retries, from the committed offset on.
    pub fn retries(&mut self) -> Vec<Got> {
        let from = self.position();
        self.retries_from(from)
    }

    /// Waits for the next retries at or above `from`.
    pub fn retries_from(&mut self, from: i64) -> Vec<Got> {
        let mut got = Vec::new();
        until("a retry", || {
            let data = self.fetch_retries(from, 5_000);
            assert_eq!(data.error_code, 0);
            got = unpack(&data.records.unwrap());
            if super::in_front() {
                // A batch of the cluster may begin before the offset.
                got.retain(|record| record.offset >= from);
            }
            !got.is_empty()
        });
        assert!(got.iter().all(|record| record.offset >= from));
        got
    }

    /// Waits for the next retry, which must be the only one.
    pub fn retry_once(&mut self) -> Got {
        let mut got = self.retries();
        assert_eq!(got.len(), 1, "{got:?}");
        got.remove(0)
    }

    /// Commits all retries delivered below `offset`; the commit must succeed.
    pub fn done(&mut self, offset: i64) {
        let retry = self.retry();
        assert_eq!(self.commit(&retry, 0, offset), 0);
    }
}

/// `OffsetFetch` below version 8 on any connection: offset, metadata and error of one partition.
pub fn offset_fetch(
    client: &mut Client,
    version: i16,
    group: &str,
    topic: &str,
    index: i32,
) -> (i64, Option<String>, i16) {
    let mut asked = OffsetFetchRequestTopic::default();
    (asked.name, asked.partition_indexes) = (s(topic), vec![index]);
    let request =
        OffsetFetchRequest::default().with_group_id(s(group)).with_topics(Some(vec![asked]));
    let answer = client.call(version, &request);
    let one = &answer.topics[0].partitions[0];
    let metadata = one.metadata.as_ref().map(ToString::to_string);
    (one.committed_offset, metadata, one.error_code)
}

/// One whole rebalance: afterwards all these members are in the group, with their assignments.
pub fn rebalance(members: &mut [&mut Member], partitions: Partitions<'_>) {
    rebalance_by(members, &|seen| ranges(seen, partitions));
}

/// Members by id with their subscriptions → the assignment of each.
pub type Assignor<'a> = &'a dyn Fn(Vec<(String, Vec<TopicName>)>) -> Vec<(String, Bytes)>;

/// One whole rebalance with this assignor.
pub fn rebalance_by(members: &mut [&mut Member], assign: Assignor<'_>) {
    if members.iter().all(|member| member.generation < 0) && members.len() > 1 {
        rebalance_by(&mut members[..1], assign);
    }
    let mut sent = Vec::new();
    let has_new = members.iter().any(|member| member.generation < 0);
    // A follower that rejoins before its leader gets the current generation.
    let is_led = members.iter().any(|member| member.leads && member.generation >= 0);
    let joining = has_new || is_led;
    for member in members.iter_mut() {
        let is_first = member.generation < 0 || (member.leads && !has_new);
        sent.push(is_first.then(|| member.send_join()));
    }
    for (member, sent) in members.iter_mut().zip(&mut sent) {
        if sent.is_none() {
            if joining {
                until("the rebalance", || {
                    member.heartbeat() == ResponseError::RebalanceInProgress.code()
                });
            }
            *sent = Some(member.send_join());
        }
    }
    let mut given = Vec::new();
    for (member, sent) in members.iter_mut().zip(sent) {
        let answer = member.joined(sent.unwrap());
        if member.leads {
            let seen = answer.members.iter().map(|seen| {
                let topics = Subscription::parse(&seen.metadata).unwrap().topics;
                (seen.member_id.to_string(), topics)
            });
            given = assign(seen.collect());
        }
    }
    let lists = members.iter().map(|member| if member.leads { given.clone() } else { Vec::new() });
    let lists: Vec<_> = lists.collect();
    let sent: Vec<_> =
        members.iter_mut().zip(&lists).map(|(member, list)| member.send_sync(list)).collect();
    for (member, sent) in members.iter_mut().zip(sent) {
        member.synced(sent);
    }
}

/// The range assignor: runs of each topic's partitions, over the members that subscribe to it.
pub fn ranges(
    mut members: Vec<(String, Vec<TopicName>)>,
    partitions: Partitions<'_>,
) -> Vec<(String, Bytes)> {
    members.sort();
    let mut given: Vec<(String, Assignment)> =
        members.iter().map(|(id, _)| (id.clone(), Assignment::empty())).collect();
    for (topic, count) in partitions {
        let name = TopicName::new(topic);
        let wanting: Vec<usize> =
            (0..members.len()).filter(|index| members[*index].1.contains(&name)).collect();
        let count = usize::try_from(*count).unwrap();
        for partition in 0..count {
            if let Some(taker) = wanting.get(partition * wanting.len().max(1) / count) {
                given[*taker].1.append(&name, i32::try_from(partition).unwrap());
            }
        }
    }
    given.into_iter().map(|(id, assignment)| (id, assignment.to_bytes())).collect()
}

/// An assignment in plain words.
pub fn assigned(bytes: &Bytes) -> Vec<(String, Vec<i32>)> {
    let assignment = Assignment::parse(bytes).unwrap();
    let of = assignment.partitions.into_iter();
    of.map(|held| (held.topic.to_string(), held.partitions)).collect()
}

/// The metadata of a consumer that subscribes to these topics.
pub fn subscription(topics: &[String]) -> Bytes {
    let mut out = BytesMut::new();
    out.put_i16(0);
    out.put_i32(i32::try_from(topics.len()).unwrap());
    for topic in topics {
        out.put_i16(i16::try_from(topic.len()).unwrap());
        out.put_slice(topic.as_bytes());
    }
    out.put_i32(-1);
    out.freeze()
}
