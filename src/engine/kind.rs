//! The journal kinds of the engine (64 to 127). The numbers are part of the format on disk.

use crate::journal::EntryKind;

/// An entry begins: head = fact, body = the record's bytes.
pub(super) const BEGINS: EntryKind = EntryKind(64);
/// A later fact of an entry: head = fact.
pub(super) const FACT: EntryKind = EntryKind(65);
/// A dead letter: head = fact, body = its record batch; also a batch of the dead-letter topic.
pub(super) const DEAD_LETTER: EntryKind = EntryKind(66);
/// The last batches of a producer to a retry topic; key: group, producer id.
pub(super) const STAMP: EntryKind = EntryKind(67);
/// The delay tables last checked: head = fact; one key.
pub(super) const TABLES: EntryKind = EntryKind(69);
/// The id of a dead-letter topic in the cluster behind: head = the id; key: the topic.
pub(super) const LETTER_TOPIC: EntryKind = EntryKind(70);
/// Offsets of a dead-letter topic in the cluster behind that have no record.
pub(super) const LETTER_GAP: EntryKind = EntryKind(83);
/// The templates of topic names at the last start; one key.
pub(super) const TEMPLATES: EntryKind = EntryKind(79);
/// Imported entries of another sidecar; key: a page of its entry numbers, its cluster id.
pub(super) const BROUGHT: EntryKind = EntryKind(71);
/// Deliveries and suspects of a group in a partition; key: partition, group, topic.
pub(super) const WINDOW: EntryKind = EntryKind(72);
/// Suspects of a group: records that may crash its members; key: the group.
pub(super) const SUSPECTS: EntryKind = EntryKind(80);
/// A delayed record that enters its topic: a batch of that topic.
pub(super) const DELIVERED: EntryKind = EntryKind(73);
/// A delayed record begins to wait: head = fact, body = its partition's stream and the record.
pub(super) const WAITS: EntryKind = EntryKind(76);

/// An action of an operator: head = its audit record; a batch of the audit stream.
pub(super) const AUDIT: EntryKind = EntryKind(81);

/// A job and its progress, or the list of jobs; key: the number of the job, or `jobs`.
pub(super) const JOB: EntryKind = EntryKind(82);

/// True when the head of an entry of this kind is a fact of the retry ledger.
pub(super) fn is_fact(kind: EntryKind) -> bool {
    matches!(kind, BEGINS | FACT | DEAD_LETTER | TABLES | WAITS)
}
