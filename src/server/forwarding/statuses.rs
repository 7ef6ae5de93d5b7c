//! The state of forwarding for each group, for the admin port and the metrics.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::model::{GroupId, TopicName};

/// The state of one group's dead letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::server) struct ForwardStatus {
    /// The topic in the cluster.
    pub(in crate::server) topic: TopicName,
    /// Dead letters that the cluster has not stored yet.
    pub(in crate::server) pending: u64,
    /// Dead letters that the cluster refuses.
    pub(in crate::server) refused: u64,
    /// The reason why forwarding has stopped.
    pub(in crate::server) trouble: Option<String>,
}

/// The states of all groups. Clones share them.
#[derive(Clone, Debug, Default)]
pub(in crate::server) struct ForwardStatuses(Arc<Mutex<BTreeMap<GroupId, ForwardStatus>>>);

impl ForwardStatuses {
    /// The state of one group, if its dead letters are forwarded.
    pub(in crate::server) fn of(&self, group: &GroupId) -> Option<ForwardStatus> {
        self.lock().get(group).cloned()
    }

    /// The number of groups whose forwarding has stopped.
    pub(in crate::server) fn count_stopped(&self) -> usize {
        self.lock().values().filter(|status| status.trouble.is_some()).count()
    }

    /// Replaces all states; a group that is missing forwards nothing.
    pub(super) fn replace(&self, statuses: BTreeMap<GroupId, ForwardStatus>) {
        *self.lock() = statuses;
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<GroupId, ForwardStatus>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
