//! Layouts: `ElectLeaders`, `AlterPartitionReassignments`, `ListPartitionReassignments`,
//! `AlterReplicaLogDirs`, `DescribeQuorum`, `ListConfigResources`.

use super::schema::{BOOL, FieldKind, I8, I32, Schema, always, since};

pub(in crate::wire) const ELECT_LEADERS: Schema = Schema {
    flexible: 2,
    fields: &[
        since(1, I8), // election_type
        // topic_partitions: topic, partitions
        always(FieldKind::Structs(&[always(FieldKind::Text), always(FieldKind::List(&I32))], &[])),
        always(I32), // timeout_ms
    ],
    tagged: &[],
};

pub(in crate::wire) const ALTER_REASSIGNMENTS: Schema = Schema {
    flexible: 0,
    fields: &[
        always(I32),    // timeout_ms
        since(1, BOOL), // allow_replication_factor_change
        always(FieldKind::Structs(
            &[
                always(FieldKind::Text), // name
                // partitions: partition_index, replicas
                always(FieldKind::Structs(&[always(I32), always(FieldKind::List(&I32))], &[])),
            ],
            &[],
        )),
    ],
    tagged: &[],
};

pub(in crate::wire) const LIST_REASSIGNMENTS: Schema = Schema {
    flexible: 0,
    fields: &[
        always(I32), // timeout_ms
        // topics: name, partition_indexes
        always(FieldKind::Structs(&[always(FieldKind::Text), always(FieldKind::List(&I32))], &[])),
    ],
    tagged: &[],
};

pub(in crate::wire) const ALTER_LOG_DIRS: Schema = Schema {
    flexible: 2,
    fields: &[always(FieldKind::Structs(
        &[
            always(FieldKind::Text), // path
            // topics: name, partitions
            always(FieldKind::Structs(
                &[always(FieldKind::Text), always(FieldKind::List(&I32))],
                &[],
            )),
        ],
        &[],
    ))],
    tagged: &[],
};

pub(in crate::wire) const DESCRIBE_QUORUM: Schema = Schema {
    flexible: 0,
    fields: &[always(FieldKind::Structs(
        &[
            always(FieldKind::Text),                         // topic_name
            always(FieldKind::Structs(&[always(I32)], &[])), // partitions: partition_index
        ],
        &[],
    ))],
    tagged: &[],
};

pub(in crate::wire) const LIST_CONFIG_RESOURCES: Schema = Schema {
    flexible: 0,
    fields: &[since(1, FieldKind::List(&I8))], // resource_types
    tagged: &[],
};
