//! A record that the engine appends to a partition of the embedded cluster.

use bytes::Bytes;

use crate::engine::kind;
use crate::journal::{NewEntry, StreamAppend, StreamId};
use crate::model::{AHEAD_MS_MAX, Moment};
use crate::wire::batch::{RawRecord, build_batch};

/// A record that enters a partition of the embedded cluster.
#[derive(Clone, Debug)]
pub struct Arrival {
    stream: StreamId,
    timestamp_ms: i64,
    pub(super) batch: Bytes,
}

impl Arrival {
    pub fn new(stream: StreamId, record: &RawRecord) -> Self {
        Self::marked(stream, record, &[])
    }

    /// A record with the sidecar's headers.
    pub(super) fn marked(
        stream: StreamId,
        record: &RawRecord,
        headers: &[(&'static str, String)],
    ) -> Self {
        let batch = build_batch(0, record, headers);
        Self { stream, timestamp_ms: record.timestamp_ms, batch }
    }

    /// The entry of the log that is the record in its partition.
    pub(super) fn entry(self, now: Moment) -> NewEntry {
        // Retained as long as a record produced now, whatever its own timestamp says.
        let latest = now.wall.plus(AHEAD_MS_MAX);
        let max_timestamp_ms = self.timestamp_ms.max(now.wall.0).min(latest.0);
        let append = StreamAppend { stream: self.stream, records: 1, max_timestamp_ms };
        NewEntry::bare_batch(kind::DELIVERED, append, self.batch)
    }
}
