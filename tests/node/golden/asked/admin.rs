//! Requests about replicas, the quorum, ACLs, users and quotas, to one node.

use kafka_protocol::messages::alter_client_quotas_request as quotas;
use kafka_protocol::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use kafka_protocol::messages::alter_replica_log_dirs_request::{
    AlterReplicaLogDir, AlterReplicaLogDirTopic,
};
use kafka_protocol::messages::alter_user_scram_credentials_request::{
    ScramCredentialDeletion, ScramCredentialUpsertion,
};
use kafka_protocol::messages::create_acls_request::AclCreation;
use kafka_protocol::messages::delete_acls_request::DeleteAclsFilter;
use kafka_protocol::messages::describe_client_quotas_request::ComponentData;
use kafka_protocol::messages::describe_quorum_request as quorum;
use kafka_protocol::messages::describe_user_scram_credentials_request::UserName;
use kafka_protocol::messages::elect_leaders_request::TopicPartitions;
use kafka_protocol::messages::list_partition_reassignments_request as listed;
use kafka_protocol::messages::{
    AlterClientQuotasRequest, AlterPartitionReassignmentsRequest, AlterReplicaLogDirsRequest,
    AlterUserScramCredentialsRequest, CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest,
    DescribeClientQuotasRequest, DescribeQuorumRequest, DescribeUserScramCredentialsRequest,
    ElectLeadersRequest, ListConfigResourcesRequest, ListPartitionReassignmentsRequest,
};

use super::{Ask, ask};
use crate::golden::house::ORDERS;
use crate::support::client::s;

pub(crate) fn all() -> Vec<Ask> {
    let mut all = ask_replicas();
    all.extend(ask_rights());
    all
}

fn ask_replicas() -> Vec<Ask> {
    vec![
        ask(|version, r: &mut ElectLeadersRequest| {
            let of = |name, partitions| {
                TopicPartitions::default().with_topic(s(name)).with_partitions(partitions)
            };
            r.election_type = i8::from(version >= 1);
            r.topic_partitions = Some(vec![of(ORDERS.0, vec![0, 7]), of("nowhere", vec![0])]);
            r.timeout_ms = 30_000;
        }),
        ask(|_, r: &mut AlterPartitionReassignmentsRequest| {
            let of = |index, replicas: Option<Vec<i32>>| {
                let replicas = replicas.map(|ids| ids.into_iter().map(Into::into).collect());
                let partition = ReassignablePartition::default().with_partition_index(index);
                partition.with_replicas(replicas)
            };
            let partitions = vec![
                of(0, Some(vec![1])),
                of(1, Some(vec![1, 2])),
                of(0, None),
                of(9, Some(vec![1])),
            ];
            let topic = ReassignableTopic::default().with_name(s(ORDERS.0));
            (r.topics, r.timeout_ms) = (vec![topic.with_partitions(partitions)], 30_000);
        }),
        ask(|_, r: &mut ListPartitionReassignmentsRequest| {
            let topic = listed::ListPartitionReassignmentsTopics::default();
            let topic = topic.with_name(s(ORDERS.0));
            r.topics = Some(vec![topic.with_partition_indexes(vec![0, 1])]);
        }),
        ask(|_, r: &mut AlterReplicaLogDirsRequest| {
            let topic = AlterReplicaLogDirTopic::default().with_name(s(ORDERS.0));
            let topic = topic.with_partitions(vec![0, 9]);
            let of = |path| {
                let dir = AlterReplicaLogDir::default().with_path(s(path));
                dir.with_topics(vec![topic.clone()])
            };
            r.dirs = vec![of("reprise"), of("/elsewhere")];
        }),
        ask(|_, r: &mut DescribeQuorumRequest| {
            let partition = |index| quorum::PartitionData::default().with_partition_index(index);
            let topic = quorum::TopicData::default().with_topic_name(s("__cluster_metadata"));
            r.topics = vec![topic.with_partitions(vec![partition(0), partition(1)])];
        }),
        ask(|version, r: &mut ListConfigResourcesRequest| {
            if version >= 1 {
                r.resource_types = vec![2, 4];
            }
        }),
    ]
}

fn ask_rights() -> Vec<Ask> {
    vec![
        ask(|_, r: &mut DescribeAclsRequest| {
            (r.resource_type_filter, r.pattern_type_filter) = (2, 3);
            (r.operation, r.permission_type) = (1, 1);
            r.resource_name_filter = Some(s(ORDERS.0));
            (r.principal_filter, r.host_filter) = (None, None);
        }),
        ask(|_, r: &mut CreateAclsRequest| {
            let mut acl = AclCreation::default().with_resource_type(2).with_operation(3);
            (acl.resource_name, acl.principal) = (s(ORDERS.0), s("User:alice"));
            (acl.host, acl.permission_type) = (s("*"), 3);
            r.creations = vec![acl.clone(), acl];
        }),
        ask(|_, r: &mut DeleteAclsRequest| {
            let mut filter = DeleteAclsFilter::default().with_resource_type_filter(2);
            (filter.operation, filter.permission_type) = (1, 1);
            filter.resource_name_filter = Some(s(ORDERS.0));
            (filter.principal_filter, filter.host_filter) = (None, None);
            r.filters = vec![filter];
        }),
        ask(|_, r: &mut DescribeUserScramCredentialsRequest| {
            r.users = Some(vec![UserName::default().with_name(s("alice"))]);
        }),
        ask(|_, r: &mut AlterUserScramCredentialsRequest| {
            let deletion = ScramCredentialDeletion::default().with_name(s("alice"));
            r.deletions = vec![deletion.with_mechanism(1)];
            let upsertion = ScramCredentialUpsertion::default().with_name(s("bob"));
            r.upsertions = vec![upsertion.with_mechanism(2).with_iterations(4096)];
        }),
        ask(|_, r: &mut DescribeClientQuotasRequest| {
            let component = ComponentData::default().with_entity_type(s("user"));
            r.components = vec![component.with_match_type(2).with_match(None)];
        }),
        ask(|_, r: &mut AlterClientQuotasRequest| {
            let entity = quotas::EntityData::default().with_entity_type(s("user"));
            let op = quotas::OpData::default().with_key(s("producer_byte_rate")).with_value(1.5);
            let entity = vec![entity.with_entity_name(Some(s("alice")))];
            r.entries = vec![quotas::EntryData::default().with_entity(entity).with_ops(vec![op])];
        }),
    ]
}
