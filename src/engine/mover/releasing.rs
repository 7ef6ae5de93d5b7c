//! Release of due retries, a slice of each group at a time.

use std::collections::BTreeMap;

use crate::engine::arrival::Arrival;
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::mover::scan::{BUSY_MS, FULL_MS, NextSlice, SLICE_BYTES, UNSERVED_MS};
use crate::engine::mover::{RetryPartitionLog, RetryTopic};
use crate::engine::store::DueEntry;
use crate::journal::{AppendError, NewEntry, StreamId};
use crate::model::{
    EntryId, GroupId, Moment, MonoMs, RetryPair, RetryPartition, RetryPlace, TopicName,
};
use crate::retry::{DELAYED, Entries, Entry, Fact, LedgerAnswer, LedgerInput};
use crate::wire::batch::RawRecord;
use crate::wire::partitioner::partition_of;

/// Retries released in one atomic group; other work runs in between.
const SLICE_RECORDS: usize = 256;

impl Driver {
    /// Releases a slice of each group with due retries.
    pub(in crate::engine) fn see_to_retries(&mut self, now: Moment) {
        if self.mover.alarm().is_none_or(|at| now.mono < at) {
            return;
        }
        if self.ahead.is_some() || self.may_decide().is_err() {
            self.mover.not_before = now.mono.plus(FULL_MS);
            return;
        }
        for group in self.mover.take_ready(now.mono) {
            let is_delayed = group.as_str() == DELAYED;
            let next = if is_delayed { self.deliver(now) } else { self.release(&group, now) };
            let next = next.unwrap_or_else(|error| {
                tracing::error!(
                    %group, %error,
                    "R0428 due records could not enter their topic: they wait; check the disk"
                );
                NextSlice::Pause(FULL_MS)
            });
            let Some(topics) = self.mover.groups.get_mut(&group) else { continue };
            topics.scan.set_next(now.mono, next);
            if next != NextSlice::OnEvent {
                self.mover.ready.insert(group);
            }
        }
    }

    /// Tells the detector which deliveries beyond the commit have failed already.
    pub(in crate::engine) fn skip_failed(
        &self,
        pair: &RetryPair,
        partitions: &[RetryPartitionLog],
    ) {
        let group = &pair.group;
        let policy = self.ledger.policy(group);
        for (index, of) in (0_u16..).zip(partitions).filter(|_| policy.inference) {
            let known = pair.partition(of.stream.0, index);
            let range = (known.at(of.committed), known.at(i64::MAX));
            let failed = self.ledger.store().failed_deliveries(group, range);
            if failed.is_empty() {
                continue;
            }
            let Some(partition) = self.mover.partition_of(group, known) else { continue };
            let of = self.detectors.of(group, policy);
            of.lock().detector.settled_before(&partition, failed.iter().map(|one| one.offset));
        }
    }

    fn release(&mut self, group: &GroupId, now: Moment) -> Result<NextSlice, EngineError> {
        if !self.has_room(group, now.mono) {
            return Ok(self.skip_pass(group, now.mono));
        }
        let is_behind = self.mover.is_behind(group);
        if is_behind && self.queued_releases.is_full() {
            return Ok(NextSlice::Pause(BUSY_MS));
        }
        // The rate counts a retry when it is noted.
        if is_behind && self.mover.is_sending(group) && self.ledger.policy(group).rate.is_some() {
            return Ok(NextSlice::OnEvent);
        }
        let (allowed, wait_ms) = self.ledger.may_release(now, group, SLICE_RECORDS);
        if allowed == 0 {
            return Ok(NextSlice::After(wait_ms));
        }
        let mut last = self.slice_start(group);
        let due = self.ledger.store().due_behind(group, last, now.wall, SLICE_RECORDS);
        let mut next = (due.len() == SLICE_RECORDS).then_some(NextSlice::Now);
        let mut slice = Slice::default();
        for (at, id) in due {
            if let Some(end) = self.jump(group, (at, id), last) {
                (last, next) = (Some(end), Some(NextSlice::Now));
                break;
            }
            match self.add(group, ((at, id), last), &mut slice, now.mono) {
                Ok(true) => {}
                Ok(false) => {
                    next = Some(NextSlice::Now);
                    break;
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
                    next = Some(NextSlice::after_refusal(&error));
                    break;
                }
                Err(error) => {
                    tracing::warn!(
                        entry = %id, %error,
                        "R0416 a retry cannot be read now: it is tried again; check the disk"
                    );
                    let Some(topics) = self.mover.groups.get_mut(group) else { break };
                    let until = now.mono.plus(UNSERVED_MS);
                    if !topics.scan.set_aside(id, until, error.to_string()) {
                        next = Some(NextSlice::Pause(UNSERVED_MS));
                        break;
                    }
                }
            }
            last = Some((at, id));
            if slice.records.len() == allowed {
                let is_paced = allowed < SLICE_RECORDS;
                next = Some(if is_paced { NextSlice::After(wait_ms) } else { NextSlice::Now });
                break;
            }
        }
        if is_behind {
            self.hand_over(group, slice);
        } else {
            self.enter_topic(group, slice, now)?;
        }
        let Some(topics) = self.mover.groups.get_mut(group) else { return Ok(NextSlice::OnEvent) };
        topics.scan.looked_at(last);
        Ok(next.unwrap_or_else(|| topics.end_pass(now.mono)))
    }

    /// The retry behind which the next slice begins.
    fn slice_start(&mut self, group: &GroupId) -> Option<DueEntry> {
        let topics = self.mover.groups.get_mut(group)?;
        if let Some(first) = self.ledger.store().take_first_arrival(group) {
            topics.unserved.arrived(first);
        }
        topics.scan.after()
    }

    /// The end of the run without a reader that has this retry.
    fn jump(
        &mut self,
        group: &GroupId,
        at: DueEntry,
        before: Option<DueEntry>,
    ) -> Option<DueEntry> {
        self.mover.groups.get_mut(group)?.unserved.jump(at, before)
    }

    fn skip_pass(&mut self, group: &GroupId, now: MonoMs) -> NextSlice {
        let Some(topics) = self.mover.groups.get_mut(group) else { return NextSlice::OnEvent };
        topics.unserved.skip_pass();
        topics.scan.end(now)
    }

    /// Whether a retry topic of the group has a reader, and a partition with room.
    fn has_room(&mut self, group: &GroupId, now: MonoMs) -> bool {
        let Some(topics) = self.mover.groups.get_mut(group) else { return false };
        let ledger = &self.ledger;
        let mut has_room = false;
        for topic in &mut topics.topics {
            let is_read = self.readers.is_read(&topic.pair, now);
            if std::mem::replace(&mut topic.is_read, is_read) != is_read {
                topics.unserved.forget();
            }
            if topic.is_read && !has_room {
                has_room = (0_u16..).zip(&mut topic.partitions).any(|(index, of)| {
                    let known = topic.pair.partition(of.stream.0, index);
                    of.has_room(now, ledger.unread(group, known), 0)
                });
            }
        }
        has_room
    }

    /// Adds a retry to the slice, unless its partition is full; false: the slice is full. The pass
    /// has looked at `before` just before it.
    fn add(
        &mut self,
        group: &GroupId,
        (at, before): (DueEntry, Option<DueEntry>),
        slice: &mut Slice,
        now: MonoMs,
    ) -> Result<bool, EngineError> {
        let (_, id) = at;
        let Some(topics) = self.mover.groups.get_mut(group) else { return Ok(false) };
        if let Some(place) = topics.scan.place(id)
            && let (count, bytes) = slice.of(place)
            && let unread = self.ledger.unread(group, place)
            && !topics.has_room(place, now, unread + count, bytes)
        {
            topics.scan.leave(id, None);
            return Ok(true);
        }
        if topics.scan.is_aside(id, now) || topics.sent.contains_key(&id) {
            return Ok(true);
        }
        let entry = topics.is_divided().then(|| self.ledger.entry(id)).flatten();
        let source = entry.as_ref().and_then(Entry::source);
        let Some(topic) = topics.index_for(source) else {
            topics.unserved.add(at, before, source);
            return Ok(true);
        };
        let bytes = self.ledger.store().record_bytes(id);
        let sum = slice.read_bytes.saturating_add(bytes);
        if slice.read_bytes > 0 && sum > SLICE_BYTES {
            return Ok(false);
        }
        self.journal.admits_bytes(sum)?;
        slice.read_bytes = sum;
        let record = RawRecord::parse(&self.record_body(id)?)?;
        let Some(topics) = self.mover.groups.get_mut(group) else { return Ok(false) };
        let partitions = topics.topics.get(topic).map_or(0, |of| of.partitions.len());
        let count = i32::try_from(partitions).unwrap_or(i32::MAX);
        let is_keyed = record.key.is_some();
        // A record without a key may go to any partition.
        let tries = if is_keyed { 1 } else { count };
        let mut of_key = None;
        let place = (0..tries).find_map(|_| {
            let index = partition_of(record.key.as_deref(), topics.turn, count);
            topics.turn = topics.turn.wrapping_add(i64::from(!is_keyed));
            let place = topics.topics.get(topic)?.partition(u16::try_from(index).ok()?)?;
            of_key = is_keyed.then_some(place);
            let (count, bytes) = slice.of(place);
            let unread = self.ledger.unread(group, place);
            let has_room = topics.has_room(place, now, unread + count, bytes);
            (has_room && !(count > 0 && topics.sends_alone(place))).then_some(place)
        });
        let Some(partition) = place else {
            topics.scan.leave(id, of_key);
            return Ok(true);
        };
        let (count, released) = slice.released.entry(partition).or_default();
        (*count, *released) = (*count + 1, released.saturating_add(bytes));
        slice.records.push((id, partition, record));
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
        let Slice { records, released, .. } = slice;
        let mut next: BTreeMap<RetryPartition, i64> = BTreeMap::new();
        let (mut facts, mut entries): (Vec<Fact>, Vec<NewEntry>) = (Vec::new(), Vec::new());
        for (id, partition, record) in records {
            if let Some(topics) = self.mover.groups.get_mut(group) {
                topics.scan.released(id);
            }
            let stream = StreamId(partition.stream);
            let Some(bounds) = self.journal.stream_bounds(stream) else {
                // The topic was deleted just now.
                continue;
            };
            let offset = next.entry(partition).or_insert(bounds.next);
            let delivery = partition.at(*offset);
            *offset += 1;
            facts.extend(self.handle(LedgerInput::Release { id, place: delivery }).1);
            let Some(entry) = self.ledger.entry(id) else { continue };
            let headers = self.render.retry_headers(&entry);
            entries.push(Arrival::marked(stream, &record, &headers).entry(now));
        }
        match self.append(&facts, &[], entries) {
            Ok(()) => {
                if let Some(topics) = self.mover.groups.get_mut(group) {
                    for (partition, end) in next {
                        let bytes = released.get(&partition).map_or(0, |(_, bytes)| *bytes);
                        topics.released(partition, end - 1, bytes);
                    }
                }
                Ok(())
            }
            Err(EngineError::Append(AppendError::UnknownStream { .. })) => {
                for source in self.lost_topics(group) {
                    let (group, streams) = (group.clone(), Vec::new());
                    let served = LedgerInput::RetryTopicServed { group, source, streams };
                    facts.extend(self.handle(served).1);
                }
                self.persist(&facts, &[], Vec::new())
            }
            Err(error) => {
                self.append_failed(&error);
                Err(error)
            }
        }
    }

    /// Takes out the retry topics whose streams are gone, and returns their sources.
    fn lost_topics(&mut self, group: &GroupId) -> Vec<Option<TopicName>> {
        let Some(topics) = self.mover.groups.get_mut(group) else { return Vec::new() };
        let is_gone = |topic: &RetryTopic| {
            topic.partitions.iter().any(|of| self.journal.stream_bounds(of.stream).is_none())
        };
        let gone = topics.topics.iter().filter(|topic| is_gone(topic));
        let gone: Vec<_> = gone.map(|topic| topic.pair.source.clone()).collect();
        for source in &gone {
            topics.remove(source.as_ref());
        }
        gone
    }

    /// The group committed an offset of a retry topic. Retries below it that had failed again
    /// leave the window as well.
    pub(in crate::engine) fn commit_retries(
        &mut self,
        group: &GroupId,
        up_to: RetryPlace,
    ) -> Result<(), EngineError> {
        let answer = self.ask(LedgerInput::RetryCommit { group: group.clone(), up_to })?;
        let Some(LedgerAnswer::Acknowledged(count)) = answer else { return Ok(()) };
        let now = self.clock.now().mono;
        let Some(topics) = self.mover.groups.get_mut(group) else { return Ok(()) };
        topics.committed(up_to, count, now);
        if let Some(topic) = topics.topic_of(up_to.partition).filter(|_| count > 0) {
            let count = u64::try_from(count).unwrap_or(u64::MAX);
            self.metrics.record_acked(group.as_str(), topic.name.as_str(), count);
        }
        Ok(())
    }
}

/// Retries that enter their topic together.
#[derive(Default)]
pub(super) struct Slice {
    /// Each with its partition and record.
    pub(super) records: Vec<(EntryId, RetryPartition, RawRecord)>,
    /// Bytes read for the slice, those of retries left waiting among them.
    read_bytes: u64,
    /// Number and bytes of the records, by partition.
    pub(super) released: BTreeMap<RetryPartition, (usize, u64)>,
}

impl Slice {
    /// Number and bytes of the records for a partition.
    fn of(&self, partition: RetryPartition) -> (usize, u64) {
        self.released.get(&partition).copied().unwrap_or_default()
    }
}
