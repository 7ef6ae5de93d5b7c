//! A member's Fetch that is relayed to a broker, and its answer, which is read as it is relayed.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{FetchRequest, FetchResponse};
use uuid::Uuid;

use crate::model::ClientId;
use crate::retry::detector::{DeliveredRange, FetchPosition};
use crate::route::Router;
use crate::route::clients::conn::Conn;
use crate::route::delivery::{FetchSession, TrackedFetch};
use crate::route::fetch::named_fetch::{NamedFetch, wait_ms};
use crate::route::reply::{AnswerError, Reply};
use crate::wire::frame::PREFIX_BYTES;
use crate::wire::{
    Api, FetchAnswer, PartitionFetched, RequestHead, ResponseError, decode, sessionless,
};

/// Bytes before those that [`FetchAnswer`] reads: the frame length and the correlation id.
const BEFORE: usize = PREFIX_BYTES + 4;

/// The decision about a Fetch to a broker of the cluster.
#[derive(Debug)]
pub enum RelayDecision {
    /// Relay the request, and read the answer if a member is known.
    Pass(Option<Box<RelayedAnswer>>),
    /// Answer here, with requests to the broker.
    Answer,
    /// Send this answer; the broker is not asked.
    Reply(Reply),
}

/// An answer that is relayed to a member.
#[derive(Debug)]
pub struct RelayedAnswer {
    by: TrackedFetch,
    answer: TrackedAnswer,
}

/// The requested partitions, and the progress in reading the answer.
#[derive(Debug)]
struct TrackedAnswer {
    /// `None`: the bytes are no Fetch answer, and are relayed unread.
    reading: Option<FetchAnswer>,
    /// Bytes of the prefix that are still to come.
    before: usize,
    asked: Vec<FetchPosition>,
    ids: Vec<Uuid>,
    /// Position in `asked` where the search for the next partition starts.
    next: usize,
}

impl Router {
    /// Whether a Fetch on this connection is read before it is relayed, since it may be a member's.
    pub(in crate::route) fn may_be_watched(&self, conn: &Conn) -> bool {
        conn.node.is_some() && !(conn.group.is_none() && self.members.is_empty())
    }

    /// Decides about a Fetch to a broker; `frame` is whole, with its length prefix. A member's
    /// Fetch loses its session (KIP-227), so that it names every partition. A Fetch whose topics
    /// cannot be remembered loses its session too.
    pub fn onward(&self, conn: &Conn, frame: &mut BytesMut) -> RelayDecision {
        let began = self.clock.elapsed();
        let whole = Bytes::copy_from_slice(frame.get(PREFIX_BYTES..).unwrap_or_default());
        // An unreadable request is relayed, for the broker to refuse.
        let Ok(head) = RequestHead::parse(&whole) else { return unread(conn) };
        let Ok(request) = decode::<FetchRequest>(&head) else { return unread(conn) };
        conn.heard(head.client_id.as_ref().map(ClientId::as_str));
        let wanted = NamedFetch::new(self, &request);
        let topics = wanted.topics();
        self.note_retry_readers(topics.iter());
        let by = self.watched(conn, &topics, wait_ms(&request));
        if request.session_id != 0 && request.session_epoch > 0 {
            // An incremental Fetch names only the changed partitions.
            let named = wanted.all_topics().filter(|_| by.is_none());
            if named.is_some_and(|topics| self.is_unattributed(conn, &topics)) {
                return RelayDecision::Pass(None);
            }
            return RelayDecision::Reply(self.finish(Api::Fetch, began, self.no_session(&head)));
        }
        let Some(by) = by else {
            if request.session_epoch == 0 {
                let session = wanted.all_topics().and_then(FetchSession::of);
                if session.is_none() {
                    sessionless(frame.get_mut(PREFIX_BYTES..).unwrap_or_default(), head.version);
                }
                conn.begins(session);
            }
            return RelayDecision::Pass(None);
        };
        if !self.asked(&by, &wanted.asked).is_open() {
            return RelayDecision::Answer;
        }
        sessionless(frame.get_mut(PREFIX_BYTES..).unwrap_or_default(), head.version);
        let answer = TrackedAnswer::new(wanted, head.version);
        RelayDecision::Pass(Some(Box::new(RelayedAnswer { by, answer })))
    }

    /// Makes the client send a full fetch.
    fn no_session(&self, head: &RequestHead) -> Result<Reply, AnswerError> {
        let mut response = FetchResponse::default();
        response.error_code = ResponseError::FetchSessionIdNotFound.code();
        self.encoded(head, &response)
    }

    /// Reads the next bytes of an answer; deliveries are recorded before the bytes leave.
    pub fn passes(&self, tracked: &mut RelayedAnswer, bytes: &[u8]) {
        let handed = tracked.answer.read(bytes);
        if !handed.is_empty() {
            self.handed(&tracked.by, &handed);
        }
    }
}

/// Relays an unreadable Fetch; its session is unknown.
fn unread(conn: &Conn) -> RelayDecision {
    conn.begins(None);
    RelayDecision::Pass(None)
}

impl TrackedAnswer {
    fn new(wanted: NamedFetch, version: i16) -> Self {
        let NamedFetch { asked, ids, .. } = wanted;
        Self { reading: Some(FetchAnswer::new(version)), before: BEFORE, asked, ids, next: 0 }
    }

    fn read(&mut self, bytes: &[u8]) -> Vec<DeliveredRange> {
        let Self { reading, before, asked, ids, next } = self;
        let skipped = bytes.len().min(*before);
        *before -= skipped;
        let mut handed = Vec::new();
        let Some(fetched) = reading else { return handed };
        let found = |partition: PartitionFetched| {
            handed.extend(found(asked, ids, next, partition));
        };
        if let Err(error) = fetched.feed(bytes.get(skipped..).unwrap_or_default(), found) {
            tracing::warn!(
                %error,
                "R0221 the cluster's answer to a Fetch cannot be read: it passes, and its \
                 deliveries are not observed; report the line"
            );
            *reading = None;
        }
        handed
    }
}

/// The delivery of one partition of the answer. Answers usually keep the order of the request.
fn found(
    asked: &[FetchPosition],
    ids: &[Uuid],
    next: &mut usize,
    fetched: PartitionFetched,
) -> Option<DeliveredRange> {
    let is_it = |place: &usize| {
        let (Some(asked), Some(id)) = (asked.get(*place), ids.get(*place)) else { return false };
        let is_topic = match &fetched.topic {
            Some(name) => asked.partition.topic.as_str() == name,
            None => *id == fetched.topic_id,
        };
        is_topic && asked.partition.partition == fetched.partition
    };
    let place = (*next..asked.len()).chain(0..*next).find(is_it)?;
    *next = place + 1;
    let asked = asked.get(place)?;
    let end = fetched.end.filter(|end| *end > asked.offset)?;
    let (partition, from) = (asked.partition.clone(), asked.offset);
    let (mut hidden, sparse) = (fetched.hidden, fetched.sparse);
    hidden.add(from..fetched.first.unwrap_or(from));
    Some(DeliveredRange { partition, from, end, turn: None, hidden, sparse })
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
    use kafka_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};

    use super::*;
    use crate::model::TopicName;
    use crate::route::convert::wire_topic;
    use crate::wire::batch::empty_batch;
    use crate::wire::encode_at;

    /// A Fetch of partitions 0 and 1 of each topic, from offset 5.
    fn wanted(topics: &[(&str, u128)]) -> NamedFetch {
        let mut request = FetchRequest::default();
        for (name, id) in topics {
            let mut topic = FetchTopic::default();
            (topic.topic, topic.topic_id) =
                (wire_topic(&TopicName::new(name)), Uuid::from_u128(*id));
            for partition in [0, 1] {
                let mut asked = FetchPartition::default();
                (asked.partition, asked.fetch_offset) = (partition, 5);
                topic.partitions.push(asked);
            }
            request.topics.push(topic);
        }
        let names = topics.iter().map(|(name, _)| (*name != "?").then(|| TopicName::new(name)));
        NamedFetch::named(&request, names.collect())
    }

    /// Topic, id, and end offset of the records by partition; 0: no records.
    type EndOffsets<'a> = (&'a str, u128, &'a [(i32, i64)]);

    fn answer(version: i16, topics: &[EndOffsets<'_>]) -> Bytes {
        let mut response = FetchResponse::default();
        for (name, id, partitions) in topics {
            let mut topic = FetchableTopicResponse::default();
            if version < 13 {
                topic.topic = wire_topic(&TopicName::new(name));
            } else {
                topic.topic_id = Uuid::from_u128(*id);
            }
            for (index, end) in *partitions {
                let mut data = PartitionData::default();
                data.partition_index = *index;
                data.records = Some(match end {
                    0 => Bytes::new(),
                    end => empty_batch(end - 1, 0),
                });
                topic.partitions.push(data);
            }
            response.responses.push(topic);
        }
        encode_at(Api::Fetch, version, 7, &response).unwrap()
    }

    fn told(handed: Vec<DeliveredRange>) -> Vec<(String, i64, i64)> {
        handed.into_iter().map(|h| (h.partition.to_string(), h.from, h.end)).collect()
    }

    #[test]
    fn fetched_ends_are_reported_by_topic_name_in_any_chunks() {
        for version in [4, 11, 12, 13, 15] {
            let topics = [("a", 1), ("?", 2), ("b", 3)];
            let whole = answer(
                version,
                &[("b", 3, &[(1, 9), (0, 6)]), ("x", 2, &[(0, 9)]), ("a", 1, &[(0, 0), (1, 7)])],
            );
            for chunk in [1, 3, 64, whole.len()] {
                let mut reading = TrackedAnswer::new(wanted(&topics), version);
                let handed = whole.chunks(chunk).flat_map(|bytes| reading.read(bytes));
                let expected = [("b-1", 5, 9), ("b-0", 5, 6), ("a-1", 5, 7)];
                let expected = expected.map(|(name, from, end)| (name.to_owned(), from, end));
                assert_eq!(told(handed.collect()), expected, "v{version} by {chunk}");
            }
        }
    }

    #[test]
    fn records_below_the_offset_asked_for_are_no_hand_out() {
        let mut reading = TrackedAnswer::new(wanted(&[("a", 1)]), 12);
        assert_eq!(told(reading.read(&answer(12, &[("a", 1, &[(0, 5), (1, 4)])]))), []);
    }

    #[test]
    fn bytes_that_are_no_answer_are_read_no_further() {
        let mut reading = TrackedAnswer::new(wanted(&[("a", 1)]), 12);
        assert_eq!(told(reading.read(&[0xff; 64])), []);
        assert!(reading.reading.is_none());
        assert_eq!(told(reading.read(&answer(12, &[("a", 1, &[(0, 9)])]))), []);
    }
}
