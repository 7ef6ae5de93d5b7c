//! Plans without open settlings: a final record is settled with its bytes before any record behind
//! it is delivered.

use std::fmt::Display;
use std::ops::RangeInclusive;

use crate::engine::SettleRequest;
use crate::model::TopicPartition;
use crate::retry::detector::{ExhaustedRecord, FetchDecision, FetchPosition, Plan};
use crate::route::Router;
use crate::route::delivery::TrackedFetch;
use crate::wire::batch::{RawRecord, UnreadableBatch};

/// Delay before a failed settling is tried again.
const AGAIN_MS: u64 = 1_000;
/// Bound of settling rounds in one Fetch: each plan may make the next record final.
pub(in crate::route) const SETTLING_ROUNDS: usize = 16;

/// The stored form of a settled record.
pub(in crate::route) enum FinalForm {
    Record(RawRecord),
    /// The batch that holds it, if no record of the batch can be read.
    Batch(Box<UnreadableBatch>),
}

/// The result of reading a record that is to be settled.
pub(in crate::route) enum ReadOutcome {
    Found(FinalForm),
    /// The record no longer exists: retention, the log cleaner or an aborted transaction removed
    /// it.
    Gone,
    /// The record cannot be read now.
    Unread,
}

impl Router {
    /// The plan for the requested partitions. Final records are settled first, with the bytes from
    /// `read`; a partition whose record cannot be settled now delivers nothing.
    pub(in crate::route) async fn planned(
        &self,
        by: &TrackedFetch,
        asked: &[FetchPosition],
        read: impl Fn(&ExhaustedRecord) -> ReadOutcome,
    ) -> Plan {
        let mut plan = self.asked(by, asked);
        for _ in 0..SETTLING_ROUNDS {
            let mut is_settled = false;
            for settling in plan.settlings() {
                is_settled |= self.settle(by, &settling, read(&settling)).await;
            }
            if !is_settled {
                break;
            }
            plan = self.asked(by, asked);
        }
        for serve in &mut plan.serve {
            if matches!(serve, FetchDecision::Settle(_)) {
                *serve = FetchDecision::Nothing;
                let again = self.clock.now().mono.plus(AGAIN_MS);
                plan.until = Some(plan.until.map_or(again, |until| until.min(again)));
            }
        }
        plan
    }

    /// Settles a record that the last plan found final, durably. Returns whether the plan may have
    /// changed. An unreadable batch is settled as a whole.
    pub(in crate::route) async fn settle(
        &self,
        by: &TrackedFetch,
        settling: &ExhaustedRecord,
        reading: ReadOutcome,
    ) -> bool {
        match reading {
            ReadOutcome::Unread => false,
            ReadOutcome::Gone => self.is_no_more(by, settling),
            ReadOutcome::Found(FinalForm::Record(record)) => {
                self.settle_all(by, settling, record, None).await
            }
            ReadOutcome::Found(FinalForm::Batch(whole)) => {
                let (group, partition, offsets) =
                    (&by.group, &settling.partition, whole.offsets.clone());
                tracing::error!(
                    %group, %partition, first = offsets.start(), last = offsets.end(),
                    "R0519 a batch that cannot be read failed for the last time: it ends as a whole"
                );
                self.settle_all(by, settling, whole.into_record(), Some(offsets)).await
            }
        }
    }

    async fn settle_all(
        &self,
        by: &TrackedFetch,
        settling: &ExhaustedRecord,
        record: RawRecord,
        batch: Option<RangeInclusive<i64>>,
    ) -> bool {
        let (group, offset) = (by.group.clone(), settling.offset);
        let partition = settling.partition.clone();
        let request = SettleRequest {
            group: group.clone(),
            settling: settling.clone(),
            undecodable: batch,
            record: record.to_bytes(),
        };
        match self.engine.settle(request).await {
            // `None`: another Fetch with the same plan has settled it.
            Ok(_) => true,
            Err(error) => {
                tracing::warn!(
                    %group, %partition, offset, %error,
                    "R0423 an exhausted record is not journalled: it is withheld and tried again; \
                     check the disk"
                );
                false
            }
        }
    }

    /// Settles a record that no longer exists.
    fn is_no_more(&self, by: &TrackedFetch, settling: &ExhaustedRecord) -> bool {
        let (group, partition, offset) = (&by.group, &settling.partition, settling.offset);
        tracing::warn!(
            %group, %partition, offset,
            "R0517 a failed record is no longer in the log: its partition goes on"
        );
        self.tell(group, &by.detector, |detector, now| {
            detector.settled(now, partition, offset..=offset);
        });
        true
    }

    /// The partition delivers nothing for now: a batch that has to be cut cannot be read.
    pub fn unreadable(&self, by: &TrackedFetch, partition: &TopicPartition, error: &impl Display) {
        self.metrics.batch_unreadable();
        let group = &by.group;
        if self.tell(group, &by.detector, |detector, _| detector.unreadable(partition)) {
            tracing::error!(
                %group, %partition, %error,
                "R0519 a batch with a failed record cannot be read: its partition waits"
            );
        }
    }
}
