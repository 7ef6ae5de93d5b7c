//! Deletes dead letters from the log once the upstream cluster has them.

use crate::engine::command::Request;
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::engine::letters::dead_letter::entry_of;
use crate::journal::StreamBatch;
use crate::model::{Moment, TopicName};
use crate::retry::{Entries, LedgerInput, RetryState};

/// Bytes of dead letters examined by one command: other commands run in between.
const LOOK_BYTES_MAX: usize = 1 << 20;
/// `offsets.retention.minutes` of Kafka, 7 days.
const UNPASSED_MS: u64 = 7 * 24 * 3_600_000;

/// Dead letters of a topic below an offset.
struct Discard {
    topic: TopicName,
    up_to: i64,
}

impl Engine {
    /// Deletes forwarded dead letters from the front on and returns their number. Each one goes
    /// when its record need not be remembered longer than any settled record.
    pub async fn discard_forwarded(
        &self,
        topic: &TopicName,
        up_to: i64,
    ) -> Result<u64, EngineError> {
        self.call(Discard { topic: topic.clone(), up_to }).await
    }
}

impl Request for Discard {
    type Answer = u64;

    fn run(self, driver: &mut Driver) -> Result<u64, EngineError> {
        driver.discard(&self.topic, self.up_to)
    }
}

impl Driver {
    /// Deletes dead letters before `up_to`, from the front to the first whose record must still be
    /// remembered. Returns their number.
    ///
    /// The ledger forgets the entry first. A crash in between leaves a dead letter without an
    /// entry, which the next run deletes.
    fn discard(&mut self, topic: &TopicName, up_to: i64) -> Result<u64, EngineError> {
        self.usable()?;
        let Some((stream, bounds)) = self.render.letters(&self.journal, topic) else {
            return Ok(0);
        };
        if bounds.start >= up_to.min(bounds.visible_end) {
            return Ok(0);
        }
        let now = self.clock.now();
        // The first usually has to stay, so that no more is read.
        let first = self.journal.stream_read(stream, bounds.start, 1)?.batches;
        if !first.iter().all(|batch| self.may_go(batch, up_to, now)) {
            return Ok(0);
        }
        let mut to = bounds.start;
        for batch in self.journal.stream_read(stream, bounds.start, LOOK_BYTES_MAX)?.batches {
            if !self.may_go(&batch, up_to, now) {
                break;
            }
            if let Some(entry) = entry_of(&batch) {
                self.ask(LedgerInput::DeadLetterGone { id: entry.id })?;
            }
            to = batch.end();
        }
        let start = self.journal.stream_trim(stream, to)?;
        Ok(u64::try_from(start - bounds.start).unwrap_or(0))
    }

    /// Says whether a letter may go. A settled record is remembered for the consume timeout after
    /// its end and the commit that passed it. Without such a commit (partition moved to another
    /// sidecar, group deleted) Kafka's retention of committed offsets is added.
    fn may_go(&self, batch: &StreamBatch, up_to: i64, now: Moment) -> bool {
        if batch.end() > up_to {
            return false;
        }
        let Some(entry) = entry_of(batch).and_then(|entry| self.ledger.store().get(entry.id))
        else {
            return true;
        };
        let RetryState::Dead { at } = entry.state else { return false };
        let timeout_ms = self.ledger.policy(&entry.group).consume_timeout_ms;
        let passed = match entry.passed {
            None if entry.remembered_origin().is_some() => at.plus(UNPASSED_MS),
            passed => passed.map_or(at, |passed| passed.max(at)),
        };
        passed.plus(timeout_ms) <= now.wall
    }
}
