//! Moves the committed offsets of a topic whose name on this node has changed since the last start.

use crate::broker::Broker;
use crate::broker::offsets::{CommitItem, PendingCommit};
use crate::journal::{AppendError, NewEntry};
use crate::model::{GroupId, TopicName, WallMs};

impl Broker {
    /// Moves the committed offsets of all groups from a topic's old name to its new name.
    /// `remember` is appended last, so a crash before it makes the next start repeat the whole
    /// move. Returns the last sequence.
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
        // The append may use the disk reserve, so a full disk does not stop the start.
        let append = |entries| Ok(self.journal.append_reserved(entries)?.seq());
        if !moved.is_empty() {
            self.offsets.commit_pending(at, &moved, append)?;
        }
        self.offsets.delete_topic(from, |mut entries| {
            entries.push(remember);
            append(entries)
        })
    }

    /// The group's committed offsets in the old topic, as commits in the new topic with the same
    /// order.
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
