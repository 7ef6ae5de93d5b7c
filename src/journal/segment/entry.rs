//! Entries to append and entries read back.

use bytes::Bytes;

use crate::journal::{EncodedHead, EntryEncodeError};

/// Type of an entry: 1..=15 belong to the journal, 16..=63 to the broker, 64..=127 to the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryKind(pub u8);

/// Id of a stream, an index of the log in offset order. Ids are never reused, even after a drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

/// The address of an entry for as long as it is live: compaction moves the bytes and keeps the
/// address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryRef {
    /// Sequence number, from 1.
    pub seq: u64,
    /// Bytes of the whole entry on disk.
    pub len: u32,
}

/// Durability that an append needs before it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// Written to the operating system; survives a crash of the process, not of the machine.
    Os,
    /// On the disk (fdatasync).
    #[default]
    Fsync,
}

/// An entry to append.
///
/// **Invariant:** only [`NewEntry::tombstone`] makes an entry with a key and without bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEntry {
    /// 16 or above.
    pub kind: EntryKind,
    /// With a key, this entry supersedes the previous one of the same kind and key. At most
    /// 65 535 bytes.
    pub key: Option<Bytes>,
    /// With a stream, the entry is also the next batch of that stream.
    pub stream: Option<StreamAppend>,
    pub(in crate::journal) head: Bytes,
    pub(in crate::journal) body: Bytes,
    /// An encoder failed; the append is refused.
    pub(in crate::journal) failure: Option<EntryEncodeError>,
}

impl NewEntry {
    /// An entry with neither key nor stream.
    pub fn plain(kind: EntryKind, head: EncodedHead, body: Bytes) -> Self {
        Self { body, ..Self::bare(kind, Bytes::new()) }.with_head(head)
    }

    /// An entry with an empty head.
    pub fn bare(kind: EntryKind, body: Bytes) -> Self {
        Self { kind, key: None, stream: None, head: Bytes::new(), body, failure: None }
    }

    /// The new value of a key.
    pub fn keyed(kind: EntryKind, key: Bytes, head: EncodedHead, body: Bytes) -> Self {
        Self { key: Some(key), ..Self::bare(kind, body) }.with_head(head)
    }

    /// The new value of a key, with an empty head.
    pub fn keyed_body(kind: EntryKind, key: Bytes, body: EncodedHead) -> Self {
        let (body, failure) = body.parts();
        Self { key: Some(key), failure, ..Self::bare(kind, body) }
    }

    /// Ends a key.
    pub fn tombstone(kind: EntryKind, key: Bytes) -> Self {
        Self { key: Some(key), ..Self::bare(kind, Bytes::new()) }
    }

    /// The next batch of a stream.
    pub fn batch(kind: EntryKind, stream: StreamAppend, head: EncodedHead, body: Bytes) -> Self {
        Self::bare_batch(kind, stream, body).with_head(head)
    }

    /// The next batch of a stream, with an empty head.
    pub fn bare_batch(kind: EntryKind, stream: StreamAppend, body: Bytes) -> Self {
        Self { stream: Some(stream), ..Self::bare(kind, body) }
    }

    #[must_use]
    pub fn with_head(self, head: EncodedHead) -> Self {
        let (head, failure) = head.parts();
        Self { head, failure, ..self }
    }

    /// Metadata that the owner encodes about the body.
    pub fn head(&self) -> &Bytes {
        &self.head
    }

    /// Payload; the journal does not read it.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// True when the entry ends its key.
    pub fn is_tombstone(&self) -> bool {
        let is_empty = self.head.is_empty() && self.body.is_empty();
        self.key.is_some() && is_empty && self.failure.is_none()
    }
}

#[cfg(test)]
impl NewEntry {
    pub(crate) fn read_back(self) -> JournalEntry {
        let Self { kind, key, head, body, .. } = self;
        JournalEntry { seq: 1, kind, key, stream: None, head, body }
    }
}

/// The stream side of a [`NewEntry`]; the journal assigns the base offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamAppend {
    pub stream: StreamId,
    /// Number of offsets in the batch.
    pub records: u32,
    /// Greatest record timestamp, milliseconds since 1970.
    pub max_timestamp_ms: i64,
}

/// The stream side of a [`JournalEntry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamPart {
    pub stream: StreamId,
    /// Offset of the batch's first record.
    pub base_offset: i64,
    /// Number of offsets in the batch.
    pub records: u32,
    /// Greatest record timestamp, milliseconds since 1970.
    pub max_timestamp_ms: i64,
}

/// Sequence numbers and offsets assigned by an append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppendResult {
    /// One per entry of the group, in its order; sequence numbers are consecutive.
    pub refs: Vec<EntryRef>,
    /// Base offset of each entry that belongs to a stream, in the group's order.
    pub base_offsets: Vec<i64>,
}

impl AppendResult {
    /// Sequence number of the group's last entry: the one to wait for.
    pub fn seq(&self) -> u64 {
        self.refs.last().map_or(0, |last| last.seq)
    }
}

/// An entry read back; the parts share one buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalEntry {
    pub seq: u64,
    pub kind: EntryKind,
    pub key: Option<Bytes>,
    pub stream: Option<StreamPart>,
    /// Metadata that the owner encoded about the body.
    pub head: Bytes,
    pub body: Bytes,
}

impl JournalEntry {
    /// True when the entry ends its key.
    pub fn is_tombstone(&self) -> bool {
        self.key.is_some() && self.head.is_empty() && self.body.is_empty()
    }
}
