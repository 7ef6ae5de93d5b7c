//! Layouts: `OffsetCommit`, `OffsetFetch`, `OffsetDelete`, `OffsetForLeaderEpoch`.

use super::schema::{BOOL, FieldKind, I32, I64, Schema, always, since, within};

pub(in crate::wire) const OFFSET_COMMIT: Schema = Schema {
    flexible: 8,
    fields: &[
        always(FieldKind::Text),   // group_id
        always(I32),               // generation_id_or_member_epoch
        always(FieldKind::Text),   // member_id
        since(7, FieldKind::Text), // group_instance_id
        within(0, 4, I64),         // retention_time_ms
        always(FieldKind::Structs(
            &[
                always(FieldKind::Text), // name
                always(FieldKind::Structs(
                    &[
                        always(I32),             // partition_index
                        always(I64),             // committed_offset
                        since(6, I32),           // committed_leader_epoch
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

/// A topic's name and the requested partitions.
const TOPIC: FieldKind =
    FieldKind::Structs(&[always(FieldKind::Text), always(FieldKind::List(&I32))], &[]);

pub(in crate::wire) const OFFSET_FETCH: Schema = Schema {
    flexible: 6,
    fields: &[
        within(0, 7, FieldKind::Text), // group_id
        within(0, 7, TOPIC),           // topics
        since(
            8,
            FieldKind::Structs(
                &[
                    always(FieldKind::Text),   // group_id
                    since(9, FieldKind::Text), // member_id
                    since(9, I32),             // member_epoch
                    always(TOPIC),             // topics
                ],
                &[],
            ),
        ),
        since(7, BOOL), // require_stable
    ],
    tagged: &[],
};

pub(in crate::wire) const OFFSET_FOR_LEADER_EPOCH: Schema = Schema {
    flexible: 4,
    fields: &[
        since(3, I32), // replica_id
        always(FieldKind::Structs(
            &[
                always(FieldKind::Text), // topic
                always(FieldKind::Structs(
                    &[
                        always(I32), // partition
                        always(I32), // current_leader_epoch
                        always(I32), // leader_epoch
                    ],
                    &[],
                )),
            ],
            &[],
        )),
    ],
    tagged: &[],
};

pub(in crate::wire) const OFFSET_DELETE: Schema = Schema {
    flexible: i16::MAX,
    fields: &[
        always(FieldKind::Text), // group_id
        // topics: name, partitions: partition_index
        always(FieldKind::Structs(
            &[always(FieldKind::Text), always(FieldKind::Structs(&[always(I32)], &[]))],
            &[],
        )),
    ],
    tagged: &[],
};
