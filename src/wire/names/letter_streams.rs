//! Journal streams of dead-letter topics, also after a topic was renamed.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{dead_letter_stream, dead_letter_topic};
use crate::model::TopicName;

/// Renamed dead-letter topics. A change of `names.dead_letters` renames a topic, but its stream
/// keeps the first name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LetterStreams(Arc<RenamedStreams>);

#[derive(Debug, Default, PartialEq, Eq)]
struct RenamedStreams {
    /// Topic as it is served → topic that its stream is named after.
    begun_as: BTreeMap<TopicName, TopicName>,
    /// Topic that a stream is named after → topic as it is served.
    served_as: BTreeMap<TopicName, TopicName>,
}

impl LetterStreams {
    /// Takes the renamed topics: name it is served by → name its stream began with.
    pub fn new(begun_as: BTreeMap<TopicName, TopicName>) -> Self {
        let served_as = begun_as.iter().map(|(now, begun)| (begun.clone(), now.clone())).collect();
        Self(Arc::new(RenamedStreams { begun_as, served_as }))
    }

    /// The topic that this topic's stream is named after.
    pub fn begun_as<'a>(&'a self, topic: &'a TopicName) -> &'a TopicName {
        self.0.begun_as.get(topic).unwrap_or(topic)
    }

    /// The journal's name for a dead-letter topic's stream.
    pub fn stream(&self, topic: &TopicName) -> String {
        dead_letter_stream(self.begun_as(topic))
    }

    /// The dead-letter topic of a journal stream; `None`: the stream holds something else.
    pub fn topic(&self, stream: &str) -> Option<TopicName> {
        let begun = dead_letter_topic(stream)?;
        Some(self.0.served_as.get(&begun).cloned().unwrap_or(begun))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renamed_topic_keeps_the_stream_it_began_with() {
        let renamed = BTreeMap::from([("reprise.dlq.shop".into(), "dlq.shop".into())]);
        let streams = LetterStreams::new(renamed);
        assert_eq!(streams.stream(&"reprise.dlq.shop".into()), "d/dlq.shop");
        assert_eq!(streams.topic("d/dlq.shop"), Some("reprise.dlq.shop".into()));
        assert_eq!(streams.stream(&"reprise.dlq.store".into()), "d/reprise.dlq.store");
        assert_eq!(streams.topic("d/reprise.dlq.store"), Some("reprise.dlq.store".into()));
        assert_eq!(streams.topic("t/dlq.shop"), None);
    }
}
