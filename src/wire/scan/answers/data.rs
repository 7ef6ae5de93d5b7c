//! Layouts of answers about records: `ListOffsets`, Produce, Fetch.

use crate::wire::scan::schema::{
    Field, I16, I32, I64, Kind, Schema, Tagged, UUID, always, since, within,
};

/// Version 1 or later, with one offset per partition.
pub(super) const LIST_OFFSETS: Schema = Schema {
    flexible: 6,
    fields: &[
        since(2, I32), // throttle_time_ms
        always(Kind::Structs(
            &[
                always(Kind::Text), // name
                always(Kind::Structs(
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
        always(Kind::Structs(
            &[
                within(0, 12, Kind::Text), // name
                since(13, UUID),           // topic_id
                always(Kind::Structs(
                    &[
                        always(I32),   // index
                        always(I16),   // error_code
                        always(I64),   // base_offset
                        always(I64),   // log_append_time_ms
                        since(5, I64), // log_start_offset
                        since(
                            8,
                            Kind::Structs(
                                &[
                                    always(I32),        // batch_index
                                    always(Kind::Text), // batch_index_error_message
                                ],
                                &[],
                            ),
                        ),
                        since(8, Kind::Text), // error_message
                    ],
                    &[Tagged {
                        tag: 0, // current_leader: leader_id, leader_epoch
                        versions: (10, i16::MAX),
                        kind: Kind::Struct(&[always(I32), always(I32)], &[]),
                    }],
                )),
            ],
            &[],
        )),
        always(I32), // throttle_time_ms
    ],
    tagged: &[Tagged {
        tag: 0, // node_endpoints: node_id, host, port, rack
        versions: (10, i16::MAX),
        kind: Kind::Structs(
            &[always(I32), always(Kind::Text), always(I32), always(Kind::Text)],
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
        always(Kind::Structs(
            &[
                within(0, 12, Kind::Text), // topic
                since(13, UUID),           // topic_id
                always(Kind::Structs(FETCH_PARTITION, FETCH_PARTITION_TAGGED)),
            ],
            &[],
        )),
    ],
    tagged: &[Tagged {
        tag: 0, // node_endpoints: node_id, host, port, rack
        versions: (16, i16::MAX),
        kind: Kind::Structs(
            &[always(I32), always(Kind::Text), always(I32), always(Kind::Text)],
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
    always(Kind::Structs(
        &[
            always(I64), // producer_id
            always(I64), // first_offset
        ],
        &[],
    )),
    since(11, I32),     // preferred_read_replica
    always(Kind::Blob), // records
];

const FETCH_PARTITION_TAGGED: &[Tagged] = &[
    Tagged {
        tag: 0, // diverging_epoch: epoch, end_offset
        versions: (12, i16::MAX),
        kind: Kind::Struct(&[always(I32), always(I64)], &[]),
    },
    Tagged {
        tag: 1, // current_leader: leader_id, leader_epoch
        versions: (12, i16::MAX),
        kind: Kind::Struct(&[always(I32), always(I32)], &[]),
    },
    Tagged {
        tag: 2, // snapshot_id: end_offset, epoch
        versions: (12, i16::MAX),
        kind: Kind::Struct(&[always(I64), always(I32)], &[]),
    },
];
