//! Layouts: ACLs, SCRAM credentials, client quotas.

use super::schema::{BOOL, Field, FieldKind, I8, I32, I64, Schema, always};

/// Type, name and pattern of a resource, principal, host, operation, permission.
const ACL: &[Field] = &[
    always(I8),
    always(FieldKind::Text),
    always(I8),
    always(FieldKind::Text),
    always(FieldKind::Text),
    always(I8),
    always(I8),
];

pub(in crate::wire) const DESCRIBE_ACLS: Schema = Schema { flexible: 2, fields: ACL, tagged: &[] };

/// A creation has the fields of a filter, in the same order.
pub(in crate::wire) const CREATE_ACLS: Schema =
    Schema { flexible: 2, fields: &[always(FieldKind::Structs(ACL, &[]))], tagged: &[] };

pub(in crate::wire) const DELETE_ACLS: Schema =
    Schema { flexible: 2, fields: &[always(FieldKind::Structs(ACL, &[]))], tagged: &[] };

pub(in crate::wire) const DESCRIBE_SCRAM: Schema = Schema {
    flexible: 0,
    fields: &[always(FieldKind::Structs(&[always(FieldKind::Text)], &[]))], // users: name
    tagged: &[],
};

pub(in crate::wire) const ALTER_SCRAM: Schema = Schema {
    flexible: 0,
    fields: &[
        // deletions: name, mechanism
        always(FieldKind::Structs(&[always(FieldKind::Text), always(I8)], &[])),
        // upsertions: name, mechanism, iterations, salt, salted_password
        always(FieldKind::Structs(
            &[
                always(FieldKind::Text),
                always(I8),
                always(I32),
                always(FieldKind::Blob),
                always(FieldKind::Blob),
            ],
            &[],
        )),
    ],
    tagged: &[],
};

pub(in crate::wire) const DESCRIBE_QUOTAS: Schema = Schema {
    flexible: 1,
    fields: &[
        // components: entity_type, match_type, match
        always(FieldKind::Structs(
            &[always(FieldKind::Text), always(I8), always(FieldKind::Text)],
            &[],
        )),
        always(BOOL), // strict
    ],
    tagged: &[],
};

pub(in crate::wire) const ALTER_QUOTAS: Schema = Schema {
    flexible: 1,
    fields: &[
        // entries: entity (type, name), ops (key, value as f64, remove)
        always(FieldKind::Structs(
            &[
                always(FieldKind::Structs(
                    &[always(FieldKind::Text), always(FieldKind::Text)],
                    &[],
                )),
                always(FieldKind::Structs(
                    &[always(FieldKind::Text), always(I64), always(BOOL)],
                    &[],
                )),
            ],
            &[],
        )),
        always(BOOL), // validate_only
    ],
    tagged: &[],
};
