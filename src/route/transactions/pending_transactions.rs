//! Transactional commits, noted until the transaction ends.
//!
//! The state is only in memory. After a restart the offsets are known again with the group's next
//! commit or OffsetFetch.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::model::{GroupId, MonoMs, TopicName};

/// Bound of open transactions.
const HELD_MAX: usize = 10_000;
/// Kafka's `transaction.max.timeout.ms`: by then the cluster has aborted every open transaction.
const OVER_AFTER_MS: u64 = 15 * 60 * 1000;
/// A producer's id and epoch, which are new after each InitProducerId.
pub(super) type ProducerEpoch = (i64, i16);

/// Topic, partition and committed offset.
type CommittedOffsets = Vec<(TopicName, i32, i64)>;

/// Pending commits by transactional id.
#[derive(Debug, Default)]
pub struct PendingTransactions {
    state: Mutex<TransactionTable>,
    /// Notified when a transaction has ended.
    pub(super) ended: Notify,
}

#[derive(Debug, Default)]
struct TransactionTable {
    open: BTreeMap<String, OpenTransaction>,
    /// Ended transactions whose outcome is not applied yet, in the order of their ends.
    untold: BTreeMap<String, Vec<EndedTransaction>>,
    /// Number of ends so far.
    ends: u64,
}

/// The pending commits of one transaction.
#[derive(Clone, Debug)]
pub(super) struct OpenTransaction {
    by: ProducerEpoch,
    since: MonoMs,
    pub(super) groups: BTreeMap<GroupId, CommittedOffsets>,
}

/// The end of one transaction.
#[derive(Clone, Debug)]
pub(super) struct EndedTransaction {
    pub(super) number: u64,
    pub(super) held: OpenTransaction,
    pub(super) commits: bool,
    /// The journal sequence that must be durable before the outcome is applied; 0: none.
    pub(super) seq: u64,
}

/// The offsets of a TxnOffsetCommit.
pub(in crate::route) struct TransactionCommit {
    pub(in crate::route) group: GroupId,
    pub(in crate::route) offsets: CommittedOffsets,
}

/// The reason why a commit is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::route) enum CommitRefusal {
    /// The transaction has ended, or a newer producer has begun one.
    Late,
    /// Too many transactions are open.
    TooMany,
}

impl TransactionTable {
    fn end(&mut self, id: &str, held: OpenTransaction, commits: bool, seq: u64) {
        self.ends = self.ends.wrapping_add(1);
        let end = EndedTransaction { number: self.ends, held, commits, seq };
        self.untold.entry(id.to_owned()).or_default().push(end);
    }
}

impl PendingTransactions {
    /// Keeps a commit until its transaction ends. A transaction of an earlier epoch, or one that
    /// timed out, ends as aborted.
    pub(in crate::route) fn hold(
        &self,
        id: &str,
        by: ProducerEpoch,
        now: MonoMs,
        commit: TransactionCommit,
    ) -> Result<(), CommitRefusal> {
        let mut state = self.lock();
        let before = state.open.get(id).map(|one| one.by);
        let is_late = before.is_some_and(|before| before.0 == by.0 && before.1 > by.1);
        if is_late {
            return Err(CommitRefusal::Late);
        }
        if before.is_some_and(|before| before != by) {
            self.over(&mut state, id);
        }
        if state.open.len() >= HELD_MAX && !state.open.contains_key(id) {
            let oldest = state.open.iter().min_by_key(|(_, one)| one.since);
            let oldest = oldest.filter(|(_, one)| now.since(one.since) > OVER_AFTER_MS);
            let oldest = oldest.map(|(id, _)| id.clone()).ok_or(CommitRefusal::TooMany)?;
            self.over(&mut state, &oldest);
        }
        let one = state.open.entry(id.to_owned());
        let one = one.or_insert(OpenTransaction { by, since: now, groups: BTreeMap::new() });
        one.groups.entry(commit.group).or_default().extend(commit.offsets);
        Ok(())
    }

    fn over(&self, state: &mut TransactionTable, id: &str) {
        if let Some(held) = state.open.remove(id) {
            state.end(id, held, false, 0);
            self.ended.notify_one();
        }
    }

    /// Records the end of a transaction. Its pending commits and the `stored` offsets are applied
    /// once `seq` is durable.
    pub(in crate::route) fn ended(
        &self,
        id: &str,
        by: ProducerEpoch,
        commits: bool,
        stored: Vec<(GroupId, CommittedOffsets)>,
        seq: u64,
    ) {
        let mut state = self.lock();
        let is_its = state.open.get(id).is_some_and(|one| one.by == by);
        let held = if is_its { state.open.remove(id) } else { None };
        if held.is_none() && stored.is_empty() {
            return;
        }
        let nothing = || OpenTransaction { by, since: MonoMs::default(), groups: BTreeMap::new() };
        let mut held = held.unwrap_or_else(nothing);
        for (group, offsets) in stored {
            held.groups.entry(group).or_default().extend(offsets);
        }
        state.end(id, held, commits, seq);
        self.ended.notify_one();
    }

    /// Ends the open transaction of an earlier epoch, since its producer began anew.
    pub(super) fn begun(&self, id: &str, producer: ProducerEpoch, commits: bool, seq: u64) {
        let mut state = self.lock();
        if state.open.get(id).is_some_and(|one| one.by < producer)
            && let Some(held) = state.open.remove(id)
        {
            state.end(id, held, commits, seq);
            self.ended.notify_one();
        }
    }

    /// Whether this producer has pending commits, or an end that is not applied yet.
    pub(super) fn knows(&self, id: &str, by: ProducerEpoch) -> bool {
        let state = self.lock();
        let mut untold = state.untold.get(id).into_iter().flatten();
        state.open.get(id).is_some_and(|one| one.by == by) || untold.any(|end| end.held.by == by)
    }

    /// Drops pending offsets of partitions in which the cluster has stored a later OffsetCommit.
    pub(in crate::route) fn drop_superseded(
        &self,
        group: &GroupId,
        stored: &[(TopicName, i32, i64)],
    ) {
        let is_stored = |topic: &TopicName, partition: i32| {
            stored.iter().any(|(of, index, _)| of == topic && *index == partition)
        };
        for held in self.lock().open.values_mut() {
            if let Some(commits) = held.groups.get_mut(group) {
                commits.retain(|(topic, partition, _)| !is_stored(topic, *partition));
            }
        }
    }

    /// Drops pending offsets of a deleted topic.
    pub(in crate::route) fn topic_gone(&self, topic: &TopicName) {
        let state = &mut *self.lock();
        let untold = state.untold.values_mut().flatten().map(|end| &mut end.held);
        for held in state.open.values_mut().chain(untold) {
            for commits in held.groups.values_mut() {
                commits.retain(|(of, ..)| of != topic);
            }
        }
    }

    pub(super) fn first_untold(&self, id: &str) -> Option<EndedTransaction> {
        self.lock().untold.get(id)?.first().cloned()
    }

    pub(super) fn told(&self, id: &str, number: u64) {
        let mut state = self.lock();
        if let Some(untold) = state.untold.get_mut(id) {
            untold.retain(|end| end.number != number);
            if untold.is_empty() {
                state.untold.remove(id);
            }
        }
    }

    pub(super) fn untold(&self) -> Vec<String> {
        self.lock().untold.keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, TransactionTable> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(offset: i64) -> TransactionCommit {
        TransactionCommit { group: "shop".into(), offsets: vec![("orders".into(), 0, offset)] }
    }

    fn hold(
        all: &PendingTransactions,
        id: &str,
        by: ProducerEpoch,
        offset: i64,
    ) -> Result<(), CommitRefusal> {
        all.hold(id, by, MonoMs(1), commit(offset))
    }

    /// Last offset and outcome of the ended transactions of `a`.
    fn untold(all: &PendingTransactions) -> Vec<(i64, bool)> {
        let state = all.lock();
        let untold = state.untold.get("a").into_iter().flatten();
        let last = |end: &EndedTransaction| end.held.groups[&"shop".into()].last().unwrap().2;
        untold.map(|end| (last(end), end.commits)).collect()
    }

    #[test]
    fn only_the_owning_producer_ends_its_transaction() {
        let all = PendingTransactions::default();
        hold(&all, "a", (7, 0), 1).unwrap();
        hold(&all, "a", (7, 0), 2).unwrap();
        all.ended("a", (7, 1), true, Vec::new(), 0);
        assert_eq!(untold(&all), [], "another incarnation's");
        all.ended("a", (7, 0), true, Vec::new(), 0);
        assert_eq!(untold(&all), [(2, true)]);
        assert!(all.knows("a", (7, 0)), "until it is told");
        all.told("a", all.first_untold("a").unwrap().number);
        assert!(!all.knows("a", (7, 0)) && all.untold().is_empty());
    }

    #[test]
    fn newer_producers_end_open_transactions_and_late_ones_none() {
        let all = PendingTransactions::default();
        hold(&all, "a", (7, 0), 1).unwrap();
        hold(&all, "a", (7, 1), 2).unwrap();
        assert_eq!(untold(&all), [(1, false)], "the earlier incarnation's is over");
        assert_eq!(hold(&all, "a", (7, 0), 3), Err(CommitRefusal::Late));
        all.begun("a", (7, 1), false, 0);
        all.begun("a", (7, 0), false, 0);
        all.ended("a", (7, 0), false, Vec::new(), 0);
        assert_eq!(untold(&all).len(), 1, "late ones change nothing");
        all.begun("a", (7, 2), false, 0);
        assert_eq!(untold(&all), [(1, false), (2, false)]);
    }

    #[test]
    fn offsets_of_a_deleted_topic_are_not_reported() {
        let all = PendingTransactions::default();
        let both = |id: &str| {
            let offsets = vec![("orders".into(), 0, 7), ("other".into(), 0, 8)];
            let commit = TransactionCommit { offsets, ..commit(1) };
            all.hold(id, (7, 0), MonoMs(1), commit).unwrap();
        };
        both("open");
        both("ended");
        all.ended("ended", (7, 0), true, Vec::new(), 5);
        all.topic_gone(&"orders".into());
        all.ended("open", (7, 0), true, Vec::new(), 6);
        for id in ["open", "ended"] {
            let held = all.first_untold(id).unwrap().held;
            assert_eq!(held.groups[&"shop".into()], [("other".into(), 0, 8)], "{id}");
        }
    }

    #[test]
    fn a_plain_commit_in_the_cluster_overtakes_pending_offsets() {
        let all = PendingTransactions::default();
        let offsets = vec![("orders".into(), 0, 7), ("orders".into(), 1, 8)];
        all.hold("a", (7, 0), MonoMs(1), TransactionCommit { offsets, ..commit(1) }).unwrap();
        all.drop_superseded(&"audit".into(), &[("orders".into(), 0, 9)]);
        all.drop_superseded(&"shop".into(), &[("orders".into(), 1, 9)]);
        all.ended("a", (7, 0), true, Vec::new(), 0);
        let held = all.first_untold("a").unwrap().held;
        assert_eq!(held.groups[&"shop".into()], [("orders".into(), 0, 7)]);
    }

    #[test]
    fn open_transactions_are_bounded_until_the_oldest_expires() {
        let all = PendingTransactions::default();
        let hold = |id: &str, at: u64| all.hold(id, (1, 0), MonoMs(at), commit(1));
        for n in 0..HELD_MAX {
            hold(&n.to_string(), 5).unwrap();
        }
        assert_eq!(hold("late", 5 + OVER_AFTER_MS), Err(CommitRefusal::TooMany));
        assert_eq!(hold("7", 9), Ok(()), "one that is held goes on");
        assert_eq!(hold("late", 6 + OVER_AFTER_MS), Ok(()));
        assert_eq!(all.untold().len(), 1);
    }
}
