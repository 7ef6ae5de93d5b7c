//! Delivery of delayed records to their topics, and the handling of undeliverable ones.

use std::collections::btree_map::Entry as Place;

use crate::engine::arrival::Arrival;
use crate::engine::delayed::stored::StoredRecord;
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::journal::AppendError;
use crate::model::{EntryId, Moment, MonoMs, Origin, TopicName};
use crate::retry::{DELAYED, Entries, LedgerInput, delayed};

/// Records delivered in one slice; other work runs in between.
pub(super) const SLICE_RECORDS: usize = 64;
/// Bytes of a slice; only its first record may exceed them.
pub(super) const SLICE_BYTES: u64 = 1 << 20;
/// Entries of earlier processes counted in one step.
const COUNTED: usize = 256;
/// Entries of a deleted topic that end in one step.
pub(super) const LEAVING: usize = 256;
/// Pause between tries while the disk is full.
pub(super) const FULL_MS: u64 = 1_000;
/// Pause between tries while the disk cannot keep up.
const BUSY_MS: u64 = 10;
/// Pause between tries to read an unreadable record.
pub(super) const LOOK_MS: u64 = 60_000;

impl Driver {
    /// Runs one step of each kind of work on delayed records.
    pub(in crate::engine) fn see_to_delayed(&mut self, now: Moment) {
        if self.may_decide().is_err() {
            return;
        }
        self.count_on();
        self.let_go();
        if self.ahead.is_none() && self.put_off.at.is_some_and(|at| at <= now.mono) {
            self.put_off.at = self.deliver(now);
        }
    }

    /// Starts a delivery: a record is due.
    pub(in crate::engine) fn delayed_due(&mut self) {
        self.put_off.at = Some(MonoMs(0));
    }

    /// Ends the records delayed for a deleted topic, the first of them at once.
    pub(in crate::engine) fn destination_gone(&mut self, topic: &TopicName) {
        self.put_off.leaving.extend(self.ledger.store().of_topic(&delayed(), topic));
        self.let_go();
    }

    /// Delivers a slice of due records. Returns when to continue, unless none is left.
    fn deliver(&mut self, now: Moment) -> Option<MonoMs> {
        let most = SLICE_RECORDS + self.put_off.unreadable.len() + 1;
        let due = self.ledger.store().due(&delayed(), now.wall, most);
        let (mut records, mut bytes) = (0, 0_u64);
        for id in &due {
            if self.put_off.unreadable.get(id).is_some_and(|look| now.mono < *look) {
                continue;
            }
            let own = self.ledger.store().record_bytes(*id);
            bytes = bytes.saturating_add(own);
            if records == SLICE_RECORDS || (records > 0 && bytes > SLICE_BYTES) {
                return Some(now.mono);
            }
            if let Err(error) = self.journal.admits_bytes(own) {
                let is_busy = matches!(error, AppendError::Overloaded { .. });
                return Some(now.mono.plus(if is_busy { BUSY_MS } else { FULL_MS }));
            }
            if let Err(error) = self.enter(*id, own, now) {
                tracing::error!(
                    %error, entry = %id,
                    "R0418 a delayed record could not enter its topic: it stays; check the disk"
                );
                return Some(now.mono.plus(FULL_MS)).filter(|_| self.ahead.is_none());
            }
            records += 1;
        }
        self.put_off.unreadable.values().min().copied()
    }

    fn enter(&mut self, id: EntryId, bytes: u64, now: Moment) -> Result<(), EngineError> {
        self.usable()?;
        let entry = self.ledger.store().get(id).filter(|entry| entry.group.as_str() == DELAYED);
        let Some(origin) = entry.and_then(|entry| entry.origin) else { return Ok(()) };
        let StoredRecord { stream, record } = match self.stored(id) {
            Ok(stored) => stored,
            Err(error) => {
                self.set_aside(id, &origin, &error, now);
                return Ok(());
            }
        };
        let mut arrived = self.journal.stream_bounds(stream).is_some();
        let arrival = arrived.then(|| Arrival::new(stream, &record).entry(now));
        let (_, facts) = self.handle(LedgerInput::Delivered { id, arrived });
        match self.append(&facts, &[], arrival.into_iter().collect()) {
            Ok(()) => {}
            // The topic was deleted just now.
            Err(EngineError::Append(AppendError::UnknownStream { .. })) => {
                arrived = false;
                self.persist(&facts, &[], Vec::new())?;
            }
            Err(error) => {
                self.append_failed(&error);
                return Err(error);
            }
        }
        self.ended(id, bytes);
        if !arrived {
            tracing::warn!(
                record = %origin,
                "R0518 a delayed record was dropped, because its topic was deleted"
            );
        }
        self.see_delayed(1, if arrived { "delivered" } else { "dropped" });
        Ok(())
    }

    /// Sets an unreadable record aside, so that others do not wait for it.
    fn set_aside(&mut self, id: EntryId, origin: &Origin, error: &EngineError, now: Moment) {
        let look = now.mono.plus(LOOK_MS);
        match self.put_off.unreadable.entry(id) {
            Place::Occupied(mut known) => {
                known.insert(look);
            }
            Place::Vacant(place) => {
                place.insert(look);
                tracing::error!(
                    record = %origin, %error,
                    "R0417 a delayed record cannot be read: it is tried again each minute; \
                     `reprise log verify` shows the damage, `reprise delayed cancel` ends its \
                     waiting"
                );
                self.see_delayed(1, "unreadable");
            }
        }
    }

    /// Reads a delayed record from the log.
    fn stored(&self, id: EntryId) -> Result<StoredRecord, EngineError> {
        let at = self.ledger.store().payload(id).ok_or(EngineError::PayloadLost(id))?;
        if let Some(body) = self.unwritten.body(at.seq) {
            return StoredRecord::read(&body);
        }
        StoredRecord::read(&self.journal.read(at)?.body)
    }

    /// Ends the next records whose topic is deleted.
    fn let_go(&mut self) {
        let count = self.put_off.leaving.len().min(LEAVING);
        if count == 0 {
            return;
        }
        let ids: Vec<EntryId> = self.put_off.leaving.drain(..count).collect();
        let (mut facts, mut gone) = (Vec::new(), Vec::new());
        for id in ids {
            let entry = self.ledger.store().get(id);
            if entry.is_none_or(|entry| entry.group.as_str() != DELAYED) {
                continue;
            }
            // An unreadable record stays until it can be read, or is cancelled.
            let stored = self.stored(id);
            if stored.is_ok_and(|stored| self.journal.stream_bounds(stored.stream).is_none()) {
                gone.push((id, self.ledger.store().record_bytes(id)));
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
        for (id, bytes) in &gone {
            self.ended(*id, *bytes);
        }
        self.see_delayed(gone.len(), "dropped");
    }

    /// Counts the next records of earlier processes.
    fn count_on(&mut self) {
        if !self.put_off.backlog.is_counting() {
            return;
        }
        let (store, after) = (self.ledger.store(), self.put_off.backlog.counts_after());
        let ids = store.page(&delayed(), after, COUNTED);
        let sizes: Vec<_> = ids.into_iter().map(|id| (id, store.record_bytes(id))).collect();
        self.put_off.backlog.count(&sizes, COUNTED);
        self.see_delayed(0, "scheduled");
    }
}
