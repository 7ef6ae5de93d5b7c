//! Topics of the cluster behind that are known to be there: retry topics, into which the engine
//! releases due retries, and dead-letter topics.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::model::{GroupId, MonoMs, TopicName};
use crate::upstream::OwnLinks;

/// Bound of dead-letter topics; a forgotten one is looked up again.
const LETTERS_MAX: usize = 10_000;

/// The opened topics.
#[derive(Debug, Default)]
pub struct OpenedTopics {
    /// `None`: the topic could not be opened, and that was logged.
    topics: Mutex<BTreeMap<GroupId, Option<OpenedTopic>>>,
    /// Dead-letter topics that are there, by the time of their opening.
    letters: Mutex<BTreeMap<TopicName, MonoMs>>,
    /// A group has retries and no topic.
    pub(super) wants: Notify,
    /// One look-up at a time, so that two requests do not make one topic twice.
    pub(super) links: tokio::sync::Mutex<OwnLinks>,
}

/// A retry topic that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OpenedTopic {
    partitions: i32,
    at: MonoMs,
}

impl OpenedTopics {
    /// The number of partitions, if the topic is open.
    pub(in crate::route) fn partitions(&self, group: &GroupId) -> Option<i32> {
        self.topics().get(group).copied().flatten().map(|topic| topic.partitions)
    }

    /// The time at which a retry topic was opened.
    pub(super) fn opened_at(&self, group: &GroupId) -> Option<MonoMs> {
        self.topics().get(group).copied().flatten().map(|topic| topic.at)
    }

    /// The group has retries: its topic is opened soon.
    pub(in crate::route) fn want(&self, group: &GroupId) {
        if self.partitions(group).is_none() {
            self.wants.notify_one();
        }
    }

    pub(super) fn set_open(&self, group: &GroupId, partitions: i32, at: MonoMs) {
        self.topics().insert(group.clone(), Some(OpenedTopic { partitions, at }));
    }

    pub(super) fn lose(&self, group: &GroupId) {
        self.topics().remove(group);
    }

    /// Notes that the topic cannot be opened; false: so it was before.
    pub(super) fn is_refused_anew(&self, group: &GroupId) -> bool {
        self.topics().insert(group.clone(), None) != Some(None)
    }

    /// The time at which a dead-letter topic was opened.
    pub(super) fn letters_at(&self, topic: &TopicName) -> Option<MonoMs> {
        self.letters().get(topic).copied()
    }

    pub(super) fn add_letters(&self, topic: &TopicName, at: MonoMs) {
        let mut letters = self.letters();
        if letters.len() >= LETTERS_MAX {
            letters.pop_first();
        }
        letters.insert(topic.clone(), at);
    }

    pub(super) fn lose_letters(&self, topic: &TopicName) {
        self.letters().remove(topic);
    }

    fn letters(&self) -> MutexGuard<'_, BTreeMap<TopicName, MonoMs>> {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn topics(&self) -> MutexGuard<'_, BTreeMap<GroupId, Option<OpenedTopic>>> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
