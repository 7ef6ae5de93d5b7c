//! Layouts of answers about topics and their settings.

use crate::wire::scan::schema::{
    BOOL, Field, I8, I16, I32, Kind, Schema, Tagged, UUID, always, since,
};

pub(super) const CREATE_TOPICS: Schema = Schema {
    flexible: 5,
    fields: &[
        always(I32), // throttle_time_ms
        always(Kind::Structs(
            &[
                always(Kind::Text), // name
                since(7, UUID),     // topic_id
                always(I16),        // error_code
                always(Kind::Text), // error_message
                since(5, I32),      // num_partitions
                since(5, I16),      // replication_factor
                // configs: name, value, read_only, config_source, is_sensitive
                since(
                    5,
                    Kind::Structs(
                        &[
                            always(Kind::Text),
                            always(Kind::Text),
                            always(BOOL),
                            always(I8),
                            always(BOOL),
                        ],
                        &[],
                    ),
                ),
            ],
            // topic_config_error_code
            &[Tagged { tag: 0, versions: (5, i16::MAX), kind: I16 }],
        )),
    ],
    tagged: &[],
};

pub(super) const DELETE_TOPICS: Schema = Schema {
    flexible: 4,
    fields: &[
        always(I32), // throttle_time_ms
        always(Kind::Structs(
            &[
                always(Kind::Text),   // name
                since(6, UUID),       // topic_id
                always(I16),          // error_code
                since(5, Kind::Text), // error_message
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
        always(Kind::Structs(
            &[
                always(I16),        // error_code
                always(Kind::Text), // error_message
                always(I8),         // resource_type
                always(Kind::Text), // resource_name
                always(Kind::Structs(
                    &[
                        always(Kind::Text), // name
                        always(Kind::Text), // value
                        always(BOOL),       // read_only
                        always(I8),         // config_source
                        always(BOOL),       // is_sensitive
                        // synonyms: name, value, source
                        always(Kind::Structs(
                            &[always(Kind::Text), always(Kind::Text), always(I8)],
                            &[],
                        )),
                        since(3, I8),         // config_type
                        since(3, Kind::Text), // documentation
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
        always(Kind::Structs(
            &[
                always(I16),        // error_code
                always(Kind::Text), // name
                always(UUID),       // topic_id
                always(BOOL),       // is_internal
                always(Kind::Structs(
                    &[
                        always(I16),              // error_code
                        always(I32),              // partition_index
                        always(I32),              // leader_id
                        always(I32),              // leader_epoch
                        always(Kind::List(&I32)), // replica_nodes
                        always(Kind::List(&I32)), // isr_nodes
                        always(Kind::List(&I32)), // eligible_leader_replicas
                        always(Kind::List(&I32)), // last_known_elr
                        always(Kind::List(&I32)), // offline_replicas
                    ],
                    &[],
                )),
                always(I32), // topic_authorized_operations
            ],
            &[],
        )),
        // next_cursor: topic_name, partition_index
        always(Kind::Maybe(&[always(Kind::Text), always(I32)])),
    ],
    tagged: &[],
};

pub(super) const CREATE_PARTITIONS: Schema = Schema {
    flexible: 2,
    fields: &[
        always(I32), // throttle_time_ms
        // results: name, error_code, error_message
        always(Kind::Structs(&[always(Kind::Text), always(I16), always(Kind::Text)], &[])),
    ],
    tagged: &[],
};

/// Answer fields of `AlterConfigs` and `IncrementalAlterConfigs`.
const ALTERED: &[Field] = &[
    always(I32), // throttle_time_ms
    // responses: error_code, error_message, resource_type, resource_name
    always(Kind::Structs(&[always(I16), always(Kind::Text), always(I8), always(Kind::Text)], &[])),
];

pub(super) const ALTER_CONFIGS: Schema = Schema { flexible: 2, fields: ALTERED, tagged: &[] };

pub(super) const INCREMENTAL_ALTER_CONFIGS: Schema =
    Schema { flexible: 1, fields: ALTERED, tagged: &[] };
