//! Layouts: creation, growth and deletion of topics, their settings and records, `DescribeLogDirs`.

use super::schema::{BOOL, I8, I16, I32, I64, Kind, Schema, UUID, always, since, within};

pub(in crate::wire) const CREATE_TOPICS: Schema = Schema {
    flexible: 5,
    fields: &[
        always(Kind::Structs(
            &[
                always(Kind::Text), // name
                always(I32),        // num_partitions
                always(I16),        // replication_factor
                // assignments: partition_index, broker_ids
                always(Kind::Structs(&[always(I32), always(Kind::List(&I32))], &[])),
                // configs: name, value
                always(Kind::Structs(&[always(Kind::Text), always(Kind::Text)], &[])),
            ],
            &[],
        )),
        always(I32),  // timeout_ms
        always(BOOL), // validate_only
    ],
    tagged: &[],
};

pub(in crate::wire) const DELETE_TOPICS: Schema = Schema {
    flexible: 4,
    fields: &[
        since(6, Kind::Structs(&[always(Kind::Text), always(UUID)], &[])), // name, topic_id
        within(0, 5, Kind::List(&Kind::Text)),                             // topic_names
        always(I32),                                                       // timeout_ms
    ],
    tagged: &[],
};

pub(in crate::wire) const DESCRIBE_CONFIGS: Schema = Schema {
    flexible: 4,
    fields: &[
        always(Kind::Structs(
            &[
                always(I8),                      // resource_type
                always(Kind::Text),              // resource_name
                always(Kind::List(&Kind::Text)), // configuration_keys
            ],
            &[],
        )),
        always(BOOL),   // include_synonyms
        since(3, BOOL), // include_documentation
    ],
    tagged: &[],
};

pub(in crate::wire) const DESCRIBE_LOG_DIRS: Schema = Schema {
    flexible: 2,
    // topics: topic, partitions
    fields: &[always(Kind::Structs(&[always(Kind::Text), always(Kind::List(&I32))], &[]))],
    tagged: &[],
};

pub(in crate::wire) const CREATE_PARTITIONS: Schema = Schema {
    flexible: 2,
    fields: &[
        always(Kind::Structs(
            &[
                always(Kind::Text), // name
                always(I32),        // count
                // assignments: broker_ids
                always(Kind::Structs(&[always(Kind::List(&I32))], &[])),
            ],
            &[],
        )),
        always(I32),  // timeout_ms
        always(BOOL), // validate_only
    ],
    tagged: &[],
};

pub(in crate::wire) const DELETE_RECORDS: Schema = Schema {
    flexible: 2,
    fields: &[
        always(Kind::Structs(
            &[
                always(Kind::Text), // name
                // partitions: partition_index, offset
                always(Kind::Structs(&[always(I32), always(I64)], &[])),
            ],
            &[],
        )),
        always(I32), // timeout_ms
    ],
    tagged: &[],
};

pub(in crate::wire) const INCREMENTAL_ALTER_CONFIGS: Schema = Schema {
    flexible: 1,
    fields: &[
        always(Kind::Structs(
            &[
                always(I8),         // resource_type
                always(Kind::Text), // resource_name
                // configs: name, config_operation, value
                always(Kind::Structs(&[always(Kind::Text), always(I8), always(Kind::Text)], &[])),
            ],
            &[],
        )),
        always(BOOL), // validate_only
    ],
    tagged: &[],
};

pub(in crate::wire) const ALTER_CONFIGS: Schema = Schema {
    flexible: 2,
    fields: &[
        always(Kind::Structs(
            &[
                always(I8),         // resource_type
                always(Kind::Text), // resource_name
                // configs: name, value
                always(Kind::Structs(&[always(Kind::Text), always(Kind::Text)], &[])),
            ],
            &[],
        )),
        always(BOOL), // validate_only
    ],
    tagged: &[],
};
