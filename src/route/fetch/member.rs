//! The member of a Fetch, as the detector of its group sees it.

use std::fmt::Display;
use std::ops::Range;

use crate::clock::Clock;
use crate::model::{MonoMs, TopicName, TopicPartition};
use crate::retry::detector::{DeliveredRange, ExhaustedRecord, FetchDecision, FetchPosition, Plan};
use crate::route::Router;
use crate::route::clients::conn::Conn;
use crate::route::delivery::{ReadOutcome, TrackedFetch};

/// Bound of settling rounds in one Fetch: each plan may make the next record final.
const SETTLING_ROUNDS: usize = 16;
/// Delay before a failed settling is tried again.
const AGAIN_MS: u64 = 1_000;

/// The detector's side of a Fetch; tests replace it.
pub(super) trait FetchGuard {
    fn asked(&self, asked: &[FetchPosition]) -> Plan;
    /// The client is about to receive these records.
    fn handed(&self, handed: &[DeliveredRange]);
    /// The offset that the partition waits for.
    fn awaited(&self, _: &TopicPartition) -> Option<i64> {
        None
    }
    /// The partitions' logs start at those offsets: nothing below is waited for.
    fn begin(&self, _: impl IntoIterator<Item = (TopicPartition, i64)>) {}
    /// The broker had no record for a plan with turns.
    fn nothing_came(&self, asked: &[FetchPosition]);
    /// The range holds no record to deliver, and records behind it are withheld.
    fn passed_over(&self, _: &TopicPartition, _nothing: Range<i64>) {}
    /// Settles a final record durably; whether the plan may have changed.
    async fn settle(&self, settling: &ExhaustedRecord, found: ReadOutcome) -> bool;
    fn unreadable(&self, partition: &TopicPartition, error: &impl Display);
    /// Returns when a new plan may differ.
    async fn replan(&self, until: Option<MonoMs>);
}

/// The reader of records that are to be settled.
pub(super) trait FinalReader {
    type Error;

    /// Reads a record; `None`: it cannot be read now.
    async fn read(
        &mut self,
        settling: &ExhaustedRecord,
    ) -> Result<Option<ReadOutcome>, Self::Error>;
}

/// The plan for the requested partitions, in which every record that can be settled now is settled.
/// A partition whose record is not settled delivers nothing for a while.
pub(super) async fn settled_plan<G: FetchGuard, R: FinalReader>(
    guard: &G,
    clock: Clock,
    asked: &[FetchPosition],
    mut reader: R,
) -> Result<Plan, R::Error> {
    let mut plan = guard.asked(asked);
    for _ in 0..SETTLING_ROUNDS {
        let mut is_settled = false;
        for settling in plan.settlings() {
            if let Some(found) = reader.read(&settling).await? {
                is_settled |= guard.settle(&settling, found).await;
            }
        }
        if !is_settled {
            break;
        }
        plan = guard.asked(asked);
    }
    for serve in &mut plan.serve {
        if matches!(serve, FetchDecision::Settle(_)) {
            *serve = FetchDecision::Nothing;
            let again = clock.now().mono.plus(AGAIN_MS);
            plan.until = Some(plan.until.map_or(again, |until| until.min(again)));
        }
    }
    Ok(plan)
}

/// The member of a Fetch. An unattributed Fetch has none: nothing is withheld from it.
pub(super) struct FetchMember<'a> {
    router: &'a Router,
    conn: &'a Conn,
    by: Option<TrackedFetch>,
}

impl<'a> FetchMember<'a> {
    pub(super) fn of(
        router: &'a Router,
        conn: &'a Conn,
        topics: &[TopicName],
        max_wait_ms: u64,
    ) -> Self {
        Self { router, conn, by: router.watched(conn, topics, max_wait_ms) }
    }

    /// Whether the detector of a group tracks this Fetch.
    pub(super) fn is_tracked(&self) -> bool {
        self.by.is_some()
    }
}

impl FetchGuard for FetchMember<'_> {
    fn asked(&self, asked: &[FetchPosition]) -> Plan {
        match &self.by {
            Some(by) => self.router.asked(by, asked),
            None => Plan { serve: Vec::new(), until: None },
        }
    }

    /// Nothing is recorded once the client has closed its connection.
    fn handed(&self, handed: &[DeliveredRange]) {
        if let Some(by) = self.by.as_ref().filter(|_| !self.conn.is_gone()) {
            self.router.handed(by, handed);
        }
    }

    fn awaited(&self, of: &TopicPartition) -> Option<i64> {
        self.router.awaited(self.by.as_ref()?.group(), &of.topic, of.partition)
    }

    fn begin(&self, starts: impl IntoIterator<Item = (TopicPartition, i64)>) {
        if let Some(by) = &self.by {
            self.router.begin(by, starts);
        }
    }

    fn nothing_came(&self, asked: &[FetchPosition]) {
        if let Some(by) = &self.by {
            self.router.nothing_came(by, asked);
        }
    }

    fn passed_over(&self, partition: &TopicPartition, nothing: Range<i64>) {
        if let Some(by) = &self.by {
            self.router.passed_over(by, partition, nothing);
        }
    }

    async fn settle(&self, settling: &ExhaustedRecord, found: ReadOutcome) -> bool {
        match &self.by {
            Some(by) => self.router.settle(by, settling, found).await,
            None => false,
        }
    }

    fn unreadable(&self, partition: &TopicPartition, error: &impl Display) {
        if let Some(by) = &self.by {
            self.router.unreadable(by, partition, error);
        }
    }

    async fn replan(&self, until: Option<MonoMs>) {
        match &self.by {
            Some(by) => self.router.replan(by, until).await,
            None => std::future::pending().await,
        }
    }
}
