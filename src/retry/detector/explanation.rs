//! The detector's state for the admin API and `group explain`.

use std::collections::BTreeSet;

use crate::model::{MemberId, Moment, TopicPartition, WallMs};
use crate::retry::detector::{Detector, WaitPhase, Window};
use crate::retry::suspects::{EndedRecord, SetView};
use crate::retry::{Disposition, SignalRule};

/// The consumers of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DetectorView {
    /// Suspect sets: records that may crash their consumer.
    pub suspects: Vec<SetView>,
    /// Partitions that were fetched or committed lately.
    pub partitions: Vec<WindowView>,
}

/// One partition of the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowView {
    pub partition: TopicPartition,
    /// `None`: its last member is gone.
    pub member: Option<MemberId>,
    /// `None`: the sidecar has seen no commit.
    pub committed: Option<i64>,
    /// The next offset that the member fetches.
    pub end: i64,
    /// A seek back is counted and changes nothing (`on_seek_back: observe`).
    pub is_only_observed: bool,
    /// Offset of each record that the member sought back to, and the number of returns.
    pub seek_backs: Vec<(i64, u32)>,
    /// The only record left in its suspect set.
    pub isolated: Option<SuspectState>,
    /// Records with counted failures, and records that the partition waits for.
    pub suspects: Vec<SuspectState>,
    /// Settled records, which deliveries leave out.
    pub skipped: Vec<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuspectState {
    pub offset: i64,
    /// Failures counted so far.
    pub reconsume_times: u32,
    /// Failures after which the next one is the last.
    pub limit: u32,
    pub stand: SuspectStage,
    /// Counted failures, latest last.
    pub history: Vec<(WallMs, Disposition)>,
}

/// The stage of a suspect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuspectStage {
    /// The partition waits for this many more milliseconds.
    Held(u64),
    /// The record is delivered next, by itself.
    Next,
    /// The record is delivered by itself for this many milliseconds so far.
    Alone(u64),
    /// The record was delivered by itself, and no commit or loss followed within the timeout.
    Resting,
    /// The next Fetch settles the record.
    Ending,
}

impl Detector {
    pub fn view(&self, now: Moment) -> DetectorView {
        DetectorView { suspects: self.suspects.explain(now.mono), partitions: self.explain(now) }
    }

    /// Members without a connection that have not left.
    pub fn disconnected(&self) -> &BTreeSet<MemberId> {
        self.suspects.disconnected()
    }

    /// Partitions that were fetched or committed lately, in order.
    pub fn explain(&self, now: Moment) -> Vec<WindowView> {
        self.windows.iter().map(|window| self.window(now, window)).collect()
    }

    fn window(&self, now: Moment, (partition, window): (&TopicPartition, &Window)) -> WindowView {
        let isolated = self.suspects.isolated_in(partition);
        WindowView {
            partition: partition.clone(),
            member: window.holder.as_ref().map(|holder| holder.member.clone()),
            committed: window.committed,
            end: window.end,
            is_only_observed: self.rules.on_seek_back == SignalRule::Observe,
            seek_backs: window.seek_backs.iter().collect(),
            isolated: isolated.map(|record| self.isolated(record)),
            suspects: self.suspects(now, window),
            skipped: window.skipped.iter().copied().collect(),
        }
    }

    /// The record that is left of a suspect set.
    fn isolated(&self, record: EndedRecord) -> SuspectState {
        let limit = self.rules.suspects.in_place_limit;
        let is_over = record.failures >= limit;
        let (disposition, _) = record.cause();
        let at = |at| (at, disposition);
        SuspectState {
            offset: record.offset,
            reconsume_times: record.failures,
            limit: limit.saturating_sub(1),
            stand: if is_over { SuspectStage::Ending } else { SuspectStage::Next },
            history: record.failed_at.into_iter().map(at).collect(),
        }
    }

    fn suspects(&self, now: Moment, window: &Window) -> Vec<SuspectState> {
        let suspects = window.suspects.iter().map(|(offset, suspect)| SuspectState {
            offset: *offset,
            reconsume_times: suspect.reconsume_times,
            limit: self.rules.max_reconsume_times,
            stand: match suspect.phase {
                WaitPhase::Held { until } => SuspectStage::Held(until.since(now.mono)),
                WaitPhase::Ready => SuspectStage::Next,
                WaitPhase::Alone(since) => SuspectStage::Alone(now.mono.since(since)),
                WaitPhase::Resting => SuspectStage::Resting,
            },
            history: suspect.history.clone(),
        });
        suspects.collect()
    }
}
