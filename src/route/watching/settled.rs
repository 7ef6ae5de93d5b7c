//! A record at its end is settled, with its bytes, before anything behind it is given.

use std::fmt::Display;
use std::sync::atomic::Ordering;

use crate::engine::EngineError;
use crate::model::TopicPartition;
use crate::retry::watch::Settling;
use crate::route::Router;
use crate::route::watching::Watched;
use crate::wire::batch::RawRecord;

impl Router {
    /// Settles a record that the last plan says is at its end, durably; whether there may be
    /// another plan now.
    pub async fn settle(&self, by: &Watched, settling: &Settling, record: RawRecord) -> bool {
        let _alone = by.watch.settles.lock().await;
        if by.watch.lock().settled != by.settled_at.load(Ordering::Relaxed) {
            // Another Fetch was told the same.
            return true;
        }
        let (group, offset) = (&by.group, settling.offset);
        let partition = settling.partition.clone();
        if let Err(error) = kept(settling, record) {
            tracing::warn!(%group, %partition, offset, %error, "a record is not settled");
            return false;
        }
        self.tell(group, &by.watch, |state, now| {
            if !settling.window.is_idle() {
                state.remembered.insert(partition.clone());
            }
            state.settled = state.settled.wrapping_add(1);
            by.settled_at.store(state.settled, Ordering::Relaxed);
            state.watch.settled(now, &partition, offset);
        });
        true
    }

    /// Bytes of a partition that records would have to be taken out of cannot be read: nothing of
    /// it is given for now.
    pub fn unreadable(&self, by: &Watched, partition: &TopicPartition, error: &impl Display) {
        self.metrics.batch_unreadable();
        if by.watch.lock().unreadable.insert(partition.clone()) {
            let group = &by.group;
            tracing::error!(
                %group, %partition, %error,
                "a batch with a failed record cannot be read; the partition is held for the group"
            );
        }
    }
}

/// The engine takes no settled record yet, and what nobody keeps is not settled.
fn kept(_settling: &Settling, _record: RawRecord) -> Result<(), EngineError> {
    Err(EngineError::Stopped)
}
