//! Deletes dead letters from the front of their topic: by `DeleteRecords`, by age, or because they
//! are settled. Their records stay settled in the partitions they came from.
//!
//! A letter is settled once its record was acknowledged, discarded, or is a later dead letter.

use std::collections::BTreeMap;

use crate::engine::audit::AuditLog;
use crate::engine::command::operate::number;
use crate::engine::command::{EntryState, OPERATE_MAX, Request};
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::engine::kind;
use crate::engine::letters::dead_letter::entry_of;
use crate::engine::operator::Operator;
use crate::engine::store::Store;
use crate::journal::{Bounds, StreamBatch, StreamId};
use crate::model::{EntryId, GroupId, TopicName, WallMs};
use crate::retry::{Action, Entries, Entry, RetryState};

/// Bytes of dead letters that one step reads.
const STEP_BYTES: usize = 1 << 20;
/// Operator name in the audit log for the retention of dead letters.
const RETENTION: &str = "retention";

/// The letters to delete.
#[derive(Clone, Copy, Debug)]
enum Bound {
    /// Letters before an offset.
    Offset(i64),
    /// Letters that died before a time.
    Time(WallMs),
    /// Letters that were settled before a time.
    Settled(WallMs),
}

/// Deletes the first dead letters of a topic, one step of them.
struct DeleteLetters {
    topic: TopicName,
    bound: Bound,
    by: Operator,
}

/// Asks for the end of the first letters that may be deleted.
struct FindEnd {
    topic: TopicName,
    bound: Bound,
}

/// The topic after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DeletedLetters {
    /// The first offset of the topic.
    start: i64,
    deleted: u64,
    is_done: bool,
}

impl Engine {
    /// Deletes the dead letters of a topic before an offset, for good. Returns the new first offset
    /// and the number deleted. Durable on return.
    pub async fn delete_letters(
        &self,
        topic: &TopicName,
        up_to: i64,
        by: Operator,
    ) -> Result<(i64, u64), EngineError> {
        self.delete_up_to(topic, Bound::Offset(up_to), by).await
    }

    /// Deletes the dead letters of a group that died before `oldest` and returns their number.
    pub async fn expire_letters(
        &self,
        group: &GroupId,
        oldest: WallMs,
    ) -> Result<u64, EngineError> {
        let topic = self.render.dead_letter_topic(group);
        Ok(self.delete_up_to(&topic, Bound::Time(oldest), by_retention()).await?.1)
    }

    /// Deletes the first letters of each topic, as far as they were settled before `oldest`.
    /// Returns their number.
    pub async fn delete_settled(&self, oldest: WallMs) -> Result<u64, EngineError> {
        let mut deleted = 0;
        for (topic, bounds) in self.dead_letter_topics() {
            if bounds.start < bounds.visible_end {
                let bound = Bound::Settled(oldest);
                deleted += self.delete_up_to(&topic, bound, Operator::default()).await?.1;
            }
        }
        Ok(deleted)
    }

    /// The offset behind the first letters that died before `oldest`; `None`: there are none.
    pub async fn expired_end(
        &self,
        topic: &TopicName,
        oldest: WallMs,
    ) -> Result<Option<i64>, EngineError> {
        self.find_end(topic, Bound::Time(oldest)).await
    }

    /// The offset behind the first letters that were settled before `oldest`; `None`: there are
    /// none.
    pub async fn settled_end(
        &self,
        topic: &TopicName,
        oldest: WallMs,
    ) -> Result<Option<i64>, EngineError> {
        self.find_end(topic, Bound::Settled(oldest)).await
    }

    async fn find_end(&self, topic: &TopicName, bound: Bound) -> Result<Option<i64>, EngineError> {
        Ok(self.call_at_once(FindEnd { topic: topic.clone(), bound }).await?.0)
    }

    /// Deletes the letters before an offset, past their retention. Returns their number.
    pub async fn letters_expired(&self, topic: &TopicName, end: i64) -> Result<u64, EngineError> {
        Ok(self.delete_up_to(topic, Bound::Offset(end), by_retention()).await?.1)
    }

    async fn delete_up_to(
        &self,
        topic: &TopicName,
        bound: Bound,
        by: Operator,
    ) -> Result<(i64, u64), EngineError> {
        let mut all = 0;
        loop {
            let (topic, by) = (topic.clone(), by.clone());
            let step = self.call(DeleteLetters { topic, bound, by }).await?;
            all += step.deleted;
            if step.is_done {
                return Ok((step.start, all));
            }
        }
    }
}

fn by_retention() -> Operator {
    let note = "older than retry.dead_letters.retention".to_owned();
    Operator { name: RETENTION.to_owned(), note, ..Operator::default() }
}

impl Request for FindEnd {
    type Answer = Option<i64>;

    fn run(self, driver: &mut Driver) -> Result<Option<i64>, EngineError> {
        let Some(letters) = driver.render.letters(&driver.journal, &self.topic) else {
            return Ok(None);
        };
        Ok(driver.first_letters(letters, self.bound)?.last().map(|last| self.bound.end(last)))
    }
}

impl Request for DeleteLetters {
    type Answer = DeletedLetters;

    fn run(self, driver: &mut Driver) -> Result<DeletedLetters, EngineError> {
        let Self { topic, bound, by } = self;
        driver.may_decide()?;
        match driver.render.letters(&driver.journal, &topic) {
            Some(letters) => driver.delete_step(letters, bound, &by),
            None => Ok(DeletedLetters { start: 0, deleted: 0, is_done: true }),
        }
    }
}

impl Bound {
    fn admits(self, batch: &StreamBatch, store: &Store) -> bool {
        let is_gap = batch.kind == kind::LETTER_GAP;
        match (self, entry_of(batch)) {
            (Self::Settled(_) | Self::Time(_), _) if is_gap => true,
            (Self::Offset(up_to), _) => batch.base_offset < up_to,
            (Self::Settled(oldest), Some(letter)) => is_settled(&letter, store, oldest),
            (Self::Settled(_), None) => false,
            (Self::Time(oldest), letter) => match letter.map(|letter| letter.state) {
                Some(RetryState::Dead { at }) => at < oldest,
                _ => batch.max_timestamp_ms < oldest.0,
            },
        }
    }

    /// The first offset that stays, if all batches of a step may be deleted.
    fn end(self, batch: &StreamBatch) -> i64 {
        match self {
            Self::Offset(up_to) => batch.end().min(up_to),
            Self::Time(_) | Self::Settled(_) => batch.end(),
        }
    }
}

/// Whether a letter was settled before a time.
fn is_settled(letter: &Entry, store: &Store, oldest: WallMs) -> bool {
    let Some(now) = EntryState::find(store, letter.id) else { return true };
    match now.state {
        RetryState::Committed { at } | RetryState::Discarded { at } => at < oldest,
        RetryState::Dead { at } => !now.is_latest_letter(letter.redrives) && at < oldest,
        RetryState::Waiting { .. }
        | RetryState::Released { .. }
        | RetryState::Blocked { .. }
        | RetryState::Discarding { .. } => false,
    }
}

impl Driver {
    /// The first letters of a topic that may be deleted, one step of them.
    fn first_letters(
        &self,
        (stream, bounds): (StreamId, Bounds),
        bound: Bound,
    ) -> Result<Vec<StreamBatch>, EngineError> {
        if bounds.start >= bounds.visible_end {
            return Ok(Vec::new());
        }
        let store = self.ledger.store();
        // The first letter usually stays, so that no more is read.
        if matches!(bound, Bound::Time(_) | Bound::Settled(_)) {
            let first = self.journal.stream_read(stream, bounds.start, 1)?.batches;
            if first.iter().any(|batch| !bound.admits(batch, store)) {
                return Ok(Vec::new());
            }
        }
        let read = self.journal.stream_read(stream, bounds.start, STEP_BYTES)?.batches;
        let step = read.into_iter().take_while(|batch| bound.admits(batch, store));
        Ok(step.take(OPERATE_MAX).collect())
    }

    fn delete_step(
        &mut self,
        (stream, bounds): (StreamId, Bounds),
        bound: Bound,
        by: &Operator,
    ) -> Result<DeletedLetters, EngineError> {
        if bounds.start >= bounds.visible_end {
            return Ok(DeletedLetters { start: bounds.start, deleted: 0, is_done: true });
        }
        let step = self.first_letters((stream, bounds), bound)?;
        let deleted = match bound {
            Bound::Settled(_) => number(step.len()),
            Bound::Offset(_) | Bound::Time(_) => self.delete_dead(&step, by)?,
        };
        let start = match (step.last(), bound) {
            (Some(last), _) => self.journal.stream_trim(stream, bound.end(last))?,
            (None, Bound::Offset(up_to)) => self.journal.stream_trim(stream, up_to)?,
            (None, Bound::Time(_) | Bound::Settled(_)) => bounds.start,
        };
        self.last_seq = self.last_seq.max(self.journal.appended_seq());
        Ok(DeletedLetters { start, deleted, is_done: step.is_empty() })
    }

    /// Deletes the records of letters that are dead letters now.
    fn delete_dead(&mut self, letters: &[StreamBatch], by: &Operator) -> Result<u64, EngineError> {
        let mut dead = BTreeMap::<GroupId, Vec<EntryId>>::new();
        for entry in letters.iter().filter_map(entry_of) {
            let now = self.ledger.store().get(entry.id);
            let now = now.as_ref().map(EntryState::of);
            if now.is_some_and(|now| !now.is_latest_letter(entry.redrives)) {
                continue;
            }
            dead.entry(entry.group).or_default().push(entry.id);
        }
        dead.into_iter().map(|(group, ids)| self.delete_entries(&group, ids, by)).sum()
    }

    fn delete_entries(
        &mut self,
        group: &GroupId,
        ids: Vec<EntryId>,
        by: &Operator,
    ) -> Result<u64, EngineError> {
        let log = AuditLog::open(&self.journal)?;
        let now = self.clock.now();
        let operated = self.operate(now, group, (Action::Delete, ids), &[])?;
        if operated.changed == 0 {
            return Ok(0);
        }
        let audit = Self::action_audit(now, group, Action::Delete, (by.clone(), &operated));
        self.persist(&operated.facts, &[], vec![log.entry(&audit)])?;
        self.operated(group, Action::Delete, operated.changed);
        Ok(operated.changed)
    }
}
