//! Records that clients produce to the dead-letter topic of a group, by itself: each becomes a dead
//! letter, with the bytes that the client wrote.

use crate::engine::batch_limits;
use crate::engine::command::Request;
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::engine::letters::following::letter_of;
use crate::engine::producer_sequences::ProducerSequence;
use crate::model::GroupId;
use crate::retry::Import;
use crate::wire::batch::RawRecord;

/// A batch for the dead-letter topic of a group.
#[derive(Debug)]
pub struct ProducedLetters {
    pub group: GroupId,
    pub producer: Option<ProducerSequence>,
    pub records: Vec<RawRecord>,
}

impl Engine {
    /// Takes all records of a batch, or none. The batch is queued on return; the future ends when
    /// it is durable. Returns the offset of the first record.
    pub fn produce_letters(
        &self,
        batch: ProducedLetters,
    ) -> impl Future<Output = Result<i64, EngineError>> + use<> {
        self.call(batch)
    }
}

impl Request for ProducedLetters {
    type Answer = i64;

    fn run(self, driver: &mut Driver) -> Result<i64, EngineError> {
        let Self { group, producer, records } = self;
        driver.may_decide()?;
        driver.journal.admits()?;
        if let Some(producer) = producer
            && let Some(base) = driver.repeated(&group, producer)?
        {
            return Ok(base);
        }
        batch_limits::check_sizes(records.iter().map(RawRecord::payload_bytes))?;
        let now = driver.clock.now().wall;
        let known = driver.render.dead_letters(&driver.journal, &group);
        let base = known.map_or(0, |(_, bounds)| bounds.next);
        let before = producer.map(|producer| (producer, driver.stamps.of(&group, producer)));
        let stamp = producer.map(|producer| driver.stamps.record(&group, producer, (now, base)));
        let run = (base..).zip(records).collect();
        // A record has any time. The letter begins now.
        let read = |record: &RawRecord| Import { died: now, ..letter_of(record) };
        let taken = driver.take_run(&group, run, read, stamp.into_iter().collect());
        if let (Err(_), Some((producer, before))) = (&taken, before) {
            driver.stamps.restore(&group, producer, before);
        }
        taken.map(|()| base)
    }
}
