//! Size limits of a batch of nacks. A batch is one atomic group of the log, whose size is bounded,
//! so the size is checked before any decision.

use crate::engine::error::EngineError;
use crate::engine::nack_batch::NackRequest;
use crate::engine::store::Store;
use crate::model::GroupId;
use crate::retry::{Entries, NackTarget};
use crate::wire::batch::RawRecord;

/// Most bytes of one record; an entry of the journal holds 64 MiB, its fact and headers included.
pub const RECORD_BYTES_MAX: usize = (64 << 20) - (64 << 10);
/// Most bytes of one batch; a group of the journal holds 256 MiB.
const BYTES_MAX: u64 = 224 << 20;
/// Most bytes of fact and headers of one record: 4 KiB of headers, reason, history and deliveries.
const OVERHEAD_BYTES: u64 = 8 << 10;

/// Refuses a batch that may not fit. Every nack counts with its own record and with the one it
/// names, because a dead letter has a copy of it.
pub(super) fn check(
    store: &Store,
    group: &GroupId,
    nacks: &[NackRequest],
) -> Result<(), EngineError> {
    check_each(nacks.iter().map(|nack| &nack.record))?;
    let bytes = nacks.iter().map(|nack| {
        let own = u64::try_from(nack.record.len()).unwrap_or(u64::MAX);
        own.saturating_add(named_bytes(store, group, &nack.nack.named))
            .saturating_add(OVERHEAD_BYTES)
    });
    check_sum(bytes.fold(0, u64::saturating_add))
}

/// [`check`] for plain records.
pub(super) fn check_bytes<'a>(
    records: impl IntoIterator<Item = &'a bytes::Bytes> + Clone,
) -> Result<(), EngineError> {
    check_each(records.clone().into_iter())?;
    let bytes = records.into_iter().map(|record| {
        u64::try_from(record.len()).unwrap_or(u64::MAX).saturating_add(OVERHEAD_BYTES)
    });
    check_sum(bytes.fold(0, u64::saturating_add))
}

/// [`check`] for records that are not in their stored form yet.
pub(super) fn check_records(records: &[RawRecord]) -> Result<(), EngineError> {
    let bytes = |record: &RawRecord| u64::try_from(record.payload_bytes()).unwrap_or(u64::MAX);
    let most = u64::try_from(RECORD_BYTES_MAX).unwrap_or(u64::MAX);
    if let Some(bytes) = records.iter().map(bytes).find(|bytes| *bytes > most) {
        return Err(EngineError::BatchTooLarge { bytes, most });
    }
    let all = records.iter().map(|record| bytes(record).saturating_add(OVERHEAD_BYTES));
    check_sum(all.fold(0, u64::saturating_add))
}

/// Refuses a record too large for an entry of the journal. After the decision a refusal would be
/// too late.
fn check_each<'a>(mut records: impl Iterator<Item = &'a bytes::Bytes>) -> Result<(), EngineError> {
    let Some(record) = records.find(|record| record.len() > RECORD_BYTES_MAX) else {
        return Ok(());
    };
    let of = |bytes: usize| u64::try_from(bytes).unwrap_or(u64::MAX);
    Err(EngineError::BatchTooLarge { bytes: of(record.len()), most: of(RECORD_BYTES_MAX) })
}

/// Refuses more than [`BYTES_MAX`] in one group of the log.
pub(super) fn check_sum(bytes: u64) -> Result<(), EngineError> {
    if bytes > BYTES_MAX {
        return Err(EngineError::BatchTooLarge { bytes, most: BYTES_MAX });
    }
    Ok(())
}

fn named_bytes(store: &Store, group: &GroupId, named: &NackTarget) -> u64 {
    let id = match named {
        NackTarget::Origin(origin) => store.by_origin(group, origin),
        NackTarget::Delivery(place) => store.by_place(group, *place),
        NackTarget::Nothing
        | NackTarget::Unreadable
        | NackTarget::NoDelivery
        | NackTarget::OtherGroup => None,
    };
    id.map_or(0, |id| store.record_bytes(id))
}
