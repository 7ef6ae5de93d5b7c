//! Settles final records, with their bytes, before any record behind them is delivered. A record
//! that no partition waits for becomes an entry in a task of its own, so that an unreadable record
//! delays nothing else.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::JoinSet;

use crate::engine::{GroupDetector, SettleRequest};
use crate::model::{GroupId, Origin, TopicPartition};
use crate::retry::detector::ExhaustedRecord;
use crate::route::Router;
use crate::route::delivery::TrackedFetch;
use crate::wire::batch::{RawRecord, UnreadableBatch};

/// Bound of partitions in which records are settled at the same time.
const AT_ONCE: usize = 16;
/// Bound of records of one partition that are settled in a row.
const IN_A_ROW: usize = 16;

type GroupPartition = (GroupId, TopicPartition);

/// The running settle tasks; dropping it aborts them.
#[derive(Debug, Default)]
pub(super) struct SettleTasks {
    busy: Arc<Mutex<BTreeSet<GroupPartition>>>,
    tasks: JoinSet<()>,
}

/// Marks a partition as busy until it is dropped.
#[derive(Debug)]
struct Busy {
    of: GroupPartition,
    all: Arc<Mutex<BTreeSet<GroupPartition>>>,
}

impl SettleTasks {
    /// Runs the task unless its partition is busy or [`AT_ONCE`] partitions are.
    fn run(&mut self, of: GroupPartition, settling: impl Future<Output = ()> + Send + 'static) {
        while self.tasks.try_join_next().is_some() {}
        if let Some(busy) = self.begin(of) {
            self.tasks.spawn(async move {
                settling.await;
                drop(busy);
            });
        }
    }

    fn begin(&self, of: GroupPartition) -> Option<Busy> {
        let mut all = lock(&self.busy);
        let may = all.len() < AT_ONCE && all.insert(of.clone());
        may.then(|| Busy { of, all: Arc::clone(&self.busy) })
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        lock(&self.all).remove(&self.of);
    }
}

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
}

impl Router {
    /// Settles records that no partition waits for any more. A record that cannot be read now is
    /// tried again at the next look. A record that can never be read is left to the next Fetch of
    /// its offset.
    pub(super) fn settle_in_hand(self: &Arc<Self>, settlings: &mut SettleTasks) {
        for (group, of) in self.detectors.all() {
            for settling in self.settlings_let_go(&group, &of) {
                let (router, group, of) = (Arc::clone(self), group.clone(), Arc::clone(&of));
                let place = (group.clone(), settling.partition.clone());
                settlings.run(place, async move {
                    router.settle_each(&group, &of, settling).await;
                });
            }
        }
    }

    fn settlings_let_go(&self, group: &GroupId, of: &GroupDetector) -> Vec<ExhaustedRecord> {
        self.tell(group, of, |detector, now| {
            [detector.settlings_let_go(), detector.timed_out(now)].concat()
        })
    }

    /// Settles a withheld record before a commit passes it.
    pub(super) async fn settle_before(
        &self,
        group: &GroupId,
        of: &Arc<GroupDetector>,
        partition: &TopicPartition,
        offset: i64,
    ) {
        let settling =
            self.tell(group, of, |detector, _| detector.settling_before(partition, offset));
        let Some(settling) = settling else { return };
        if let Some(reading) = self.in_hand(group, &settling).await {
            self.settle(&TrackedFetch::nobody(group, of), &settling, reading).await;
        }
    }

    /// Settles a record, then later records of its partition that have become final by that.
    async fn settle_each(&self, group: &GroupId, of: &Arc<GroupDetector>, first: ExhaustedRecord) {
        let by = TrackedFetch::nobody(group, of);
        let partition = first.partition.clone();
        let mut next = Some(first);
        for _ in 0..IN_A_ROW {
            let Some(settling) = next else { return };
            let Some(reading) = self.in_hand(group, &settling).await else { return };
            let is_settled = self.settle(&by, &settling, reading).await;
            let ending = is_settled.then(|| self.settlings_let_go(group, of)).into_iter().flatten();
            next = ending.into_iter().find(|settling| settling.partition == partition);
        }
    }

    /// Reads the record to settle from its topic; `None`: it cannot be read now.
    async fn in_hand(&self, group: &GroupId, settling: &ExhaustedRecord) -> Option<ReadOutcome> {
        let TopicPartition { topic, partition } = settling.partition.clone();
        let origin = Origin { topic, partition, offset: settling.offset };
        match self.bytes_at(group, &origin).await {
            Ok(Ok(Some(record))) => Some(ReadOutcome::Found(FinalForm::Record(record))),
            // Retention removed the record, or its transaction aborted.
            Ok(Ok(None)) => Some(ReadOutcome::Gone),
            Ok(Err(why)) => {
                tracing::debug!(%group, %origin, %why, "a record that is let go is not read");
                None
            }
            Err(why) => {
                tracing::debug!(%group, %origin, %why, "a record that is let go is not there");
                None
            }
        }
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

fn lock(busy: &Mutex<BTreeSet<GroupPartition>>) -> MutexGuard<'_, BTreeSet<GroupPartition>> {
    busy.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
    use tokio::sync::watch;

    use super::*;

    fn of(group: &str, partition: i32) -> GroupPartition {
        (group.into(), TopicPartition { topic: "orders".into(), partition })
    }

    /// A task that reports its start and runs until `go` is true.
    fn held(
        n: i32,
        began: &UnboundedSender<i32>,
        go: &watch::Receiver<bool>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let (began, mut go) = (began.clone(), go.clone());
        async move {
            began.send(n).unwrap();
            go.wait_for(|go| *go).await.unwrap();
        }
    }

    #[tokio::test]
    async fn concurrent_finalizations_are_bounded_and_one_per_partition() {
        let mut settlings = SettleTasks::default();
        let (began, mut heard) = unbounded_channel();
        let (go, stopped) = watch::channel(false);
        for n in 0..3 {
            settlings.run(of("shop", 0), held(n, &began, &stopped));
        }
        for n in 1..40 {
            settlings.run(of("shop", n), held(n, &began, &stopped));
        }
        settlings.run(of("other", 0), held(99, &began, &stopped));
        let mut first = Vec::new();
        for _ in 0..AT_ONCE {
            first.push(heard.recv().await.unwrap());
        }
        first.sort_unstable();
        assert_eq!(first, (0..16).collect::<Vec<i32>>());
        go.send(true).unwrap();
        while settlings.tasks.join_next().await.is_some() {}
        assert!(heard.try_recv().is_err(), "nobody waits in a line: the next look brings them");
        settlings.run(of("shop", 0), held(7, &began, &stopped));
        assert_eq!(heard.recv().await, Some(7), "there is room again");
    }

    #[tokio::test]
    async fn a_failed_finalization_frees_its_place() {
        let mut settlings = SettleTasks::default();
        settlings.run(of("shop", 0), async { panic!("as if") });
        while settlings.tasks.join_next().await.is_some() {}
        assert!(lock(&settlings.busy).is_empty());
        let busy = Arc::clone(&settlings.busy);
        settlings.run(of("shop", 0), std::future::pending());
        settlings.tasks.shutdown().await;
        assert!(lock(&busy).is_empty());
    }
}
