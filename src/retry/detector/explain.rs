//! The detector's knowledge and suspicions, for people.

use crate::model::{MemberId, Now, TopicPartition, WallMs};
use crate::retry::detector::{ApartView, Detector, Phase, Window};
use crate::retry::suspects::{EndedRecord, SetView};
use crate::retry::{Disposition, OnSeekBack};

/// The consumers of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DetectorView {
    /// Records that may end their consumer.
    pub suspects: Vec<SetView>,
    /// Retries that go alone.
    pub aparts: Vec<ApartView>,
    /// Partitions that were fetched or committed lately.
    pub partitions: Vec<WindowView>,
}

/// One partition of the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowView {
    /// Which.
    pub partition: TopicPartition,
    /// Who holds it; `None`: nobody who is still there.
    pub member: Option<MemberId>,
    /// As last seen; `None`: no commit was seen.
    pub committed: Option<i64>,
    /// Where its member goes on.
    pub end: i64,
    /// Going back is observed only (`on_seek_back: observe`).
    pub is_only_observed: bool,
    /// Records its member went back to, and how often.
    pub seek_backs: Vec<(i64, u32)>,
    /// The only record that is left of those that may end their consumer.
    pub isolated: Option<SuspectView>,
    /// Who is suspected or charged.
    pub suspects: Vec<SuspectView>,
    /// Settled, and cut from what is given out.
    pub skipped: Vec<i64>,
}

/// One suspect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuspectView {
    /// Which record.
    pub offset: i64,
    /// Failures charged.
    pub reconsume_times: u32,
    /// Failures after which the next one is the last.
    pub limit: u32,
    /// Where it stands.
    pub stand: Stand,
    /// Charged failures, latest last.
    pub history: Vec<(WallMs, Disposition)>,
}

/// Where a suspect stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stand {
    /// Its partition is held for so many milliseconds more.
    Held(u64),
    /// It is served alone next.
    Next,
    /// It is out, alone, for so many milliseconds.
    Alone(u64),
    /// It was out alone, and nothing came of it.
    Resting,
    /// It is settled with the next Fetch.
    Ending,
}

impl Detector {
    /// The consumers of the group, for people.
    pub fn view(&self, now: Now) -> DetectorView {
        DetectorView {
            suspects: self.suspects.explain(now.mono),
            aparts: self.explain_aparts(now),
            partitions: self.explain(now),
        }
    }

    /// Every partition that was fetched or committed lately, in order.
    pub fn explain(&self, now: Now) -> Vec<WindowView> {
        self.windows.iter().map(|window| self.window(now, window)).collect()
    }

    fn window(&self, now: Now, (partition, window): (&TopicPartition, &Window)) -> WindowView {
        let isolated = self.suspects.isolated_in(partition);
        WindowView {
            partition: partition.clone(),
            member: window.holder.as_ref().map(|holder| holder.member.clone()),
            committed: window.committed,
            end: window.end,
            is_only_observed: self.rules.on_seek_back == OnSeekBack::Observe,
            seek_backs: window.seek_backs.iter().collect(),
            isolated: isolated.map(|record| self.isolated(record)),
            suspects: self.suspects(now, window),
            skipped: window.skipped.iter().copied().collect(),
        }
    }

    /// The record that is left of the suspects.
    fn isolated(&self, record: EndedRecord) -> SuspectView {
        let limit = self.rules.suspects.in_place_limit;
        let is_over = record.failures >= limit;
        let (disposition, _) = record.cause();
        let at = |at| (at, disposition);
        SuspectView {
            offset: record.offset,
            reconsume_times: record.failures,
            limit: limit.saturating_sub(1),
            stand: if is_over { Stand::Ending } else { Stand::Next },
            history: record.failed_at.into_iter().map(at).collect(),
        }
    }

    fn suspects(&self, now: Now, window: &Window) -> Vec<SuspectView> {
        let suspects = window.suspects.iter().map(|(offset, suspect)| SuspectView {
            offset: *offset,
            reconsume_times: suspect.reconsume_times,
            limit: self.rules.max_reconsume_times,
            stand: match suspect.phase {
                Phase::Held { until } => Stand::Held(until.since(now.mono)),
                Phase::Ready => Stand::Next,
                Phase::Alone(since) => Stand::Alone(now.mono.since(since)),
                Phase::Resting => Stand::Resting,
            },
            history: suspect.history.clone(),
        });
        suspects.collect()
    }
}
