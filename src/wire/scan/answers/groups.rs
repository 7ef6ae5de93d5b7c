//! Layouts of answers about groups and their offsets.

use crate::wire::scan::schema::{
    BOOL, FieldKind, I16, I32, I64, Schema, UUID, always, since, within,
};

pub(super) const JOIN_GROUP: Schema = Schema {
    flexible: 6,
    fields: &[
        since(2, I32),             // throttle_time_ms
        always(I16),               // error_code
        always(I32),               // generation_id
        since(7, FieldKind::Text), // protocol_type
        always(FieldKind::Text),   // protocol_name
        always(FieldKind::Text),   // leader
        since(9, BOOL),            // skip_assignment
        always(FieldKind::Text),   // member_id
        always(FieldKind::Structs(
            &[
                always(FieldKind::Text),   // member_id
                since(5, FieldKind::Text), // group_instance_id
                always(FieldKind::Blob),   // metadata
            ],
            &[],
        )),
    ],
    tagged: &[],
};

pub(super) const CONSUMER_GROUP_HEARTBEAT: Schema = Schema {
    flexible: 0,
    fields: &[
        always(I32),             // throttle_time_ms
        always(I16),             // error_code
        always(FieldKind::Text), // error_message
        always(FieldKind::Text), // member_id
        always(I32),             // member_epoch
        always(I32),             // heartbeat_interval_ms
        // assignment: topic_id and partitions of each topic
        always(FieldKind::Maybe(&[always(FieldKind::Structs(
            &[always(UUID), always(FieldKind::List(&I32))],
            &[],
        ))])),
    ],
    tagged: &[],
};

pub(super) const SYNC_GROUP: Schema = Schema {
    flexible: 4,
    fields: &[
        since(1, I32),             // throttle_time_ms
        always(I16),               // error_code
        since(5, FieldKind::Text), // protocol_type
        since(5, FieldKind::Text), // protocol_name
        always(FieldKind::Blob),   // assignment
    ],
    tagged: &[],
};

pub(super) const HEARTBEAT: Schema = Schema {
    flexible: 4,
    fields: &[
        since(1, I32), // throttle_time_ms
        always(I16),   // error_code
    ],
    tagged: &[],
};

pub(super) const LEAVE_GROUP: Schema = Schema {
    flexible: 4,
    fields: &[
        since(1, I32), // throttle_time_ms
        always(I16),   // error_code
        since(
            3,
            FieldKind::Structs(
                &[
                    always(FieldKind::Text), // member_id
                    always(FieldKind::Text), // group_instance_id
                    always(I16),             // error_code
                ],
                &[],
            ),
        ),
    ],
    tagged: &[],
};

pub(super) const OFFSET_COMMIT: Schema = Schema {
    flexible: 8,
    fields: &[
        since(3, I32), // throttle_time_ms
        always(FieldKind::Structs(
            &[
                always(FieldKind::Text), // name
                always(FieldKind::Structs(
                    &[
                        always(I32), // partition_index
                        always(I16), // error_code
                    ],
                    &[],
                )),
            ],
            &[],
        )),
    ],
    tagged: &[],
};

/// A topic's committed offsets.
const COMMITTED: FieldKind = FieldKind::Structs(
    &[
        always(FieldKind::Text), // name
        always(FieldKind::Structs(
            &[
                always(I32),             // partition_index
                always(I64),             // committed_offset
                since(5, I32),           // committed_leader_epoch
                always(FieldKind::Text), // metadata
                always(I16),             // error_code
            ],
            &[],
        )),
    ],
    &[],
);

pub(super) const OFFSET_FETCH: Schema = Schema {
    flexible: 6,
    fields: &[
        since(3, I32),           // throttle_time_ms
        within(0, 7, COMMITTED), // topics
        within(2, 7, I16),       // error_code
        since(
            8,
            FieldKind::Structs(
                &[
                    always(FieldKind::Text), // group_id
                    always(COMMITTED),       // topics
                    always(I16),             // error_code
                ],
                &[],
            ),
        ),
    ],
    tagged: &[],
};
