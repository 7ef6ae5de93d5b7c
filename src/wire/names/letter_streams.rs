//! The stream of the journal behind a dead-letter topic, also after the topic's name has changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{dead_letter_stream, dead_letter_topic};
use crate::model::TopicName;

/// Dead-letter topics whose stream has another topic's name: they were renamed by a change of
/// `names.dead_letters`, and a stream keeps the name it began with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LetterStreams(Arc<Renamed>);

#[derive(Debug, Default, PartialEq, Eq)]
struct Renamed {
    /// Topic as it is served → topic its stream is named after.
    begun_as: BTreeMap<TopicName, TopicName>,
    /// Topic a stream is named after → topic as it is served.
    served_as: BTreeMap<TopicName, TopicName>,
}

impl LetterStreams {
    /// With these topics renamed: name it is served by → name its stream began with.
    pub fn new(begun_as: BTreeMap<TopicName, TopicName>) -> Self {
        let served_as = begun_as.iter().map(|(now, begun)| (begun.clone(), now.clone())).collect();
        Self(Arc::new(Renamed { begun_as, served_as }))
    }

    /// The topic that the stream behind this topic is named after.
    pub fn begun_as<'a>(&'a self, topic: &'a TopicName) -> &'a TopicName {
        self.0.begun_as.get(topic).unwrap_or(topic)
    }

    /// The journal's name for the stream behind a dead-letter topic.
    pub fn stream(&self, topic: &TopicName) -> String {
        dead_letter_stream(self.begun_as(topic))
    }

    /// The dead-letter topic behind a stream of the journal; `None`: the stream is another's.
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
