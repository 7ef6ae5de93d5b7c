//! Finds the record that crashes its consumer, by one question: which records were outstanding at
//! every recent lost delivery?
//!
//! A lost delivery is the end of a member that had records outstanding. Its records become a
//! suspect set; each further loss intersects the set with its own records. After `crash_limit`
//! losses the set is tested: it is granted in parts, so that each loss leaves an eighth. A set of
//! one record is isolated: its owner gets it by itself. If it is lost then, the delivery failed.
//!
//! A set goes from *counted* (each loss intersects it) to *tested* (`crash_limit` losses) to
//! *isolated* (one record). A commit at an offset above a suspect removes it.
//!
//! | term | meaning |
//! |---|---|
//! | round | one walk over the suspects of a set, part by part; a loss ends it |
//! | part | the suspects that are granted now, an eighth of the round |
//! | passed over | its part had no commit and no loss in time; suspected again in the next round |
//! | patience | that time: `isolation_timeout`; a loss that proves it too short doubles it |
//! | first in line | the owner gets nothing but the isolated record |
//! | quiet | the owner has nothing outstanding or waits for that |
//! | deferral | after a failure the owner gets everything but the record, for a time |
//! | withheld, probe | the record is left out, and the next record tells whether others fail too |
//! | skipped | its probe was granted, and the record itself was not delivered since |
//! | passed | its timeout is over without a loss |
//! | behind | at a higher offset of the partition |
//! | prefix | the records before the isolated one in its partition, with a patience of their own |
//!
//! The state machine does no I/O. Without a lost delivery there is no set, and every Fetch is
//! unlimited. Sources: KAFKA-17541 (share groups halve the batch of a record that is delivered
//! again) and `git bisect`.

mod commit;
mod grant;
mod loss;
mod ranges;
mod set;
mod suspects_explanation;
mod suspects_record;
mod suspects_view;
#[cfg(test)]
mod tests;
mod timeout;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use crate::model::{Deadline, MemberId, Moment, MonoMs, Origin, TopicName, TopicPartition};
use crate::retry::RetrySubscription;

pub use grant::Grant;
pub use ranges::OffsetRanges;
use set::{Deferral, IsolatedStage, LossCause, ProbeDelivery, QuietOwner, SuspectSet};
pub use suspects_explanation::{NextStep, SetView, Stage};
pub use suspects_record::{SetRecord, SuspectsRecord};
pub use suspects_view::EndedRecord;

/// Parts of a set: the fewest grants that isolate one record in log₈ of the set's size.
const PARTS: u64 = 8;
/// The loss of a member that lived longer says nothing about topics that the group never commits:
/// 15 min.
const LIFETIME_MS_MAX: u64 = 15 * 60 * 1000;
/// A set without a failed delivery is forgotten this long after its last loss: 1 h.
const FORGET_MS: u64 = 60 * 60 * 1000;
/// An owner's session goes on without its isolated record for this long at most: 90 s.
const DEFERRAL_MS_MAX: u64 = 90 * 1000;
/// Bound of the patience of the prefix while an owner does not fetch its isolated record: 300 s.
/// Three of them pass before the owner gets everything.
const QUIET_MS_MAX: u64 = 300 * 1000;

/// The settings of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuspectRules {
    /// Lost deliveries before a set is tested.
    pub crash_limit: u32,
    /// Failed deliveries that make a dead letter in place.
    pub in_place_limit: u32,
    /// The wait for a commit in the first part of a set.
    pub isolation_timeout_ms: u64,
    /// The limit of that wait after doublings.
    pub patience_ms_max: u64,
    /// The time after which an isolated record is withheld; `None`: never.
    pub give_up_after_ms: Option<u64>,
    /// The time that an idle owner waits for an isolated record that failed.
    pub order_interval_ms: u64,
}

impl Default for SuspectRules {
    fn default() -> Self {
        Self {
            crash_limit: 3,
            in_place_limit: 4,
            isolation_timeout_ms: 5_000,
            patience_ms_max: 60_000,
            give_up_after_ms: Some(15 * 60 * 1000),
            order_interval_ms: 1_000,
        }
    }
}

/// Failed deliveries that make an entry of the retry topic.
const RETRY_TOPIC_LIMIT: u32 = 2;
/// Failed deliveries of a retry that make one failure of its entry. The next delivery has a delay
/// of its own, so an outage need not be told apart.
const RETRY_LIMIT: u32 = 1;

impl SuspectRules {
    /// Failed deliveries of an isolated record that make an entry or a dead letter.
    fn failures_max(&self, retries: &RetrySubscription, record: Option<&Origin>) -> u32 {
        match record {
            Some(record) if retries.has(&record.topic) => RETRY_LIMIT,
            Some(record) if !retries.takes(&record.topic) => self.in_place_limit,
            None if retries.is_empty() => self.in_place_limit,
            Some(_) | None => RETRY_TOPIC_LIMIT,
        }
    }
}

/// Records that a member has outstanding in one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outstanding {
    /// From the committed offset to the end of what was delivered.
    pub offsets: Range<i64>,
    /// The last delivery of the partition.
    pub delivered_at: MonoMs,
}

/// The outstanding records of one member.
pub type MemberOutstanding = BTreeMap<TopicPartition, Outstanding>;

/// The outstanding records of a member are lost: the member leaves, expires, is replaced or fenced,
/// or its commit is refused for good. A rebalance is no loss.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostDelivery {
    pub member: MemberId,
    pub outstanding: OffsetRanges,
    /// Milliseconds from its first delivery to its last request.
    pub lived_ms: u64,
    pub end: LostMember,
    /// The retry topics that the member subscribes to.
    pub retries: RetrySubscription,
}

/// The fate of a member whose records are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostMember {
    /// The member left by itself.
    Left,
    /// The session expired, or another process replaced the member.
    Expired,
    /// The commit was refused for good, or the member joined anew: these records only are lost.
    Lives,
}

/// An observation of the edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SuspectEvent {
    /// A member's session as the owner of partitions begins.
    Assigned { member: MemberId, partitions: Vec<TopicPartition> },
    /// A rebalance revokes partitions of a live member.
    Revoked { member: MemberId, partitions: Vec<TopicPartition> },
    /// A commit, or the committed offset in an OffsetFetch answer. `passes_records`: it passes
    /// records that were not committed before.
    Committed { partition: TopicPartition, offset: i64, passes_records: bool },
    /// A connection of a member is closed; its end may follow.
    Disconnected(MemberId),
    /// The end of a member.
    Lost(LostDelivery),
    /// A live member fetches its outstanding records again (`on_seek_back: retry`).
    Returned { member: MemberId, outstanding: OffsetRanges, retries: RetrySubscription },
    /// The topic was deleted or recreated: none of its records is suspected any more.
    Cleared(TopicPartition),
    /// Offsets without a record to deliver.
    Empty { partition: TopicPartition, offsets: Range<i64> },
    /// Offsets that no Fetch delivers any more: their records have entries.
    Dropped { partition: TopicPartition, offsets: Range<i64> },
}

/// A decision, for the ledger and the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// A set is tested from now on.
    TestBegins,
    /// A record is delivered to its owner by itself.
    Isolated(Origin),
    /// A delivery of an isolated record failed: count it durably.
    Failed { origin: Origin, failures: u32 },
    /// The record becomes an entry of the retry topic, and is cut from its partition.
    Retry { origin: Origin, failures: u32 },
    /// The record becomes a dead letter, and is cut from its partition.
    DeadLetter { origin: Origin, failures: u32 },
    /// Grants have changed: publish the view, and look at pending Fetches again.
    Changed,
    /// The group never commits the topic, so a loss of its records no longer counts.
    Exempted(TopicName),
}

/// The suspects of one group.
#[derive(Debug)]
pub struct Suspects {
    rules: SuspectRules,
    /// The retry topics of the last lost member.
    retries: RetrySubscription,
    sets: Vec<SuspectSet>,
    /// Topics that the group has committed.
    committed: BTreeSet<TopicName>,
    /// Topics that the group never commits: losses of their records do not count.
    exempt: BTreeSet<TopicName>,
    /// The member that fetched each partition last. An assignment alone would name a member that
    /// fetches other partitions first.
    owners: BTreeMap<TopicPartition, MemberId>,
    /// Members without a connection whose end is not known yet.
    disconnected: BTreeSet<MemberId>,
    decisions: VecDeque<Decision>,
}

impl Suspects {
    /// No suspects, of a group without a commit.
    pub fn new(rules: SuspectRules) -> Self {
        Self {
            rules,
            retries: RetrySubscription::default(),
            sets: Vec::new(),
            committed: BTreeSet::new(),
            exempt: BTreeSet::new(),
            owners: BTreeMap::new(),
            disconnected: BTreeSet::new(),
            decisions: VecDeque::new(),
        }
    }

    pub fn set_rules(&mut self, rules: SuspectRules) {
        self.rules = rules;
    }

    /// Notes that the group has committed offsets of a topic, perhaps before the start.
    pub fn note_committed(&mut self, topic: &TopicName) {
        self.exempt.remove(topic);
        if !self.committed.contains(topic) {
            self.committed.insert(topic.clone());
        }
    }

    /// Notes that a member sent a request, so that its part has a timeout.
    pub fn note_connected(&mut self, member: &MemberId) {
        self.disconnected.remove(member);
    }

    /// Members without a connection whose end is not known yet.
    pub fn disconnected(&self) -> &BTreeSet<MemberId> {
        &self.disconnected
    }

    /// Whether every Fetch of the group is unlimited.
    pub fn is_unlimited(&self) -> bool {
        !self.sets.iter().any(|set| set.is_tested)
    }

    /// Handles one observation. Decisions follow from [`Suspects::poll_output`].
    pub fn handle(&mut self, now: Moment, event: SuspectEvent) {
        match event {
            SuspectEvent::Assigned { member, partitions } => {
                for partition in partitions {
                    self.owners.insert(partition, member.clone());
                }
            }
            SuspectEvent::Revoked { member, partitions } => {
                self.take_back(&member, |partition| partitions.contains(partition));
            }
            SuspectEvent::Committed { partition, offset, passes_records } => {
                self.on_committed(now.mono, &partition, offset, passes_records);
            }
            SuspectEvent::Disconnected(member) => {
                self.disconnected.insert(member);
            }
            SuspectEvent::Lost(lost) => self.on_lost(now, lost),
            SuspectEvent::Returned { member, outstanding, retries } => {
                self.retries = retries;
                self.on_returned(now, &member, outstanding);
            }
            SuspectEvent::Cleared(partition) => self.on_cleared(&partition),
            SuspectEvent::Empty { partition, offsets } => self.on_empty(&partition, &offsets),
            SuspectEvent::Dropped { partition, offsets } => self.on_dropped(&partition, &offsets),
        }
    }

    /// The next decision; drain to `None` before the next event.
    pub fn poll_output(&mut self) -> Option<Decision> {
        self.decisions.pop_front()
    }

    /// When [`Suspects::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Deadline> {
        self.next_timeout().map(Deadline)
    }

    fn decide(&mut self, decision: Decision) {
        self.decisions.push_back(decision);
    }

    fn owns(&self, member: &MemberId, partition: &TopicPartition) -> bool {
        self.owners.get(partition) == Some(member)
    }

    /// Takes partitions from their owner. Records that it was granted there, and neither committed
    /// nor lost, are granted to the next owner again.
    fn take_back(&mut self, member: &MemberId, is_taken: impl Fn(&TopicPartition) -> bool) {
        let is_owned = |of: &TopicPartition| self.owners.get(of) == Some(member);
        for set in &mut self.sets {
            set.take_back(member, |of| is_owned(of) && is_taken(of));
            if !set.part.partitions().any(is_owned) {
                set.holders.remove(member);
            }
        }
        self.owners.retain(|of, owner| owner != member || !is_taken(of));
    }

    fn on_cleared(&mut self, partition: &TopicPartition) {
        self.committed.remove(&partition.topic);
        self.exempt.remove(&partition.topic);
        self.owners.remove(partition);
        for set in &mut self.sets {
            set.remove(|ranges| ranges.remove(partition));
        }
        self.drop_empty_sets();
        self.decide(Decision::Changed);
    }

    /// Drops the offsets. A withheld record among them stays, and the next record to deliver lies
    /// behind the range.
    fn on_empty(&mut self, partition: &TopicPartition, offsets: &Range<i64>) {
        for set in &mut self.sets {
            let record = set.isolated().filter(|_| set.binds_commits());
            let is_its = record.is_some_and(|record| {
                is_in(partition, &record) && offsets.contains(&record.offset)
            });
            if is_its {
                if let Some(probe) = set.isolation.probe_mut() {
                    probe.next = probe.next.max(offsets.end);
                }
                return self.decide(Decision::Changed);
            }
        }
        self.on_dropped(partition, offsets);
    }

    fn on_dropped(&mut self, partition: &TopicPartition, offsets: &Range<i64>) {
        let mut has_changed = false;
        for set in &mut self.sets {
            has_changed |= set.remove(|ranges| ranges.drop(partition, offsets));
        }
        if has_changed {
            self.drop_empty_sets();
            self.decide(Decision::Changed);
        }
    }

    fn drop_empty_sets(&mut self) {
        self.sets.retain(|set| !set.remaining.is_empty() || !set.passed_over.is_empty());
    }

    /// Makes the record an entry or a dead letter. No Fetch delivers it until
    /// [`SuspectEvent::Dropped`] reports the entry, which ends the set.
    fn end_record(&mut self, decision: Decision, record: &Origin) {
        let ended = self.sets.iter_mut().filter(|set| set.isolated().as_ref() == Some(record));
        for set in ended {
            set.end_round();
            set.isolation.stage = IsolatedStage::Ended;
        }
        self.decide(decision);
        self.decide(Decision::Changed);
    }
}

/// Whether a record lies in a partition.
fn is_in(partition: &TopicPartition, record: &Origin) -> bool {
    partition.topic == record.topic && partition.partition == record.partition
}
