//! Layouts: `ApiVersions`, `SaslHandshake`, `SaslAuthenticate`, Metadata, `DescribeCluster`,
//! `DescribeTopicPartitions`.

use super::schema::{BOOL, FieldKind, I8, I32, Schema, UUID, always, since, within};

pub(in crate::wire) const API_VERSIONS: Schema = Schema {
    flexible: 3,
    fields: &[
        since(3, FieldKind::Text), // client_software_name
        since(3, FieldKind::Text), // client_software_version
    ],
    tagged: &[],
};

pub(in crate::wire) const SASL_HANDSHAKE: Schema = Schema {
    flexible: i16::MAX,
    fields: &[always(FieldKind::Text)], // mechanism
    tagged: &[],
};

pub(in crate::wire) const SASL_AUTHENTICATE: Schema = Schema {
    flexible: 2,
    fields: &[always(FieldKind::Blob)], // auth_bytes
    tagged: &[],
};

pub(in crate::wire) const METADATA: Schema = Schema {
    flexible: 9,
    fields: &[
        always(FieldKind::Structs(
            &[
                since(10, UUID),         // topic_id
                always(FieldKind::Text), // name
            ],
            &[],
        )),
        since(4, BOOL),      // allow_auto_topic_creation
        within(8, 10, BOOL), // include_cluster_authorized_operations
        since(8, BOOL),      // include_topic_authorized_operations
    ],
    tagged: &[],
};

pub(in crate::wire) const DESCRIBE_CLUSTER: Schema = Schema {
    flexible: 0,
    fields: &[
        always(BOOL),   // include_cluster_authorized_operations
        since(1, I8),   // endpoint_type
        since(2, BOOL), // include_fenced_brokers
    ],
    tagged: &[],
};

pub(in crate::wire) const DESCRIBE_TOPIC_PARTITIONS: Schema = Schema {
    flexible: 0,
    fields: &[
        always(FieldKind::Structs(&[always(FieldKind::Text)], &[])), // topics: name
        always(I32),                                                 // response_partition_limit
        // cursor: topic_name, partition_index
        always(FieldKind::Maybe(&[always(FieldKind::Text), always(I32)])),
    ],
    tagged: &[],
};
