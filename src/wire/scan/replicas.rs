//! Layouts: `ElectLeaders`, `AlterPartitionReassignments`, `ListPartitionReassignments`,
//! `AlterReplicaLogDirs`, `DescribeQuorum`, `ListConfigResources`.

use super::schema::{BOOL, I8, I32, Kind, Schema, always, since};

pub(in crate::wire) const ELECT_LEADERS: Schema = Schema {
    flexible: 2,
    fields: &[
        since(1, I8), // election_type
        // topic_partitions: topic, partitions
        always(Kind::Structs(&[always(Kind::Text), always(Kind::List(&I32))], &[])),
        always(I32), // timeout_ms
    ],
    tagged: &[],
};

pub(in crate::wire) const ALTER_REASSIGNMENTS: Schema = Schema {
    flexible: 0,
    fields: &[
        always(I32),    // timeout_ms
        since(1, BOOL), // allow_replication_factor_change
        always(Kind::Structs(
            &[
                always(Kind::Text), // name
                // partitions: partition_index, replicas
                always(Kind::Structs(&[always(I32), always(Kind::List(&I32))], &[])),
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
        always(Kind::Structs(&[always(Kind::Text), always(Kind::List(&I32))], &[])),
    ],
    tagged: &[],
};

pub(in crate::wire) const ALTER_LOG_DIRS: Schema = Schema {
    flexible: 2,
    fields: &[always(Kind::Structs(
        &[
            always(Kind::Text), // path
            // topics: name, partitions
            always(Kind::Structs(&[always(Kind::Text), always(Kind::List(&I32))], &[])),
        ],
        &[],
    ))],
    tagged: &[],
};

pub(in crate::wire) const DESCRIBE_QUORUM: Schema = Schema {
    flexible: 0,
    fields: &[always(Kind::Structs(
        &[
            always(Kind::Text),                         // topic_name
            always(Kind::Structs(&[always(I32)], &[])), // partitions: partition_index
        ],
        &[],
    ))],
    tagged: &[],
};

pub(in crate::wire) const LIST_CONFIG_RESOURCES: Schema = Schema {
    flexible: 0,
    fields: &[since(1, Kind::List(&I8))], // resource_types
    tagged: &[],
};
