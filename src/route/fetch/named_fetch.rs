//! The partitions that a member's Fetch requests, with topic names.

use kafka_protocol::messages::FetchRequest;
use uuid::Uuid;

use crate::model::{TopicName, TopicPartition};
use crate::retry::detector::FetchPosition;
use crate::route::Router;
use crate::route::convert::topic_of;
use crate::route::fetch::WAIT_MS_MAX;

/// A Fetch, with the topic names that are known.
#[derive(Debug)]
pub(super) struct NamedFetch {
    /// The name of each requested topic; `None`: no Metadata has shown its id here.
    names: Vec<Option<TopicName>>,
    /// Every partition of the topics with a known name, in the order of the request.
    pub(super) asked: Vec<FetchPosition>,
    /// The topic ids of the request; nil where it uses names.
    pub(super) ids: Vec<Uuid>,
}

impl NamedFetch {
    pub(super) fn new(router: &Router, request: &FetchRequest) -> Self {
        let by_id = request.topics.iter().any(|topic| !topic.topic_id.is_nil());
        let names = if by_id {
            router.topic_ids.names(request.topics.iter().map(|topic| topic.topic_id))
        } else {
            request.topics.iter().map(|topic| Some(topic_of(&topic.topic))).collect()
        };
        Self::named(request, names)
    }

    /// `names`: one item for each requested topic.
    pub(super) fn named(request: &FetchRequest, names: Vec<Option<TopicName>>) -> Self {
        let (mut asked, mut ids) = (Vec::new(), Vec::new());
        for (topic, name) in request.topics.iter().zip(&names) {
            let Some(name) = name else { continue };
            for wanted in &topic.partitions {
                let partition = TopicPartition { topic: name.clone(), partition: wanted.partition };
                asked.push(FetchPosition { partition, offset: wanted.fetch_offset });
                ids.push(topic.topic_id);
            }
        }
        Self { names, asked, ids }
    }

    /// The known topic names.
    pub(super) fn topics(&self) -> Vec<TopicName> {
        self.names.iter().flatten().cloned().collect()
    }

    /// All topic names; `None`: a name is unknown.
    pub(super) fn all_topics(&self) -> Option<Vec<TopicName>> {
        self.names.iter().cloned().collect()
    }

    /// For each requested partition, its position in `asked`.
    pub(super) fn places(&self, request: &FetchRequest) -> Vec<Option<usize>> {
        let mut next = 0;
        let mut places = Vec::with_capacity(self.asked.len());
        for (topic, name) in request.topics.iter().zip(&self.names) {
            for _ in &topic.partitions {
                places.push(name.is_some().then_some(next));
                next += usize::from(name.is_some());
            }
        }
        places
    }
}

/// The client's `max_wait_ms`, at most [`WAIT_MS_MAX`].
pub(super) fn wait_ms(request: &FetchRequest) -> u64 {
    u64::try_from(request.max_wait_ms).unwrap_or(0).min(WAIT_MS_MAX)
}
