//! Key order (`order.mode: key`), with the embedded cluster only. A Fetch is checked where a key of
//! its partition has failed. When a key fails, its later records that the member already has go
//! behind it.
//!
//! A nack stops its key first, and then reads how far the partition was delivered. A Fetch reads
//! the stop count first, and delivers only if it is unchanged. Either order makes the second see
//! the first, so no record slips through between them.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::broker::CommittedRead;
use crate::engine::Followers;
use crate::model::{GroupId, OrderKey, Origin, TopicPartition};
use crate::retry::detector::{DeliveredRange, GroupObservation};
use crate::retry::{OrderDecision, OrderMode};
use crate::route::Router;
use crate::route::delivery::TrackedFetch;
use crate::route::topics::topic_kind::TopicKind;
use crate::wire::batch::{Batch, Hidden, RecordView, end_of, order_key, records};

/// Bound of key-blocked records of one partition: at the bound, its members receive nothing until
/// some are released.
const BEHIND_MAX: u64 = 10_000;
/// Bound of an unpacked compressed batch.
const UNPACKED_BYTES_MAX: usize = 64 << 20;
/// Bound of key-blocked records in one atomic group of the journal.
const FOLLOWERS_MAX: usize = 4_096;
/// Bytes of one read of outstanding records.
const READ_BYTES: usize = 1 << 20;

/// The origin of a failed record, and the hash of its key.
pub(in crate::route) type Stop = (Origin, OrderKey);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::route) enum RelayExtent {
    /// All records except these offsets, ascending, which have an entry.
    Without(Vec<i64>),
    /// Nothing for now: too many records are key-blocked, or the journal refuses more.
    Nothing,
}

/// Record batches on their way to a client.
pub(in crate::route) struct ClientBatches<'a> {
    pub(in crate::route) records: &'a Bytes,
    /// Producer and first offset of each aborted transaction; clients skip its records.
    pub(in crate::route) aborted: Vec<(i64, i64)>,
}

impl Router {
    /// Decides which of these records may be delivered. Records behind a stopped key become
    /// key-blocked entries, durably.
    pub(in crate::route) async fn passing(
        &self,
        by: &TrackedFetch,
        (of, from): (&TopicPartition, i64),
        batches: ClientBatches<'_>,
    ) -> RelayExtent {
        let group = by.group();
        let Some(gate) = self.engine.gate(group, of) else {
            return RelayExtent::Without(Vec::new());
        };
        if gate.behind() >= BEHIND_MAX {
            return RelayExtent::Nothing;
        }
        let found = batches.find(|offset, key| offset >= from && gate.may_stop(key));
        match self.follow(group, of, found).await {
            Some(entries) => RelayExtent::Without(entries),
            None => RelayExtent::Nothing,
        }
    }

    /// Makes entries of these records and returns the offsets that have one. `None`: the journal
    /// refused.
    async fn follow(
        &self,
        group: &GroupId,
        of: &TopicPartition,
        records: Vec<(i64, OrderKey, Bytes)>,
    ) -> Option<Vec<i64>> {
        let mut records = records.into_iter();
        let mut entries = Vec::new();
        loop {
            let some: Vec<_> = records.by_ref().take(FOLLOWERS_MAX).collect();
            if some.is_empty() {
                return Some(entries);
            }
            entries.extend(self.follow_some(group, of, some).await?);
        }
    }

    async fn follow_some(
        &self,
        group: &GroupId,
        of: &TopicPartition,
        records: Vec<(i64, OrderKey, Bytes)>,
    ) -> Option<Vec<i64>> {
        let offsets: Vec<i64> = records.iter().map(|(offset, ..)| *offset).collect();
        let followers = Followers { group: group.clone(), partition: of.clone(), records };
        let outcomes = match self.engine.follow(followers).await {
            Ok(outcomes) => outcomes,
            Err(error) => {
                tracing::warn!(
                    %group, partition = %of, %error,
                    "R0423 records behind a failed key are not journalled: they are withheld and \
                     tried again; check the disk"
                );
                return None;
            }
        };
        let each = offsets.iter().zip(outcomes);
        let entries =
            each.filter(|(_, outcome)| *outcome != OrderDecision::Free).map(|(at, _)| *at);
        let entries: Vec<i64> = entries.collect();
        if !entries.is_empty() {
            let offsets = entries.clone();
            self.seen(group, GroupObservation::Parked { partition: of.clone(), offsets });
        }
        Some(entries)
    }

    pub(in crate::route) fn keeps_keys(&self, group: &GroupId) -> bool {
        let policies = self.policies.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        policies.of(group).order == OrderMode::Key
    }

    /// After these failures are durable: outstanding later records of their keys become
    /// key-blocked, and are delivered again.
    pub(in crate::route) async fn fall_in(&self, group: &GroupId, stops: Vec<Stop>) {
        let mut by_partition: BTreeMap<TopicPartition, BTreeMap<OrderKey, i64>> = BTreeMap::new();
        for (origin, key) in stops {
            let firsts = by_partition.entry(TopicPartition::from(&origin)).or_default();
            let first = firsts.entry(key).or_insert(origin.offset);
            *first = origin.offset.min(*first);
        }
        for (of, firsts) in by_partition {
            self.fall_in_at(group, &of, &firsts).await;
        }
    }

    async fn fall_in_at(
        &self,
        group: &GroupId,
        of: &TopicPartition,
        firsts: &BTreeMap<OrderKey, i64>,
    ) {
        let Some(seen) = self.detectors.find(group) else { return };
        let open = seen.lock().detector.in_hand(of);
        let Some(TopicKind::Local(topic)) = self.place(&of.topic) else { return };
        let Some(log) = topic.partition(of.partition) else { return };
        let first = firsts.values().min().copied().unwrap_or(i64::MAX).saturating_add(1);
        // A record delivered before a restart and not committed since is still outstanding.
        let committed = self.broker.offsets.committed(group, &of.topic, of.partition);
        let from = committed.map_or(open.start, |known| known.offset.min(open.start));
        let mut next = from.max(first);
        // `read_committed` clients have no outstanding record of an open transaction;
        // `read_uncommitted` ones have.
        while next < open.end {
            let Ok(CommittedRead { read, aborted, .. }) =
                self.broker.read_undecided(log, next, READ_BYTES)
            else {
                // Retention removed some of them: the rest can still be read.
                let start = self.broker.bounds(log).start;
                if start <= next {
                    return;
                }
                tracing::warn!(
                    %group, partition = %of, next, start,
                    "R0517 delivered records are no longer in the log: none waits for its key"
                );
                next = start;
                continue;
            };
            let Some(end) = end_of(&read.records).filter(|end| *end > next) else { return };
            let aborted = aborted.iter().map(|one| (one.producer_id, one.first)).collect();
            let found = ClientBatches { records: &read.records, aborted }.find(|offset, key| {
                (next..open.end).contains(&offset)
                    && firsts.get(&key).is_some_and(|first| *first < offset)
            });
            if self.follow(group, of, found).await.is_none() {
                return;
            }
            next = end;
        }
    }

    /// Records that these records leave, unless a key of a partition was stopped since `stops` was
    /// read. Returns whether they leave.
    pub(in crate::route) fn handed_in_order(
        &self,
        by: &TrackedFetch,
        handed: &[DeliveredRange],
        stops: &[u64],
    ) -> bool {
        self.tell(&by.group, &by.detector, |detector, now| {
            let mut each = handed.iter().zip(stops);
            let is_late =
                each.any(|(left, stops)| self.engine.stops(&by.group, &left.partition) != *stops);
            if !is_late {
                detector.handed(now, &by.by, handed);
            }
            !is_late
        })
    }
}

impl ClientBatches<'_> {
    /// The records whose offset and key are `wanted`, in their stored form. Unreadable batches and
    /// records without a key are skipped.
    fn find(&self, wanted: impl Fn(i64, OrderKey) -> bool) -> Vec<(i64, OrderKey, Bytes)> {
        let mut hidden = Hidden::new(self.aborted.iter().copied());
        let mut found = Vec::new();
        let mut rest = self.records.clone();
        while let Ok(batch) = Batch::parse(&rest) {
            rest = rest.slice(batch.bytes.len()..);
            if hidden.show(&batch.header) {
                continue;
            }
            let Ok(records) = records(&batch, UNPACKED_BYTES_MAX) else { continue };
            let keyed = records.map_while(Result::ok).filter_map(|record: RecordView| {
                let key = order_key(record.key.as_ref()?);
                wanted(record.offset, key).then_some((record, key))
            });
            found.extend(
                keyed.map(|(record, key)| (record.offset, key, record.into_raw().to_bytes())),
            );
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::batch::{
        Headers, ProducerStamp, RawRecord, TimestampType, crc_of, marker_batch, produce_batch,
        rebase,
    };

    /// A transactional batch with one record that has a key.
    fn keyed(offset: i64, producer: i64, key: &'static str) -> Vec<u8> {
        let record = RawRecord {
            timestamp_ms: 5,
            timestamp_type: TimestampType::CreateTime,
            key: Some(Bytes::from_static(key.as_bytes())),
            value: None,
            headers: Headers::default(),
        };
        let stamp = ProducerStamp { id: producer, epoch: 0, sequence: 0 };
        let mut bytes = produce_batch(&[record], Some(stamp)).unwrap().to_vec();
        bytes[22] |= 1 << 4;
        let crc = crc_of(&bytes).unwrap();
        bytes[17..21].copy_from_slice(&crc.to_be_bytes());
        rebase(&mut bytes, offset, 0).unwrap();
        bytes
    }

    fn marker(offset: i64, producer: i64) -> Vec<u8> {
        let mut bytes = marker_batch(producer, 0, false, 5).to_vec();
        rebase(&mut bytes, offset, 0).unwrap();
        bytes
    }

    #[test]
    fn unaborted_records_of_a_key_are_all_found() {
        let log = [
            keyed(20_000, 7, "a"),
            keyed(20_001, 8, "a"),
            marker(20_002, 7),
            keyed(20_003, 7, "a"),
            keyed(20_004, 9, "b"),
        ];
        let records = Bytes::from(log.concat());
        // Transactions of other producers, aborted before the first batch.
        let others = (100..20_100).map(|producer| (producer, producer - 100));
        let aborted = others.chain([(7, 20_000)]).collect();
        let key = order_key(b"a");
        let found = ClientBatches { records: &records, aborted }.find(|_, of| of == key);
        let offsets: Vec<i64> = found.iter().map(|(offset, ..)| *offset).collect();
        assert_eq!(offsets, [20_001, 20_003]);
    }
}
