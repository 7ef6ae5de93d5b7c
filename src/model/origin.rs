//! The origin of a record: its identity for ever.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::model::{TopicName, TopicPartition};

/// Topic, partition and offset of a record as produced. Text form `<topic>-<partition>@<offset>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Origin {
    pub topic: TopicName,
    pub partition: i32,
    pub offset: i64,
}

/// The text is no origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an origin has the form <topic>-<partition>@<offset>, such as orders-3@812")]
pub struct OriginError;

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}@{}", self.topic, self.partition, self.offset)
    }
}

impl From<&Origin> for TopicPartition {
    fn from(origin: &Origin) -> Self {
        Self { topic: origin.topic.clone(), partition: origin.partition }
    }
}

impl FromStr for Origin {
    type Err = OriginError;

    /// Splits at the last `@`, then at the last `-`: the topic may contain both.
    fn from_str(text: &str) -> Result<Self, OriginError> {
        let (place, offset) = text.rsplit_once('@').ok_or(OriginError)?;
        let (topic, partition) = place.rsplit_once('-').ok_or(OriginError)?;
        let offset: i64 = digits(offset)?;
        let partition: i32 = digits(partition)?;
        if topic.is_empty() {
            return Err(OriginError);
        }
        Ok(Self { topic: topic.into(), partition, offset })
    }
}

fn digits<T: FromStr>(text: &str) -> Result<T, OriginError> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(OriginError);
    }
    text.parse().map_err(|_| OriginError)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_parsed_back_from_its_text() {
        for text in ["orders-3@812", "a-b@c-0@1", "reprise.retry.shop-0@1125899906842624"] {
            let origin: Origin = text.parse().unwrap();
            assert_eq!(origin.to_string(), text);
        }
    }

    #[test]
    fn other_text_is_refused() {
        for text in ["", "orders", "orders-3", "orders@1", "-3@1", "o--3@1x", "o-3@", "o-3@-1"] {
            assert_eq!(text.parse::<Origin>(), Err(OriginError), "{text}");
        }
    }
}
