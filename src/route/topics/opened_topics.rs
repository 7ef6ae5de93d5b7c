//! Topics of the cluster behind that are known to be there: retry topics, into which the engine
//! releases due retries, and dead-letter topics.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use uuid::Uuid;

use crate::journal::StreamId;
use crate::model::{MonoMs, RetryPair, TopicName};
use crate::upstream::{OwnLinks, RetentionDanger};
use crate::wire::names::topic_id;

/// Bound of dead-letter topics; a forgotten one is looked up again.
const LETTERS_MAX: usize = 10_000;

/// Age of the last attempt above which nobody needs the topic.
const TRIED_MS: u64 = 60_000;

/// Look-ups at a time; two for one topic follow each other, so that none is made twice.
const TURNS: usize = 8;

/// The opened topics.
#[derive(Debug, Default)]
pub struct OpenedTopics {
    topics: Mutex<BTreeMap<RetryPair, TopicState>>,
    /// Dead-letter topics that are there, by the time of their opening.
    letters: Mutex<BTreeMap<TopicName, MonoMs>>,
    /// A pair has retries and no topic.
    pub(super) wants: Notify,
    openings: [tokio::sync::Mutex<OwnLinks>; TURNS],
    /// Number of lost topics: a topic without an id has another number after a loss.
    losses: AtomicU32,
}

/// A retry topic, as far as the sidecar knows it.
#[derive(Clone, Debug)]
enum TopicState {
    Open(OpenedTopic),
    /// The topic cannot be opened.
    Refused {
        at: MonoMs,
        why: TopicRefusal,
    },
}

/// The reason why a retry topic cannot be opened.
#[derive(Clone, Debug)]
pub(super) enum TopicRefusal {
    /// The next attempt may succeed.
    Passing,
    /// An operator has to act.
    Lasting(String),
}

/// The reason why retries of a topic wait for an operator.
#[derive(Clone, Debug)]
pub(super) enum TopicTrouble {
    Closed(String),
    Dangerous(RetentionDanger),
}

/// A retry topic that is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenedTopic {
    pub(super) partitions: i32,
    /// The number in the deliveries of its entries.
    pub(super) number: StreamId,
    pub(super) at: MonoMs,
    /// The cluster has more partitions: the topic is to be opened once more.
    pub(super) has_grown: bool,
    pub(super) danger: RetentionDanger,
    /// The time at which its settings were looked at.
    pub(super) settings_at: MonoMs,
}

impl OpenedTopics {
    /// The topic of a pair, if it is open.
    pub(super) fn opened(&self, pair: &RetryPair) -> Option<OpenedTopic> {
        match self.topics().get(pair)? {
            TopicState::Open(topic) => Some(*topic),
            TopicState::Refused { .. } => None,
        }
    }

    /// The number of partitions, if the topic is open.
    pub(in crate::route) fn partitions(&self, pair: &RetryPair) -> Option<i32> {
        self.opened(pair).map(|topic| topic.partitions)
    }

    /// Waits for the turn of a topic's look-up.
    pub(super) async fn turn(&self, topic: &TopicName) -> tokio::sync::MutexGuard<'_, OwnLinks> {
        let mut hasher = DefaultHasher::new();
        topic.hash(&mut hasher);
        let turns = u64::try_from(TURNS).unwrap_or(1);
        let turn = usize::try_from(hasher.finish() % turns).unwrap_or(0);
        let [first, ..] = &self.openings;
        self.openings.get(turn).unwrap_or(first).lock().await
    }

    /// The number of a topic: another one for each name, and for each topic by the same name.
    pub(super) fn number(&self, topic: &TopicName, id: Option<Uuid>) -> StreamId {
        let losses = if id.is_some() { 0 } else { self.losses.load(Ordering::Relaxed) };
        let [.., a, b, c, d] = id.unwrap_or_else(|| topic_id("", topic.as_str())).into_bytes();
        StreamId(u32::from_be_bytes([a, b, c, d]).wrapping_add(losses))
    }

    /// The pair has retries: its topic is opened soon.
    pub(in crate::route) fn want(&self, pair: &RetryPair) {
        if self.partitions(pair).is_none() {
            self.wants.notify_one();
        }
    }

    pub(super) fn set_open(&self, pair: &RetryPair, topic: OpenedTopic) {
        self.topics().insert(pair.clone(), TopicState::Open(topic));
    }

    /// An answer of the cluster has this number of partitions.
    pub(super) fn note_partitions(&self, pair: &RetryPair, partitions: usize) {
        let mut topics = self.topics();
        let Some(TopicState::Open(topic)) = topics.get_mut(pair) else { return };
        let known = usize::try_from(topic.partitions).unwrap_or(0);
        if known < partitions && !topic.has_grown {
            topic.has_grown = true;
            self.wants.notify_one();
        }
    }

    /// Notes the danger by a topic's settings, as just looked at.
    pub(super) fn set_danger(&self, pair: &RetryPair, danger: RetentionDanger, at: MonoMs) {
        if let Some(TopicState::Open(topic)) = self.topics().get_mut(pair) {
            (topic.danger, topic.settings_at) = (danger, at);
        }
    }

    pub(super) fn lose(&self, pair: &RetryPair) {
        self.topics().remove(pair);
        self.losses.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that the topic cannot be opened; false: so it was before.
    pub(super) fn is_refused_anew(&self, pair: &RetryPair, at: MonoMs, why: TopicRefusal) -> bool {
        let before = self.topics().insert(pair.clone(), TopicState::Refused { at, why });
        !matches!(before, Some(TopicState::Refused { .. }))
    }

    /// The retry topics that wait for an operator, with the reasons. A topic that cannot be opened
    /// is tried again every few seconds as long as a group has retries for it.
    pub(super) fn troubles(&self, now: MonoMs) -> Vec<(RetryPair, TopicTrouble)> {
        let topics = self.topics();
        let each = topics.iter().filter_map(|(pair, state)| {
            let trouble = match state {
                TopicState::Refused { at, why: TopicRefusal::Lasting(why) }
                    if now.since(*at) < TRIED_MS =>
                {
                    TopicTrouble::Closed(why.clone())
                }
                TopicState::Open(topic) if topic.danger != RetentionDanger::default() => {
                    TopicTrouble::Dangerous(topic.danger)
                }
                TopicState::Open(_) | TopicState::Refused { .. } => return None,
            };
            Some((pair.clone(), trouble))
        });
        each.collect()
    }

    /// The time at which the topic could not be opened, and whether the next attempt may succeed.
    pub(super) fn refused(&self, pair: &RetryPair) -> Option<(MonoMs, bool)> {
        match self.topics().get(pair)? {
            TopicState::Refused { at, why } => Some((*at, matches!(why, TopicRefusal::Passing))),
            TopicState::Open(_) => None,
        }
    }

    /// The time at which a dead-letter topic was opened.
    pub(super) fn letters_at(&self, topic: &TopicName) -> Option<MonoMs> {
        self.letters().get(topic).copied()
    }

    /// The dead-letter topics that are there.
    pub fn letters_opened(&self) -> Vec<TopicName> {
        self.letters().keys().cloned().collect()
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

    fn topics(&self) -> MutexGuard<'_, BTreeMap<RetryPair, TopicState>> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
