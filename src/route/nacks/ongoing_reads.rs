//! Nacks without the record's bytes whose records are being read back: a commit that passes such a
//! record waits for the nack.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::model::{GroupId, TopicPartition};

/// Offsets being read back, by group and partition, with the number of readers of each.
type OffsetReaders = BTreeMap<(GroupId, TopicPartition), BTreeMap<i64, usize>>;

#[derive(Debug, Default)]
pub(in crate::route) struct OngoingReads(Arc<SharedReads>);

#[derive(Debug, Default)]
struct SharedReads {
    offsets: Mutex<OffsetReaders>,
    ended: Notify,
}

/// One record that is being read back, until this is dropped.
#[derive(Debug)]
pub(in crate::route) struct ReadGuard {
    of: (GroupId, TopicPartition),
    offset: i64,
    shared: Arc<SharedReads>,
}

impl OngoingReads {
    /// Marks a record as being read back for a nack.
    pub(in crate::route) fn begin(
        &self,
        group: GroupId,
        partition: TopicPartition,
        offset: i64,
    ) -> ReadGuard {
        let of = (group, partition);
        let mut offsets = self.0.lock();
        let readers = offsets.entry(of.clone()).or_default().entry(offset).or_default();
        *readers = readers.saturating_add(1);
        drop(offsets);
        ReadGuard { of, offset, shared: Arc::clone(&self.0) }
    }

    pub(in crate::route) fn is_idle(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Waits until no record below the commit is being read back.
    pub(in crate::route) async fn passed_by(
        &self,
        group: &GroupId,
        commit: &[(TopicPartition, i64)],
    ) {
        loop {
            let mut ended = pin!(self.0.ended.notified());
            ended.as_mut().enable();
            if !self.0.is_passed_by(group, commit) {
                return;
            }
            ended.await;
        }
    }
}

impl SharedReads {
    fn lock(&self) -> MutexGuard<'_, OffsetReaders> {
        self.offsets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_passed_by(&self, group: &GroupId, commit: &[(TopicPartition, i64)]) -> bool {
        let offsets = self.lock();
        commit.iter().any(|(partition, committed)| {
            let read = offsets.get(&(group.clone(), partition.clone()));
            let first = read.and_then(|read| read.first_key_value());
            first.is_some_and(|(offset, _)| offset < committed)
        })
    }
}

impl Drop for ReadGuard {
    fn drop(&mut self) {
        let mut offsets = self.shared.lock();
        if let Some(read) = offsets.get_mut(&self.of) {
            if let Some(readers) = read.get_mut(&self.offset) {
                *readers = readers.saturating_sub(1);
            }
            read.retain(|_, readers| *readers > 0);
            if read.is_empty() {
                offsets.remove(&self.of);
            }
        }
        drop(offsets);
        self.shared.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn of(partition: i32) -> TopicPartition {
        TopicPartition { topic: "orders".into(), partition }
    }

    fn is_ready(waiting: std::pin::Pin<&mut impl Future<Output = ()>>) -> bool {
        waiting.poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    #[test]
    fn a_commit_waits_only_for_records_it_passes() {
        let reading = OngoingReads::default();
        let shop = GroupId::new("shop");
        let first = reading.begin(shop.clone(), of(0), 7);
        let again = reading.begin(shop.clone(), of(0), 7);
        for (group, partition, committed) in
            [("shop", 0, 7), ("shop", 1, 8), ("audit", 0, 8), ("shop", 0, -1)]
        {
            let (group, commit) = (GroupId::new(group), [(of(partition), committed)]);
            assert!(is_ready(pin!(reading.passed_by(&group, &commit))), "{group} {committed}");
        }
        let commit = [(of(1), 3), (of(0), 8)];
        let mut waiting = pin!(reading.passed_by(&shop, &commit));
        assert!(!is_ready(waiting.as_mut()));
        drop(first);
        assert!(!is_ready(waiting.as_mut()), "another nack of the record is read");
        drop(again);
        assert!(is_ready(waiting.as_mut()));
        assert!(reading.is_idle());
    }
}
