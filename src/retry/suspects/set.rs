//! One suspect set: its records, the part under test, and its last record once isolated.
//!
//! | term | meaning |
//! |---|---|
//! | loss | a delivery ended uncommitted: its member ended, lost the partition or sought back |
//! | counted set | fewer than `retry.crash_limit` losses: every Fetch delivers as usual |
//! | tested set | from then on, its suspects are delivered part by part |
//! | grant | the offsets of a tested set that one Fetch may deliver |
//! | round | one walk over the suspects |
//! | timeout, patience | the wait for a commit or loss after the last grant or commit of a part |
//! | passed over | still uncommitted at the timeout of its part |
//! | owner | the member to which a record's partition is assigned |
//! | isolated | the only suspect left; [`IsolatedStage`] says what its owner gets |
//! | withheld | left out after `retry.give_up_after`, so that records behind it are delivered |
//! | probe | the delivery of the record behind a withheld one: do others fail as well? |
//!
//! A record that was withheld binds commits. A commit past it makes it a dead letter first; if that
//! fails, the stored offset is lowered to the record.

use std::collections::BTreeSet;

use crate::model::{MemberId, MonoMs, Origin, TopicPartition, WallMs};
use crate::retry::suspects::{OffsetRanges, PARTS};

/// Doublings of the patience of an isolated record; callers bound the product as well.
const DOUBLINGS_MAX: u32 = 8;

/// The kind of a loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum LossCause {
    /// A member ended.
    #[default]
    MemberEnded,
    /// A live member lost these partitions, as its commit was refused.
    PartitionsLost,
    /// A live member fetched the records again.
    SeekBack,
}

/// The records that were outstanding at every lost delivery since the set was begun.
#[derive(Clone, Debug, Default)]
pub(super) struct SuspectSet {
    /// Suspects that this round has not passed over yet, the part under test included.
    pub remaining: OffsetRanges,
    /// Suspects of this round whose timeout is over: uncommitted, but no member was lost.
    pub passed_over: OffsetRanges,
    /// Granted, and neither committed nor passed over.
    pub part: OffsetRanges,
    /// Members that were granted records of the part.
    pub holders: BTreeSet<MemberId>,
    /// Records of a part; 0 until the round's first grant.
    pub part_size: u64,
    /// Records of the part that are not granted yet.
    pub part_left: u64,
    /// The last grant of the part, or the last commit in it.
    pub part_touched: MonoMs,
    /// Time of the first loss, or of the start for a restored set.
    pub begun: MonoMs,
    /// Lost deliveries since the set was begun.
    pub losses: u32,
    pub last_loss: MonoMs,
    /// The next part is the one record that the member went back to, because its handler failed
    /// there.
    pub tries_first: bool,
    /// Parts are granted; before `crash_limit` losses a set is only counted.
    pub is_tested: bool,
    /// The wait for a commit in the part.
    pub patience_ms: u64,
    /// The last suspect was passed over without a grant, since its owner did not fetch it.
    pub is_passed_ungranted: bool,
    pub isolation: Isolation,
}

/// The state of a set that is one record.
#[derive(Clone, Debug, Default)]
pub(super) struct Isolation {
    pub stage: IsolatedStage,
    /// Failed deliveries that count: the first one, and each later one after `works_otherwise`.
    pub failures: u32,
    /// The times of the latest ones, latest last.
    pub failed_at: Vec<WallMs>,
    /// The cause of the latest one.
    pub cause: LossCause,
    /// Losses of the record while it was delivered by itself, counted or not.
    pub losses_alone: u32,
    /// The owner has committed another record of the topic since the last failure that counts.
    pub works_otherwise: bool,
    /// The record's last delivery had no other partition outstanding beside it.
    pub is_alone: bool,
    /// Records behind it were delivered, and the record itself was not delivered since.
    pub is_skipped: bool,
    /// From this time on, a loss makes the record withheld (`retry.give_up_after`).
    pub give_up_at: WallMs,
    /// The wait until then, doubled with each probe that was lost.
    pub give_up_wait_ms: u64,
}

/// The deliveries to the owner of an isolated record. A commit of the record ends the set in the
/// first two stages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum IsolatedStage {
    /// The owner gets the record, and nothing else until its timeout is over. A loss of the record
    /// alone defers it, withholds it after `retry.give_up_after`, or ends it at the last failure of
    /// the policy.
    First(Option<QuietOwner>),
    /// The owner gets everything but the record. A commit of another record, the owner's loss or
    /// the end of the wait ([`DEFERRAL_MS_MAX`]) make it the first again.
    Deferred(Deferral),
    /// The owner gets the probe alone, and the rest once that one has passed. A commit past the
    /// record makes it a dead letter; a loss of the probe makes it the first again.
    Withheld(ProbeDelivery),
    /// The last failure: no Fetch delivers the record. Its retry or dead letter ends the set.
    Ended,
}

impl Default for IsolatedStage {
    fn default() -> Self {
        Self::First(None)
    }
}

/// The owner of an isolated record, while it gets nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QuietOwner {
    pub member: MemberId,
    /// Time of its first Fetch that got no records because of the set.
    pub since: MonoMs,
}

/// The time during which the owner gets everything but an isolated record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Deferral {
    /// Time of the owner's first Fetch that got no records because of the set.
    pub since: Option<MonoMs>,
    /// The owner had nothing outstanding at its last Fetch.
    pub is_owner_idle: bool,
}

/// The delivery of the record behind a withheld one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ProbeDelivery {
    pub member: Option<MemberId>,
    /// The timeout is over without a loss, so everything behind the withheld record is delivered.
    pub has_passed: bool,
    /// The first offset that can be delivered: offsets below are compacted or aborted.
    pub next: i64,
}

impl Isolation {
    pub(super) fn is_ended(&self) -> bool {
        self.stage == IsolatedStage::Ended
    }

    pub(super) fn probe(&self) -> Option<&ProbeDelivery> {
        match &self.stage {
            IsolatedStage::Withheld(probe) => Some(probe),
            _ => None,
        }
    }

    pub(super) fn probe_mut(&mut self) -> Option<&mut ProbeDelivery> {
        match &mut self.stage {
            IsolatedStage::Withheld(probe) => Some(probe),
            _ => None,
        }
    }

    pub(super) fn quiet(&self) -> Option<&QuietOwner> {
        match &self.stage {
            IsolatedStage::First(quiet) => quiet.as_ref(),
            _ => None,
        }
    }

    pub(super) fn deferral_mut(&mut self) -> Option<&mut Deferral> {
        match &mut self.stage {
            IsolatedStage::Deferred(deferral) => Some(deferral),
            _ => None,
        }
    }

    /// The wait of the quiet owner begins again.
    pub(super) fn extend_quiet(&mut self, now: MonoMs) {
        if let IsolatedStage::First(Some(quiet)) = &mut self.stage {
            quiet.since = now;
        }
    }

    pub(super) fn end_quiet(&mut self) {
        if let IsolatedStage::First(quiet) = &mut self.stage {
            *quiet = None;
        }
    }

    /// Makes a deferred record the first again; true if it was deferred.
    pub(super) fn end_deferral(&mut self) -> bool {
        let is_deferred = matches!(self.stage, IsolatedStage::Deferred(_));
        if is_deferred {
            self.stage = IsolatedStage::First(None);
        }
        is_deferred
    }
}

impl SuspectSet {
    /// A set that counts its first loss.
    pub(super) fn counted(suspects: OffsetRanges, now: MonoMs, patience_ms: u64) -> Self {
        let (remaining, begun, last_loss) = (suspects, now, now);
        Self { remaining, begun, losses: 1, last_loss, patience_ms, ..Self::default() }
    }

    /// All suspects, those passed over in this round included.
    pub(super) fn suspects(&self) -> OffsetRanges {
        let mut suspects = self.remaining.clone();
        suspects.cover(&self.passed_over);
        suspects
    }

    /// Records of a part of this round.
    pub(super) fn records_of_part(&self) -> u64 {
        match self.part_size {
            0 => self.remaining.len().div_ceil(PARTS).max(1),
            size => size,
        }
    }

    /// The record that is left of a set under test.
    pub(super) fn isolated(&self) -> Option<Origin> {
        let (of, offset) = self.only_suspect()?;
        Some(Origin { topic: of.topic.clone(), partition: of.partition, offset })
    }

    /// The place of the isolated record. The last record of a round is not isolated while others
    /// are passed over: they are suspects as well.
    pub(super) fn only_suspect(&self) -> Option<(&TopicPartition, i64)> {
        self.remaining.only().filter(|_| self.is_tested && self.passed_over.is_empty())
    }

    /// Whether no commit passes the isolated record before it is a dead letter. A member that got
    /// records behind it may commit them after the record is the first again, so a skipped record
    /// binds commits until it is delivered again.
    pub(super) fn binds_commits(&self) -> bool {
        self.isolation.probe().is_some() || self.isolation.is_skipped
    }

    /// Whether the set stays when another record ends, passes its timeout or is committed. An
    /// outage counts one failure only, so two are the record's own. A record that was left out
    /// stays as well, until a commit passes it.
    pub(super) fn is_proven(&self) -> bool {
        self.isolation.failures > 1 || self.isolation.is_ended() || self.binds_commits()
    }

    /// Whether the isolated record, or the next part, is delivered before anything else.
    pub(super) fn is_first_in_line(&self) -> bool {
        matches!(self.isolation.stage, IsolatedStage::First(_))
    }

    /// Ends the part: the next grant begins another one.
    pub(super) fn end_part(&mut self) {
        self.part = OffsetRanges::default();
        self.holders.clear();
        self.part_left = 0;
    }

    /// Ends a part without a record.
    pub(super) fn end_empty_part(&mut self) {
        if self.part.is_empty() {
            self.end_part();
            self.isolation.end_quiet();
        }
    }

    /// Removes suspects wherever they are listed; true if there was one.
    pub(super) fn remove(&mut self, remove: impl Fn(&mut OffsetRanges) -> bool) -> bool {
        let had_part = !self.part.is_empty();
        let mut has_changed = false;
        for ranges in [&mut self.remaining, &mut self.passed_over, &mut self.part] {
            has_changed |= remove(ranges);
        }
        if had_part {
            self.end_empty_part();
        }
        has_changed
    }

    /// The first record that may be delivered behind the isolated one.
    pub(super) fn first_behind(&self) -> Option<i64> {
        let (_, offset) = self.only_suspect()?;
        let next = self.isolation.probe().map_or(0, |probe| probe.next);
        Some(offset.saturating_add(1).max(next))
    }

    /// Takes granted records in these partitions from their owner, and the record behind a withheld
    /// one.
    pub(super) fn take_back(
        &mut self,
        member: &MemberId,
        is_taken: impl Fn(&TopicPartition) -> bool,
    ) {
        let had_part = !self.part.is_empty();
        self.part.retain(|of| !is_taken(of));
        if had_part {
            self.end_empty_part();
        }
        if !self.only_suspect().is_some_and(|(of, _)| is_taken(of)) {
            return;
        }
        match &mut self.isolation.stage {
            IsolatedStage::First(quiet) => {
                quiet.take_if(|quiet| quiet.member == *member);
            }
            IsolatedStage::Withheld(probe) if probe.member.as_ref() == Some(member) => {
                *probe = ProbeDelivery::default();
            }
            IsolatedStage::Withheld(_) | IsolatedStage::Deferred(_) | IsolatedStage::Ended => {}
        }
    }

    /// Ends the round: the next grant begins with the first of the remaining suspects. The caller
    /// has put back those that were passed over, without those that were not outstanding at the
    /// loss.
    pub(super) fn end_round(&mut self) {
        self.end_part();
        self.part_size = 0;
        self.passed_over = OffsetRanges::default();
        self.is_passed_ungranted = false;
        self.isolation.end_quiet();
        if let Some(probe) = self.isolation.probe_mut() {
            *probe = ProbeDelivery::default();
        }
    }

    /// The end of the timeout of the part, or of the probe.
    pub(super) fn part_timeout_at(&self) -> MonoMs {
        self.part_touched.plus(self.patience_ms)
    }

    /// The wait for a quiet owner, or for a commit of the records before the isolated one in its
    /// partition. Each loss of that one alone doubles it, as a slow record before it may be the
    /// cause.
    pub(super) fn prefix_patience_ms(&self, bound_ms: u64) -> u64 {
        let doublings = self.isolation.losses_alone.min(DOUBLINGS_MAX);
        (self.patience_ms << doublings).min(bound_ms)
    }

    /// Doubles the patience up to its bound.
    pub(super) fn double_patience(&mut self, bound_ms: u64) {
        self.patience_ms = self.patience_ms.saturating_mul(2).min(bound_ms);
    }
}
