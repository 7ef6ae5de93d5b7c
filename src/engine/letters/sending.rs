//! Dead letters on their way into topics of the cluster behind.
//!
//! ```text
//! blocked entry ──▶ queue ──▶ the writer ──▶ dead-letter topic ──▶ read back (`following`)
//! ```
//! **Invariant:** an entry whose batch has an unknown fate is sent again only after its topic was
//! read to the end. So a crash repeats no dead letter that has an origin.

use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::facts::damaged_letter;
use crate::engine::mover::release_queue::{ReleaseBatch, ReleaseOutcome, ReleaseTarget};
use crate::engine::mover::{BUSY_MS, FULL_MS, NextSlice, SLICE_BYTES, UNSERVED_MS};
use crate::engine::render::dead_letter_headers;
use crate::model::{GroupId, Moment, MonoMs};
use crate::retry::{Entries, Fact, RetryState, StateKind};
use crate::wire::batch::RawRecord;

/// Dead letters of one batch.
const BATCH_LETTERS: usize = 256;

impl Driver {
    /// Wakes the groups with entries that these facts block.
    pub(in crate::engine) fn wake_letters(&mut self, facts: &[Fact]) {
        if !self.ledger.policies().has_letters_behind() {
            return;
        }
        for fact in facts {
            if let Fact::Entry { entry, .. } = fact
                && matches!(entry.state, RetryState::Blocked { .. })
            {
                self.letters.wake(&entry.group);
                if !self.letters.is_read(&entry.group) {
                    self.queued_releases.ask_for_letters();
                }
            }
        }
    }

    /// Wakes the groups with blocked entries, at the start.
    pub(in crate::engine) fn wake_blocked(&mut self) {
        if !self.ledger.policies().has_letters_behind() {
            return;
        }
        let store = self.ledger.store();
        for group in store.groups() {
            if store.counts(&group).of(StateKind::Blocked) > 0 {
                self.letters.wake(&group);
            }
        }
    }

    /// Hands a batch of each group with blocked entries to the writer.
    pub(in crate::engine) fn see_to_letters(&mut self, now: Moment) {
        if self.letters.alarm().is_none_or(|at| now.mono < at) {
            return;
        }
        if self.ahead.is_some() || self.may_decide().is_err() {
            self.letters.not_before = now.mono.plus(FULL_MS);
            return;
        }
        for group in self.letters.take_ready(now.mono) {
            if let Err(error) = self.send_letters(&group, now) {
                tracing::warn!(
                    %group, %error,
                    "R0414 a dead letter cannot be read and waits; check the disk"
                );
                self.try_letters_at(&group, now.mono.plus(FULL_MS));
            }
        }
    }

    fn try_letters_at(&mut self, group: &GroupId, at: MonoMs) {
        if let Some(topic) = self.letters.topics.get_mut(group) {
            topic.not_before = at;
            self.letters.ready.insert(group.clone());
        }
    }

    fn send_letters(&mut self, group: &GroupId, now: Moment) -> Result<(), EngineError> {
        let Some(topic) = self.letters.topics.get(group) else { return Ok(()) };
        if topic.is_sending || !topic.is_read {
            return Ok(());
        }
        if self.queued_releases.is_full() {
            self.try_letters_at(group, now.mono.plus(BUSY_MS));
            return Ok(());
        }
        self.tell_room(now, group);
        let batch = self.next_letters(group, now.mono)?;
        let Some(topic) = self.letters.topics.get_mut(group) else { return Ok(()) };
        if batch.ids.is_empty() {
            if let NextSlice::After(ms) = topic.scan.end(now.mono) {
                self.try_letters_at(group, now.mono.plus(ms));
            }
            return Ok(());
        }
        topic.is_sending = true;
        topic.sent.extend(batch.ids.iter().map(|id| (*id, None)));
        self.queued_releases.put(batch);
        Ok(())
    }

    /// The next dead letters of a group, as many as one batch takes.
    fn next_letters(&self, group: &GroupId, now: MonoMs) -> Result<ReleaseBatch, EngineError> {
        let mut batch = ReleaseBatch {
            target: ReleaseTarget::Letters(group.clone()),
            topic: self.render.dead_letter_topic(group),
            records: Vec::new(),
            ids: Vec::new(),
            bytes: 0,
        };
        let Some(topic) = self.letters.topics.get(group) else { return Ok(batch) };
        let most = if topic.alone > 0 { 1 } else { BATCH_LETTERS };
        let (store, mut after) = (self.ledger.store(), None);
        // The quota counts a dead letter when it is read back.
        let sent: u64 = topic.sent.keys().map(|id| store.record_bytes(*id)).sum();
        loop {
            let ids = store.blocked(group, after, BATCH_LETTERS);
            for id in &ids {
                if topic.sent.contains_key(id) || topic.scan.is_aside(*id, now) {
                    continue;
                }
                let bytes = batch.bytes.saturating_add(store.record_bytes(*id));
                let is_full = batch.ids.len() >= most || batch.bytes > 0 && bytes > SLICE_BYTES;
                if is_full || !self.ledger.has_room(group, bytes.saturating_add(sent)) {
                    return Ok(batch);
                }
                let Some(letter) = self.ledger.letter_of(*id) else { continue };
                let record = self.record_body(*id).and_then(|body| Ok(RawRecord::parse(&body)?));
                let (letter, record) = match record {
                    Ok(record) => (letter, record),
                    Err(why) if why.is_damage() => damaged_letter(&letter, &why),
                    Err(why) => return Err(why),
                };
                let headers = record.headers.with(&dead_letter_headers(&letter));
                batch.records.push(RawRecord { headers, ..record });
                batch.ids.push(*id);
                batch.bytes = bytes;
            }
            match ids.last() {
                Some(last) if ids.len() == BATCH_LETTERS => after = Some(*last),
                _ => return Ok(batch),
            }
        }
    }

    /// Notes the end of a batch of dead letters.
    pub(in crate::engine) fn end_letters(
        &mut self,
        group: &GroupId,
        batch: &ReleaseBatch,
        outcome: ReleaseOutcome,
    ) {
        let now = self.clock.now().mono;
        let Some(topic) = self.letters.topics.get_mut(group) else { return };
        topic.is_sending = false;
        topic.alone = topic.alone.saturating_sub(batch.ids.len());
        let until = now.plus(UNSERVED_MS);
        match outcome {
            ReleaseOutcome::Written { base } => {
                for (offset, id) in (base..).zip(&batch.ids) {
                    topic.sent.insert(*id, Some(offset));
                }
            }
            ReleaseOutcome::Later => topic.is_read = false,
            ReleaseOutcome::Refused(why) => {
                topic.sent.retain(|id, _| !batch.ids.contains(id));
                if let [id] = batch.ids.as_slice() {
                    tracing::warn!(
                        %group, topic = %batch.topic, entry = %id, %why,
                        "R0217 the cluster refuses a dead letter: it is kept here and tried again \
                         every 30 s, the next ones go on; change the topic"
                    );
                    if !topic.scan.set_aside(*id, until, why) {
                        topic.not_before = until;
                    }
                } else {
                    topic.alone = batch.ids.len();
                }
            }
            ReleaseOutcome::Denied(why) => {
                topic.not_before = until;
                for id in &batch.ids {
                    topic.sent.remove(id);
                    topic.scan.set_aside(*id, until, why.clone());
                }
            }
        }
        topic.ended = self.queued_releases.end_letters();
        self.letters.ready.insert(group.clone());
    }
}
