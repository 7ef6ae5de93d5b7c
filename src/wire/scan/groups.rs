//! Layouts: `FindCoordinator` and the classic group protocol, List-, Describe- and `DeleteGroups`.

use super::schema::{BOOL, FieldKind, I8, I32, Schema, always, since, within};

pub(in crate::wire) const FIND_COORDINATOR: Schema = Schema {
    flexible: 3,
    fields: &[
        within(0, 3, FieldKind::Text),               // key
        since(1, I8),                                // key_type
        since(4, FieldKind::List(&FieldKind::Text)), // coordinator_keys
    ],
    tagged: &[],
};

pub(in crate::wire) const JOIN_GROUP: Schema = Schema {
    flexible: 6,
    fields: &[
        always(FieldKind::Text),   // group_id
        always(I32),               // session_timeout_ms
        since(1, I32),             // rebalance_timeout_ms
        always(FieldKind::Text),   // member_id
        since(5, FieldKind::Text), // group_instance_id
        always(FieldKind::Text),   // protocol_type
        always(FieldKind::Structs(
            &[
                always(FieldKind::Text), // name
                always(FieldKind::Blob), // metadata
            ],
            &[],
        )),
        since(8, FieldKind::Text), // reason
    ],
    tagged: &[],
};

pub(in crate::wire) const SYNC_GROUP: Schema = Schema {
    flexible: 4,
    fields: &[
        always(FieldKind::Text),   // group_id
        always(I32),               // generation_id
        always(FieldKind::Text),   // member_id
        since(3, FieldKind::Text), // group_instance_id
        since(5, FieldKind::Text), // protocol_type
        since(5, FieldKind::Text), // protocol_name
        always(FieldKind::Structs(
            &[
                always(FieldKind::Text), // member_id
                always(FieldKind::Blob), // assignment
            ],
            &[],
        )),
    ],
    tagged: &[],
};

pub(in crate::wire) const HEARTBEAT: Schema = Schema {
    flexible: 4,
    fields: &[
        always(FieldKind::Text),   // group_id
        always(I32),               // generation_id
        always(FieldKind::Text),   // member_id
        since(3, FieldKind::Text), // group_instance_id
    ],
    tagged: &[],
};

pub(in crate::wire) const LEAVE_GROUP: Schema = Schema {
    flexible: 4,
    fields: &[
        always(FieldKind::Text),       // group_id
        within(0, 2, FieldKind::Text), // member_id
        since(
            3,
            FieldKind::Structs(
                &[
                    always(FieldKind::Text),   // member_id
                    always(FieldKind::Text),   // group_instance_id
                    since(5, FieldKind::Text), // reason
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
        always(FieldKind::List(&FieldKind::Text)), // groups
        since(3, BOOL),                            // include_authorized_operations
    ],
    tagged: &[],
};

pub(in crate::wire) const LIST_GROUPS: Schema = Schema {
    flexible: 3,
    fields: &[
        since(4, FieldKind::List(&FieldKind::Text)), // states_filter
        since(5, FieldKind::List(&FieldKind::Text)), // types_filter
    ],
    tagged: &[],
};

pub(in crate::wire) const DELETE_GROUPS: Schema = Schema {
    flexible: 2,
    fields: &[always(FieldKind::List(&FieldKind::Text))], // groups_names
    tagged: &[],
};
