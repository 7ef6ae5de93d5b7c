//! Layouts of answers to transactional producers.

use crate::wire::scan::schema::{FieldKind, I16, I32, I64, Schema, always, since};

/// Topic name; index and error code of each partition.
const TOPICS: FieldKind = FieldKind::Structs(
    &[always(FieldKind::Text), always(FieldKind::Structs(&[always(I32), always(I16)], &[]))],
    &[],
);

pub(super) const ADD_PARTITIONS: Schema = Schema {
    flexible: 3,
    fields: &[always(I32), always(TOPICS)], // throttle_time_ms, results
    tagged: &[],
};

pub(super) const TXN_OFFSET_COMMIT: Schema = Schema {
    flexible: 3,
    fields: &[always(I32), always(TOPICS)], // throttle_time_ms, topics
    tagged: &[],
};

pub(super) const END_TXN: Schema = Schema {
    flexible: 3,
    fields: &[
        always(I32),   // throttle_time_ms
        always(I16),   // error_code
        since(5, I64), // producer_id
        since(5, I16), // producer_epoch
    ],
    tagged: &[],
};

pub(super) const INIT_PRODUCER_ID: Schema = Schema {
    flexible: 2,
    fields: &[
        always(I32), // throttle_time_ms
        always(I16), // error_code
        always(I64), // producer_id
        always(I16), // producer_epoch
    ],
    tagged: &[],
};
