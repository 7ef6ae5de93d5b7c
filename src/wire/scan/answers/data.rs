//! Layouts of answers about records: `ListOffsets`, Produce, Fetch.

use crate::wire::scan::schema::{
    Field, FieldKind, I16, I32, I64, Schema, TaggedField, UUID, always, since, within,
};

/// Version 1 or later, with one offset per partition.
pub(super) const LIST_OFFSETS: Schema = Schema {
    flexible: 6,
    fields: &[
        since(2, I32), // throttle_time_ms
        always(FieldKind::Structs(
            &[
                always(FieldKind::Text), // name
                always(FieldKind::Structs(
                    &[
                        always(I32),   // partition_index
                        always(I16),   // error_code
                        always(I64),   // timestamp
                        always(I64),   // offset
                        since(4, I32), // leader_epoch
                    ],
                    &[],
                )),
            ],
            &[],
        )),
    ],
    tagged: &[],
};

/// Version 3 or later; since 10 it may name brokers.
pub(super) const PRODUCE: Schema = Schema {
    flexible: 9,
    fields: &[
        always(FieldKind::Structs(
            &[
                within(0, 12, FieldKind::Text), // name
                since(13, UUID),                // topic_id
                always(FieldKind::Structs(
                    &[
                        always(I32),   // index
                        always(I16),   // error_code
                        always(I64),   // base_offset
                        always(I64),   // log_append_time_ms
                        since(5, I64), // log_start_offset
                        since(
                            8,
                            FieldKind::Structs(
                                &[
                                    always(I32),             // batch_index
                                    always(FieldKind::Text), // batch_index_error_message
                                ],
                                &[],
                            ),
                        ),
                        since(8, FieldKind::Text), // error_message
                    ],
                    &[TaggedField {
                        tag: 0, // current_leader: leader_id, leader_epoch
                        versions: (10, i16::MAX),
                        kind: FieldKind::Struct(&[always(I32), always(I32)], &[]),
                    }],
                )),
            ],
            &[],
        )),
        always(I32), // throttle_time_ms
    ],
    tagged: &[TaggedField {
        tag: 0, // node_endpoints: node_id, host, port, rack
        versions: (10, i16::MAX),
        kind: FieldKind::Structs(
            &[always(I32), always(FieldKind::Text), always(I32), always(FieldKind::Text)],
            &[],
        ),
    }],
};

/// Version 4 or later; since 16 it may name brokers.
pub(super) const FETCH: Schema = Schema {
    flexible: 12,
    fields: &[
        always(I32),   // throttle_time_ms
        since(7, I16), // error_code
        since(7, I32), // session_id
        always(FieldKind::Structs(
            &[
                within(0, 12, FieldKind::Text), // topic
                since(13, UUID),                // topic_id
                always(FieldKind::Structs(FETCH_PARTITION, FETCH_PARTITION_TAGGED)),
            ],
            &[],
        )),
    ],
    tagged: &[TaggedField {
        tag: 0, // node_endpoints: node_id, host, port, rack
        versions: (16, i16::MAX),
        kind: FieldKind::Structs(
            &[always(I32), always(FieldKind::Text), always(I32), always(FieldKind::Text)],
            &[],
        ),
    }],
};

const FETCH_PARTITION: &[Field] = &[
    always(I32),   // partition_index
    always(I16),   // error_code
    always(I64),   // high_watermark
    always(I64),   // last_stable_offset
    since(5, I64), // log_start_offset
    always(FieldKind::Structs(
        &[
            always(I64), // producer_id
            always(I64), // first_offset
        ],
        &[],
    )),
    since(11, I32),          // preferred_read_replica
    always(FieldKind::Blob), // records
];

const FETCH_PARTITION_TAGGED: &[TaggedField] = &[
    TaggedField {
        tag: 0, // diverging_epoch: epoch, end_offset
        versions: (12, i16::MAX),
        kind: FieldKind::Struct(&[always(I32), always(I64)], &[]),
    },
    TaggedField {
        tag: 1, // current_leader: leader_id, leader_epoch
        versions: (12, i16::MAX),
        kind: FieldKind::Struct(&[always(I32), always(I32)], &[]),
    },
    TaggedField {
        tag: 2, // snapshot_id: end_offset, epoch
        versions: (12, i16::MAX),
        kind: FieldKind::Struct(&[always(I64), always(I32)], &[]),
    },
];
