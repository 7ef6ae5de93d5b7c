//! Opened retry topics of the cluster behind: the engine releases due retries into them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::model::GroupId;
use crate::upstream::OwnLinks;

/// The opened topics.
#[derive(Debug, Default)]
pub struct OpenedTopics {
    /// Partitions by group; `None`: the topic could not be opened, and that was logged.
    topics: Mutex<BTreeMap<GroupId, Option<i32>>>,
    /// A group has retries and no topic.
    pub(super) wants: Notify,
    /// One look-up at a time, so that two requests do not make one topic twice.
    pub(super) links: tokio::sync::Mutex<OwnLinks>,
}

impl OpenedTopics {
    /// The number of partitions, if the topic is open.
    pub(in crate::route) fn partitions(&self, group: &GroupId) -> Option<i32> {
        self.topics().get(group).copied().flatten()
    }

    /// The group has retries: its topic is opened soon.
    pub(in crate::route) fn want(&self, group: &GroupId) {
        if self.partitions(group).is_none() {
            self.wants.notify_one();
        }
    }

    pub(super) fn set_open(&self, group: &GroupId, partitions: i32) {
        self.topics().insert(group.clone(), Some(partitions));
    }

    pub(super) fn lose(&self, group: &GroupId) {
        self.topics().remove(group);
    }

    /// Notes that the topic cannot be opened; false: so it was before.
    pub(super) fn is_refused_anew(&self, group: &GroupId) -> bool {
        self.topics().insert(group.clone(), None) != Some(None)
    }

    fn topics(&self) -> MutexGuard<'_, BTreeMap<GroupId, Option<i32>>> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
