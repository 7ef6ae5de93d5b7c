//! Passes through the due retries of a group, a slice at a time. A change during a pass starts
//! another one behind it, so each pass reaches every due retry.

use std::collections::BTreeMap;

use crate::engine::store::DueEntry;
use crate::journal::AppendError;
use crate::model::{EntryId, MonoMs, RetryPartition};

/// Bytes of a slice; only its first record may exceed them.
pub(in crate::engine) const SLICE_BYTES: u64 = 1 << 20;
/// Pause between tries while the disk is full.
pub(in crate::engine) const FULL_MS: u64 = 1_000;
/// Pause between tries while the disk cannot keep up.
pub(in crate::engine) const BUSY_MS: u64 = 10;
/// Pause after a record that cannot be read, or that its topic does not take.
pub(in crate::engine) const UNSERVED_MS: u64 = 30_000;
/// Retries whose partition is remembered, so that a later pass need not read their records.
const PLACES_MAX: usize = 1 << 16;
/// Retries that are set aside; with more, the pass waits.
const ASIDE_MAX: usize = 1_024;
/// Longest pause behind a pass, in ms. It grows with the retries that the pass left waiting.
const PAUSE_MAX_MS: u64 = 1_000;
/// Retries left waiting for which a pass is followed by 1 ms of pause.
const LEFT_BY_MS: u64 = 256;

/// Time of the next slice of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum NextSlice {
    /// After the next event.
    OnEvent,
    Now,
    /// After this many ms, or with the next event.
    After(u64),
    /// After this many ms, whatever happens.
    Pause(u64),
}

impl NextSlice {
    /// The pause after the journal has refused a slice.
    pub(in crate::engine) fn after_refusal(error: &AppendError) -> Self {
        let is_busy = matches!(error, AppendError::Overloaded { .. });
        Self::Pause(if is_busy { BUSY_MS } else { FULL_MS })
    }
}

/// A retry whose record cannot be read, or that its topic does not take.
#[derive(Debug)]
struct SetAside {
    /// The time of the next try.
    until: MonoMs,
    why: String,
}

#[derive(Debug, Default)]
pub(in crate::engine) struct Scan {
    /// The last retry that the running pass has looked at.
    after: Option<DueEntry>,
    /// Something has changed since the running pass began.
    is_stale: bool,
    /// Retries that the running pass has left waiting.
    left: u64,
    /// The partition of retries that were left waiting.
    places: BTreeMap<EntryId, RetryPartition>,
    aside: BTreeMap<EntryId, SetAside>,
    not_before: MonoMs,
    paused_until: MonoMs,
}

impl Scan {
    pub(in crate::engine) fn after(&self) -> Option<DueEntry> {
        self.after
    }

    pub(super) fn alarm(&self) -> MonoMs {
        self.not_before.max(self.paused_until)
    }

    /// Retries may have fallen due, or partitions may have got room.
    pub(super) fn wake(&mut self) {
        self.is_stale = self.after.is_some();
        self.not_before = MonoMs(0);
    }

    /// The partitions of the topics have changed.
    pub(super) fn forget_places(&mut self) {
        self.places.clear();
    }

    pub(super) fn place(&self, id: EntryId) -> Option<RetryPartition> {
        self.places.get(&id).copied()
    }

    /// Whether the retry waits for its next try.
    pub(in crate::engine) fn is_aside(&self, id: EntryId, now: MonoMs) -> bool {
        self.aside.get(&id).is_some_and(|one| now < one.until)
    }

    /// The retries that are set aside, with the reasons.
    pub(in crate::engine) fn aside(&self) -> impl Iterator<Item = (EntryId, &str)> {
        self.aside.iter().map(|(id, one)| (*id, one.why.as_str()))
    }

    /// Leaves a retry waiting, as its partition has no room.
    pub(super) fn leave(&mut self, id: EntryId, place: Option<RetryPartition>) {
        self.left += 1;
        if let Some(place) = place {
            if self.places.len() >= PLACES_MAX {
                self.places.clear();
            }
            self.places.insert(id, place);
        }
    }

    /// Sets a retry aside; false: the pass has to wait.
    pub(in crate::engine) fn set_aside(&mut self, id: EntryId, until: MonoMs, why: String) -> bool {
        self.aside.insert(id, SetAside { until, why });
        self.aside.len() < ASIDE_MAX
    }

    pub(in crate::engine) fn released(&mut self, id: EntryId) {
        self.places.remove(&id);
        self.aside.remove(&id);
    }

    /// The pass goes on behind this retry.
    pub(in crate::engine) fn looked_at(&mut self, last: Option<DueEntry>) {
        self.after = last;
    }

    pub(super) fn set_next(&mut self, now: MonoMs, next: NextSlice) {
        match next {
            NextSlice::OnEvent | NextSlice::Now => self.not_before = MonoMs(0),
            NextSlice::After(ms) => self.not_before = now.plus(ms),
            NextSlice::Pause(ms) => self.paused_until = now.plus(ms),
        }
    }

    /// Ends the pass.
    pub(in crate::engine) fn end(&mut self, now: MonoMs) -> NextSlice {
        self.after = None;
        let pause = (std::mem::take(&mut self.left) / LEFT_BY_MS).min(PAUSE_MAX_MS);
        self.paused_until = self.paused_until.max(now.plus(pause));
        if std::mem::take(&mut self.is_stale) {
            return NextSlice::Now;
        }
        // The pass has tried those whose time has come, or they wait no more.
        self.aside.retain(|_, one| now < one.until);
        let again = self.aside.values().map(|one| one.until).min();
        again.map_or(NextSlice::OnEvent, |at| NextSlice::After(at.since(now)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::WallMs;

    #[test]
    fn a_change_during_a_pass_starts_another_behind_it() {
        let (mut scan, at) = (Scan::default(), Some((WallMs(5), EntryId(7))));
        scan.wake();
        assert_eq!(scan.end(MonoMs(0)), NextSlice::OnEvent, "the pass had not begun");
        scan.looked_at(at);
        scan.wake();
        assert_eq!(scan.after(), at, "the pass goes on");
        assert_eq!(scan.end(MonoMs(0)), NextSlice::Now);
        assert_eq!((scan.after(), scan.end(MonoMs(0))), (None, NextSlice::OnEvent));
    }

    #[test]
    fn a_pass_that_leaves_many_retries_is_followed_by_a_pause() {
        let (mut scan, place) =
            (Scan::default(), RetryPartition { stream: 1, index: 3, by_topic: false });
        (0..LEFT_BY_MS * 20).for_each(|id| scan.leave(EntryId(id), Some(place)));
        assert_eq!((scan.place(EntryId(9)), scan.place(EntryId(1 << 40))), (Some(place), None));
        assert_eq!(scan.end(MonoMs(100)), NextSlice::OnEvent);
        scan.wake();
        assert_eq!(scan.alarm(), MonoMs(120));
        scan.forget_places();
        assert_eq!(scan.place(EntryId(9)), None);
    }

    #[test]
    fn a_retry_is_set_aside_and_tried_again() {
        let mut scan = Scan::default();
        let aside = |scan: &mut Scan, id| scan.set_aside(EntryId(id), MonoMs(30), "why".into());
        assert!(aside(&mut scan, 1));
        assert!(scan.is_aside(EntryId(1), MonoMs(29)));
        assert!(!scan.is_aside(EntryId(1), MonoMs(30)));
        assert_eq!(scan.aside().collect::<Vec<_>>(), [(EntryId(1), "why")]);
        assert_eq!(scan.end(MonoMs(10)), NextSlice::After(20));
        assert_eq!(scan.end(MonoMs(30)), NextSlice::OnEvent, "nobody waits for it");
        assert!(aside(&mut scan, 1));
        scan.released(EntryId(1));
        assert_eq!(scan.end(MonoMs(10)), NextSlice::OnEvent);
        let more = (2..5_000).find(|id| !aside(&mut scan, *id));
        assert_eq!(more, Some(u64::try_from(ASIDE_MAX).unwrap() + 1));
    }
}
