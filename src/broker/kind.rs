//! The journal kinds this module owns (16 to 63). Numbers are part of the format on disk.

use crate::journal::EntryKind;

/// A topic; key: its name; an empty head deletes it.
pub const TOPIC: EntryKind = EntryKind(16);
/// A committed offset; key: group, topic, partition.
pub const OFFSET: EntryKind = EntryKind(17);
/// The state of a consumer group; key: group id.
pub const GROUP: EntryKind = EntryKind(18);
/// A produced batch; the body is the record batch as the producer sent it.
pub const BATCH: EntryKind = EntryKind(19);
/// The next producer id to give out; one key.
pub const PRODUCER_ID: EntryKind = EntryKind(20);
/// The cluster id, made at first start; one key.
pub const CLUSTER: EntryKind = EntryKind(21);
/// Snapshot of the producers of one partition; key: stream id.
pub const PRODUCERS: EntryKind = EntryKind(22);
/// Journal sequence up to which the snapshots of producers are complete; one key.
pub const PRODUCERS_MARK: EntryKind = EntryKind(23);
/// A transactional id with its producer and open transaction; key: the id.
pub const TRANSACTION: EntryKind = EntryKind(24);
/// One step of an open transaction since its whole state was written (kind 24). Key: the producer
/// id (8 bytes) and the step's number (4 bytes), big-endian.
pub const TRANSACTION_STEP: EntryKind = EntryKind(26);
/// The nodes of the upstream cluster and their local ports; one key.
pub const NODES: EntryKind = EntryKind(27);
/// A time by which all entries up to a sequence had arrived; key: that sequence.
pub const ARRIVAL: EntryKind = EntryKind(28);
