//! A topic that is served by another name since this start.

use crate::broker::Broker;
use crate::broker::offsets::{CommitItem, PendingCommit};
use crate::journal::{AppendError, NewEntry};
use crate::model::{GroupId, TopicName, WallMs};

impl Broker {
    /// Moves the offsets that groups have committed in a topic to its new name. `remember` is
    /// appended behind that: a crash before it leaves the whole move to be done again. Returns the
    /// last sequence.
    pub fn rename_topic(
        &self,
        at: WallMs,
        (from, to): (&TopicName, &TopicName),
        remember: NewEntry,
    ) -> Result<u64, AppendError> {
        let groups = self.offsets.groups().into_iter();
        let moved = groups.map(|group| {
            let items = self.committed_in(&group, from, to);
            (group, items)
        });
        let moved: Vec<_> = moved.filter(|(_, items)| !items.is_empty()).collect();
        // The room kept in reserve: a full disk must not keep a start from what it has to do.
        let append = |entries| Ok(self.journal.append_reserved(entries)?.seq());
        if !moved.is_empty() {
            self.offsets.commit_pending(at, &moved, append)?;
        }
        self.offsets.delete_topic(from, |mut entries| {
            entries.push(remember);
            append(entries)
        })
    }

    /// Offsets that a group has committed in a topic, as commits in another one of the same order.
    fn committed_in(
        &self,
        group: &GroupId,
        from: &TopicName,
        to: &TopicName,
    ) -> Vec<PendingCommit> {
        let all = self.offsets.fetch(group, None).into_iter();
        let of_topic = all.filter(|(topic, _, _)| topic == from);
        let items = of_topic.filter_map(|(_, partition, committed)| {
            let committed = committed?;
            let order = self.offsets.newest_order(group, from, partition).unwrap_or(0);
            let item = CommitItem {
                topic: to.clone(),
                partition,
                offset: committed.offset,
                leader_epoch: committed.leader_epoch,
                metadata: committed.metadata,
            };
            Some(PendingCommit { item, order })
        });
        items.collect()
    }
}
