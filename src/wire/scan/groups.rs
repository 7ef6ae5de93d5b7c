//! Layouts: `FindCoordinator` and the classic group protocol, List-, Describe- and `DeleteGroups`.

use super::schema::{BOOL, I8, I32, Kind, Schema, always, since, within};

pub(in crate::wire) const FIND_COORDINATOR: Schema = Schema {
    flexible: 3,
    fields: &[
        within(0, 3, Kind::Text),          // key
        since(1, I8),                      // key_type
        since(4, Kind::List(&Kind::Text)), // coordinator_keys
    ],
    tagged: &[],
};

pub(in crate::wire) const JOIN_GROUP: Schema = Schema {
    flexible: 6,
    fields: &[
        always(Kind::Text),   // group_id
        always(I32),          // session_timeout_ms
        since(1, I32),        // rebalance_timeout_ms
        always(Kind::Text),   // member_id
        since(5, Kind::Text), // group_instance_id
        always(Kind::Text),   // protocol_type
        always(Kind::Structs(
            &[
                always(Kind::Text), // name
                always(Kind::Blob), // metadata
            ],
            &[],
        )),
        since(8, Kind::Text), // reason
    ],
    tagged: &[],
};

pub(in crate::wire) const SYNC_GROUP: Schema = Schema {
    flexible: 4,
    fields: &[
        always(Kind::Text),   // group_id
        always(I32),          // generation_id
        always(Kind::Text),   // member_id
        since(3, Kind::Text), // group_instance_id
        since(5, Kind::Text), // protocol_type
        since(5, Kind::Text), // protocol_name
        always(Kind::Structs(
            &[
                always(Kind::Text), // member_id
                always(Kind::Blob), // assignment
            ],
            &[],
        )),
    ],
    tagged: &[],
};

pub(in crate::wire) const HEARTBEAT: Schema = Schema {
    flexible: 4,
    fields: &[
        always(Kind::Text),   // group_id
        always(I32),          // generation_id
        always(Kind::Text),   // member_id
        since(3, Kind::Text), // group_instance_id
    ],
    tagged: &[],
};

pub(in crate::wire) const LEAVE_GROUP: Schema = Schema {
    flexible: 4,
    fields: &[
        always(Kind::Text),       // group_id
        within(0, 2, Kind::Text), // member_id
        since(
            3,
            Kind::Structs(
                &[
                    always(Kind::Text),   // member_id
                    always(Kind::Text),   // group_instance_id
                    since(5, Kind::Text), // reason
                ],
                &[],
            ),
        ),
    ],
    tagged: &[],
};

pub(in crate::wire) const DESCRIBE_GROUPS: Schema = Schema {
    flexible: 5,
    fields: &[
        always(Kind::List(&Kind::Text)), // groups
        since(3, BOOL),                  // include_authorized_operations
    ],
    tagged: &[],
};

pub(in crate::wire) const LIST_GROUPS: Schema = Schema {
    flexible: 3,
    fields: &[
        since(4, Kind::List(&Kind::Text)), // states_filter
        since(5, Kind::List(&Kind::Text)), // types_filter
    ],
    tagged: &[],
};

pub(in crate::wire) const DELETE_GROUPS: Schema = Schema {
    flexible: 2,
    fields: &[always(Kind::List(&Kind::Text))], // groups_names
    tagged: &[],
};
