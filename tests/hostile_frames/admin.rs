//! Cases: replicas, the quorum, ACLs, users and quotas.

use bytes::Bytes;
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
use kafka_protocol::messages::describe_user_scram_credentials_request::UserName;
use kafka_protocol::messages::list_partition_reassignments_request as listed;
use kafka_protocol::messages::*;

use super::{Case, case, s};

pub(super) fn replica_cases() -> Vec<Case> {
    vec![
        case(|v, r: &mut ElectLeadersRequest| {
            let mut topic = elect_leaders_request::TopicPartitions::default();
            (topic.topic, topic.partitions) = (s(), vec![0, 1]);
            (r.election_type, r.topic_partitions) = (i8::from(v >= 1), Some(vec![topic]));
        }),
        case(|v, r: &mut AlterPartitionReassignmentsRequest| {
            let mut partition = ReassignablePartition::default().with_partition_index(1);
            partition.replicas = Some(vec![1.into(), 2.into()]);
            let mut topic = ReassignableTopic::default();
            (topic.name, topic.partitions) = (s(), vec![partition]);
            (r.timeout_ms, r.allow_replication_factor_change) = (9, v < 1);
            r.topics.push(topic);
        }),
        case(|_, r: &mut ListPartitionReassignmentsRequest| {
            let mut topic = listed::ListPartitionReassignmentsTopics::default();
            (topic.name, topic.partition_indexes) = (s(), vec![0, 1]);
            r.topics = Some(vec![topic]);
        }),
        case(|_, r: &mut AlterReplicaLogDirsRequest| {
            let mut topic = AlterReplicaLogDirTopic::default();
            (topic.name, topic.partitions) = (s(), vec![0, 1]);
            let mut dir = AlterReplicaLogDir::default();
            (dir.path, dir.topics) = (s(), vec![topic]);
            r.dirs.push(dir);
        }),
        case(|_, r: &mut DescribeQuorumRequest| {
            let partition = describe_quorum_request::PartitionData::default();
            let mut topic = describe_quorum_request::TopicData::default();
            (topic.topic_name, topic.partitions) = (s(), vec![partition.with_partition_index(3)]);
            r.topics.push(topic);
        }),
        case(|v, r: &mut ListConfigResourcesRequest| {
            if v >= 1 {
                r.resource_types = vec![2, 4];
            }
        }),
    ]
}

pub(super) fn right_cases() -> Vec<Case> {
    vec![
        case(|_, r: &mut DescribeAclsRequest| {
            (r.resource_type_filter, r.pattern_type_filter) = (2, 3);
            r.resource_name_filter = Some(s());
            (r.principal_filter, r.host_filter) = (Some(s()), Some(s()));
            (r.operation, r.permission_type) = (1, 1);
        }),
        case(|_, r: &mut CreateAclsRequest| {
            let mut acl = AclCreation::default();
            (acl.resource_type, acl.resource_name, acl.resource_pattern_type) = (2, s(), 3);
            (acl.principal, acl.host) = (s(), s());
            (acl.operation, acl.permission_type) = (3, 3);
            r.creations.push(acl);
        }),
        case(|_, r: &mut DeleteAclsRequest| {
            let mut filter = DeleteAclsFilter::default();
            (filter.resource_type_filter, filter.pattern_type_filter) = (2, 3);
            filter.resource_name_filter = Some(s());
            (filter.principal_filter, filter.host_filter) = (Some(s()), Some(s()));
            (filter.operation, filter.permission_type) = (3, 3);
            r.filters.push(filter);
        }),
        case(|_, r: &mut DescribeUserScramCredentialsRequest| {
            r.users = Some(vec![UserName::default().with_name(s())]);
        }),
        case(|_, r: &mut AlterUserScramCredentialsRequest| {
            let deletion = ScramCredentialDeletion::default().with_name(s());
            r.deletions.push(deletion.with_mechanism(1));
            let mut upsertion = ScramCredentialUpsertion::default();
            (upsertion.name, upsertion.mechanism, upsertion.iterations) = (s(), 2, 4096);
            upsertion.salt = Bytes::from_static(b"salt");
            upsertion.salted_password = Bytes::from_static(b"salted");
            r.upsertions.push(upsertion);
        }),
        case(|_, r: &mut DescribeClientQuotasRequest| {
            let mut component = ComponentData::default();
            (component.entity_type, component._match) = (s(), Some(s()));
            (r.components, r.strict) = (vec![component], true);
        }),
        case(|_, r: &mut AlterClientQuotasRequest| {
            let mut entry = quotas::EntryData::default();
            let entity = quotas::EntityData::default().with_entity_type(s());
            entry.entity = vec![entity.with_entity_name(Some(s()))];
            entry.ops = vec![quotas::OpData::default().with_key(s()).with_value(1.5)];
            (r.entries, r.validate_only) = (vec![entry], true);
        }),
    ]
}
