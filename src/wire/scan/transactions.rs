//! Layouts: `AddPartitionsToTxn`, `AddOffsetsToTxn`, `TxnOffsetCommit`, `EndTxn`,
//! `DescribeProducers`, `DescribeTransactions`, `ListTransactions`.

use super::schema::{BOOL, FieldKind, I16, I32, I64, Schema, always, since};

/// Clients send versions 0–3; only brokers send later ones.
pub(in crate::wire) const ADD_PARTITIONS: Schema = Schema {
    flexible: 3,
    fields: &[
        always(FieldKind::Text), // transactional_id
        always(I64),             // producer_id
        always(I16),             // producer_epoch
        // topics: name, partitions
        always(FieldKind::Structs(&[always(FieldKind::Text), always(FieldKind::List(&I32))], &[])),
    ],
    tagged: &[],
};

pub(in crate::wire) const ADD_OFFSETS: Schema = Schema {
    flexible: 3,
    fields: &[
        always(FieldKind::Text), // transactional_id
        always(I64),             // producer_id
        always(I16),             // producer_epoch
        always(FieldKind::Text), // group_id
    ],
    tagged: &[],
};

pub(in crate::wire) const DESCRIBE_PRODUCERS: Schema = Schema {
    flexible: 0,
    fields: &[
        // topics: name, partition_indexes
        always(FieldKind::Structs(&[always(FieldKind::Text), always(FieldKind::List(&I32))], &[])),
    ],
    tagged: &[],
};

pub(in crate::wire) const DESCRIBE: Schema = Schema {
    flexible: 0,
    fields: &[
        always(FieldKind::List(&FieldKind::Text)), // transactional_ids
    ],
    tagged: &[],
};

pub(in crate::wire) const TXN_OFFSET_COMMIT: Schema = Schema {
    flexible: 3,
    fields: &[
        always(FieldKind::Text),   // transactional_id
        always(FieldKind::Text),   // group_id
        always(I64),               // producer_id
        always(I16),               // producer_epoch
        since(3, I32),             // generation_id
        since(3, FieldKind::Text), // member_id
        since(3, FieldKind::Text), // group_instance_id
        always(FieldKind::Structs(
            &[
                always(FieldKind::Text), // name
                always(FieldKind::Structs(
                    &[
                        always(I32),             // partition_index
                        always(I64),             // committed_offset
                        since(2, I32),           // committed_leader_epoch
                        always(FieldKind::Text), // committed_metadata
                    ],
                    &[],
                )),
            ],
            &[],
        )),
    ],
    tagged: &[],
};

pub(in crate::wire) const END_TXN: Schema = Schema {
    flexible: 3,
    fields: &[
        always(FieldKind::Text), // transactional_id
        always(I64),             // producer_id
        always(I16),             // producer_epoch
        always(BOOL),            // committed
    ],
    tagged: &[],
};

pub(in crate::wire) const LIST: Schema = Schema {
    flexible: 0,
    fields: &[
        always(FieldKind::List(&FieldKind::Text)), // state_filters
        always(FieldKind::List(&I64)),             // producer_id_filters
        since(1, I64),                             // duration_filter
        since(2, FieldKind::Text),                 // transactional_id_pattern
    ],
    tagged: &[],
};
