//! Members of a KIP-848 consumer group, heartbeat by heartbeat.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, MetadataRequest,
};
use uuid::Uuid;

use super::client::s;
use super::{Member, Server, until};

/// The version of `ConsumerGroupHeartbeat`, with every field.
const HEARTBEAT: i16 = 1;

/// A KIP-848 member. Commits, positions and retries work as for a classic member.
pub struct Consumer {
    member: Member,
    /// The assignment in the last answer, which the member takes over at once.
    pub held: BTreeMap<Uuid, Vec<i32>>,
}

impl Deref for Consumer {
    type Target = Member;

    fn deref(&self) -> &Member {
        &self.member
    }
}

impl DerefMut for Consumer {
    fn deref_mut(&mut self) -> &mut Member {
        &mut self.member
    }
}

impl Consumer {
    pub fn new(server: &Server, group: &str, topics: &[&str]) -> Self {
        let mut member = Member::new(server, group, topics);
        member.id = Uuid::new_v4().to_string();
        Self { member, held: BTreeMap::new() }
    }

    pub fn fixed(mut self, instance: &str) -> Self {
        self.member.instance = Some(instance.to_owned());
        self
    }

    /// A heartbeat without changes.
    pub fn quiet_request(&self) -> ConsumerGroupHeartbeatRequest {
        let mut request = ConsumerGroupHeartbeatRequest::default();
        (request.group_id, request.member_id) = (s(&self.group), s(&self.id));
        request.member_epoch = self.generation;
        request.instance_id = self.instance.as_deref().map(s);
        request
    }

    /// A heartbeat with every field.
    pub fn whole_request(&self) -> ConsumerGroupHeartbeatRequest {
        let mut request = self.quiet_request();
        request.rebalance_timeout_ms = 10_000;
        request.subscribed_topic_names = Some(self.topics.iter().map(|topic| s(topic)).collect());
        request.topic_partitions = Some(self.owned());
        request
    }

    fn owned(&self) -> Vec<TopicPartitions> {
        let of = |(id, partitions): (&Uuid, &Vec<i32>)| {
            TopicPartitions::default().with_topic_id(*id).with_partitions(partitions.clone())
        };
        self.held.iter().map(of).collect()
    }

    /// Sends a heartbeat that must succeed, and takes over the assignment in its answer.
    pub fn send(
        &mut self,
        request: &ConsumerGroupHeartbeatRequest,
    ) -> ConsumerGroupHeartbeatResponse {
        let answer = self.client.call(HEARTBEAT, request);
        assert_eq!(answer.error_code, 0, "{}: {:?}", self.id, answer.error_message);
        self.generation = answer.member_epoch;
        if let Some(assignment) = &answer.assignment {
            let of = assignment.topic_partitions.iter();
            self.held = of.map(|of| (of.topic_id, of.partitions.clone())).collect();
        }
        answer
    }

    /// The error code of a heartbeat that is refused.
    pub fn refused(&mut self, request: &ConsumerGroupHeartbeatRequest) -> i16 {
        let answer = self.client.call(HEARTBEAT, request);
        assert_ne!(answer.error_code, 0);
        assert!(answer.error_message.is_some() && answer.assignment.is_none());
        answer.error_code
    }

    /// Joins or rejoins, with no partitions owned.
    pub fn enter(&mut self) -> ConsumerGroupHeartbeatResponse {
        self.generation = 0;
        self.held.clear();
        let request = self.whole_request();
        self.send(&request)
    }

    /// Sends a heartbeat without changes.
    pub fn beat(&mut self) -> ConsumerGroupHeartbeatResponse {
        let request = self.quiet_request();
        self.send(&request)
    }

    /// Sends the owned partitions.
    pub fn acknowledge(&mut self) -> ConsumerGroupHeartbeatResponse {
        let mut request = self.quiet_request();
        request.topic_partitions = Some(self.owned());
        self.send(&request)
    }

    /// Leaves for good (−1) or for a while (−2).
    pub fn go(&mut self, epoch: i32) {
        let mut request = self.quiet_request();
        request.member_epoch = epoch;
        let answer = self.client.call(HEARTBEAT, &request);
        assert_eq!((answer.error_code, answer.member_epoch), (0, epoch));
        self.generation = -1;
        self.held.clear();
    }

    /// The owned partitions, with topic names from Metadata.
    pub fn holds(&mut self) -> Vec<(String, Vec<i32>)> {
        let by_id = |id: &Uuid| MetadataRequestTopic::default().with_name(None).with_topic_id(*id);
        let asked = self.held.keys().map(by_id).collect();
        let told = self.client.call(12, &MetadataRequest::default().with_topics(Some(asked)));
        let mut held: Vec<(String, Vec<i32>)> = told
            .topics
            .iter()
            .map(|topic| {
                let name = topic.name.as_ref().unwrap().to_string();
                (name, self.held[&topic.topic_id].clone())
            })
            .collect();
        held.sort();
        held
    }

    /// The owned partitions of `orders`.
    pub fn orders(&mut self) -> Vec<i32> {
        let held = self.holds().into_iter().filter(|(topic, _)| topic == "orders");
        held.flat_map(|(_, partitions)| partitions).collect()
    }
}

/// Sends heartbeats until no answer has an assignment and all members have the same epoch.
pub fn settle(members: &mut [&mut Consumer]) {
    until("the members have what they are to have", || {
        let mut quiet = true;
        for member in members.iter_mut() {
            quiet &= member.acknowledge().assignment.is_none();
        }
        quiet && members.iter().all(|member| member.generation == members[0].generation)
    });
}
