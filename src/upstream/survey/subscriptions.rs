//! Subscriptions of the cluster's classic consumer groups. A member by KIP-848 names the retry
//! topic to the sidecar alone.

use kafka_protocol::messages::{DescribeGroupsRequest, ListGroupsRequest};

use crate::model::{GroupId, TopicName};
use crate::upstream::own::head;
use crate::upstream::survey::BrokerSeen;
use crate::upstream::{Link, Upstream, UpstreamError};
use crate::wire::Api;
use crate::wire::assignment::Subscription;

/// The protocol type of consumers.
const CONSUMER: &str = "consumer";
/// Groups of one DescribeGroups.
const GROUPS_AT_ONCE: usize = 100;

/// A group with the topics of each of its members.
pub(super) type GroupSubscriptions = (GroupId, Vec<Vec<TopicName>>);

impl Upstream {
    /// Asks each broker for the groups that it coordinates. A broker that does not answer has none.
    pub(super) async fn subscriptions(&self, brokers: &[BrokerSeen]) -> Vec<GroupSubscriptions> {
        let mut groups = Vec::new();
        for seen in brokers.iter().filter(|seen| seen.node.is_some() && seen.reached.is_ok()) {
            let call = async {
                let (mut link, _) = self.open_seen(&seen.address, true).await?;
                coordinated(&mut link).await
            };
            groups.extend(self.in_time(call).await.unwrap_or_default());
        }
        groups
    }
}

async fn coordinated(link: &mut Link) -> Result<Vec<GroupSubscriptions>, UpstreamError> {
    let listed = link.call(&head(Api::ListGroups, 0), &ListGroupsRequest::default()).await?;
    let consumers =
        listed.groups.into_iter().filter(|group| group.protocol_type.as_str() == CONSUMER);
    let names: Vec<_> = consumers.map(|group| group.group_id).collect();
    let mut groups = Vec::new();
    for names in names.chunks(GROUPS_AT_ONCE) {
        let request = DescribeGroupsRequest::default().with_groups(names.to_vec());
        let described = link.call(&head(Api::DescribeGroups, 0), &request).await?;
        groups.extend(described.groups.into_iter().map(|group| {
            let members = group.members.iter();
            let topics = members.filter_map(|member| {
                Some(Subscription::parse(&member.member_metadata).ok()?.topics)
            });
            (GroupId::new(&group.group_id), topics.collect())
        }));
    }
    Ok(groups)
}
