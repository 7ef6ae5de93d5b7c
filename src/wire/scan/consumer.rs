//! Layouts: `ConsumerGroupHeartbeat`, `ConsumerGroupDescribe` (KIP-848).

use super::schema::{BOOL, FieldKind, I32, Schema, UUID, always, since};

pub(in crate::wire) const CONSUMER_GROUP_HEARTBEAT: Schema = Schema {
    flexible: 0,
    fields: &[
        always(FieldKind::Text),                   // group_id
        always(FieldKind::Text),                   // member_id
        always(I32),                               // member_epoch
        always(FieldKind::Text),                   // instance_id
        always(FieldKind::Text),                   // rack_id
        always(I32),                               // rebalance_timeout_ms
        always(FieldKind::List(&FieldKind::Text)), // subscribed_topic_names
        since(1, FieldKind::Text),                 // subscribed_topic_regex
        always(FieldKind::Text),                   // server_assignor
        // topic_partitions: topic_id, partitions
        always(FieldKind::Structs(&[always(UUID), always(FieldKind::List(&I32))], &[])),
    ],
    tagged: &[],
};

pub(in crate::wire) const CONSUMER_GROUP_DESCRIBE: Schema = Schema {
    flexible: 0,
    fields: &[
        always(FieldKind::List(&FieldKind::Text)), // group_ids
        always(BOOL),                              // include_authorized_operations
    ],
    tagged: &[],
};
