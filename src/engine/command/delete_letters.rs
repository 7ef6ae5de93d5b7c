//! Deletes dead letters from the front of their topic: by `DeleteRecords`, or by age. Their records
//! stay settled in the partitions they came from.

use std::collections::BTreeMap;

use crate::engine::audit::AuditLog;
use crate::engine::command::{EntryState, OPERATE_MAX, Request};
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::engine::letters::dead_letter::entry_of;
use crate::engine::operator::Operator;
use crate::journal::{Bounds, StreamBatch, StreamId};
use crate::model::{EntryId, GroupId, TopicName, WallMs};
use crate::retry::{Action, Entries, RetryState};

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
}

/// Deletes the first dead letters of a topic, one step of them.
struct DeleteLetters {
    topic: TopicName,
    bound: Bound,
    by: Operator,
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
        let why = "older than retry.dead_letters.retention".to_owned();
        let by = Operator { name: RETENTION.to_owned(), peer: String::new(), why };
        let topic = self.render.dead_letter_topic(group);
        Ok(self.delete_up_to(&topic, Bound::Time(oldest), by).await?.1)
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
    fn admits(self, batch: &StreamBatch) -> bool {
        match (self, entry_of(batch).map(|entry| entry.state)) {
            (Self::Offset(up_to), _) => batch.base_offset < up_to,
            (Self::Time(oldest), Some(RetryState::Dead { at })) => at < oldest,
            // A client produced this record.
            (Self::Time(oldest), _) => batch.max_timestamp_ms < oldest.0,
        }
    }

    /// The first offset that stays, if all batches of a step may be deleted.
    fn end(self, batch: &StreamBatch) -> i64 {
        match self {
            Self::Offset(up_to) => batch.end().min(up_to),
            Self::Time(_) => batch.end(),
        }
    }
}

impl Driver {
    fn delete_step(
        &mut self,
        (stream, bounds): (StreamId, Bounds),
        bound: Bound,
        by: &Operator,
    ) -> Result<DeletedLetters, EngineError> {
        if bounds.start >= bounds.visible_end {
            return Ok(DeletedLetters { start: bounds.start, deleted: 0, is_done: true });
        }
        // The first letter is usually young enough, so that no more is read.
        if matches!(bound, Bound::Time(_)) {
            let first = self.journal.stream_read(stream, bounds.start, 1)?.batches;
            if first.iter().any(|batch| !bound.admits(batch)) {
                return Ok(DeletedLetters { start: bounds.start, deleted: 0, is_done: true });
            }
        }
        let read = self.journal.stream_read(stream, bounds.start, STEP_BYTES)?.batches;
        let step = read.iter().take_while(|batch| bound.admits(batch)).take(OPERATE_MAX);
        let step: Vec<&StreamBatch> = step.collect();
        let mut dead = BTreeMap::<GroupId, Vec<EntryId>>::new();
        for entry in step.iter().filter_map(|batch| entry_of(batch)) {
            let now = self.ledger.store().get(entry.id);
            let now = now.as_ref().map(EntryState::of);
            if now.is_some_and(|now| !now.is_latest_letter(entry.redrives)) {
                continue;
            }
            dead.entry(entry.group).or_default().push(entry.id);
        }
        let deleted = dead.into_iter().map(|(group, ids)| self.delete_entries(&group, ids, by));
        let deleted = deleted.sum::<Result<u64, EngineError>>()?;
        let start = match (step.last(), bound) {
            (Some(last), _) => self.journal.stream_trim(stream, bound.end(last))?,
            // All letters before the offset have left the topic already.
            (None, Bound::Offset(up_to)) => self.journal.stream_trim(stream, up_to)?,
            (None, Bound::Time(_)) => bounds.start,
        };
        self.last_seq = self.last_seq.max(self.journal.appended_seq());
        Ok(DeletedLetters { start, deleted, is_done: step.is_empty() })
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
