//! Keys kept in order (`order.mode: key`), with the embedded cluster only: what a Fetch would be
//! given is looked at where a key of its partition has failed, and what its member has in hand when
//! one fails goes behind it.
//!
//! A nack stops its key first and reads after that how far the partition was handed out; a Fetch
//! reads the stops first and is handed out only if there was none since. Whoever comes second sees
//! the other, so no record slips through between them.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::broker::Committed;
use crate::engine::Followers;
use crate::model::{GroupId, OrderKey, Origin, TopicPartition};
use crate::retry::detector::{Handed, Seen};
use crate::retry::{OrderMode, Ordered};
use crate::route::Router;
use crate::route::delivery::TrackedFetch;
use crate::route::place::Place;
use crate::wire::batch::{Batch, Hidden, RecordView, end_of, order_key, records};

/// Records of one partition that wait behind others; with so many its members get none of it until
/// there are fewer.
const BEHIND_MAX: u64 = 10_000;
/// A compressed batch unpacks to at most this.
const UNPACKED_BYTES_MAX: usize = 64 << 20;
/// Records that are put behind others as one unit of the journal.
const FOLLOWERS_MAX: usize = 4_096;
/// Read at once of what a member has in hand.
const READ_BYTES: usize = 1 << 20;

/// A record that has failed, and its key.
pub(in crate::route) type Stop = (Origin, OrderKey);

/// What of a partition may be given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::route) enum Passing {
    /// All but these, which ascend: they have an entry.
    Without(Vec<i64>),
    /// Nothing for now: too many wait, or the journal cannot take more.
    Nothing,
}

/// Records that a client is given.
pub(in crate::route) struct Batches<'a> {
    /// Whole batches.
    pub(in crate::route) records: &'a Bytes,
    /// Producer and first offset of each aborted transaction; a client drops its records.
    pub(in crate::route) aborted: Vec<(i64, i64)>,
}

impl Router {
    /// What may be given of these records, from an offset on, to a member. What has to wait behind
    /// another record of its key does so from now on, durably.
    pub(in crate::route) async fn passing(
        &self,
        by: &TrackedFetch,
        (of, from): (&TopicPartition, i64),
        batches: Batches<'_>,
    ) -> Passing {
        let group = by.group();
        let Some(gate) = self.engine.gate(group, of) else { return Passing::Without(Vec::new()) };
        if gate.behind() >= BEHIND_MAX {
            return Passing::Nothing;
        }
        let found = batches.find(|offset, key| offset >= from && gate.may_stop(key));
        match self.follow(group, of, found).await {
            Some(entries) => Passing::Without(entries),
            None => Passing::Nothing,
        }
    }

    /// Which of these have an entry now; `None`: it could not be journalled.
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
                tracing::warn!(%group, partition = %of, %error, "records are held for their keys");
                return None;
            }
        };
        let each = offsets.iter().zip(outcomes);
        let entries = each.filter(|(_, outcome)| *outcome != Ordered::Free).map(|(at, _)| *at);
        let entries: Vec<i64> = entries.collect();
        if !entries.is_empty() {
            let offsets = entries.clone();
            self.seen(group, Seen::Parked { partition: of.clone(), offsets });
        }
        Some(entries)
    }

    pub(in crate::route) fn keeps_keys(&self, group: &GroupId) -> bool {
        let policies = self.policies.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        policies.of(group).order == OrderMode::Key
    }

    /// These have entries now, durably: later records of their keys that a member has in hand go
    /// behind them, and come to it once more.
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
        let Some(Place::Local(topic)) = self.place(&of.topic) else { return };
        let Some(log) = topic.partition(of.partition) else { return };
        let first = firsts.values().min().copied().unwrap_or(i64::MAX).saturating_add(1);
        // Handed out before a start, and not committed since, it is in hand still.
        let committed = self.broker.offsets.committed(group, &of.topic, of.partition);
        let from = committed.map_or(open.start, |known| known.offset.min(open.start));
        let mut next = from.max(first);
        // Who reads committed records has nothing in hand that is open; who reads all of them has.
        while next < open.end {
            let Ok(Committed { read, aborted, .. }) =
                self.broker.read_undecided(log, next, READ_BYTES)
            else {
                // Retention has taken some: what is left of it can still be read.
                let start = self.broker.bounds(log).start;
                if start <= next {
                    return;
                }
                tracing::warn!(%group, partition = %of, next, start, "records in hand are gone");
                next = start;
                continue;
            };
            let Some(end) = end_of(&read.records).filter(|end| *end > next) else { return };
            let aborted = aborted.iter().map(|one| (one.producer_id, one.first)).collect();
            let found = Batches { records: &read.records, aborted }.find(|offset, key| {
                (next..open.end).contains(&offset)
                    && firsts.get(&key).is_some_and(|first| *first < offset)
            });
            if self.follow(group, of, found).await.is_none() {
                return;
            }
            next = end;
        }
    }

    /// These records leave for the member, unless a key of their partition was stopped after its
    /// stops were counted, as they were then; whether they do.
    pub(in crate::route) fn handed_in_order(
        &self,
        by: &TrackedFetch,
        handed: &[Handed],
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

impl Batches<'_> {
    /// Records with a key that is wanted, in their stored form. Batches that cannot be read, and
    /// records without a key, are nobody's.
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

    /// A batch at an offset: a record with a key in a transaction of that producer.
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
    fn of_a_key_all_is_found_that_was_not_aborted_however_much_was() {
        let log = [
            keyed(20_000, 7, "a"),
            keyed(20_001, 8, "a"),
            marker(20_002, 7),
            keyed(20_003, 7, "a"),
            keyed(20_004, 9, "b"),
        ];
        let records = Bytes::from(log.concat());
        // Those of many others begin before what was read.
        let others = (100..20_100).map(|producer| (producer, producer - 100));
        let aborted = others.chain([(7, 20_000)]).collect();
        let key = order_key(b"a");
        let found = Batches { records: &records, aborted }.find(|_, of| of == key);
        let offsets: Vec<i64> = found.iter().map(|(offset, ..)| *offset).collect();
        assert_eq!(offsets, [20_001, 20_003]);
    }
}
