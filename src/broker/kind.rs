//! The journal kinds this module owns (16 to 63). Numbers are part of the format on disk.

use crate::journal::Kind;

/// A topic; key: its name; an empty head deletes it.
pub const TOPIC: Kind = Kind(16);
/// A committed offset; key: group, topic, partition.
pub const OFFSET: Kind = Kind(17);
/// The state of a consumer group; key: group id.
pub const GROUP: Kind = Kind(18);
/// A produced batch; the body is the record batch as it came.
pub const BATCH: Kind = Kind(19);
/// The next producer id to give out; one key.
pub const PRODUCER_ID: Kind = Kind(20);
/// The cluster id, made at first start; one key.
pub const CLUSTER: Kind = Kind(21);
/// What is known of the producers of one partition at a checkpoint; key: stream id.
pub const PRODUCERS: Kind = Kind(22);
/// Up to which sequence the snapshots of producers reach; one key.
pub const PRODUCERS_MARK: Kind = Kind(23);
/// A transactional id: its producer, and the transaction that is open; key: the id.
pub const TRANSACTION: Kind = Kind(24);
/// A batch for a topic without a log, held until its transaction ends; key: its number (4 bytes),
/// the transactional id; head empty, the body is the batch.
pub const HELD_BATCH: Kind = Kind(25);
/// One step of an open transaction since it was written whole (24); key: its producer's id
/// (8 bytes) and the step's number (4 bytes), big-endian.
pub const TRANSACTION_STEP: Kind = Kind(26);
/// The nodes of the cluster in front of which this one stands, and their ports here; one key.
pub const NODES: Kind = Kind(27);
/// A moment by which everything up to a sequence had arrived; key: that sequence.
pub const ARRIVAL: Kind = Kind(28);
