//! Records with a final outcome leave their partition: for the dead letters, or for the queue of
//! their group. The record and the window without it are one atomic group of the log.

use std::ops::RangeInclusive;

use bytes::Bytes;

use crate::engine::command::Request;
use crate::engine::detectors::window_entries;
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::model::GroupId;
use crate::retry::detector::ExhaustedRecord;
use crate::retry::{LedgerAnswer, LedgerInput, NackOutcome};

/// A record that a plan says has its final outcome, with its bytes.
#[derive(Clone, Debug)]
pub struct SettleRequest {
    /// The group that failed it.
    pub group: GroupId,
    /// The record, as in the plan.
    pub settling: ExhaustedRecord,
    /// The offsets of a batch without readable records, which is settled as one record.
    pub undecodable: Option<RangeInclusive<i64>>,
    /// The record's stored form (`wire::batch::RawRecord`).
    pub record: Bytes,
}

impl Engine {
    /// Settles a record; durable on return. `None` if the record has no final outcome any more, or
    /// was settled before.
    pub async fn settle(&self, request: SettleRequest) -> Result<Option<NackOutcome>, EngineError> {
        self.call(request).await
    }
}

impl Request for SettleRequest {
    type Answer = Option<NackOutcome>;

    fn run(self, driver: &mut Driver) -> Result<Option<NackOutcome>, EngineError> {
        let Self { group, settling, undecodable, record } = self;
        driver.may_decide()?;
        driver.journal.admits()?;
        let Some(of) = driver.detectors.find(&group) else { return Ok(None) };
        let Some(mut settling) = of.lock().detector.present(&settling) else { return Ok(None) };
        let offsets = undecodable.clone().unwrap_or(settling.offset..=settling.offset);
        if let Some(batch) = undecodable {
            settling = settling.undecodable(batch);
        }
        let partition = settling.partition.clone();
        let topic_id = driver.topic_ids.id_of(&partition.topic);
        let window = window_entries::entry(&group, &partition, Some(&settling.window), topic_id);
        let record_bytes = u64::try_from(record.len()).unwrap_or(u64::MAX);
        driver.tell_room(driver.clock.now(), &group);
        let place = driver.mover.delivery_at(&group, &partition, settling.offset);
        let settling = Box::new(settling);
        let input = LedgerInput::Settle { group: group.clone(), settling, place, record_bytes };
        let records = [record];
        let (answer, facts) = driver.handle_records(driver.clock.now(), input, &records);
        let Some(LedgerAnswer::Nacked(outcomes)) = answer else { return Err(EngineError::Stopped) };
        driver.persist(&facts, &records, vec![window])?;
        of.rest_on(driver.last_seq);
        driver.change((&group, &of), |detector, now| detector.settled(now, &partition, offsets));
        driver.keep_detector(&group);
        driver.see_room(&group);
        outcomes.first().copied().map(Some).ok_or(EngineError::Stopped)
    }
}
