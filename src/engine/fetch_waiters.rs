//! Wakes waiting Fetches of a group.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use crate::model::GroupId;

/// Waiting Fetches by group; each is woken once, and must register again.
#[derive(Debug, Default)]
pub(super) struct FetchWaiters {
    waiting: Mutex<BTreeMap<GroupId, Vec<Arc<Notify>>>>,
}

impl FetchWaiters {
    /// Registers a waiting Fetch.
    pub(super) fn watch(&self, group: &GroupId, waker: &Arc<Notify>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let wakers = waiting.entry(group.clone()).or_default();
        wakers.retain(|known| Arc::strong_count(known) > 1 && !Arc::ptr_eq(known, waker));
        wakers.push(Arc::clone(waker));
    }

    /// Wakes all Fetches that wait for `group`.
    pub(super) fn wake(&self, group: &GroupId) {
        let wakers = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(group);
        for waker in wakers.unwrap_or_default() {
            waker.notify_one();
        }
    }
}
