//! Settings of a topic, under Kafka's own names (`TopicConfig`).

mod idle;

use crate::model::TopicName;

pub use idle::idle;

/// Kafka's value for no limit of time or size.
const NO_BOUND: &str = "-1";

/// Retention and size limits of a topic. `None` = no limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicSettings {
    /// `retention.ms`: time since a batch arrived, in milliseconds.
    pub retention_ms: Option<u64>,
    /// `retention.bytes`: per partition.
    pub retention_bytes: Option<u64>,
    /// `max.message.bytes`: the largest batch, in bytes.
    pub max_message_bytes: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// A name that this node does not know.
    #[error(
        "topic setting {0} is not known here; known: retention.ms, retention.bytes, \
         max.message.bytes, cleanup.policy=delete, and such as change nothing on one node"
    )]
    Unknown(String),
    /// Named without a value.
    #[error("topic setting {0}: a value is missing")]
    Missing(String),
    /// A size above the largest request, so no batch could reach it.
    #[error("topic setting max.message.bytes={value}: no request is larger than {most} bytes")]
    TooLarge {
        value: usize,
        /// The sidecar's setting `limits.frame_bytes`.
        most: usize,
    },
    /// Append or subtract on a setting that is not a list.
    #[error("topic setting {0} is not a list: it can only be set")]
    NotAList(String),
    /// A known setting with a value that it does not take.
    #[error("topic setting {name}={value}: expected {expected}")]
    Invalid {
        name: String,
        value: String,
        /// The values that the setting takes.
        expected: &'static str,
    },
}

impl TopicSettings {
    /// Applies one `name=value`; the value is spelled as Kafka's tools send it.
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

    /// Names and values for `DescribeConfigs`, in name order.
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

/// A topic to create: name, partitions and settings that differ from the defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicSpec {
    pub name: TopicName,
    pub partitions: i32,
    /// Names and values as Kafka spells them.
    pub settings: Vec<(String, String)>,
}

/// A limit as Kafka's tools send it; −1 = none.
pub fn spelled(bound: Option<u64>) -> String {
    bound.map_or_else(|| NO_BOUND.to_owned(), |bound| bound.to_string())
}

/// −1 = no limit; `None` if `value` is no number.
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
    fn a_changed_setting_is_listed_with_its_value() {
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
    fn harmless_settings_are_accepted_and_unmet_promises_refused() {
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
