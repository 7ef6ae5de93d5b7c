//! The limit of one Fetch while records are suspected of ending their consumers (terms: `set.rs`).
//! Behind an offset means at a higher one. The first rule that fits decides:
//!
//! 1. An owner of an isolated record that comes first gets nothing else.
//! 2. Records before the first suspects of the partition are delivered.
//! 3. A withheld record is left out: the probe, the next record, is delivered by itself, and the
//!    rest after its timeout.
//! 4. Suspects are delivered in parts; an isolated record waits for the member's other records.

use crate::model::{MemberId, Moment, MonoMs, Origin, TopicPartition};
use crate::retry::suspects::ranges::length;
use crate::retry::suspects::{
    Decision, IsolatedStage, MemberOutstanding, QuietOwner, SuspectSet, Suspects, is_in,
};

/// The records of one partition that a Fetch may deliver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant {
    /// Everything from this offset on.
    From(i64),
    /// The records of a range.
    Range(std::ops::Range<i64>),
    /// Nothing for now.
    Nothing,
}

impl Suspects {
    /// Decides what a Fetch of `member` at `position` may deliver of one partition.
    /// `outstanding`: the member's records, past their committed offsets.
    pub fn grant(
        &mut self,
        now: Moment,
        member: &MemberId,
        partition: &TopicPartition,
        position: i64,
        outstanding: &MemberOutstanding,
    ) -> Grant {
        self.note_owner_idle(member, outstanding.is_empty());
        if self.is_kept_for_isolated(now.mono, member, partition, position) {
            return Grant::Nothing;
        }
        // The first suspects at or behind the position.
        let tested = self.sets.iter().enumerate().filter(|(_, set)| set.is_tested);
        let suspected = tested
            .filter_map(|(index, set)| Some((index, set.remaining.get(partition)?.clone())))
            .filter(|(_, range)| position < range.end)
            .min_by_key(|(_, range)| range.start);
        let Some((index, suspected)) = suspected else {
            return Grant::From(position);
        };
        let is_busy =
            |(other, set): (usize, &SuspectSet)| other != index && set.holders.contains(member);
        let is_busy_elsewhere = self.sets.iter().enumerate().any(is_busy);
        let patience_max = self.rules.patience_ms_max;
        let Some(set) = self.sets.get_mut(index) else { return Grant::From(position) };
        if position < suspected.start {
            return Grant::Range(position..suspected.start);
        }
        if set.isolation.is_ended() {
            return Grant::Nothing;
        }
        if let Some(probe) = set.isolation.probe() {
            let Some(next) = set.first_behind() else { return Grant::Nothing };
            if probe.has_passed {
                set.isolation.is_skipped = true;
                // Suspects of other sets may be behind the withheld record.
                return self.grant(now, member, partition, next, outstanding);
            }
            return set.grant_probe(now.mono, member, next);
        }
        if let Some(granted) = set.part.get(partition)
            && granted.contains(&position)
        {
            let end = granted.end;
            if set.holders.insert(member.clone()) {
                set.part_touched = now.mono;
            }
            return Grant::Range(position..end);
        }
        if is_busy_elsewhere {
            return Grant::Nothing;
        }
        let is_isolated = set.isolated().is_some();
        if is_isolated && !set.may_isolate(now.mono, partition, outstanding, patience_max) {
            return Grant::Nothing;
        }
        let grant = set.grant_part(now.mono, member, partition, position, suspected.end);
        if grant != Grant::Nothing {
            set.isolation.is_skipped = false;
        }
        if is_isolated && grant != Grant::Nothing {
            let (topic, partition) = (partition.topic.clone(), partition.partition);
            let origin = Origin { topic, partition, offset: position };
            self.decisions.push_back(Decision::Isolated(origin));
        }
        grant
    }

    fn note_owner_idle(&mut self, member: &MemberId, is_idle: bool) {
        for index in 0..self.sets.len() {
            let owner = self.isolated_owner(index);
            let is_owner = owner.is_none_or(|owner| owner == member);
            if let Some(set) = self.sets.get_mut(index)
                && let Some(deferral) = set.isolation.deferral_mut()
                && is_owner
            {
                deferral.is_owner_idle = is_idle;
            }
        }
    }

    /// The owner of a set's isolated record.
    pub(super) fn isolated_owner(&self, index: usize) -> Option<&MemberId> {
        let (partition, _) = self.sets.get(index)?.only_suspect()?;
        self.owners.get(partition)
    }

    /// Whether the member gets nothing here, because it owns an isolated record that comes first.
    fn is_kept_for_isolated(
        &mut self,
        now: MonoMs,
        member: &MemberId,
        partition: &TopicPartition,
        position: i64,
    ) -> bool {
        let is_behind_probe = |set: &SuspectSet| {
            let record = set.isolated().filter(|_| set.is_probe_out());
            record.is_some_and(|record| is_in(partition, &record) && position > record.offset)
        };
        if self.sets.iter().any(is_behind_probe) {
            return true;
        }
        let owned =
            (0..self.sets.len()).filter(|index| self.isolated_owner(*index) == Some(member));
        let in_line = owned.filter_map(|index| {
            let set = self.sets.get(index).filter(|set| set.is_first_in_line())?;
            Some((set.isolated()?, index))
        });
        // Only one of them comes first: two would wait for each other. In a partition the member
        // reaches the one at the lowest offset first.
        let Some((record, index)) = in_line.min() else { return false };
        if let Some(set) = self.sets.get_mut(index)
            && let IsolatedStage::First(quiet) = &mut set.isolation.stage
            && quiet.as_ref().is_none_or(|quiet| quiet.member != *member)
        {
            *quiet = Some(QuietOwner { member: member.clone(), since: now });
        }
        !is_in(partition, &record) || position > record.offset
    }
}

impl SuspectSet {
    /// Skips a withheld record and grants the next one by itself, the probe.
    fn grant_probe(&mut self, now: MonoMs, member: &MemberId, next: i64) -> Grant {
        self.isolation.is_skipped = true;
        if let Some(probe) = self.isolation.probe_mut()
            && probe.member.is_none()
        {
            probe.member = Some(member.clone());
            self.part_touched = now;
        }
        Grant::Range(next..next.saturating_add(1))
    }

    /// Whether the isolated record may be delivered now: by itself, or beside records of its own
    /// partition whose timeout is over.
    fn may_isolate(
        &mut self,
        now: MonoMs,
        partition: &TopicPartition,
        outstanding: &MemberOutstanding,
        patience_ms_max: u64,
    ) -> bool {
        if let Some(deferral) = self.isolation.deferral_mut() {
            deferral.since.get_or_insert(now);
            return false;
        }
        let has_others = outstanding.keys().any(|other| other != partition);
        let quiet_since = self.isolation.quiet().map_or(now, |quiet| quiet.since);
        if has_others && now < quiet_since.plus(self.patience_ms) {
            return false;
        }
        let prefix_ms = self.prefix_patience_ms(patience_ms_max);
        let prefix = outstanding.get(partition);
        if prefix.is_some_and(|prefix| now < prefix.delivered_at.plus(prefix_ms)) {
            return false;
        }
        self.isolation.is_alone = !has_others;
        true
    }

    /// Grants the rest of the part, or the next part if the last one is done.
    fn grant_part(
        &mut self,
        now: MonoMs,
        member: &MemberId,
        partition: &TopicPartition,
        position: i64,
        suspected_end: i64,
    ) -> Grant {
        self.part_size = self.records_of_part();
        if self.part.is_empty() && self.part_left == 0 {
            self.part_left = if self.tries_first { 1 } else { self.part_size };
            self.tries_first = false;
        }
        let count = self.part_left.min(length(&(position..suspected_end)));
        if count == 0 {
            return Grant::Nothing;
        }
        self.part_left -= count;
        let end = position.saturating_add(i64::try_from(count).unwrap_or(i64::MAX));
        // A consumer may also continue before the records that were granted.
        let part = match self.part.get(partition) {
            Some(granted) => granted.start.min(position)..granted.end.max(end),
            None => position..end,
        };
        self.part.insert(partition.clone(), part);
        self.holders.insert(member.clone());
        self.part_touched = now;
        Grant::Range(position..end)
    }
}
