//! What transactions will commit of retry topics, held until their end is known; in front of a
//! cluster also of dead letters: nothing of ours appears there, so its coordinators cannot hold it.
//!
//! It is held in memory. After a restart of this process the records are open hand-outs of a member
//! that has gone: they come back once more, and none is lost.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::model::{GroupId, MonoMs, TopicName};
use crate::route::offset_commit::{Part, Patience, lane_part, store};
use crate::route::{Router, code};
use crate::wire::ResponseError;

/// Transactions held at most.
const HELD_MAX: usize = 10_000;
/// Kafka's `transaction.max.timeout.ms`: by then the cluster has aborted whatever was open.
const OVER_AFTER_MS: u64 = 15 * 60 * 1000;
/// How often it is looked for transactions whose time is over when none is known.
const LOOK_AGAIN_MS: u64 = 60_000;
/// When the log took no marker.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// A producer's id and epoch: whoever begins anew has another.
pub(super) type Incarnation = (i64, i16);

/// Offsets of real partitions.
type Offsets = Vec<(TopicName, i32, i64)>;

/// Open transactions by transactional id.
#[derive(Debug, Default)]
pub struct Transactions(Mutex<BTreeMap<String, Held>>);

/// What one transaction will commit.
#[derive(Clone, Debug)]
pub(super) struct Held {
    by: Incarnation,
    since: MonoMs,
    groups: BTreeMap<GroupId, Commits>,
}

#[derive(Clone, Debug, Default)]
struct Commits {
    /// Of our topics; the last commit of a partition counts.
    ours: BTreeMap<(TopicName, i32), Part>,
    /// Of the cluster's, which has them already.
    theirs: Offsets,
}

/// What a TxnOffsetCommit brings.
pub(super) struct Commit {
    pub(super) group: GroupId,
    pub(super) ours: BTreeMap<(TopicName, i32), Part>,
    pub(super) theirs: Offsets,
}

impl Transactions {
    /// Holds a commit until the transaction ends; false: there are too many. Comes with what is
    /// over by that: an earlier incarnation's, or one nobody ended.
    pub(super) fn hold(
        &self,
        id: &str,
        by: Incarnation,
        now: MonoMs,
        commit: Commit,
    ) -> (bool, Option<Held>) {
        let mut held = self.lock();
        let mut over = match held.get(id) {
            Some(before) if before.by != by => held.remove(id),
            _ => None,
        };
        if held.len() >= HELD_MAX && !held.contains_key(id) {
            let oldest = held.iter().min_by_key(|(_, one)| one.since);
            let oldest = oldest.filter(|(_, one)| now.since(one.since) > OVER_AFTER_MS);
            let Some(oldest) = oldest.map(|(id, _)| id.clone()) else { return (false, over) };
            over = held.remove(&oldest);
        }
        let one = held.entry(id.to_owned());
        let one = one.or_insert(Held { by, since: now, groups: BTreeMap::new() });
        let commits = one.groups.entry(commit.group).or_default();
        commits.ours.extend(commit.ours);
        commits.theirs.extend(commit.theirs);
        (true, over)
    }

    /// What this transaction holds, whoever ends it.
    pub(super) fn take(&self, id: &str) -> Option<Held> {
        self.lock().remove(id)
    }

    /// What this incarnation's transaction holds.
    pub(super) fn take_of(&self, id: &str, by: Incarnation) -> Option<Held> {
        let mut held = self.lock();
        held.get(id).filter(|one| one.by == by)?;
        held.remove(id)
    }

    /// The same, still held.
    pub(super) fn held(&self, id: &str, by: Incarnation) -> Option<Held> {
        self.lock().get(id).filter(|one| one.by == by).cloned()
    }

    /// It is not needed any more.
    pub(super) fn done(&self, id: &str, by: Incarnation) {
        drop(self.take_of(id, by));
    }

    /// Its end is not known yet after all.
    pub(super) fn put_back(&self, id: &str, one: Held) {
        self.lock().entry(id.to_owned()).or_insert(one);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Held>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Aborts this cluster's own transactions when their time is over. Runs for as long as the server.
pub async fn run(router: Arc<Router>) {
    let transactions = &router.broker.transactions;
    loop {
        let now = router.clock.now().wall;
        let left_ms = transactions.next_due().map_or(LOOK_AGAIN_MS, |due| due.since(now));
        let pause = Duration::from_millis(left_ms.min(LOOK_AGAIN_MS));
        if !pause.is_zero() {
            // Either way it is looked at again.
            drop(tokio::time::timeout(pause, transactions.opened()).await);
            continue;
        }
        match router.broker.abort_overdue() {
            Ok((aborted, _)) => {
                let held = aborted.iter().filter_map(|id| router.transactions.take(id));
                held.for_each(|held| held.abort(&router));
            }
            Err(error) => {
                tracing::warn!(%error, "a transaction timed out and cannot be aborted yet");
                tokio::time::sleep(TRY_AGAIN).await;
            }
        }
    }
}

impl Held {
    /// The transaction is committed: so is this. May be done twice.
    pub(super) async fn commit(&self, router: &Router) -> Result<(), ResponseError> {
        let patience = Patience::begins(&router.clock);
        for (group, commits) in &self.groups {
            let theirs = router.note(group, commits.theirs.clone());
            let noted = async { theirs.await.map_err(|error| code::of_commit(&error)) };
            patience.bounds(noted).await?;
            let ours: Vec<Part> = commits.ours.values().cloned().collect();
            patience.bounds(lane_part(router, group, ours.iter())).await?;
            patience.bounds(store(router, group, ours.iter())).await?;
            router.commit_stored(group, commits.theirs.iter().cloned());
        }
        Ok(())
    }

    /// It is aborted: its records are free to be handed out again.
    pub(super) fn abort(&self, router: &Router) {
        for (group, commits) in &self.groups {
            for part in commits.ours.values() {
                if let Part::Lane(up_to) = part {
                    router.engine.lane_aborted(group, *up_to);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{LaneOffset, Slot};

    fn commit(sequence: u64) -> Commit {
        let lane = LaneOffset { slot: Slot(1), sequence };
        let ours = BTreeMap::from([(("retry.shop".into(), 0), Part::Lane(lane))]);
        Commit { group: "shop".into(), ours, theirs: Vec::new() }
    }

    fn sequence(held: &Held) -> u64 {
        match held.groups[&"shop".into()].ours[&("retry.shop".into(), 0)] {
            Part::Lane(lane) => lane.sequence,
            _ => panic!("not of the lane"),
        }
    }

    #[test]
    fn the_last_commit_of_a_transaction_counts_and_only_for_who_made_it() {
        let all = Transactions::default();
        assert!(all.hold("a", (7, 0), MonoMs(0), commit(1)).1.is_none());
        assert!(all.hold("a", (7, 0), MonoMs(1), commit(2)).1.is_none());
        assert!(all.take_of("a", (7, 1)).is_none(), "another incarnation");
        let held = all.take_of("a", (7, 0)).unwrap();
        assert_eq!(sequence(&held), 2);
        assert!(all.take("a").is_none());
        all.put_back("a", held);
        let over = all.hold("a", (7, 1), MonoMs(2), commit(3)).1.unwrap();
        assert_eq!(sequence(&over), 2, "the earlier incarnation's is over");
        assert_eq!(sequence(&all.take("a").unwrap()), 3);
    }

    #[test]
    fn too_many_open_transactions_are_refused_until_the_oldest_must_be_over() {
        let all = Transactions::default();
        for n in 0..HELD_MAX {
            assert!(all.hold(&n.to_string(), (1, 0), MonoMs(5), commit(1)).0);
        }
        let (taken, over) = all.hold("late", (1, 0), MonoMs(5 + OVER_AFTER_MS), commit(1));
        assert!(!taken && over.is_none());
        assert!(all.hold("7", (1, 0), MonoMs(9), commit(1)).0, "one that is held goes on");
        let (taken, over) = all.hold("late", (1, 0), MonoMs(6 + OVER_AFTER_MS), commit(1));
        assert!(taken && over.is_some());
    }
}
