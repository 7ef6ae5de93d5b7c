//! Timeouts of suspect sets (terms: `set.rs`). A part without a commit or loss is passed over at
//! its timeout. An owner that fetches nothing gets everything after a longer wait.

use crate::model::{Moment, MonoMs};
use crate::retry::suspects::{
    DEFERRAL_MS_MAX, Decision, FORGET_MS, IsolatedStage, MemberId, OffsetRanges, ProbeDelivery,
    QUIET_MS_MAX, QuietOwner, SuspectSet, Suspects,
};

/// Timeouts to wait for an owner that does not fetch its isolated record, such as one that has
/// paused the partition, before it gets everything.
const QUIET_PATIENCES: u64 = 3;

impl Suspects {
    /// Handles due timeouts. Early and repeated calls change nothing.
    pub fn handle_timeout(&mut self, now: Moment) {
        let now = now.mono;
        let mut passed = None;
        for index in 0..self.sets.len() {
            let is_waiting = self.is_timeout_running(index);
            let is_quiet_over = self.quiet_ends_at(index).is_some_and(|at| now >= at);
            let interval_ms = self.rules.order_interval_ms;
            let Some(set) = self.sets.get_mut(index) else { continue };
            let mut has_changed = set.end_deferral(now, interval_ms);
            if is_waiting && now >= set.part_timeout_at() {
                has_changed |= set.pass_probe();
                if !set.part.is_empty() {
                    if set.isolated().is_some() {
                        passed = Some(index);
                    }
                    set.pass_over_part();
                    has_changed = true;
                }
            }
            if is_quiet_over && set.part.is_empty() {
                set.deliver_all();
                has_changed = true;
            }
            if has_changed {
                self.decisions.push_back(Decision::Changed);
            }
        }
        if let Some(index) = passed {
            self.keep_only(index);
        }
        self.exempt_granted_whole();
        let is_kept =
            |set: &SuspectSet| set.isolation.failures > 0 || now < set.last_loss.plus(FORGET_MS);
        self.sets.retain(is_kept);
    }

    /// Exempts topics without a commit once all records of a set are passed over: each was granted,
    /// and no member was lost. A group that never commits a topic reads it from the beginning at
    /// each start, and its losses say nothing.
    fn exempt_granted_whole(&mut self) {
        let is_open = |set: &&SuspectSet| {
            set.is_tested && set.remaining.is_empty() && !set.is_passed_ungranted
        };
        let open: Vec<OffsetRanges> =
            self.sets.iter().filter(is_open).map(|set| set.passed_over.clone()).collect();
        for granted in &open {
            self.exempt_uncommitted(granted);
        }
    }

    /// Drops the other sets that are not proven: the isolated record passed its timeout, so no set
    /// explains the losses.
    fn keep_only(&mut self, index: usize) {
        let set = self.sets.swap_remove(index);
        self.sets.retain(SuspectSet::is_proven);
        self.sets.push(set);
    }

    pub(super) fn next_timeout(&self) -> Option<MonoMs> {
        let of = |index: usize| {
            let set = self.sets.get(index)?;
            let is_part_out = !set.part.is_empty() || set.is_probe_out();
            let part = Some(set.part_timeout_at())
                .filter(|_| is_part_out && self.is_timeout_running(index));
            let deferral = set.deferral_ends_at(self.rules.order_interval_ms);
            let quiet = self.quiet_ends_at(index);
            let forgotten =
                Some(set.last_loss.plus(FORGET_MS)).filter(|_| set.isolation.failures == 0);
            [part, deferral, quiet, forgotten].into_iter().flatten().min()
        };
        (0..self.sets.len()).filter_map(of).min()
    }

    /// Whether the timeout of the part or probe runs. It stops once the connection of a member that
    /// was granted some of it is closed: that member's end is near, and decides.
    pub(super) fn is_timeout_running(&self, index: usize) -> bool {
        let is_closed = |member: &MemberId| self.disconnected.contains(member);
        self.sets.get(index).is_some_and(|set| {
            let probe = set.isolation.probe().and_then(|probe| probe.member.as_ref());
            !set.holders.iter().any(is_closed) && !probe.is_some_and(is_closed)
        })
    }

    fn quiet_ends_at(&self, index: usize) -> Option<MonoMs> {
        let set = self.sets.get(index)?;
        let QuietOwner { member, since } = set.isolation.quiet()?;
        if !set.part.is_empty() || self.disconnected.contains(member) {
            return None;
        }
        let patience_ms = set.prefix_patience_ms(QUIET_MS_MAX);
        Some(since.plus(patience_ms.saturating_mul(QUIET_PATIENCES)))
    }
}

impl SuspectSet {
    pub(super) fn is_probe_out(&self) -> bool {
        let probe = self.isolation.probe();
        probe.is_some_and(|probe| probe.member.is_some() && !probe.has_passed)
    }

    /// Delivers the rest behind the withheld record, as the timeout of the probe is over; true if a
    /// probe was waiting.
    fn pass_probe(&mut self) -> bool {
        if !self.is_probe_out() {
            return false;
        }
        if let Some(probe) = self.isolation.probe_mut() {
            probe.has_passed = true;
        }
        true
    }

    fn pass_over_part(&mut self) {
        let part = std::mem::take(&mut self.part);
        for (partition, range) in part.iter() {
            self.remaining.remove_below(partition, range.end);
        }
        self.passed_over.cover(&part);
        self.end_part();
        self.isolation.end_quiet();
    }

    /// Delivers everything until the next loss, because the owner does not fetch the record. A
    /// record that binds commits is withheld instead, and the rest is delivered.
    fn deliver_all(&mut self) {
        let IsolatedStage::First(quiet) = &mut self.isolation.stage else { return };
        let member = quiet.take().map(|quiet| quiet.member);
        if self.binds_commits() {
            let probe = ProbeDelivery { member, has_passed: true, ..ProbeDelivery::default() };
            self.isolation.stage = IsolatedStage::Withheld(probe);
            return;
        }
        let remaining = std::mem::take(&mut self.remaining);
        self.passed_over.cover(&remaining);
        self.is_passed_ungranted = true;
    }

    pub(super) fn deferral_ends_at(&self, interval_ms: u64) -> Option<MonoMs> {
        let IsolatedStage::Deferred(deferral) = self.isolation.stage else { return None };
        let wait_ms = if deferral.is_owner_idle { interval_ms } else { DEFERRAL_MS_MAX };
        deferral.since.map(|since| since.plus(wait_ms))
    }

    fn end_deferral(&mut self, now: MonoMs, interval_ms: u64) -> bool {
        let is_over = self.deferral_ends_at(interval_ms).is_some_and(|at| now >= at);
        is_over && self.isolation.end_deferral()
    }
}
