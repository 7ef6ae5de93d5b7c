//! Settings of a topic, under Kafka's own names (`TopicConfig`).

mod idle;

use crate::model::TopicName;

pub use idle::idle;

/// For ever, or as much as comes.
const NO_BOUND: &str = "-1";

/// How long and how much a topic keeps. `None` = for ever, without bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicSettings {
    /// `retention.ms`: time since a batch arrived, in milliseconds.
    pub retention_ms: Option<u64>,
    /// `retention.bytes`: per partition.
    pub retention_bytes: Option<u64>,
    /// `max.message.bytes`: the largest batch, in bytes.
    pub max_message_bytes: usize,
}

/// Why a setting is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// Not one of ours.
    #[error(
        "topic setting {0} is not known here; known: retention.ms, retention.bytes, \
         max.message.bytes, cleanup.policy=delete, and such as change nothing on one node"
    )]
    Unknown(String),
    /// Named without a value.
    #[error("topic setting {0}: a value is missing")]
    Missing(String),
    /// No batch of that size ever comes.
    #[error("topic setting max.message.bytes={value}: no request is larger than {most} bytes")]
    TooLarge {
        /// What was asked for.
        value: usize,
        /// `limits.frame_bytes`.
        most: usize,
    },
    /// Has one value, to which nothing can be added.
    #[error("topic setting {0} is not a list: it can only be set")]
    NotAList(String),
    /// Known, with a value it cannot take.
    #[error("topic setting {name}={value}: expected {expected}")]
    Invalid {
        /// The setting.
        name: String,
        /// What was asked for.
        value: String,
        /// What it takes.
        expected: &'static str,
    },
}

impl TopicSettings {
    /// Applies one `name=value`; values as Kafka's tools send them.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SettingError> {
        let invalid = |expected| SettingError::Invalid {
            name: name.to_owned(),
            value: value.to_owned(),
            expected,
        };
        match name {
            "retention.ms" => {
                self.retention_ms =
                    bound(value).ok_or_else(|| invalid("milliseconds, or -1 for ever"))?;
            }
            "retention.bytes" => {
                self.retention_bytes =
                    bound(value).ok_or_else(|| invalid("bytes, or -1 for no bound"))?;
            }
            "max.message.bytes" => {
                self.max_message_bytes = value.parse().map_err(|_| invalid("a number of bytes"))?;
            }
            "cleanup.policy" if value == "delete" => {}
            "cleanup.policy" => return Err(invalid("delete (compaction is not served)")),
            "message.timestamp.type" if value == "CreateTime" => {}
            "message.timestamp.type" => return Err(invalid("CreateTime")),
            _ if idle(name).is_some() => {
                if let Some(expected) = idle::expected(name, value) {
                    return Err(invalid(expected));
                }
            }
            _ => return Err(SettingError::Unknown(name.to_owned())),
        }
        Ok(())
    }

    /// What `DescribeConfigs` shows: name and value, in name order.
    pub fn list(&self) -> Vec<(&'static str, String)> {
        vec![
            ("cleanup.policy", "delete".to_owned()),
            ("max.message.bytes", self.max_message_bytes.to_string()),
            ("message.timestamp.type", "CreateTime".to_owned()),
            ("retention.bytes", spelled(self.retention_bytes)),
            ("retention.ms", spelled(self.retention_ms)),
        ]
    }
}

/// Topics made at start: name, partitions and settings that differ from the defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicSpec {
    /// As on the wire.
    pub name: TopicName,
    /// How many.
    pub partitions: i32,
    /// As Kafka spells them.
    pub settings: Vec<(String, String)>,
}

/// A bound as Kafka's tools send it; −1 = none.
pub fn spelled(bound: Option<u64>) -> String {
    bound.map_or_else(|| NO_BOUND.to_owned(), |bound| bound.to_string())
}

/// −1 = no bound; `None` for what is no number.
#[expect(clippy::option_option, reason = "no number, no bound and a bound are three answers")]
fn bound(value: &str) -> Option<Option<u64>> {
    if value == NO_BOUND {
        return Some(None);
    }
    value.parse().ok().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULT: TopicSettings =
        TopicSettings { retention_ms: Some(1), retention_bytes: None, max_message_bytes: 100 };

    #[test]
    fn what_is_set_is_what_is_listed() {
        let mut settings = DEFAULT;
        settings.set("retention.ms", "-1").unwrap();
        settings.set("retention.bytes", "77").unwrap();
        settings.set("cleanup.policy", "delete").unwrap();
        let listed = settings.list();
        assert!(listed.contains(&("retention.ms", "-1".to_owned())), "{listed:?}");
        assert!(listed.contains(&("retention.bytes", "77".to_owned())), "{listed:?}");
    }

    #[test]
    fn unknown_names_and_bad_values_are_refused_by_name() {
        let mut settings = DEFAULT;
        for (name, value) in [("retention.ms", "x"), ("cleanup.policy", "compact"), ("a.b", "1")] {
            let error = settings.set(name, value).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
        assert_eq!(settings, DEFAULT);
    }

    #[test]
    fn what_changes_nothing_here_is_taken_unless_it_promises_something() {
        let mut settings = DEFAULT;
        for (name, value) in [("segment.bytes", "52428800"), ("min.insync.replicas", "1")] {
            settings.set(name, value).unwrap();
        }
        for (name, value) in
            [("segment.bytes", "x"), ("min.insync.replicas", "2"), ("flush.messages", "1")]
        {
            let error = settings.set(name, value).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("expected"), "{error}");
        }
        assert_eq!(settings, DEFAULT);
    }
}
