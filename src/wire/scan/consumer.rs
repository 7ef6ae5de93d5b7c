//! Layouts: `ConsumerGroupHeartbeat`, `ConsumerGroupDescribe` (KIP-848).

use super::schema::{BOOL, I32, Kind, Schema, UUID, always, since};

pub(in crate::wire) const CONSUMER_GROUP_HEARTBEAT: Schema = Schema {
    flexible: 0,
    fields: &[
        always(Kind::Text),              // group_id
        always(Kind::Text),              // member_id
        always(I32),                     // member_epoch
        always(Kind::Text),              // instance_id
        always(Kind::Text),              // rack_id
        always(I32),                     // rebalance_timeout_ms
        always(Kind::List(&Kind::Text)), // subscribed_topic_names
        since(1, Kind::Text),            // subscribed_topic_regex
        always(Kind::Text),              // server_assignor
        // topic_partitions: topic_id, partitions
        always(Kind::Structs(&[always(UUID), always(Kind::List(&I32))], &[])),
    ],
    tagged: &[],
};

pub(in crate::wire) const CONSUMER_GROUP_DESCRIBE: Schema = Schema {
    flexible: 0,
    fields: &[
        always(Kind::List(&Kind::Text)), // group_ids
        always(BOOL),                    // include_authorized_operations
    ],
    tagged: &[],
};
