//! The sidecar's own connections that read records back, and the leaders cached beside them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::model::TopicName;
use crate::upstream::OwnLinks;

/// The shared [`ReadLinks`] of one upstream.
#[derive(Debug, Default)]
pub(super) struct ReadConnections(Mutex<ReadLinks>);

/// The sidecar's connections for reading, and the leaders they found.
#[derive(Debug, Default)]
pub(super) struct ReadLinks {
    /// By node (`None`: any), so that one slow broker does not delay requests to others.
    links: BTreeMap<Option<i32>, Arc<tokio::sync::Mutex<OwnLinks>>>,
    pub(super) leaders: BTreeMap<(TopicName, i32), i32>,
}

impl ReadConnections {
    pub(super) fn state(&self) -> MutexGuard<'_, ReadLinks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn links(&self, node: Option<i32>) -> Arc<tokio::sync::Mutex<OwnLinks>> {
        Arc::clone(self.state().links.entry(node).or_default())
    }
}
