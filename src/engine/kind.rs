//! The journal kinds this module owns (64 to 127). Numbers are part of the format on disk.

use crate::journal::Kind;

/// An entry begins: head = fact, body = the record's bytes.
pub(super) const BEGINS: Kind = Kind(64);
/// A later fact of an entry or a slot: head = fact.
pub(super) const FACT: Kind = Kind(65);
/// A dead letter: head = fact, body = its record batch; also a batch of the dead-letter topic.
pub(super) const DEAD_LETTER: Kind = Kind(66);
/// The last batches of a producer to a retry topic; key: group, producer id.
pub(super) const STAMP: Kind = Kind(67);
/// A slot: head = fact; key: slot, group. Only the latest counts.
pub(super) const SLOT: Kind = Kind(68);
/// The delay tables last checked against: head = fact; one key.
pub(super) const TABLES: Kind = Kind(69);
/// How far the dead letters of a topic have gone to the cluster: head = the mark; key: the topic.
pub(super) const FORWARDED: Kind = Kind(70);
/// The name a dead-letter topic was served by at the last start; key: the topic its stream began
/// as.
pub(super) const SERVED_AS: Kind = Kind(78);
/// The templates of topic names at the last start; one key.
pub(super) const TEMPLATES: Kind = Kind(79);
/// Which entries of another sidecar were brought here; key: a page of its
/// entries, that sidecar.
pub(super) const BROUGHT: Kind = Kind(71);
/// What a group was handed of a partition and who is suspected in it; key: partition, group, topic.
pub(super) const WINDOW: Kind = Kind(72);
/// Written by earlier builds: a window before the group of the log that it belongs to; key as of
/// [`WINDOW`].
pub(super) const STAGED: Kind = Kind(74);
/// Records that may end the consumers of a group; key: the group.
pub(super) const SUSPECTS: Kind = Kind(80);
/// A record that has waited, as it enters its topic: a batch of that topic.
pub(super) const DELIVERED: Kind = Kind(73);
/// A record begins to wait before it enters its topic: head = fact, body = its partition's stream
/// and the record.
pub(super) const WAITS: Kind = Kind(76);

/// An action of an operator: head = the record of it; a batch of the audit stream.
pub(super) const AUDIT: Kind = Kind(81);

/// A job and its progress, or the list of jobs; key: the number of the job, or `jobs`.
pub(super) const JOB: Kind = Kind(82);

/// Whether the head of such an entry is a fact of the retry ledger.
pub(super) fn is_fact(kind: Kind) -> bool {
    matches!(kind, BEGINS | FACT | DEAD_LETTER | SLOT | TABLES | WAITS)
}
