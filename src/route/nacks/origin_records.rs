//! Origin record cache: records of the cluster, read back for nacks without the record's bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lru::LruCache;

use crate::model::{GroupId, Origin, TopicName};
use crate::route::nacks::ongoing_reads::{OngoingReads, ReadGuard};
use crate::socket::{Budget, Charge};
use crate::wire::ResponseError;
use crate::wire::batch::RawRecord;

/// Bound of cached records.
const RECORDS_MAX: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();
/// Bound of the cached bytes; a single larger record is still kept.
const BYTES_MAX: usize = 16 << 20;
/// Bound of the bytes of all records that one request names.
pub(in crate::route) const NAMED_BYTES_MAX: usize = 64 << 20;

/// Records read back recently, by connection: the cluster allowed only that client to read them.
#[derive(Debug)]
pub struct OriginRecordCache {
    known: Mutex<CachedRecords>,
    reading: OngoingReads,
}

#[derive(Debug)]
struct CachedRecords {
    records: LruCache<(u64, Origin), RawRecord>,
    bytes: usize,
}

impl Default for OriginRecordCache {
    fn default() -> Self {
        let known = Mutex::new(CachedRecords { records: LruCache::new(RECORDS_MAX), bytes: 0 });
        Self { known, reading: OngoingReads::default() }
    }
}

impl OriginRecordCache {
    /// The record, if it is cached for this connection.
    pub(in crate::route) fn get(&self, conn: u64, origin: &Origin) -> Option<RawRecord> {
        self.lock().records.get(&(conn, origin.clone())).cloned()
    }

    /// Forgets the records of a topic that was deleted or recreated.
    pub(in crate::route) fn forget(&self, topic: &TopicName) {
        let mut known = self.lock();
        let gone = known.records.iter().map(|(of, _)| of);
        let gone: Vec<_> = gone.filter(|(_, origin)| origin.topic == *topic).cloned().collect();
        for of in gone {
            let bytes = known.records.pop(&of).map_or(0, |record| record.payload_bytes());
            known.bytes = known.bytes.saturating_sub(bytes);
        }
    }

    pub(super) fn put(&self, conn: u64, origin: Origin, record: RawRecord) {
        let mut known = self.lock();
        known.bytes = known.bytes.saturating_add(record.payload_bytes());
        if let Some((_, old)) = known.records.push((conn, origin), record) {
            known.bytes = known.bytes.saturating_sub(old.payload_bytes());
        }
        while known.bytes > BYTES_MAX && known.records.len() > 1 {
            let Some((_, old)) = known.records.pop_lru() else { return };
            known.bytes = known.bytes.saturating_sub(old.payload_bytes());
        }
    }

    fn lock(&self) -> MutexGuard<'_, CachedRecords> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::route) fn reading(&self) -> &OngoingReads {
        &self.reading
    }
}

/// Records of the cluster that one request names without their bytes. They stay with the request
/// until it is handled, since the shared cache may evict them before.
#[derive(Debug, Default)]
pub struct ReadBack {
    /// Records that are not read yet, or that exceeded the byte bound.
    pub(super) unread: BTreeSet<NamedOrigin>,
    /// `None`: the record does not exist.
    pub(super) records: BTreeMap<NamedOrigin, Option<RawRecord>>,
    charge: Option<Charge>,
    /// A record exceeded the byte bound together with the others.
    pub(super) is_full: bool,
    /// Topics of the cluster whose largest batch has to be known.
    pub(super) unbounded: BTreeSet<TopicName>,
    /// Commits wait for these until the request is handled.
    pub(super) readers: Vec<ReadGuard>,
}

/// The origin of a record, and the group in whose name it is read.
pub(super) type NamedOrigin = (GroupId, Origin);

/// The reason why a record that may exist was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::route) enum UnreadReason {
    /// All records of the request together exceed the byte bound.
    #[error("the records it names are more than 64 MiB together: name fewer at once")]
    TooMuch,
    /// A later attempt may succeed.
    #[error("a record it names could not be read back in time")]
    Later,
    /// The cluster has not let the sidecar open it.
    #[error("the retry topic of the group is not open yet: send the nack again")]
    NoTopic,
}

impl UnreadReason {
    pub(in crate::route) fn code(self) -> ResponseError {
        match self {
            // Java producers split a batch that is refused with this error and send it again.
            Self::TooMuch => ResponseError::MessageTooLarge,
            Self::Later => ResponseError::RequestTimedOut,
            Self::NoTopic => ResponseError::LeaderNotAvailable,
        }
    }

    /// The reason label of `reprise_nacks_refused_total`.
    pub(in crate::route) fn word(self) -> &'static str {
        match self {
            Self::TooMuch => "too_large",
            Self::Later | Self::NoTopic => "not_now",
        }
    }
}

impl ReadBack {
    /// Whether everything is read.
    pub fn is_whole(&self) -> bool {
        self.unread.is_empty() && self.unbounded.is_empty()
    }

    /// Requests the bound of a topic: an oversize batch names a record of it.
    pub(in crate::route) fn needs_bound(&mut self, topic: TopicName) {
        self.unbounded.insert(topic);
    }

    /// The record that was read; `None`: it does not exist.
    pub(in crate::route) fn get(
        &self,
        group: &GroupId,
        origin: &Origin,
    ) -> Result<Option<RawRecord>, UnreadReason> {
        match self.records.get(&(group.clone(), origin.clone())) {
            Some(read) => Ok(read.clone()),
            None if self.is_full => Err(UnreadReason::TooMuch),
            None => Err(UnreadReason::Later),
        }
    }

    pub(super) fn unread(&self) -> Vec<NamedOrigin> {
        self.unread.iter().cloned().collect()
    }

    pub(super) fn put(&mut self, budget: &Budget, of: NamedOrigin, record: Option<RawRecord>) {
        let charge = self.charge.get_or_insert_with(|| budget.charge(0));
        let bytes = record.as_ref().map_or(0, RawRecord::payload_bytes);
        let all = charge.bytes().saturating_add(bytes);
        if all > NAMED_BYTES_MAX {
            self.unread.insert(of);
            self.is_full = true;
            return;
        }
        charge.set(all);
        self.unread.remove(&of);
        self.records.insert(of, record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    use crate::wire::batch::{Headers, TimestampType};

    fn record(bytes: usize) -> RawRecord {
        RawRecord {
            timestamp_ms: 1,
            timestamp_type: TimestampType::CreateTime,
            key: None,
            value: Some(Bytes::from(vec![7; bytes])),
            headers: Headers::default(),
        }
    }

    fn at(offset: i64) -> Origin {
        Origin { topic: "orders".into(), partition: 0, offset }
    }

    #[test]
    fn the_oldest_records_are_evicted_but_never_the_last() {
        let origins = OriginRecordCache::default();
        for offset in 0..8 {
            origins.put(1, at(offset), record(BYTES_MAX / 4));
        }
        let kept = |offset| origins.get(1, &at(offset)).is_some();
        assert_eq!([3, 4, 5, 6, 7].map(kept), [false, true, true, true, true]);
        origins.put(1, at(8), record(BYTES_MAX * 2));
        assert_eq!([7, 8].map(kept), [false, true]);
        origins.put(1, at(8), record(1));
        origins.put(1, at(9), record(1));
        assert_eq!([8, 9].map(kept), [true, true], "a replaced record's bytes are given back");
        assert!(origins.get(2, &at(9)).is_none(), "what one client may read is for that one");
        origins.forget(&"orders".into());
        assert_eq!(([8, 9].map(kept), origins.lock().bytes), ([false, false], 0));
    }
}
