//! Layouts: `OffsetCommit`, `OffsetFetch`, `OffsetDelete`, `OffsetForLeaderEpoch`.

use super::schema::{BOOL, I32, I64, Kind, Schema, always, since, within};

pub(in crate::wire) const OFFSET_COMMIT: Schema = Schema {
    flexible: 8,
    fields: &[
        always(Kind::Text),   // group_id
        always(I32),          // generation_id_or_member_epoch
        always(Kind::Text),   // member_id
        since(7, Kind::Text), // group_instance_id
        within(0, 4, I64),    // retention_time_ms
        always(Kind::Structs(
            &[
                always(Kind::Text), // name
                always(Kind::Structs(
                    &[
                        always(I32),        // partition_index
                        always(I64),        // committed_offset
                        since(6, I32),      // committed_leader_epoch
                        always(Kind::Text), // committed_metadata
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
const TOPIC: Kind = Kind::Structs(&[always(Kind::Text), always(Kind::List(&I32))], &[]);

pub(in crate::wire) const OFFSET_FETCH: Schema = Schema {
    flexible: 6,
    fields: &[
        within(0, 7, Kind::Text), // group_id
        within(0, 7, TOPIC),      // topics
        since(
            8,
            Kind::Structs(
                &[
                    always(Kind::Text),   // group_id
                    since(9, Kind::Text), // member_id
                    since(9, I32),        // member_epoch
                    always(TOPIC),        // topics
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
        always(Kind::Structs(
            &[
                always(Kind::Text), // topic
                always(Kind::Structs(
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
        always(Kind::Text), // group_id
        // topics: name, partitions: partition_index
        always(Kind::Structs(
            &[always(Kind::Text), always(Kind::Structs(&[always(I32)], &[]))],
            &[],
        )),
    ],
    tagged: &[],
};
