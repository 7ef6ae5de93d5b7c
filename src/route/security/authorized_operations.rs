//! Authorized operations in answers: one bit for each `AclOperation`.
//!
//! A node by itself knows users and no ACLs. It reports all operations of the resource type, like a
//! Kafka without an authorizer (`AclEntry.supportedOperations`).

/// Operations of a topic: `READ` 3, `WRITE` 4, `CREATE` 5, `DELETE` 6, `ALTER` 7, `DESCRIBE` 8,
/// `DESCRIBE_CONFIGS` 10, `ALTER_CONFIGS` 11.
pub(in crate::route) const OF_TOPIC: i32 = bits(&[3, 4, 5, 6, 7, 8, 10, 11]);
/// Operations of a group: `READ`, `DELETE`, `DESCRIBE`, `DESCRIBE_CONFIGS`, `ALTER_CONFIGS`.
pub(in crate::route) const OF_GROUP: i32 = bits(&[3, 6, 8, 10, 11]);
/// Operations of the cluster: `CREATE`, `ALTER`, `DESCRIBE`, `CLUSTER_ACTION` 9,
/// `DESCRIBE_CONFIGS`, `ALTER_CONFIGS`, `IDEMPOTENT_WRITE` 12.
pub(in crate::route) const OF_CLUSTER: i32 = bits(&[5, 7, 8, 9, 10, 11, 12]);

/// The value in an answer when the request does not include the operations.
const UNTOLD: i32 = i32::MIN;

/// The operations if the request includes them.
pub(in crate::route) fn told(is_asked: bool, operations: i32) -> i32 {
    if is_asked { operations } else { UNTOLD }
}

const fn bits(mut operations: &[u8]) -> i32 {
    let mut bits = 0;
    while let [first, rest @ ..] = operations {
        bits |= 1 << *first;
        operations = rest;
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorized_operations_equal_kafkas_without_an_authorizer() {
        assert_eq!((OF_TOPIC, OF_GROUP, OF_CLUSTER), (3_576, 3_400, 8_096));
        assert_eq!(told(false, OF_TOPIC), i32::MIN);
    }
}
