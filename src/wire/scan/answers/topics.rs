//! Layouts of answers about topics and their settings.

use crate::wire::scan::schema::{
    BOOL, Field, FieldKind, I8, I16, I32, Schema, TaggedField, UUID, always, since,
};

pub(super) const CREATE_TOPICS: Schema = Schema {
    flexible: 5,
    fields: &[
        always(I32), // throttle_time_ms
        always(FieldKind::Structs(
            &[
                always(FieldKind::Text), // name
                since(7, UUID),          // topic_id
                always(I16),             // error_code
                always(FieldKind::Text), // error_message
                since(5, I32),           // num_partitions
                since(5, I16),           // replication_factor
                // configs: name, value, read_only, config_source, is_sensitive
                since(
                    5,
                    FieldKind::Structs(
                        &[
                            always(FieldKind::Text),
                            always(FieldKind::Text),
                            always(BOOL),
                            always(I8),
                            always(BOOL),
                        ],
                        &[],
                    ),
                ),
            ],
            // topic_config_error_code
            &[TaggedField { tag: 0, versions: (5, i16::MAX), kind: I16 }],
        )),
    ],
    tagged: &[],
};

pub(super) const DELETE_TOPICS: Schema = Schema {
    flexible: 4,
    fields: &[
        always(I32), // throttle_time_ms
        always(FieldKind::Structs(
            &[
                always(FieldKind::Text),   // name
                since(6, UUID),            // topic_id
                always(I16),               // error_code
                since(5, FieldKind::Text), // error_message
            ],
            &[],
        )),
    ],
    tagged: &[],
};

pub(super) const DESCRIBE_CONFIGS: Schema = Schema {
    flexible: 4,
    fields: &[
        always(I32), // throttle_time_ms
        always(FieldKind::Structs(
            &[
                always(I16),             // error_code
                always(FieldKind::Text), // error_message
                always(I8),              // resource_type
                always(FieldKind::Text), // resource_name
                always(FieldKind::Structs(
                    &[
                        always(FieldKind::Text), // name
                        always(FieldKind::Text), // value
                        always(BOOL),            // read_only
                        always(I8),              // config_source
                        always(BOOL),            // is_sensitive
                        // synonyms: name, value, source
                        always(FieldKind::Structs(
                            &[always(FieldKind::Text), always(FieldKind::Text), always(I8)],
                            &[],
                        )),
                        since(3, I8),              // config_type
                        since(3, FieldKind::Text), // documentation
                    ],
                    &[],
                )),
            ],
            &[],
        )),
    ],
    tagged: &[],
};

pub(super) const DESCRIBE_TOPIC_PARTITIONS: Schema = Schema {
    flexible: 0,
    fields: &[
        always(I32), // throttle_time_ms
        always(FieldKind::Structs(
            &[
                always(I16),             // error_code
                always(FieldKind::Text), // name
                always(UUID),            // topic_id
                always(BOOL),            // is_internal
                always(FieldKind::Structs(
                    &[
                        always(I16),                   // error_code
                        always(I32),                   // partition_index
                        always(I32),                   // leader_id
                        always(I32),                   // leader_epoch
                        always(FieldKind::List(&I32)), // replica_nodes
                        always(FieldKind::List(&I32)), // isr_nodes
                        always(FieldKind::List(&I32)), // eligible_leader_replicas
                        always(FieldKind::List(&I32)), // last_known_elr
                        always(FieldKind::List(&I32)), // offline_replicas
                    ],
                    &[],
                )),
                always(I32), // topic_authorized_operations
            ],
            &[],
        )),
        // next_cursor: topic_name, partition_index
        always(FieldKind::Maybe(&[always(FieldKind::Text), always(I32)])),
    ],
    tagged: &[],
};

pub(super) const CREATE_PARTITIONS: Schema = Schema {
    flexible: 2,
    fields: &[
        always(I32), // throttle_time_ms
        // results: name, error_code, error_message
        always(FieldKind::Structs(
            &[always(FieldKind::Text), always(I16), always(FieldKind::Text)],
            &[],
        )),
    ],
    tagged: &[],
};

/// Answer fields of `AlterConfigs` and `IncrementalAlterConfigs`.
const ALTERED: &[Field] = &[
    always(I32), // throttle_time_ms
    // responses: error_code, error_message, resource_type, resource_name
    always(FieldKind::Structs(
        &[always(I16), always(FieldKind::Text), always(I8), always(FieldKind::Text)],
        &[],
    )),
];

pub(super) const ALTER_CONFIGS: Schema = Schema { flexible: 2, fields: ALTERED, tagged: &[] };

pub(super) const INCREMENTAL_ALTER_CONFIGS: Schema =
    Schema { flexible: 1, fields: ALTERED, tagged: &[] };
