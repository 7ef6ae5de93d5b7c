//! Layouts of answers about the cluster: APIs, topics, brokers.

use crate::wire::scan::schema::{
    BOOL, FieldKind, I8, I16, I32, I64, Schema, TaggedField, UUID, always, since, within,
};

/// Name, highest and lowest level of a feature.
const FEATURES: FieldKind =
    FieldKind::Structs(&[always(FieldKind::Text), always(I16), always(I16)], &[]);

pub(super) const API_VERSIONS: Schema = Schema {
    flexible: 3,
    fields: &[
        always(I16), // error_code
        always(FieldKind::Structs(
            &[
                always(I16), // api_key
                always(I16), // min_version
                always(I16), // max_version
            ],
            &[],
        )),
        since(1, I32), // throttle_time_ms
    ],
    tagged: &[
        TaggedField { tag: 0, versions: (3, i16::MAX), kind: FEATURES }, // supported_features
        TaggedField { tag: 1, versions: (3, i16::MAX), kind: I64 },      // finalized_features_epoch
        TaggedField { tag: 2, versions: (3, i16::MAX), kind: FEATURES }, // finalized_features
        TaggedField { tag: 3, versions: (3, i16::MAX), kind: BOOL },     // zk_migration_ready
    ],
};

pub(super) const METADATA: Schema = Schema {
    flexible: 9,
    fields: &[
        since(3, I32), // throttle_time_ms
        always(FieldKind::Structs(
            &[
                always(I32),               // node_id
                always(FieldKind::Text),   // host
                always(I32),               // port
                since(1, FieldKind::Text), // rack
            ],
            &[],
        )),
        since(2, FieldKind::Text), // cluster_id
        since(1, I32),             // controller_id
        always(FieldKind::Structs(
            &[
                always(I16),             // error_code
                always(FieldKind::Text), // name
                since(10, UUID),         // topic_id
                since(1, BOOL),          // is_internal
                always(FieldKind::Structs(
                    &[
                        always(I16),                     // error_code
                        always(I32),                     // partition_index
                        always(I32),                     // leader_id
                        since(7, I32),                   // leader_epoch
                        always(FieldKind::List(&I32)),   // replica_nodes
                        always(FieldKind::List(&I32)),   // isr_nodes
                        since(5, FieldKind::List(&I32)), // offline_replicas
                    ],
                    &[],
                )),
                since(8, I32), // topic_authorized_operations
            ],
            &[],
        )),
        within(8, 10, I32), // cluster_authorized_operations
        since(13, I16),     // error_code
    ],
    tagged: &[],
};

pub(super) const FIND_COORDINATOR: Schema = Schema {
    flexible: 3,
    fields: &[
        since(1, I32),                 // throttle_time_ms
        within(0, 3, I16),             // error_code
        within(1, 3, FieldKind::Text), // error_message
        within(0, 3, I32),             // node_id
        within(0, 3, FieldKind::Text), // host
        within(0, 3, I32),             // port
        since(
            4,
            FieldKind::Structs(
                &[
                    always(FieldKind::Text), // key
                    always(I32),             // node_id
                    always(FieldKind::Text), // host
                    always(I32),             // port
                    always(I16),             // error_code
                    always(FieldKind::Text), // error_message
                ],
                &[],
            ),
        ),
    ],
    tagged: &[],
};

pub(super) const DESCRIBE_CLUSTER: Schema = Schema {
    flexible: 0,
    fields: &[
        always(I32),             // throttle_time_ms
        always(I16),             // error_code
        always(FieldKind::Text), // error_message
        since(1, I8),            // endpoint_type
        always(FieldKind::Text), // cluster_id
        always(I32),             // controller_id
        always(FieldKind::Structs(
            &[
                always(I32),             // broker_id
                always(FieldKind::Text), // host
                always(I32),             // port
                always(FieldKind::Text), // rack
                since(2, BOOL),          // is_fenced
            ],
            &[],
        )),
        always(I32), // cluster_authorized_operations
    ],
    tagged: &[],
};
