//! A Fetch of a retry partition gets retries that are due.

use crate::engine::command::Request;
use crate::engine::command::read::bytes_of;
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::engine::render::LaneRecord;
use crate::engine::store::TakenEntry;
use crate::model::{EntryId, GroupId, LaneOffset, MemberId};
use crate::retry::{Entries, IsolatedRetry, LedgerAnswer, LedgerInput, OtherDeliveries};

#[cfg(test)]
mod tests;

/// The retries for a Fetch.
#[derive(Debug)]
pub struct RetryBatch {
    /// The records, by offset in the retry partition.
    pub records: Vec<LaneRecord>,
    /// The first unacknowledged offset of the slot.
    pub position: LaneOffset,
    /// High watermark and log end offset.
    pub next: LaneOffset,
    /// The member that owns the slot.
    pub member: Option<MemberId>,
    /// Another entry of the group is due.
    pub is_due: bool,
    /// A retry that is delivered in isolation is due, or out at this slot.
    pub single: Option<IsolatedRetry>,
}

/// A Fetch of a retry partition.
struct FetchRetries {
    group: GroupId,
    from: LaneOffset,
    max: usize,
    company: OtherDeliveries,
}

/// The driver's part of a [`RetryBatch`].
#[derive(Debug)]
struct RetryDeliveries {
    entries: Vec<TakenEntry>,
    position: LaneOffset,
    next: LaneOffset,
    member: Option<MemberId>,
    is_due: bool,
    single: Option<IsolatedRetry>,
}

/// A retry whose bytes cannot be read becomes a dead letter.
struct DeadLetterDamaged {
    id: EntryId,
    why: String,
}

impl Engine {
    /// Delivers up to `max` entries at an offset of the retry partition; their deliveries are
    /// durable on return. Records without `room` are not read and stay outstanding.
    pub async fn take(
        &self,
        group: &GroupId,
        from: LaneOffset,
        (max, company): (usize, OtherDeliveries),
        room: impl AsyncFnOnce(usize) -> bool,
    ) -> Result<RetryBatch, EngineError> {
        let take = FetchRetries { group: group.clone(), from, max, company };
        let RetryDeliveries { mut entries, position, next, member, is_due, single } =
            self.call(take).await?;
        if !room(bytes_of(&entries)).await {
            entries.clear();
        }
        let records = self.read_whole(entries).await?;
        Ok(RetryBatch { records, position, next, member, is_due, single })
    }

    /// Reads the records of deliveries, up to the first that cannot be read now. A damaged record
    /// is a dead letter on return, so a commit that passes it does not acknowledge it.
    async fn read_whole(&self, entries: Vec<TakenEntry>) -> Result<Vec<LaneRecord>, EngineError> {
        let mut records = Vec::with_capacity(entries.len());
        for taken in entries {
            match self.render.lane_record(&self.journal, &taken) {
                Ok(record) => records.push(record),
                Err(error) if error.is_damage() => {
                    let (id, why) = (taken.entry.id, error.to_string());
                    tracing::error!(
                        entry = %id, %error,
                        "R0415 the bytes of a retry are damaged: it becomes a dead letter without \
                         them; run `reprise log verify`"
                    );
                    self.call(DeadLetterDamaged { id, why }).await?;
                }
                Err(error) if records.is_empty() => return Err(error),
                Err(error) => {
                    let id = taken.entry.id;
                    tracing::warn!(
                        entry = %id, %error,
                        "R0416 a retry cannot be read now: it is tried again; check the disk"
                    );
                    break;
                }
            }
        }
        Ok(records)
    }
}

impl Request for FetchRetries {
    type Answer = RetryDeliveries;

    fn run(self, driver: &mut Driver) -> Result<RetryDeliveries, EngineError> {
        let Self { group, from, max, company } = self;
        driver.journal.admits()?;
        let of = group.clone();
        match driver.ask(LedgerInput::Take { group, from, max, company })? {
            Some(LedgerAnswer::Taken { entries, position, next, next_due, single }) => {
                let store = driver.ledger.store();
                let entries = store.located(entries);
                let member = store.slot(&of, from.slot).and_then(|slot| slot.member);
                let is_due = next_due.is_some_and(|due| due <= driver.clock.now().wall);
                Ok(RetryDeliveries { entries, position, next, member, is_due, single })
            }
            _ => Err(EngineError::Stopped),
        }
    }
}

impl Request for DeadLetterDamaged {
    type Answer = ();

    fn run(self, driver: &mut Driver) -> Result<(), EngineError> {
        driver.ask(LedgerInput::Damaged { id: self.id, why: self.why }).map(|_| ())
    }
}
