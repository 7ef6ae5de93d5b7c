//! Layouts: creation, growth and deletion of topics, their settings and records, `DescribeLogDirs`.

use super::schema::{BOOL, FieldKind, I8, I16, I32, I64, Schema, UUID, always, since, within};

pub(in crate::wire) const CREATE_TOPICS: Schema = Schema {
    flexible: 5,
    fields: &[
        always(FieldKind::Structs(
            &[
                always(FieldKind::Text), // name
                always(I32),             // num_partitions
                always(I16),             // replication_factor
                // assignments: partition_index, broker_ids
                always(FieldKind::Structs(&[always(I32), always(FieldKind::List(&I32))], &[])),
                // configs: name, value
                always(FieldKind::Structs(
                    &[always(FieldKind::Text), always(FieldKind::Text)],
                    &[],
                )),
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
        since(6, FieldKind::Structs(&[always(FieldKind::Text), always(UUID)], &[])), // name, id
        within(0, 5, FieldKind::List(&FieldKind::Text)),                             // topic_names
        always(I32),                                                                 // timeout_ms
    ],
    tagged: &[],
};

pub(in crate::wire) const DESCRIBE_CONFIGS: Schema = Schema {
    flexible: 4,
    fields: &[
        always(FieldKind::Structs(
            &[
                always(I8),                                // resource_type
                always(FieldKind::Text),                   // resource_name
                always(FieldKind::List(&FieldKind::Text)), // configuration_keys
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
    fields: &[always(FieldKind::Structs(
        &[always(FieldKind::Text), always(FieldKind::List(&I32))],
        &[],
    ))],
    tagged: &[],
};

pub(in crate::wire) const CREATE_PARTITIONS: Schema = Schema {
    flexible: 2,
    fields: &[
        always(FieldKind::Structs(
            &[
                always(FieldKind::Text), // name
                always(I32),             // count
                // assignments: broker_ids
                always(FieldKind::Structs(&[always(FieldKind::List(&I32))], &[])),
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
        always(FieldKind::Structs(
            &[
                always(FieldKind::Text), // name
                // partitions: partition_index, offset
                always(FieldKind::Structs(&[always(I32), always(I64)], &[])),
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
        always(FieldKind::Structs(
            &[
                always(I8),              // resource_type
                always(FieldKind::Text), // resource_name
                // configs: name, config_operation, value
                always(FieldKind::Structs(
                    &[always(FieldKind::Text), always(I8), always(FieldKind::Text)],
                    &[],
                )),
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
        always(FieldKind::Structs(
            &[
                always(I8),              // resource_type
                always(FieldKind::Text), // resource_name
                // configs: name, value
                always(FieldKind::Structs(
                    &[always(FieldKind::Text), always(FieldKind::Text)],
                    &[],
                )),
            ],
            &[],
        )),
        always(BOOL), // validate_only
    ],
    tagged: &[],
};
