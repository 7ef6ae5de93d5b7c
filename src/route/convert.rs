//! Conversions between the codec's types and ours.

use kafka_protocol::messages;
use kafka_protocol::protocol::StrBytes;

use crate::model::{GroupId, TopicName};

pub(super) fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

#[expect(clippy::unnecessary_wraps, reason = "the fields it fills may be absent")]
pub(super) fn some_text(message: &str) -> Option<StrBytes> {
    Some(text(message))
}

pub(super) fn topic_of(name: &messages::TopicName) -> TopicName {
    TopicName::new(name.0.as_str())
}

pub(super) fn wire_topic(name: &TopicName) -> messages::TopicName {
    messages::TopicName(text(name.as_str()))
}

pub(super) fn group_of(group: &messages::GroupId) -> GroupId {
    GroupId::new(group.0.as_str())
}

pub(super) fn wire_group(group: &GroupId) -> messages::GroupId {
    messages::GroupId(text(group.as_str()))
}
