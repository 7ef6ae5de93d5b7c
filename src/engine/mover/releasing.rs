//! Release of due retries, a slice of each group at a time.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::arrival::Arrival;
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::mover::{RetryPartitionLog, WINDOW};
use crate::journal::{AppendError, NewEntry};
use crate::model::{
    EntryId, GroupId, LaneOffset, Moment, MonoMs, RetryPartition, TopicName, TopicPartition,
};
use crate::retry::{Entries, Fact, LedgerInput};
use crate::wire::batch::RawRecord;
use crate::wire::partitioner::partition_of;

/// Retries released in one atomic group; other work runs in between.
const SLICE_RECORDS: usize = 256;
/// Bytes of a slice; only its first record may exceed them.
const SLICE_BYTES: u64 = 1 << 20;
/// Due retries passed over because the window of their partition is full.
const BEHIND_MAX: usize = WINDOW;
/// Pause between tries while the disk is full.
pub(super) const FULL_MS: u64 = 1_000;
/// Pause between tries while the disk cannot keep up.
const BUSY_MS: u64 = 10;
/// Pause after a record that cannot be read now.
const UNREAD_MS: u64 = 30_000;

/// The next step for a group.
enum Next {
    /// A later event wakes it.
    Nothing,
    More,
    After(u64),
}

impl Driver {
    /// Releases one slice of each group with due retries.
    pub(in crate::engine) fn see_to_retries(&mut self, now: Moment) {
        if self.mover.ready.is_empty() || now.mono < self.mover.not_before {
            return;
        }
        if self.ahead.is_some() || self.may_decide().is_err() {
            self.mover.not_before = now.mono.plus(FULL_MS);
            return;
        }
        self.mover.not_before = MonoMs(0);
        for group in std::mem::take(&mut self.mover.ready) {
            let next = self.release(&group, now).unwrap_or_else(|error| {
                tracing::error!(
                    %group, %error,
                    "R0428 due retries could not enter their retry topic: they wait; check the disk"
                );
                Next::After(FULL_MS)
            });
            match next {
                Next::Nothing => continue,
                Next::More => {}
                Next::After(ms) => self.mover.not_before = now.mono.plus(ms),
            }
            self.mover.ready.insert(group);
        }
    }

    /// Tells the detector which deliveries beyond the commit have failed already.
    pub(in crate::engine) fn skip_failed(&self, group: &GroupId, partitions: &[RetryPartitionLog]) {
        let policy = self.ledger.policy(group);
        if !policy.inference {
            return;
        }
        for (index, of) in (0_u16..).zip(partitions) {
            let lane = |offset| LaneOffset::in_stream(index, of.stream.0, offset);
            let range = (lane(of.committed), lane(i64::MAX));
            let failed = self.ledger.store().failed_deliveries(group, range);
            if failed.is_empty() {
                continue;
            }
            let topic = self.render.retry_topic(group);
            let partition = TopicPartition { topic, partition: i32::from(index) };
            let of = self.detectors.of(group, policy);
            of.lock().detector.settled_before(&partition, failed.iter().map(|one| one.offset()));
        }
    }

    fn release(&mut self, group: &GroupId, now: Moment) -> Result<Next, EngineError> {
        if !self.mover.has_topic(group) || !self.readers.is_read(group, now.mono) {
            return Ok(Next::Nothing);
        }
        let wanted = SLICE_RECORDS + self.behind(group).len();
        let due = self.ledger.store().due(group, now.wall, wanted);
        let has_more = due.len() == wanted;
        let mut due: Vec<EntryId> =
            due.into_iter().filter(|id| !self.behind(group).contains(id)).collect();
        let may = self.ledger.may_release(now, group, due.len());
        let is_paced = may < due.len();
        due.truncate(may);
        let mut slice = Slice::default();
        for id in due {
            match self.add(group, id, &mut slice) {
                Ok(true) => {}
                Ok(false) => {
                    self.enter_topic(group, slice, now)?;
                    return Ok(Next::More);
                }
                Err(error) if error.is_damage() => {
                    tracing::error!(
                        entry = %id, %error,
                        "R0415 the bytes of a retry are damaged: it becomes a dead letter without \
                         them; run `reprise log verify`"
                    );
                    self.note(LedgerInput::Damaged { id, why: error.to_string() })?;
                }
                Err(EngineError::Append(error)) => {
                    let is_busy = matches!(error, AppendError::Overloaded { .. });
                    self.enter_topic(group, slice, now)?;
                    return Ok(Next::After(if is_busy { BUSY_MS } else { FULL_MS }));
                }
                Err(error) => {
                    tracing::warn!(
                        entry = %id, %error,
                        "R0416 a retry cannot be read now: it is tried again; check the disk"
                    );
                    self.enter_topic(group, slice, now)?;
                    return Ok(Next::After(UNREAD_MS));
                }
            }
        }
        self.enter_topic(group, slice, now)?;
        let more = has_more && !is_paced && self.behind(group).len() < BEHIND_MAX;
        Ok(if more { Next::More } else { Next::Nothing })
    }

    fn behind(&self, group: &GroupId) -> &BTreeSet<EntryId> {
        static NONE: BTreeSet<EntryId> = BTreeSet::new();
        self.mover.topics.get(group).map_or(&NONE, |topic| &topic.behind)
    }

    /// Adds a retry to the slice, unless its partition is full; false: the slice is full.
    fn add(
        &mut self,
        group: &GroupId,
        id: EntryId,
        slice: &mut Slice,
    ) -> Result<bool, EngineError> {
        let bytes = self.ledger.store().record_bytes(id);
        let sum = slice.bytes.saturating_add(bytes);
        if !slice.records.is_empty() && sum > SLICE_BYTES {
            return Ok(false);
        }
        self.journal.admits_bytes(sum)?;
        let at = self.ledger.store().payload(id).ok_or(EngineError::PayloadLost(id))?;
        let body = match self.unwritten.body(at.seq) {
            Some(body) => body,
            None => self.journal.read(at)?.body,
        };
        let record = RawRecord::parse(&body)?;
        let Some(topic) = self.mover.topics.get_mut(group) else { return Ok(false) };
        let count = i32::try_from(topic.streams.len()).unwrap_or(i32::MAX);
        // A record without a key may go to any partition.
        let tries = if record.key.is_some() { 1 } else { count };
        let mut places = (0..tries).filter_map(|_| {
            let place = partition_of(record.key.as_deref(), topic.turn, count);
            topic.turn = topic.turn.wrapping_add(i64::from(record.key.is_none()));
            u16::try_from(place).ok()
        });
        let place = places.find(|place| {
            let released = slice.released.get(place).copied().unwrap_or(0);
            self.ledger.unread(group, RetryPartition(*place)) + released < WINDOW
        });
        let Some(index) = place else {
            topic.behind.insert(id);
            return Ok(true);
        };
        *slice.released.entry(index).or_default() += 1;
        slice.bytes = sum;
        slice.records.push((id, index, record));
        Ok(true)
    }

    /// Appends the records of a slice, with the facts that release them.
    fn enter_topic(
        &mut self,
        group: &GroupId,
        slice: Slice,
        now: Moment,
    ) -> Result<(), EngineError> {
        if slice.records.is_empty() {
            return Ok(());
        }
        self.usable()?;
        let streams = self.mover.topics.get(group).map(|topic| topic.streams.clone());
        let streams = streams.unwrap_or_default();
        let mut next: BTreeMap<u16, i64> = BTreeMap::new();
        let (mut facts, mut entries): (Vec<Fact>, Vec<NewEntry>) = (Vec::new(), Vec::new());
        for (id, partition, record) in slice.records {
            let Some(stream) = streams.get(usize::from(partition)) else { continue };
            let Some(bounds) = self.journal.stream_bounds(*stream) else {
                // The topic was deleted just now.
                continue;
            };
            let offset = next.entry(partition).or_insert(bounds.next);
            let lane = LaneOffset::in_stream(partition, stream.0, *offset);
            *offset += 1;
            facts.extend(self.handle(LedgerInput::Release { id, lane }).1);
            let Some(entry) = self.ledger.entry(id) else { continue };
            let headers = self.render.retry_headers(&entry);
            entries.push(Arrival::marked(*stream, &record, &headers).entry(now));
        }
        match self.append(&facts, &[], entries) {
            Ok(()) => Ok(()),
            Err(EngineError::Append(AppendError::UnknownStream { .. })) => {
                self.mover.topics.remove(group);
                let gone = LedgerInput::RetryTopicGone { group: group.clone() };
                facts.extend(self.handle(gone).1);
                self.persist(&facts, &[], Vec::new())
            }
            Err(error) => {
                self.append_failed(&error);
                Err(error)
            }
        }
    }

    /// The ledger's view of a committed offset.
    pub(in crate::engine) fn commit_of(
        &self,
        group: GroupId,
        topic: TopicName,
        partition: i32,
        offset: i64,
    ) -> LedgerInput {
        let of = TopicPartition { topic, partition };
        match self.delivery_at(&group, &of, offset) {
            Some(up_to) => LedgerInput::RetryCommit { group, up_to },
            None => LedgerInput::OriginCommit { group, topic: of.topic, partition, offset },
        }
    }

    /// A delivery of the retry topic, if the partition is one of the group's retry topic.
    pub(in crate::engine) fn delivery_at(
        &self,
        group: &GroupId,
        of: &TopicPartition,
        offset: i64,
    ) -> Option<LaneOffset> {
        let is_retry = self.mover.has_topic(group) && of.topic == self.render.retry_topic(group);
        is_retry.then(|| self.mover.lane(group, of.partition, offset)).flatten()
    }
}

/// Retries that enter their topic together.
#[derive(Default)]
struct Slice {
    /// Each with its partition and record.
    records: Vec<(EntryId, u16, RawRecord)>,
    bytes: u64,
    /// Number of records by partition.
    released: BTreeMap<u16, usize>,
}
