//! Requests of members and of administrators of groups.

use kafka_protocol::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use kafka_protocol::messages::{
    ConsumerGroupHeartbeatRequest, DeleteGroupsRequest, DescribeGroupsRequest, JoinGroupRequest,
    ListGroupsRequest, OffsetDeleteRequest,
};

use crate::orders::player::{Player, error_name};
use crate::orders::script::{RequestedOffset, Words};
use crate::support::client::s;
use crate::support::{Client, Member};

/// A member of a group by either protocol.
pub(crate) struct GroupMember {
    pub(crate) id: String,
    /// Generation or member epoch.
    pub(crate) generation: i32,
    pub(crate) instance: Option<String>,
    pub(crate) group: String,
    classic: Option<Member>,
}

impl GroupMember {
    pub(crate) fn reconnect(&mut self, client: Client) {
        if let Some(member) = &mut self.classic {
            member.client = client;
        }
    }
}

impl Player {
    /// `join M G T [instance=I]`; `enter` leaves the assignment out.
    pub(crate) fn join(&mut self, words: &Words<'_>) -> String {
        let (group, topic) = (self.name(words.positional[1]), self.name(words.positional[2]));
        let mut member = Member::on(Client::connect(self.address), &group, &[&topic]);
        if let Some(instance) = words.option("instance") {
            member = member.fixed(instance);
        }
        if let Some(kind) = words.option("type") {
            let mut request = member.join_request();
            request.protocol_type = s(kind);
            let answer = member.client.call(9, &request);
            request.member_id = answer.member_id;
            let answer = member.client.call(9, &request);
            member.id = answer.member_id.to_string();
            member.generation = answer.generation_id;
        } else if words.verb == "enter" {
            let named = member.client.call(9, &member.join_request());
            member.id = named.member_id.to_string();
            let request: JoinGroupRequest = member.join_request();
            let answer = member.client.call(9, &request);
            member.generation = answer.generation_id;
        } else {
            member.join(&[(&topic, 1)]);
        }
        let known = GroupMember {
            id: member.id.clone(),
            generation: member.generation,
            instance: member.instance.clone(),
            group,
            classic: Some(member),
        };
        self.members.insert(words.positional[0].to_owned(), known);
        "ok".to_owned()
    }

    /// `consume M G T`: a member by KIP-848.
    pub(crate) fn consume(&mut self, words: &Words<'_>) -> String {
        let (group, topic) = (self.name(words.positional[1]), self.name(words.positional[2]));
        let id = "AAAAAAAAAAAAAAAAAAAAAA".to_owned();
        let request = ConsumerGroupHeartbeatRequest::default()
            .with_group_id(s(&group))
            .with_member_id(s(&id))
            .with_member_epoch(0)
            .with_rebalance_timeout_ms(10_000)
            .with_subscribed_topic_names(Some(vec![s(&topic)]))
            .with_topic_partitions(Some(Vec::new()));
        let answer = self.client.call(1, &request);
        let generation = answer.member_epoch;
        let known = GroupMember { id, generation, instance: None, group, classic: None };
        self.members.insert(words.positional[0].to_owned(), known);
        error_name(answer.error_code)
    }

    /// `leave M`: the member leaves by the protocol of its join.
    pub(crate) fn leave(&mut self, words: &Words<'_>) -> String {
        let member = self.members.get_mut(words.positional[0]).unwrap();
        if let Some(classic) = &mut member.classic {
            return error_name(classic.leave());
        }
        let request = ConsumerGroupHeartbeatRequest::default()
            .with_group_id(s(&member.group))
            .with_member_id(s(&member.id))
            .with_member_epoch(-1);
        error_name(self.client.call(1, &request).error_code)
    }

    /// `group G`: the state in the answer of `DescribeGroups`.
    pub(crate) fn describe(&mut self, words: &Words<'_>) -> String {
        let group = self.name(words.positional[0]);
        let request = DescribeGroupsRequest::default().with_groups(vec![s(&group)]);
        let answer = self.client.call(6, &request).groups.remove(0);
        match answer.error_code {
            0 => answer.group_state.to_string(),
            error => format!("{} {}", answer.group_state, error_name(error)),
        }
    }

    /// `list G`: the state in the answer of `ListGroups`.
    pub(crate) fn list(&mut self, words: &Words<'_>) -> String {
        let group = self.name(words.positional[0]);
        let answer = self.client.call(5, &ListGroupsRequest::default());
        let found = answer.groups.iter().find(|one| one.group_id.as_str() == group);
        found
            .map_or("not there".to_owned(), |one| format!("{} {}", one.group_type, one.group_state))
    }

    /// `delete G`: deletes one group.
    pub(crate) fn delete_group(&mut self, words: &Words<'_>) -> String {
        let group = self.name(words.positional[0]);
        let request = DeleteGroupsRequest::default().with_groups_names(vec![s(&group)]);
        error_name(self.client.call(2, &request).results[0].error_code)
    }

    /// `forget G T/P…`: deletes offsets.
    pub(crate) fn delete_offsets(&mut self, words: &Words<'_>) -> String {
        let mut request = OffsetDeleteRequest::default();
        request.group_id = s(&self.name(words.positional[0]));
        let partition = |place: &RequestedOffset| {
            OffsetDeleteRequestPartition::default().with_partition_index(place.partition)
        };
        for (topic, places) in words.topics() {
            let topic = OffsetDeleteRequestTopic::default()
                .with_name(s(&self.name(&topic)))
                .with_partitions(places.iter().map(partition).collect());
            request.topics.push(topic);
        }
        let answer = self.client.call(0, &request);
        match answer.error_code {
            0 => {
                let codes: Vec<_> = answer
                    .topics
                    .iter()
                    .flat_map(|t| {
                        t.partitions
                            .iter()
                            .map(move |p| (t.name.to_string(), p.partition_index, p.error_code))
                    })
                    .collect();
                self.error_names(words, &codes)
            }
            error => format!("group {}", error_name(error)),
        }
    }
}
