//! Topics of this cluster by name and id: create, delete, find, restore.

mod change;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;
use uuid::Uuid;

use crate::broker::error::BrokerError;
use crate::broker::kind;
use crate::broker::producers::Producers;
use crate::broker::settings::{SettingError, TopicSettings, TopicSpec};
use crate::broker::topic::{Partition, Topic, TopicRecord};
use crate::journal::{EncodedHead, Journal, JournalEntry, NewEntry, StreamId};
use crate::model::TopicName;
use crate::wire::names::{dead_letter_stream, is_legal_topic};

pub use change::SettingChange;

/// Limit on the partitions of a topic; a higher number is taken for a mistake.
const PARTITIONS_MAX: i32 = 10_000;

#[derive(Debug)]
pub struct Topics {
    journal: Journal,
    defaults: TopicSettings,
    /// Limit on a request, and so on a batch.
    request_bytes_max: usize,
    state: RwLock<TopicsState>,
}

#[derive(Debug, Default)]
struct TopicsState {
    by_name: BTreeMap<TopicName, Arc<Topic>>,
    by_id: BTreeMap<Uuid, TopicName>,
    producers: BTreeMap<StreamId, Arc<Mutex<Producers>>>,
    /// Changes with every created or deleted topic.
    version: u64,
}

impl Topics {
    /// An empty registry; `replay` fills it.
    pub fn new(journal: Journal, defaults: TopicSettings, request_bytes_max: usize) -> Self {
        Self { journal, defaults, request_bytes_max, state: RwLock::default() }
    }

    /// Settings of a topic without overrides.
    pub fn defaults(&self) -> &TopicSettings {
        &self.defaults
    }

    pub fn find(&self, name: &TopicName) -> Option<Arc<Topic>> {
        self.read().by_name.get(name).cloned()
    }

    /// The name of the topic with that id.
    pub fn name_of(&self, id: Uuid) -> Option<TopicName> {
        self.read().by_id.get(&id).cloned()
    }

    /// A number that changes with every created or deleted topic.
    pub fn version(&self) -> u64 {
        self.read().version
    }

    /// All topics, in name order.
    pub fn list(&self) -> Vec<Arc<Topic>> {
        self.read().by_name.values().cloned().collect()
    }

    /// Checks that `spec` could be created, without creating it.
    pub fn check(&self, spec: &TopicSpec) -> Result<TopicSettings, BrokerError> {
        let name = spec.name.as_str();
        legal(&spec.name)?;
        if !(1..=PARTITIONS_MAX).contains(&spec.partitions) {
            return Err(BrokerError::InvalidPartitions(spec.partitions));
        }
        let settings = self.settled(&spec.settings)?;
        if self.find(&spec.name).is_some() {
            return Err(BrokerError::TopicExists(name.to_owned()));
        }
        Ok(settings)
    }

    /// Creates a topic; usable once the returned sequence is durable.
    pub fn create(&self, spec: &TopicSpec, id: Uuid) -> Result<(Arc<Topic>, u64), BrokerError> {
        let settings = self.check(spec)?;
        let mut state = self.write();
        if state.by_name.contains_key(&spec.name) {
            return Err(BrokerError::TopicExists(spec.name.to_string()));
        }
        let streams = self.streams(id, 0..spec.partitions)?;
        let overrides = spec.settings.clone();
        let seq = self.store(&spec.name, record(id, &streams, &overrides).encode())?;
        let topic = state.insert(&spec.name, id, &streams, settings, Some(overrides));
        Ok((topic, seq))
    }

    /// Deletes a topic with its streams. `append` takes the topic's tombstone and adds what is
    /// deleted with it.
    pub(super) fn delete(
        &self,
        name: &TopicName,
        append: impl FnOnce(NewEntry) -> Result<u64, BrokerError>,
    ) -> Result<u64, BrokerError> {
        let mut state = self.write();
        let topic = state.by_name.get(name).cloned();
        let topic = topic.ok_or(BrokerError::UnknownTopicOrPartition)?;
        let seq = append(NewEntry::tombstone(kind::TOPIC, key(name)))?;
        // The tombstone is journalled, so the topic is gone even if dropping a stream fails.
        state.by_name.remove(name);
        state.by_id.remove(&topic.id);
        state.version += 1;
        // The next producer snapshot removes the producers of the dropped streams.
        let dropped = topic.partitions.iter().map(|p| self.journal.stream_drop(p.stream));
        dropped.fold(Ok(()), Result::and)?;
        Ok(seq)
    }

    /// The dead-letter topic of that name; it has one partition and no retention. `None`: it has no
    /// records.
    pub fn dead_letters(&self, name: &TopicName, id: Uuid) -> Option<Arc<Topic>> {
        if let Some(topic) = self.find(name) {
            return Some(topic);
        }
        let stream = self.journal.stream_find(&dead_letter_stream(name))?;
        // The caller limits the size of a group's dead-letter topic.
        let settings = TopicSettings {
            retention_ms: None,
            retention_bytes: None,
            max_message_bytes: self.request_bytes_max,
        };
        let mut state = self.write();
        if let Some(topic) = state.by_name.get(name) {
            return Some(Arc::clone(topic));
        }
        Some(state.insert(name, id, &[stream], settings, None))
    }

    /// The producers of one stream.
    pub fn producers(&self, stream: StreamId) -> Arc<Mutex<Producers>> {
        if let Some(producers) = self.read().producers.get(&stream) {
            return Arc::clone(producers);
        }
        Arc::clone(self.write().producers.entry(stream).or_default())
    }

    /// Forgets the producers of a deleted stream.
    pub(super) fn forget_producers(&self, stream: StreamId) {
        self.write().producers.remove(&stream);
    }

    /// Every stream that has remembered producers.
    pub fn all_producers(&self) -> Vec<(StreamId, Arc<Mutex<Producers>>)> {
        let state = self.read();
        state.producers.iter().map(|(stream, p)| (*stream, Arc::clone(p))).collect()
    }

    /// Restores one stored topic.
    pub fn replay(&self, entry: &JournalEntry) {
        let Some(name) = entry.key.as_deref().and_then(|key| std::str::from_utf8(key).ok()) else {
            return;
        };
        let name = TopicName::new(name);
        let mut state = self.write();
        if let Some(old) = state.by_name.remove(&name) {
            state.by_id.remove(&old.id);
        }
        let Some(record) = TopicRecord::parse(&entry.head) else { return };
        let mut settings = self.defaults.clone();
        for (key, value) in &record.settings {
            if let Err(error) = settings.set(key, value) {
                tracing::warn!(
                    topic = %name, key, %error,
                    "R0419 a stored topic setting cannot be read: the default holds; set it again"
                );
            }
        }
        let streams: Vec<_> = record.streams.iter().map(|id| StreamId(*id)).collect();
        let id = Uuid::from_bytes(record.id);
        state.insert(&name, id, &streams, settings, Some(record.settings));
    }

    /// The defaults with `overrides` applied.
    fn settled(&self, overrides: &[(String, String)]) -> Result<TopicSettings, BrokerError> {
        let mut settings = self.defaults.clone();
        for (key, value) in overrides {
            settings.set(key, value)?;
        }
        if self.request_bytes_max < settings.max_message_bytes {
            return Err(SettingError::TooLarge {
                value: settings.max_message_bytes,
                most: self.request_bytes_max,
            }
            .into());
        }
        Ok(settings)
    }

    /// The streams of these partitions; streams that a crash left without a topic are reused.
    fn streams(&self, id: Uuid, indexes: Range<i32>) -> Result<Vec<StreamId>, BrokerError> {
        let open = |index| self.journal.stream_open(&format!("t/{id}/{index}"));
        Ok(indexes.map(open).collect::<Result<_, _>>()?)
    }

    fn store(&self, name: &TopicName, head: EncodedHead) -> Result<u64, BrokerError> {
        let entry = NewEntry::keyed(kind::TOPIC, key(name), head, Bytes::new());
        Ok(self.journal.append(vec![entry])?.seq())
    }

    fn read(&self) -> RwLockReadGuard<'_, TopicsState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, TopicsState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(name: &TopicName) -> Bytes {
    Bytes::copy_from_slice(name.as_str().as_bytes())
}

fn record(id: Uuid, streams: &[StreamId], overrides: &[(String, String)]) -> TopicRecord {
    TopicRecord {
        id: id.into_bytes(),
        streams: streams.iter().map(|stream| stream.0).collect(),
        settings: overrides.to_vec(),
    }
}

impl TopicsState {
    /// `overrides`: the topic's own settings; a dead-letter topic has none.
    fn insert(
        &mut self,
        name: &TopicName,
        id: Uuid,
        streams: &[StreamId],
        settings: TopicSettings,
        overrides: Option<Vec<(String, String)>>,
    ) -> Arc<Topic> {
        let partitions = (0..)
            .zip(streams)
            .map(|(index, stream)| Partition {
                index,
                stream: *stream,
                producers: Arc::clone(self.producers.entry(*stream).or_default()),
            })
            .collect();
        let topic = Arc::new(Topic {
            name: name.clone(),
            id,
            partitions,
            settings,
            dead_letters: overrides.is_none(),
            overrides: overrides.unwrap_or_default(),
        });
        self.by_name.insert(name.clone(), Arc::clone(&topic));
        self.by_id.insert(id, name.clone());
        self.version += 1;
        topic
    }
}

/// Checks that a topic name is legal.
pub fn legal(name: &TopicName) -> Result<(), BrokerError> {
    if is_legal_topic(name.as_str()) {
        return Ok(());
    }
    Err(BrokerError::InvalidTopic {
        name: name.as_str().to_owned(),
        why: "1 to 249 of a-z A-Z 0-9 . _ - and neither . nor ..",
    })
}
