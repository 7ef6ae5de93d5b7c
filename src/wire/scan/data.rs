//! Layouts: Produce, Fetch, `ListOffsets`, `InitProducerId`.

use super::schema::{
    Field, FieldKind, I8, I16, I32, I64, Schema, TaggedField, UUID, always, since, within,
};

pub(in crate::wire) const PRODUCE: Schema = Schema {
    flexible: 9,
    fields: &[
        always(FieldKind::Text), // transactional_id
        always(I16),             // acks
        always(I32),             // timeout_ms
        always(FieldKind::Structs(
            &[
                within(0, 12, FieldKind::Text), // name
                since(13, UUID),                // topic_id
                always(FieldKind::Structs(
                    &[
                        always(I32),             // index
                        always(FieldKind::Blob), // records
                    ],
                    &[],
                )),
            ],
            &[],
        )),
    ],
    tagged: &[],
};

const FETCH_PARTITION: &[Field] = &[
    always(I32),    // partition
    since(9, I32),  // current_leader_epoch
    always(I64),    // fetch_offset
    since(12, I32), // last_fetched_epoch
    since(5, I64),  // log_start_offset
    always(I32),    // partition_max_bytes
];

const FETCH_PARTITION_TAGGED: &[TaggedField] = &[
    TaggedField { tag: 0, versions: (17, i16::MAX), kind: UUID }, // replica_directory_id
    TaggedField { tag: 1, versions: (18, i16::MAX), kind: I64 },  // high_watermark
];

pub(in crate::wire) const FETCH: Schema = Schema {
    flexible: 12,
    fields: &[
        within(0, 14, I32), // replica_id
        always(I32),        // max_wait_ms
        always(I32),        // min_bytes
        always(I32),        // max_bytes
        always(I8),         // isolation_level
        since(7, I32),      // session_id
        since(7, I32),      // session_epoch
        always(FieldKind::Structs(
            &[
                within(0, 12, FieldKind::Text), // topic
                since(13, UUID),                // topic_id
                always(FieldKind::Structs(FETCH_PARTITION, FETCH_PARTITION_TAGGED)),
            ],
            &[],
        )),
        since(
            7,
            FieldKind::Structs(
                &[
                    within(7, 12, FieldKind::Text), // topic
                    since(13, UUID),                // topic_id
                    always(FieldKind::List(&I32)),  // partitions
                ],
                &[],
            ),
        ),
        since(11, FieldKind::Text), // rack_id
    ],
    tagged: &[
        TaggedField { tag: 0, versions: (12, i16::MAX), kind: FieldKind::Text }, // cluster_id
        TaggedField {
            tag: 1,
            versions: (15, i16::MAX),
            kind: FieldKind::Struct(&[always(I32), always(I64)], &[]), // replica_state
        },
    ],
};

pub(in crate::wire) const LIST_OFFSETS: Schema = Schema {
    flexible: 6,
    fields: &[
        always(I32),  // replica_id
        since(2, I8), // isolation_level
        always(FieldKind::Structs(
            &[
                always(FieldKind::Text), // name
                always(FieldKind::Structs(
                    &[
                        always(I32),   // partition_index
                        since(4, I32), // current_leader_epoch
                        always(I64),   // timestamp
                    ],
                    &[],
                )),
            ],
            &[],
        )),
        since(10, I32), // timeout_ms
    ],
    tagged: &[],
};

pub(in crate::wire) const INIT_PRODUCER_ID: Schema = Schema {
    flexible: 2,
    fields: &[
        always(FieldKind::Text), // transactional_id
        always(I32),             // transaction_timeout_ms
        since(3, I64),           // producer_id
        since(3, I16),           // producer_epoch
    ],
    tagged: &[],
};
