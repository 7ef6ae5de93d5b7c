//! Size limits of a batch of nacks. A batch is one atomic group of the log, whose size is bounded,
//! so the size is checked before any decision.

use crate::engine::error::EngineError;
use crate::engine::nack_batch::NackRequest;
use crate::engine::store::Store;
use crate::model::GroupId;
use crate::retry::{Entries, NackTarget};

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
    check_each(nacks.iter().map(|nack| nack.record.len()))?;
    let bytes = nacks.iter().map(|nack| {
        of(nack.record.len())
            .saturating_add(named_bytes(store, group, &nack.nack.named))
            .saturating_add(OVERHEAD_BYTES)
    });
    check_sum(bytes.fold(0, u64::saturating_add))
}

/// [`check`] for plain records, by their sizes.
pub(super) fn check_sizes(
    sizes: impl IntoIterator<Item = usize> + Clone,
) -> Result<(), EngineError> {
    check_each(sizes.clone().into_iter())?;
    let bytes = sizes.into_iter().map(|bytes| of(bytes).saturating_add(OVERHEAD_BYTES));
    check_sum(bytes.fold(0, u64::saturating_add))
}

/// Refuses a record too large for an entry of the journal. After the decision a refusal would be
/// too late.
fn check_each(mut sizes: impl Iterator<Item = usize>) -> Result<(), EngineError> {
    let Some(bytes) = sizes.find(|bytes| *bytes > RECORD_BYTES_MAX) else {
        return Ok(());
    };
    Err(EngineError::BatchTooLarge { bytes: of(bytes), most: of(RECORD_BYTES_MAX) })
}

fn of(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
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
        | NackTarget::Orphan
        | NackTarget::Unreadable
        | NackTarget::NoDelivery
        | NackTarget::OtherGroup => None,
    };
    id.map_or(0, |id| store.record_bytes(id))
}
