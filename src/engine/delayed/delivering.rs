//! Delivery of delayed records to their topics, by the mover, and the end of undeliverable ones.

use crate::engine::arrival::Arrival;
use crate::engine::delayed::stored::StoredRecord;
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::mover::{NextSlice, SLICE_BYTES, Scan, UNSERVED_MS};
use crate::journal::{AppendError, NewEntry, StreamId};
use crate::model::{EntryId, Moment, TopicName};
use crate::retry::{DELAYED, Entries, Fact, LedgerInput, delayed};

/// Records delivered in one slice; other work runs in between.
pub(super) const SLICE_RECORDS: usize = 64;
/// Entries of a deleted topic that end in one step.
pub(super) const LEAVING: usize = 256;

/// Records that enter their topics together.
#[derive(Default)]
struct DeliverySlice {
    facts: Vec<Fact>,
    arrivals: Vec<(StreamId, NewEntry)>,
    dropped: usize,
    bytes: u64,
}

impl Driver {
    /// Ends the records delayed for a deleted topic, the first of them at once.
    pub(in crate::engine) fn destination_gone(&mut self, topic: &TopicName) {
        self.put_off.leaving.extend(self.ledger.store().of_topic(&delayed(), topic));
        self.let_go();
    }

    /// Delivers a slice of due records.
    pub(in crate::engine) fn deliver(&mut self, now: Moment) -> Result<NextSlice, EngineError> {
        let Some(mut last) = self.delayed_scan().map(|scan| scan.after()) else {
            return Ok(NextSlice::OnEvent);
        };
        let due = self.ledger.store().due_behind(&delayed(), last, now.wall, SLICE_RECORDS);
        let mut next = (due.len() == SLICE_RECORDS).then_some(NextSlice::Now);
        let mut slice = DeliverySlice::default();
        for (at, id) in due {
            match self.take_due(id, &mut slice, now) {
                Ok(true) => last = Some((at, id)),
                Ok(false) => {
                    next = Some(NextSlice::Now);
                    break;
                }
                Err(EngineError::Append(error)) => {
                    next = Some(NextSlice::after_refusal(&error));
                    break;
                }
                Err(error) => {
                    last = Some((at, id));
                    if !self.set_aside(id, &error, now) {
                        next = Some(NextSlice::Pause(UNSERVED_MS));
                        break;
                    }
                }
            }
        }
        self.enter(slice)?;
        let Some(scan) = self.delayed_scan() else { return Ok(NextSlice::OnEvent) };
        scan.looked_at(last);
        Ok(next.unwrap_or_else(|| scan.end(now.mono)))
    }

    fn delayed_scan(&mut self) -> Option<&mut Scan> {
        self.mover.scan(&delayed())
    }

    /// Adds a due record to the slice; false: the slice is full.
    fn take_due(
        &mut self,
        id: EntryId,
        slice: &mut DeliverySlice,
        now: Moment,
    ) -> Result<bool, EngineError> {
        if self.delayed_scan().is_none_or(|scan| scan.is_aside(id, now.mono)) {
            return Ok(true);
        }
        let sum = slice.bytes.saturating_add(self.ledger.store().record_bytes(id));
        if slice.bytes > 0 && sum > SLICE_BYTES {
            return Ok(false);
        }
        self.journal.admits_bytes(sum)?;
        let StoredRecord { stream, record } = self.stored(id)?;
        slice.bytes = sum;
        let arrived = self.journal.stream_bounds(stream).is_some();
        if arrived {
            slice.arrivals.push((stream, Arrival::new(stream, &record).entry(now)));
        } else {
            slice.dropped += 1;
        }
        slice.facts.extend(self.handle(LedgerInput::Delivered { id, arrived }).1);
        if let Some(scan) = self.delayed_scan() {
            scan.released(id);
        }
        Ok(true)
    }

    /// Appends the records of a slice, with the facts that end their waiting.
    fn enter(&mut self, slice: DeliverySlice) -> Result<(), EngineError> {
        let DeliverySlice { facts, mut arrivals, mut dropped, .. } = slice;
        if facts.is_empty() {
            return Ok(());
        }
        self.usable()?;
        loop {
            let entries = arrivals.iter().map(|(_, entry)| entry.clone()).collect();
            match self.append(&facts, &[], entries) {
                Ok(()) => break,
                Err(EngineError::Append(AppendError::UnknownStream { .. })) => {
                    // A topic was deleted just now.
                    let before = arrivals.len();
                    arrivals.retain(|(stream, _)| self.journal.stream_bounds(*stream).is_some());
                    dropped += before - arrivals.len();
                }
                Err(error) => {
                    self.append_failed(&error);
                    return Err(error);
                }
            }
        }
        self.see_delayed(arrivals.len(), "delivered");
        self.see_dropped(dropped);
        Ok(())
    }

    /// Sets an unreadable record aside, so that others do not wait for it; false: the pass waits.
    fn set_aside(&mut self, id: EntryId, error: &EngineError, now: Moment) -> bool {
        let record = self.ledger.entry(id).and_then(|entry| entry.origin);
        let record = record.map(|origin| origin.to_string()).unwrap_or_default();
        let until = now.mono.plus(UNSERVED_MS);
        let Some(scan) = self.delayed_scan() else { return false };
        let is_new = scan.aside().all(|(known, _)| known != id);
        let goes_on = scan.set_aside(id, until, error.to_string());
        if is_new {
            tracing::error!(
                record, %error,
                "R0417 a delayed record cannot be read: it is tried again every 30 s; \
                 `reprise log verify` shows the damage, `reprise delayed cancel` ends its waiting"
            );
            self.see_delayed(1, "unreadable");
        }
        goes_on
    }

    /// Reads a delayed record from the log.
    fn stored(&self, id: EntryId) -> Result<StoredRecord, EngineError> {
        StoredRecord::read(&self.record_body(id)?)
    }

    /// Ends the next records whose topic is deleted.
    pub(in crate::engine) fn let_go(&mut self) {
        if self.put_off.leaving.is_empty() || self.may_decide().is_err() {
            return;
        }
        let count = self.put_off.leaving.len().min(LEAVING);
        let ids: Vec<EntryId> = self.put_off.leaving.drain(..count).collect();
        let mut facts = Vec::new();
        for id in ids {
            let entry = self.ledger.store().get(id);
            if entry.is_none_or(|entry| entry.group.as_str() != DELAYED) {
                continue;
            }
            // An unreadable record stays until it can be read, or is cancelled.
            let stored = self.stored(id);
            if stored.is_ok_and(|stored| self.journal.stream_bounds(stored.stream).is_none()) {
                facts.extend(self.handle(LedgerInput::Delivered { id, arrived: false }).1);
            }
        }
        if let Err(error) = self.persist(&facts, &[], Vec::new()) {
            tracing::error!(
                %error,
                "R0418 delayed records of a deleted topic could not be dropped; check the disk"
            );
            return;
        }
        self.see_dropped(facts.len());
    }

    fn see_dropped(&self, records: usize) {
        if records > 0 {
            tracing::warn!(
                records,
                "R0518 delayed records were dropped, because their topic was deleted"
            );
            self.see_delayed(records, "dropped");
        }
    }
}
