//! Losses: a member ends, loses partitions or seeks back with records outstanding, which means
//! delivered and not committed (terms: `set.rs`).
//!
//! 1. A tested set that granted the member some of them keeps these (`lose_part`). The loss of an
//!    isolated record by itself is its failure.
//! 2. Otherwise, a tested set whose part was due next suspects the wrong records: one set of this
//!    loss replaces it, with a longer timeout.
//! 3. Otherwise, counted sets keep what they have in common with the loss, and records of no set
//!    begin one.

use crate::model::{MemberId, Moment, MonoMs, Origin, TopicName, TopicPartition};
use crate::retry::suspects::{
    Decision, Deferral, IsolatedStage, LIFETIME_MS_MAX, LossCause, LostDelivery, LostMember,
    OffsetRanges, ProbeDelivery, SuspectRules, SuspectSet, Suspects,
};

/// Times of failed deliveries that are kept of one record.
const FAILED_AT_MAX: usize = 64;

impl Suspects {
    pub(super) fn on_lost(&mut self, now: Moment, lost: LostDelivery) {
        let LostDelivery { member, mut outstanding, lived_ms, end, retries } = lost;
        self.retries = retries;
        if end == LostMember::Left || lived_ms > LIFETIME_MS_MAX {
            self.exempt_uncommitted(&outstanding);
        }
        let all = outstanding.clone();
        outstanding.retain(|partition| !self.exempt.contains(&partition.topic));
        let lives = end == LostMember::Lives;
        if !outstanding.is_empty() {
            let cause = if lives { LossCause::PartitionsLost } else { LossCause::MemberEnded };
            self.lose(now, &member, outstanding, cause);
        }
        if lives {
            self.take_back(&member, |of| all.get(of).is_some());
        } else {
            self.take_back(&member, |_| true);
            self.disconnected.remove(&member);
        }
    }

    /// A live member fetches records again. Only its partitions that went back are lost. The first
    /// part is the record it went back to. Spring Kafka gives a record up after ten attempts, so
    /// finding the record may take few.
    pub(super) fn on_returned(
        &mut self,
        now: Moment,
        member: &MemberId,
        outstanding: OffsetRanges,
    ) {
        if !outstanding.is_empty() {
            self.lose(now, member, outstanding, LossCause::SeekBack);
        }
    }

    fn lose(
        &mut self,
        now: Moment,
        member: &MemberId,
        outstanding: OffsetRanges,
        cause: LossCause,
    ) {
        if !self.lose_part(now, member, &outstanding, cause) {
            self.lose_others(now.mono, member, outstanding, cause);
        }
        self.decide(Decision::Changed);
    }

    /// Exempts topics that the group never commits: they are read from the beginning at each start,
    /// and losses say nothing. The group's other topics still count.
    pub(super) fn exempt_uncommitted(&mut self, ranges: &OffsetRanges) {
        let topics = ranges.partitions().map(|partition| &partition.topic);
        let uncommitted = topics.filter(|topic| !self.committed.contains(*topic));
        let uncommitted: Vec<TopicName> = uncommitted.cloned().collect();
        for topic in uncommitted {
            if self.exempt.insert(topic.clone()) {
                self.forget_topic(&topic);
                self.decide(Decision::Exempted(topic));
            }
        }
    }

    fn forget_topic(&mut self, topic: &TopicName) {
        for set in &mut self.sets {
            set.remove(|ranges| ranges.retain(|of| of.topic != *topic));
        }
        self.drop_empty_sets();
        self.decide(Decision::Changed);
    }

    /// The loss of a part or of a probe: each set tested at the member keeps what it was granted.
    /// True if there was such a set.
    fn lose_part(
        &mut self,
        now: Moment,
        member: &MemberId,
        outstanding: &OffsetRanges,
        cause: LossCause,
    ) -> bool {
        let mut under_test = self.topics_under_test();
        let lost_alone = self.isolated_at(member, outstanding);
        let (mut is_hit, mut ended, mut failed_alone) = (false, Vec::new(), false);
        for set in self.sets.iter_mut().filter(|set| set.is_tested) {
            if set.isolation.probe().is_some() {
                let is_its = set.has_probe_of(member, outstanding);
                is_hit |= is_its;
                if is_its {
                    set.lose_probe(now, lost_alone.is_some());
                }
                continue;
            }
            let lost = set.part.intersection(outstanding);
            if lost.is_empty() || !set.holders.contains(member) {
                continue;
            }
            is_hit = true;
            let isolated = set.isolated();
            set.narrow(now.mono, &lost, outstanding, self.rules.patience_ms_max);
            set.tries_first = cause == LossCause::SeekBack;
            // Suspects that were passed over and are still outstanding may have ended the member.
            let is_sole = set.isolation.is_alone && set.isolated() == isolated;
            let Some(record) = isolated.filter(|_| is_sole) else { continue };
            failed_alone = true;
            let is_charged = set.lose_alone(now, &self.rules, cause);
            if is_charged {
                let failures = set.isolation.failures;
                let origin = record.clone();
                self.decisions.push_back(Decision::Failed { origin, failures });
                if failures >= self.rules.failures_max(&self.retries, Some(&record)) {
                    ended.push((record, failures));
                    continue;
                }
            }
            set.defer_or_withhold(now, &self.rules, under_test.contains(&record.topic));
            if set.isolation.probe().is_some() {
                under_test.push(record.topic);
            }
        }
        for (record, failures) in ended {
            self.end_suspicion(&record, failures);
        }
        if failed_alone {
            self.defer_isolated_of(member);
        }
        is_hit
    }

    fn end_suspicion(&mut self, record: &Origin, failures: u32) {
        let origin = record.clone();
        let decision = if self.retries.takes(&record.topic) {
            Decision::Retry { origin, failures }
        } else {
            Decision::DeadLetter { origin, failures }
        };
        self.end_record(decision, record);
    }

    /// The owner's next session gets all but its isolated records.
    fn defer_isolated_of(&mut self, member: &MemberId) {
        for index in 0..self.sets.len() {
            let is_owner = self.isolated_owner(index) == Some(member);
            if let Some(set) = self.sets.get_mut(index)
                && is_owner
                && set.is_first_in_line()
            {
                set.isolation.stage = IsolatedStage::Deferred(Deferral::default());
            }
        }
    }

    /// Topics with records under test that are not isolated, or with a withheld record.
    fn topics_under_test(&self) -> Vec<TopicName> {
        let is_under_test = |set: &&SuspectSet| {
            let is_isolated = set.isolated().is_some();
            set.is_tested && (!is_isolated || set.isolation.probe().is_some())
        };
        let sets = self.sets.iter().filter(is_under_test);
        sets.flat_map(|set| set.remaining.partitions().map(|of| of.topic.clone())).collect()
    }

    /// The lost isolated record that the member was granted.
    fn isolated_at(&self, member: &MemberId, outstanding: &OffsetRanges) -> Option<Origin> {
        let is_granted =
            |set: &&SuspectSet| set.part.intersects(outstanding) && set.holders.contains(member);
        self.sets.iter().filter(is_granted).find_map(SuspectSet::isolated)
    }

    /// A loss without a part: a wrong suspicion begins again, a counted set is intersected, and
    /// records without a set begin one.
    fn lose_others(
        &mut self,
        now: MonoMs,
        member: &MemberId,
        mut lost: OffsetRanges,
        cause: LossCause,
    ) {
        let replacement = self.take_wrong_suspicions(now, member, &lost, cause);
        self.end_deferrals_of(member);
        for set in self.sets.iter().filter(|set| set.is_tested) {
            for (partition, range) in set.remaining.iter() {
                lost.remove_from(partition, range.start);
            }
        }
        if let Some(mut set) = replacement {
            if !lost.is_empty() {
                // Sets are disjoint.
                self.sets.retain(|other| other.is_tested || !other.remaining.intersects(&lost));
                set.remaining = lost;
                set.tries_first = cause == LossCause::SeekBack;
                self.sets.push(set);
            }
            return;
        }
        let is_counted = self.count_loss(now, &lost, cause);
        if !is_counted && !lost.is_empty() {
            let patience_ms = self.rules.isolation_timeout_ms;
            let mut set = SuspectSet::counted(lost, now, patience_ms);
            set.tries_first = cause == LossCause::SeekBack;
            self.sets.push(set);
            self.test_if_due();
        }
    }

    /// Takes the sets that suspect the wrong records: their owner was lost without a part of them,
    /// or with records that were passed over. One set with more patience replaces them; the caller
    /// gives it the records of this loss. It has no failures yet, as those were of other records.
    fn take_wrong_suspicions(
        &mut self,
        now: MonoMs,
        member: &MemberId,
        lost: &OffsetRanges,
        cause: LossCause,
    ) -> Option<SuspectSet> {
        let patience_max = self.rules.patience_ms_max;
        let mut replacement: Option<SuspectSet> = None;
        let sets = std::mem::take(&mut self.sets);
        for set in sets {
            let is_lost = |of: &TopicPartition| {
                self.owns(member, of) && (cause == LossCause::MemberEnded || lost.get(of).is_some())
            };
            let is_owner = set.remaining.partitions().any(is_lost);
            // The owner was to get a part next, and was lost before: by another record. A record
            // that is proven stays suspected beside that one.
            let is_its_turn = is_owner && set.is_first_in_line() && !set.is_proven();
            let is_wrong = set.passed_over.intersects(lost) || is_its_turn;
            let is_kept = set.isolation.is_ended() || set.isolation.probe().is_some();
            if !set.is_tested || is_kept || !is_wrong {
                self.sets.push(set);
                continue;
            }
            let new = replacement.get_or_insert_with(|| SuspectSet {
                is_tested: true,
                begun: now,
                last_loss: now,
                patience_ms: self.rules.isolation_timeout_ms,
                ..SuspectSet::default()
            });
            new.begun = new.begun.min(set.begun);
            new.losses = new.losses.max(set.losses.saturating_add(1));
            let doubled = set.patience_ms.saturating_mul(2);
            new.patience_ms = new.patience_ms.max(doubled).min(patience_max);
        }
        replacement
    }

    /// The owner got everything but its isolated record and was lost, so that record comes first
    /// again.
    fn end_deferrals_of(&mut self, member: &MemberId) {
        for index in 0..self.sets.len() {
            let is_owner = self.isolated_owner(index) == Some(member);
            if let Some(set) = self.sets.get_mut(index)
                && is_owner
            {
                set.isolation.end_deferral();
            }
        }
    }

    /// Intersects each counted set with the lost records; true if they meet one.
    fn count_loss(&mut self, now: MonoMs, lost: &OffsetRanges, cause: LossCause) -> bool {
        let mut is_counted = false;
        for set in self.sets.iter_mut().filter(|set| !set.is_tested) {
            let common = set.remaining.intersection(lost);
            if common.is_empty() {
                continue;
            }
            is_counted = true;
            set.remaining = common;
            set.losses = set.losses.saturating_add(1);
            set.last_loss = now;
            set.tries_first = cause == LossCause::SeekBack;
        }
        self.test_if_due();
        is_counted
    }

    fn test_if_due(&mut self) {
        for set in &mut self.sets {
            if !set.is_tested && set.losses >= self.rules.crash_limit.max(1) {
                set.is_tested = true;
                set.patience_ms = self.rules.isolation_timeout_ms;
                self.decisions.push_back(Decision::TestBegins);
            }
        }
    }
}

impl SuspectSet {
    /// Keeps the records that were granted since the last loss. If these are more than the part,
    /// the crash takes longer than the timeout.
    fn narrow(
        &mut self,
        now: MonoMs,
        part: &OffsetRanges,
        outstanding: &OffsetRanges,
        patience_ms_max: u64,
    ) {
        self.losses = self.losses.saturating_add(1);
        self.last_loss = now;
        let mut suspects = self.passed_over.intersection(outstanding);
        if !suspects.is_empty() {
            self.double_patience(patience_ms_max);
        }
        suspects.cover(part);
        self.remaining = suspects;
        self.end_round();
    }

    /// Counts the loss of the isolated record; true if it is a failed delivery that counts. An
    /// outage, in which nothing else is committed either, counts one.
    fn lose_alone(&mut self, now: Moment, rules: &SuspectRules, cause: LossCause) -> bool {
        let isolation = &mut self.isolation;
        isolation.losses_alone = isolation.losses_alone.saturating_add(1);
        if isolation.failures > 0 && !isolation.works_otherwise {
            return false;
        }
        if isolation.failures == 0 {
            isolation.give_up_wait_ms = rules.give_up_after_ms.unwrap_or(0);
            isolation.give_up_at = now.wall.plus(isolation.give_up_wait_ms);
        }
        if isolation.failed_at.len() >= FAILED_AT_MAX {
            isolation.failed_at.remove(0);
        }
        isolation.failed_at.push(now.wall);
        isolation.failures = isolation.failures.saturating_add(1);
        isolation.cause = cause;
        isolation.works_otherwise = false;
        true
    }

    /// The owner's next session goes on without the record; after `give_up_after` the record is
    /// withheld. With two withheld records in a topic, the record behind one might be the other,
    /// and neither would end: so the second waits. `is_topic_tested`: other records of the topic
    /// are under test, or one is withheld.
    fn defer_or_withhold(&mut self, now: Moment, rules: &SuspectRules, is_topic_tested: bool) {
        let isolation = &mut self.isolation;
        let is_due = rules.give_up_after_ms.is_some() && now.wall >= isolation.give_up_at;
        let is_withheld =
            is_due && !is_topic_tested && isolation.losses_alone >= rules.in_place_limit;
        isolation.stage = if is_withheld {
            IsolatedStage::Withheld(ProbeDelivery::default())
        } else {
            IsolatedStage::Deferred(Deferral::default())
        };
    }

    /// Whether the member is lost with a record behind the withheld one.
    fn has_probe_of(&self, member: &MemberId, outstanding: &OffsetRanges) -> bool {
        let is_its =
            self.isolation.probe().is_some_and(|probe| probe.member.as_ref() == Some(member));
        let delivered = self.only_suspect().and_then(|(of, _)| outstanding.get(of));
        is_its && delivered.zip(self.first_behind()).is_some_and(|(range, next)| next < range.end)
    }

    /// The probe was lost too, so other records fail as well: the withheld one is delivered again,
    /// and waits twice as long for the next probe. `is_explained`: an isolated record of another
    /// set was lost beside the probe. It is the cause once the probe has passed, and the probe
    /// begins again. Before, either may be the cause.
    fn lose_probe(&mut self, now: Moment, is_explained: bool) {
        let has_passed = self.isolation.probe().is_some_and(|probe| probe.has_passed);
        if has_passed && is_explained {
            self.isolation.stage = IsolatedStage::Withheld(ProbeDelivery::default());
            return;
        }
        self.isolation.stage = IsolatedStage::First(None);
        self.isolation.give_up_wait_ms = self.isolation.give_up_wait_ms.saturating_mul(2);
        self.isolation.give_up_at = now.wall.plus(self.isolation.give_up_wait_ms);
        self.end_round();
    }
}
