//! Dead letters leave the log once the real cluster has taken them.

use crate::engine::command::{Call, Command, Request};
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::engine::letters::entry_of;
use crate::journal::StreamBatch;
use crate::model::{Now, TopicName};
use crate::retry::{Entries, Input, State};

/// Bytes of dead letters looked at in one go: others get their turn.
const LOOK_BYTES_MAX: usize = 1 << 20;
/// `offsets.retention.minutes` of Kafka, 7 days.
const UNPASSED_MS: u64 = 7 * 24 * 3_600_000;

/// Dead letters of a topic below an offset.
pub(in crate::engine) struct Discard {
    topic: TopicName,
    up_to: i64,
}

impl Engine {
    /// Lets go of dead letters that the cluster has taken, from the front on: each as soon as its
    /// record is remembered no longer than any settled one. How many went.
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

    fn command(call: Call<Self>) -> Command {
        Command::Discard(call)
    }

    fn run(self, driver: &mut Driver) -> Result<u64, EngineError> {
        driver.discard(&self.topic, self.up_to)
    }
}

impl Driver {
    /// Lets dead letters before `up_to` go, from the front to the first whose record is still to
    /// be remembered. How many went.
    ///
    /// The ledger forgets first: a crash in between leaves a dead letter that nobody knows any
    /// more and that goes with the next look.
    fn discard(&mut self, topic: &TopicName, up_to: i64) -> Result<u64, EngineError> {
        self.usable()?;
        let Some((stream, bounds)) = self.render.letters(&self.journal, topic) else {
            return Ok(0);
        };
        if bounds.start >= up_to.min(bounds.visible_end) {
            return Ok(0);
        }
        let now = self.clock.now();
        // Mostly the first has to stay: then no more is read.
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
                self.ask(Input::DeadLetterGone { id: entry.id })?;
            }
            to = batch.end();
        }
        let start = self.journal.stream_trim(stream, to)?;
        Ok(u64::try_from(start - bounds.start).unwrap_or(0))
    }

    /// As any settled record: the consume timeout after its end and the commit that passed it.
    /// Where none is seen, because the partition has gone to another sidecar or the group is no
    /// more, that is waited for as long as Kafka keeps committed offsets.
    fn may_go(&self, batch: &StreamBatch, up_to: i64, now: Now) -> bool {
        if batch.end() > up_to {
            return false;
        }
        let Some(entry) = entry_of(batch).and_then(|entry| self.ledger.store().get(entry.id))
        else {
            return true;
        };
        let State::Dead { at } = entry.state else { return false };
        let timeout_ms = self.ledger.policy(&entry.group).consume_timeout_ms;
        let passed = match entry.passed {
            None if entry.remembered_origin().is_some() => at.plus(UNPASSED_MS),
            passed => passed.map_or(at, |passed| passed.max(at)),
        };
        passed.plus(timeout_ms) <= now.wall
    }
}
