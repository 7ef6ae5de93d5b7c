//! Settings of a retry topic that somebody else made: set as the sidecar makes its own topics, or
//! known as a danger for retries.

use std::collections::BTreeMap;

use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use kafka_protocol::messages::{
    DescribeConfigsRequest, DescribeConfigsResponse, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
};

use crate::model::{TopicName, WallMs};
use crate::upstream::writer::{DESCRIBE_CONFIGS, wire_text};
use crate::upstream::{OwnLinks, Upstream, UpstreamError};
use crate::wire::batch::RawRecord;
use crate::wire::{Api, ResponseError};

/// A topic, as a resource of either API.
const TOPIC_RESOURCE: i8 = 2;
/// Served since Kafka 2.3.
const INCREMENTAL_ALTER_CONFIGS: i16 = 0;
const SET: i8 = 0;
/// Twice the bytes that lie unread in a partition: the cluster deletes whole segments.
const UNREAD_BYTES: i64 = 128 << 20;
const LONGEST: &str = "9223372036854775807";

/// A value that keeps each retry until its group has read it.
struct NeededSetting {
    name: &'static str,
    is_enough: fn(&str) -> bool,
    value: &'static str,
}

/// A cluster lists `message.timestamp.before.max.ms` since Kafka 3.6, and no
/// `message.timestamp.difference.max.ms` since 4.0.
const NEEDED: [NeededSetting; 7] = [
    exactly("cleanup.policy", "delete"),
    exactly("retention.ms", "-1"),
    exactly("retention.bytes", "-1"),
    exactly("message.timestamp.type", "CreateTime"),
    exactly("message.timestamp.before.max.ms", LONGEST),
    exactly("message.timestamp.difference.max.ms", LONGEST),
    // 64 MiB, above each record that the engine takes.
    NeededSetting { name: "max.message.bytes", is_enough: is_large, value: "67108864" },
];

const fn exactly(name: &'static str, value: &'static str) -> NeededSetting {
    NeededSetting { name, is_enough: |_| false, value }
}

fn is_large(value: &str) -> bool {
    value.parse().is_ok_and(|bytes: i64| bytes >= 64 << 20)
}

/// Settings by which the cluster deletes retries that nobody has read. The default has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionDanger {
    is_compacted: bool,
    retention_ms: Option<i64>,
    is_small: bool,
}

/// The setting by which a topic would delete a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DangerousSetting {
    CleanupPolicy,
    RetentionBytes,
    RetentionMs,
}

impl RetentionDanger {
    fn of(settings: &BTreeMap<String, String>) -> Self {
        let number = |name| settings.get(name).and_then(|value: &String| value.parse().ok());
        let policy = settings.get("cleanup.policy");
        Self {
            is_compacted: policy.is_some_and(|policy| policy.contains("compact")),
            retention_ms: number("retention.ms").filter(|ms: &i64| *ms >= 0),
            is_small: number("retention.bytes").is_some_and(|it| (0..UNREAD_BYTES).contains(&it)),
        }
    }

    /// The setting by which the topic would delete one of the records at once; `None`: it keeps
    /// all of them.
    pub fn setting_against(self, records: &[RawRecord], now: WallMs) -> Option<DangerousSetting> {
        let is_old = |record: &RawRecord, ms: i64| {
            record.timestamp_ms >= 0 && record.timestamp_ms.saturating_add(ms) <= now.0
        };
        let has_key = |record: &RawRecord| record.key.is_some();
        if self.is_compacted && records.iter().any(has_key) {
            return Some(DangerousSetting::CleanupPolicy);
        }
        if self.is_small {
            return Some(DangerousSetting::RetentionBytes);
        }
        let ms = self.retention_ms?;
        records.iter().any(|one| is_old(one, ms)).then_some(DangerousSetting::RetentionMs)
    }

    /// The command by which an operator mends the topic.
    pub fn mending(self, topic: &TopicName) -> String {
        let settings = DangerousSetting::ALL.into_iter().filter(|setting| self.has(*setting));
        mending(topic, settings)
    }

    fn has(self, setting: DangerousSetting) -> bool {
        match setting {
            DangerousSetting::CleanupPolicy => self.is_compacted,
            DangerousSetting::RetentionBytes => self.is_small,
            DangerousSetting::RetentionMs => self.retention_ms.is_some(),
        }
    }
}

impl DangerousSetting {
    const ALL: [Self; 3] = [Self::CleanupPolicy, Self::RetentionMs, Self::RetentionBytes];

    fn name(self) -> &'static str {
        match self {
            Self::CleanupPolicy => "cleanup.policy",
            Self::RetentionBytes => "retention.bytes",
            Self::RetentionMs => "retention.ms",
        }
    }

    /// Why a retry waits, and the command that ends it.
    pub fn refusal(self, topic: &TopicName) -> String {
        format!(
            "the topic would delete the record by its {}, and the sidecar may not change that: {}",
            self.name(),
            mending(topic, [self].into_iter())
        )
    }
}

fn mending(topic: &TopicName, settings: impl Iterator<Item = DangerousSetting>) -> String {
    let value = |setting: DangerousSetting| {
        let needed = NEEDED.iter().find(|needed| needed.name == setting.name());
        format!("{}={}", setting.name(), needed.map_or("", |needed| needed.value))
    };
    let values: Vec<String> = settings.map(value).collect();
    format!(
        "kafka-configs --alter --topic {topic} --add-config {} (or allow the user of \
         upstream.sasl ALTER_CONFIGS on it)",
        values.join(",")
    )
}

impl Upstream {
    /// Sets what a retry topic needs, where the sidecar may. Returns the danger that is left; a
    /// topic whose settings the cluster does not tell has none.
    pub async fn mend_retry_topic(
        &self,
        links: &mut OwnLinks,
        topic: &TopicName,
    ) -> Result<RetentionDanger, UpstreamError> {
        let Some(settings) = self.settings_of(links, topic).await? else {
            return Ok(RetentionDanger::default());
        };
        let is_wrong = |needed: &&NeededSetting| {
            let value = settings.get(needed.name);
            value.is_some_and(|value| value != needed.value && !(needed.is_enough)(value))
        };
        let mut wrong: Vec<&NeededSetting> = NEEDED.iter().filter(is_wrong).collect();
        if wrong.is_empty() || self.set_needed(links, topic, &wrong).await? {
            return Ok(RetentionDanger::default());
        }
        // A cluster may refuse all for the sake of one, such as a limit of its own for messages.
        wrong.retain(|needed| DangerousSetting::ALL.iter().any(|one| one.name() == needed.name));
        if !wrong.is_empty() && self.set_needed(links, topic, &wrong).await? {
            return Ok(RetentionDanger::default());
        }
        Ok(RetentionDanger::of(&settings))
    }

    /// The settings of a topic; `None`: the cluster does not tell.
    async fn settings_of(
        &self,
        links: &mut OwnLinks,
        topic: &TopicName,
    ) -> Result<Option<BTreeMap<String, String>>, UpstreamError> {
        let mut resource = DescribeConfigsResource::default();
        resource.resource_type = TOPIC_RESOURCE;
        resource.resource_name = wire_text(topic.as_str());
        resource.configuration_keys =
            Some(NEEDED.iter().map(|needed| wire_text(needed.name)).collect());
        let request = DescribeConfigsRequest::default().with_resources(vec![resource]);
        let api = (Api::DescribeConfigs, DESCRIBE_CONFIGS);
        let told: DescribeConfigsResponse = links.call(self, None, api, &request).await?;
        let Some(told) = told.results.first() else { return Ok(None) };
        if let Some(error) = ResponseError::try_from_code(told.error_code) {
            tracing::debug!(%topic, %error, "the settings of a retry topic are not known");
            return Ok(None);
        }
        let value = |value: &str| value.to_owned();
        let each = told.configs.iter();
        let each = each.filter_map(|one| Some((value(&one.name), value(one.value.as_ref()?))));
        Ok(Some(each.collect()))
    }

    /// Sets these; false: the cluster does not let the sidecar.
    async fn set_needed(
        &self,
        links: &mut OwnLinks,
        topic: &TopicName,
        wrong: &[&NeededSetting],
    ) -> Result<bool, UpstreamError> {
        if links.newest(self, None, Api::IncrementalAlterConfigs).await?.is_none() {
            return Ok(false);
        }
        let mut resource = AlterConfigsResource::default();
        resource.resource_type = TOPIC_RESOURCE;
        resource.resource_name = wire_text(topic.as_str());
        resource.configs = wrong
            .iter()
            .map(|needed| {
                let mut config = AlterableConfig::default();
                config.name = wire_text(needed.name);
                config.config_operation = SET;
                config.value = Some(wire_text(needed.value));
                config
            })
            .collect();
        let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
        let api = (Api::IncrementalAlterConfigs, INCREMENTAL_ALTER_CONFIGS);
        let told: IncrementalAlterConfigsResponse = links.call(self, None, api, &request).await?;
        let code = told.responses.first().map_or(-1, |one| one.error_code);
        let names: Vec<&str> = wrong.iter().map(|needed| needed.name).collect();
        if let Some(error) = ResponseError::try_from_code(code) {
            tracing::debug!(%topic, ?names, %error, "settings of a retry topic stay as they are");
            return Ok(false);
        }
        tracing::info!(%topic, ?names, "settings of a retry topic were changed in the cluster");
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use DangerousSetting::{CleanupPolicy, RetentionBytes, RetentionMs};

    use super::*;
    use crate::wire::batch::{Headers, TimestampType};

    fn danger(settings: &[(&str, &str)]) -> RetentionDanger {
        let of = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        RetentionDanger::of(&settings.iter().map(of).collect())
    }

    fn record(timestamp_ms: i64, key: Option<&'static str>) -> RawRecord {
        RawRecord {
            timestamp_ms,
            timestamp_type: TimestampType::CreateTime,
            key: key.map(Into::into),
            value: None,
            headers: Headers::NONE,
        }
    }

    #[test]
    fn a_record_is_refused_if_its_topic_deletes_it() {
        let now = WallMs(10_000);
        let (old, young, keyed) = (record(1_000, None), record(9_000, None), record(-1, Some("k")));
        let kept =
            [("cleanup.policy", "delete"), ("retention.ms", "-1"), ("retention.bytes", "-1")];
        assert_eq!(danger(&kept), RetentionDanger::default());
        let short = danger(&[("retention.ms", "9000")]);
        assert_eq!(short.setting_against(&[young.clone(), keyed.clone()], now), None);
        assert_eq!(short.setting_against(&[young.clone(), old.clone()], now), Some(RetentionMs));
        let compact = danger(&[("cleanup.policy", "compact,delete")]);
        assert_eq!(compact.setting_against(&[young.clone(), old], now), None);
        assert_eq!(compact.setting_against(&[keyed], now), Some(CleanupPolicy));
        let small = danger(&[("retention.bytes", "1024"), ("retention.ms", "9000")]);
        assert_eq!(small.setting_against(slice::from_ref(&young), now), Some(RetentionBytes));
        let all = "retention.ms=-1,retention.bytes=-1";
        assert!(small.mending(&"r".into()).contains(all));
        let ample = danger(&[("retention.bytes", "1073741824")]);
        assert_eq!(ample.setting_against(&[young], now), None);
        let says = RetentionMs.refusal(&"r".into());
        assert!(says.contains("kafka-configs --alter --topic r --add-config retention.ms=-1"));
    }
}
