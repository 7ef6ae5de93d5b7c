//! Changes of an existing topic: its settings and its number of partitions.

use std::sync::Arc;

use crate::broker::error::BrokerError;
use crate::broker::settings::{SettingError, idle};
use crate::broker::topic::Topic;
use crate::broker::topics::{PARTITIONS_MAX, Topics, TopicsState, record};
use crate::journal::StreamId;
use crate::model::TopicName;

/// One change of one setting, as in `IncrementalAlterConfigs` (KIP-339).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingChange {
    /// Sets the value.
    Set(String, String),
    /// Removes the override; an unknown name is ignored.
    Reset(String),
    /// Adds elements to a list.
    Append(String, String),
    /// Removes elements from a list.
    Subtract(String, String),
}

impl Topics {
    /// Changes settings of a topic, all or none; durable with the returned sequence. `only_check`
    /// validates the request and changes nothing.
    pub fn alter(
        &self,
        name: &TopicName,
        changes: &[SettingChange],
        only_check: bool,
    ) -> Result<u64, BrokerError> {
        let mut state = self.write();
        let topic = state.changeable(name)?;
        let overrides = self.changed(&topic, changes)?;
        self.keep(&mut state, &topic, overrides, only_check)
    }

    /// Sets exactly these settings; every other setting returns to its default.
    pub fn replace(
        &self,
        name: &TopicName,
        overrides: Vec<(String, String)>,
        only_check: bool,
    ) -> Result<u64, BrokerError> {
        let mut state = self.write();
        let topic = state.changeable(name)?;
        self.keep(&mut state, &topic, overrides, only_check)
    }

    /// Adds partitions up to a total of `partitions`; usable once the returned sequence is durable.
    /// `only_check` validates the request and changes nothing.
    pub fn grow(
        &self,
        name: &TopicName,
        partitions: i32,
        only_check: bool,
    ) -> Result<u64, BrokerError> {
        let mut state = self.write();
        let topic = state.changeable(name)?;
        let has = topic.partitions.len();
        let known = i32::try_from(has).unwrap_or(i32::MAX);
        if partitions <= known {
            let topic = name.to_string();
            return Err(BrokerError::NotAnIncrease { topic, has, asked: partitions });
        }
        if PARTITIONS_MAX < partitions {
            return Err(BrokerError::InvalidPartitions(partitions));
        }
        if only_check {
            return Ok(0);
        }
        let mut streams = streams_of(&topic);
        streams.extend(self.streams(topic.id, known..partitions)?);
        let seq = self.store(name, record(topic.id, &streams, &topic.overrides).encode())?;
        let (settings, overrides) = (topic.settings.clone(), topic.overrides.clone());
        state.insert(name, topic.id, &streams, settings, Some(overrides));
        Ok(seq)
    }

    /// The topic's overrides after `changes`.
    fn changed(
        &self,
        topic: &Topic,
        changes: &[SettingChange],
    ) -> Result<Vec<(String, String)>, BrokerError> {
        let mut overrides = topic.overrides.clone();
        let known = self.defaults.list();
        for change in changes {
            let name = change.name();
            let default = known.iter().find(|(known, _)| *known == name);
            let default = default.map(|(_, default)| default.as_str());
            let Some(default) = default.or_else(|| idle(name).map(|_| "")) else {
                if matches!(change, SettingChange::Reset(_)) {
                    continue;
                }
                return Err(SettingError::Unknown(name.to_owned()).into());
            };
            let list = || list_of(&overrides, name, default);
            let value = match change {
                SettingChange::Reset(_) => None,
                SettingChange::Set(_, value) => Some(value.clone()),
                SettingChange::Append(_, more) => {
                    let mut list = list()?;
                    let mut more = elements(more);
                    more.retain(|element| !list.contains(element));
                    list.append(&mut more);
                    Some(list.join(","))
                }
                SettingChange::Subtract(_, less) => {
                    let (mut list, less) = (list()?, elements(less));
                    list.retain(|element| !less.contains(element));
                    Some(list.join(","))
                }
            };
            overrides.retain(|(known, _)| known != name);
            overrides.extend(value.map(|value| (name.to_owned(), value)));
        }
        Ok(overrides)
    }

    fn keep(
        &self,
        state: &mut TopicsState,
        topic: &Topic,
        overrides: Vec<(String, String)>,
        only_check: bool,
    ) -> Result<u64, BrokerError> {
        let settings = self.settled(&overrides)?;
        if only_check || overrides == topic.overrides {
            return Ok(0);
        }
        let streams = streams_of(topic);
        let seq = self.store(&topic.name, record(topic.id, &streams, &overrides).encode())?;
        state.insert(&topic.name, topic.id, &streams, settings, Some(overrides));
        Ok(seq)
    }
}

impl SettingChange {
    /// The name, and the value that it gets.
    pub fn setting(&self) -> (&str, Option<&str>) {
        match self {
            Self::Set(name, value) => (name, Some(value)),
            _ => (self.name(), None),
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Set(name, _)
            | Self::Reset(name)
            | Self::Append(name, _)
            | Self::Subtract(name, _) => name,
        }
    }
}

impl TopicsState {
    /// The topic of that name; dead-letter topics cannot be changed.
    fn changeable(&self, name: &TopicName) -> Result<Arc<Topic>, BrokerError> {
        let topic = self.by_name.get(name).filter(|topic| !topic.dead_letters);
        topic.cloned().ok_or(BrokerError::UnknownTopicOrPartition)
    }
}

fn streams_of(topic: &Topic) -> Vec<StreamId> {
    topic.partitions.iter().map(|partition| partition.stream).collect()
}

/// The elements of a list setting.
fn list_of(
    overrides: &[(String, String)],
    name: &str,
    default: &str,
) -> Result<Vec<String>, SettingError> {
    if name != "cleanup.policy" {
        return Err(SettingError::NotAList(name.to_owned()));
    }
    let set = overrides.iter().find(|(known, _)| known == name);
    Ok(elements(set.map_or(default, |(_, value)| value)))
}

fn elements(list: &str) -> Vec<String> {
    let trimmed = list.split(',').map(str::trim).filter(|element| !element.is_empty());
    trimmed.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::broker::settings::{TopicSettings, TopicSpec};
    use crate::journal::{Journal, JournalOptions, MemDisk, Writer};

    /// A registry with topic `orders`: two partitions and a retention of 7 ms.
    fn house() -> (Topics, TopicName, Writer) {
        let (journal, writer, _) =
            Journal::open(MemDisk::new(1).disk(), JournalOptions::default()).unwrap();
        let defaults =
            TopicSettings { retention_ms: Some(1), retention_bytes: None, max_message_bytes: 100 };
        let topics = Topics::new(journal, defaults, 1000);
        let name = TopicName::new("orders");
        let settings = vec![("retention.ms".to_owned(), "7".to_owned())];
        let spec = TopicSpec { name: name.clone(), partitions: 2, settings };
        topics.create(&spec, Uuid::from_u128(5)).unwrap();
        (topics, name, writer)
    }

    fn set(name: &str, value: &str) -> SettingChange {
        SettingChange::Set(name.to_owned(), value.to_owned())
    }

    #[test]
    fn settings_change_together_or_not_at_all() {
        let (topics, name, _writer) = house();
        let good = set("retention.bytes", "9");
        let bad = set("max.message.bytes", "many");
        assert!(topics.alter(&name, &[good.clone(), bad], false).is_err());
        assert_eq!(topics.find(&name).unwrap().settings.retention_bytes, None);
        assert_eq!(
            topics.alter(&name, std::slice::from_ref(&good), true).unwrap(),
            0,
            "only looked at"
        );
        assert_eq!(topics.find(&name).unwrap().settings.retention_bytes, None);
        let back = SettingChange::Reset("retention.ms".to_owned());
        assert!(topics.alter(&name, &[good, back], false).unwrap() > 0);
        let found = topics.find(&name).unwrap();
        assert_eq!(
            (found.settings.retention_bytes, found.settings.retention_ms),
            (Some(9), Some(1))
        );
        assert_eq!(found.overrides, [("retention.bytes".to_owned(), "9".to_owned())]);
    }

    #[test]
    fn only_list_settings_take_elements_and_values_are_checked() {
        let (topics, name, _writer) = house();
        let append =
            |name: &str, value: &str| SettingChange::Append(name.to_owned(), value.to_owned());
        topics.alter(&name, &[append("cleanup.policy", "delete")], false).unwrap();
        let compact = topics.alter(&name, &[append("cleanup.policy", "compact")], false);
        assert!(compact.unwrap_err().to_string().contains("delete,compact"));
        let less = SettingChange::Subtract("cleanup.policy".to_owned(), "delete".to_owned());
        assert!(topics.alter(&name, &[less], false).is_err(), "nothing would be left");
        let large = topics.alter(&name, &[set("max.message.bytes", "1001")], false);
        assert!(large.unwrap_err().to_string().contains("larger than 1000 bytes"));
        let number = topics.alter(&name, &[append("retention.ms", "5")], false);
        assert!(number.unwrap_err().to_string().contains("is not a list"));
        assert!(topics.alter(&name, &[append("no.such", "5")], false).is_err());
    }

    #[test]
    fn a_topic_grows_and_keeps_its_partitions_and_settings() {
        let (topics, name, _writer) = house();
        let before = topics.find(&name).unwrap();
        for (count, says) in [(2, "not be an increase"), (1, "2 partitions"), (10_001, "10000")] {
            let error = topics.grow(&name, count, false).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        assert_eq!(topics.grow(&name, 5, true).unwrap(), 0);
        assert_eq!(topics.find(&name).unwrap().partitions.len(), 2, "only looked at");
        topics.grow(&name, 5, false).unwrap();
        let grown = topics.find(&name).unwrap();
        assert_eq!(grown.partitions.len(), 5);
        assert_eq!((grown.id, &grown.overrides), (before.id, &before.overrides));
        for (old, new) in before.partitions.iter().zip(&grown.partitions) {
            assert_eq!((old.index, old.stream), (new.index, new.stream));
            assert!(Arc::ptr_eq(&old.producers, &new.producers), "its producers are known");
        }
    }

    #[test]
    fn dead_letters_are_no_topic_to_change() {
        let (topics, _, _writer) = house();
        let name = TopicName::new("reprise.dlq.shop");
        topics.journal.stream_open("d/reprise.dlq.shop").unwrap();
        assert!(topics.dead_letters(&name, Uuid::from_u128(6)).is_some());
        assert!(topics.alter(&name, &[set("retention.ms", "1")], false).is_err());
        assert!(topics.replace(&name, Vec::new(), false).is_err());
        assert!(topics.grow(&name, 2, false).is_err());
    }
}
