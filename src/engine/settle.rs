//! Records at their end leave their partition: for the dead letters, or for the queue of their
//! group. The record and the window without it are one atomic group of the log.

use std::ops::RangeInclusive;

use bytes::Bytes;

use crate::engine::command::Command;
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::engine::windows;
use crate::model::GroupId;
use crate::retry::watch::Settling;
use crate::retry::{Answer, Input, NackOutcome, Token};

/// A record that a plan says is at its end, with its bytes.
#[derive(Clone, Debug)]
pub struct SettleRequest {
    /// The group that failed it.
    pub group: GroupId,
    /// The record, as the plan saw it.
    pub settling: Settling,
    /// The offsets of its batch, if no record of that can be read: they are settled as one.
    pub undecodable: Option<RangeInclusive<i64>>,
    /// The record's stored form (`wire::batch::RawRecord`).
    pub record: Bytes,
}

impl Engine {
    /// Settles a record; durable on return. `None`: the record is not at its end any more, or was
    /// settled before.
    pub async fn settle(&self, request: SettleRequest) -> Result<Option<NackOutcome>, EngineError> {
        self.ask_durably(|reply| Command::Settle(Box::new(request), reply)).await
    }
}

impl Driver {
    pub(super) fn settle_record(
        &mut self,
        request: SettleRequest,
    ) -> Result<Option<NackOutcome>, EngineError> {
        let SettleRequest { group, settling, undecodable, record } = request;
        self.may_decide()?;
        self.journal.admits()?;
        let Some(of) = self.watches.find(&group) else { return Ok(None) };
        let Some(mut settling) = of.lock().watch.present(&settling) else { return Ok(None) };
        let offsets = undecodable.clone().unwrap_or(settling.offset..=settling.offset);
        if let Some(batch) = undecodable {
            settling = settling.undecodable(batch);
        }
        let partition = settling.partition.clone();
        let topic_id = self.topic_ids.id_of(&partition.topic);
        let window = windows::entry(&group, &partition, Some(&settling.window), topic_id);
        let record_bytes = u64::try_from(record.len()).unwrap_or(u64::MAX);
        self.tell_room(self.clock.now(), &group);
        let key = self.order_key(&group, &record);
        let (token, settling) = (Token(0), Box::new(settling));
        let input = Input::Settle { token, group: group.clone(), settling, record_bytes, key };
        let (answer, facts) = self.handle(input);
        let Some(Answer::Nacked(outcomes)) = answer else { return Err(EngineError::Stopped) };
        self.persist(&facts, &[record], vec![window])?;
        of.rest_on(self.last_seq);
        self.change((&group, &of), |watch, now| watch.settled(now, &partition, offsets));
        self.keep_watch(&group);
        self.see_room(&group);
        outcomes.first().copied().map(Some).ok_or(EngineError::Stopped)
    }
}
