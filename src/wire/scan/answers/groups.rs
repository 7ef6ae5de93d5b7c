//! Layouts of answers about groups and their offsets.

use crate::wire::scan::schema::{BOOL, I16, I32, I64, Kind, Schema, UUID, always, since, within};

pub(super) const JOIN_GROUP: Schema = Schema {
    flexible: 6,
    fields: &[
        since(2, I32),        // throttle_time_ms
        always(I16),          // error_code
        always(I32),          // generation_id
        since(7, Kind::Text), // protocol_type
        always(Kind::Text),   // protocol_name
        always(Kind::Text),   // leader
        since(9, BOOL),       // skip_assignment
        always(Kind::Text),   // member_id
        always(Kind::Structs(
            &[
                always(Kind::Text),   // member_id
                since(5, Kind::Text), // group_instance_id
                always(Kind::Blob),   // metadata
            ],
            &[],
        )),
    ],
    tagged: &[],
};

pub(super) const CONSUMER_GROUP_HEARTBEAT: Schema = Schema {
    flexible: 0,
    fields: &[
        always(I32),        // throttle_time_ms
        always(I16),        // error_code
        always(Kind::Text), // error_message
        always(Kind::Text), // member_id
        always(I32),        // member_epoch
        always(I32),        // heartbeat_interval_ms
        // assignment: topic_id and partitions of each topic
        always(Kind::Maybe(&[always(Kind::Structs(
            &[always(UUID), always(Kind::List(&I32))],
            &[],
        ))])),
    ],
    tagged: &[],
};

pub(super) const SYNC_GROUP: Schema = Schema {
    flexible: 4,
    fields: &[
        since(1, I32),        // throttle_time_ms
        always(I16),          // error_code
        since(5, Kind::Text), // protocol_type
        since(5, Kind::Text), // protocol_name
        always(Kind::Blob),   // assignment
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
            Kind::Structs(
                &[
                    always(Kind::Text), // member_id
                    always(Kind::Text), // group_instance_id
                    always(I16),        // error_code
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
        always(Kind::Structs(
            &[
                always(Kind::Text), // name
                always(Kind::Structs(
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
const COMMITTED: Kind = Kind::Structs(
    &[
        always(Kind::Text), // name
        always(Kind::Structs(
            &[
                always(I32),        // partition_index
                always(I64),        // committed_offset
                since(5, I32),      // committed_leader_epoch
                always(Kind::Text), // metadata
                always(I16),        // error_code
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
            Kind::Structs(
                &[
                    always(Kind::Text), // group_id
                    always(COMMITTED),  // topics
                    always(I16),        // error_code
                ],
                &[],
            ),
        ),
    ],
    tagged: &[],
};
