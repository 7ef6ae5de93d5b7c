//! How the dead letters of each group stand on their way to the cluster, for people and metrics.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::model::{GroupId, TopicName};

/// One group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::server) struct Standing {
    /// Where they are sent.
    pub(in crate::server) topic: TopicName,
    /// Not there yet.
    pub(in crate::server) pending: u64,
    /// The cluster refuses these.
    pub(in crate::server) refused: u64,
    /// Why nothing moves.
    pub(in crate::server) trouble: Option<String>,
}

/// All of them. Clones share it.
#[derive(Clone, Debug, Default)]
pub(in crate::server) struct Board(Arc<Mutex<BTreeMap<GroupId, Standing>>>);

impl Board {
    /// One group, if its dead letters are sent anywhere.
    pub(in crate::server) fn of(&self, group: &GroupId) -> Option<Standing> {
        self.lock().get(group).cloned()
    }

    /// Groups whose dead letters do not move.
    pub(in crate::server) fn troubled(&self) -> usize {
        self.lock().values().filter(|standing| standing.trouble.is_some()).count()
    }

    /// All anew: groups that are not named have none to send.
    pub(super) fn replace(&self, standings: BTreeMap<GroupId, Standing>) {
        *self.lock() = standings;
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<GroupId, Standing>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
