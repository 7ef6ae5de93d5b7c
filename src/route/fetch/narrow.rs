//! A Fetch cut down to what may be given, and its answer made whole again: the client gets exactly
//! the partitions it asked for, in its order.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use kafka_protocol::messages::fetch_request::FetchTopic;
use kafka_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use kafka_protocol::messages::{FetchRequest, FetchResponse};
use uuid::Uuid;

use crate::model::{Runs, Sparse, TopicPartition};
use crate::retry::watch::{Handed, Serve};
use crate::route::fetch::given::UNPACKED_BYTES_MAX;
use crate::route::fetch::{empty, refused};
use crate::wire::ResponseError;
use crate::wire::batch::cut::{self, CutError};
use crate::wire::batch::{Batch, Hidden};

/// What a client is given of one requested partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Give {
    /// What the broker gives.
    Open,
    /// The same without these offsets.
    Without(Vec<i64>),
    /// One record, none of these.
    Alone(Vec<i64>),
    /// The same, where no partition with a lower place has any.
    Turn { place: usize, without: Vec<i64> },
    /// Nothing; the broker is not asked.
    Nothing,
    /// An error; the broker is not asked.
    Refused(ResponseError),
}

impl From<&Serve> for Give {
    fn from(serve: &Serve) -> Self {
        match serve {
            Serve::Open => Self::Open,
            Serve::Without(offsets) => Self::Without(offsets.clone()),
            Serve::Alone { without } => Self::Alone(without.clone()),
            Serve::Turn { without, place } => {
                Self::Turn { place: *place, without: without.clone() }
            }
            Serve::Nothing | Serve::Again | Serve::Settle(_) => Self::Nothing,
        }
    }
}

impl Give {
    /// The same without these as well, which ascend.
    pub(super) fn without(self, more: Vec<i64>) -> Self {
        if more.is_empty() {
            return self;
        }
        let both = |offsets: Vec<i64>| {
            let all: BTreeSet<i64> = offsets.into_iter().chain(more.iter().copied()).collect();
            all.into_iter().collect()
        };
        match self {
            Self::Open => Self::Without(more),
            Self::Without(offsets) => Self::Without(both(offsets)),
            Self::Alone(offsets) => Self::Alone(both(offsets)),
            Self::Turn { place, without } => Self::Turn { place, without: both(without) },
            nothing @ (Self::Nothing | Self::Refused(_)) => nothing,
        }
    }

    fn is_asked(&self) -> bool {
        !matches!(self, Self::Nothing | Self::Refused(_))
    }

    fn place(&self) -> Option<usize> {
        match self {
            Self::Turn { place, .. } => Some(*place),
            _ => None,
        }
    }
}

/// One record goes, of one of the partitions.
pub(super) fn is_by_turn(gives: &[Give]) -> bool {
    gives.iter().any(|give| give.place().is_some())
}

/// What a broker is asked instead: only what may be given, without a session. `gives` has one item
/// for each partition of `request`, in its order.
pub(super) fn narrowed(request: &FetchRequest, gives: &[Give]) -> FetchRequest {
    let mut narrowed = request.clone();
    let mut each = gives.iter();
    let mut topics: Vec<(Option<usize>, FetchTopic)> = Vec::new();
    for mut topic in std::mem::take(&mut narrowed.topics) {
        let asked = topic.partitions.into_iter().zip(each.by_ref());
        let asked = asked.filter(|(_, give)| give.is_asked());
        let mut asked: Vec<_> = asked.map(|(of, give)| (give.place(), of)).collect();
        asked.sort_by_key(|(place, _)| *place);
        let lowest = asked.first().map(|(place, _)| *place);
        topic.partitions = asked.into_iter().map(|(_, of)| of).collect();
        topics.extend(lowest.map(|lowest| (lowest, topic)));
    }
    // A broker fills its answer in the order of the request, and gives the first batch there is
    // whatever the limit (KIP-74): that of the lowest place, as far as topics allow.
    topics.sort_by_key(|(lowest, _)| *lowest);
    narrowed.topics = topics.into_iter().map(|(_, topic)| topic).collect();
    if is_by_turn(gives) {
        narrowed.max_bytes = 1;
    }
    narrowed.forgotten_topics_data.clear();
    (narrowed.session_id, narrowed.session_epoch) = (0, -1);
    narrowed
}

/// The client's answer, from what the broker has told; what it was not asked for is empty.
pub(super) fn merged(request: &FetchRequest, gives: &[Give], told: FetchResponse) -> FetchResponse {
    let mut response = FetchResponse::default();
    response.throttle_time_ms = told.throttle_time_ms;
    let mut told = by_partition(told);
    let mut gives = gives.iter();
    for topic in &request.topics {
        let mut answer = FetchableTopicResponse::default();
        (answer.topic, answer.topic_id) = (topic.topic.clone(), topic.topic_id);
        for asked in &topic.partitions {
            let key = key(topic.topic.as_str(), topic.topic_id, asked.partition);
            let mut data = match gives.next() {
                Some(Give::Refused(error)) => refused(*error),
                Some(Give::Nothing) => empty(-1, -1),
                _ => told.remove(&key).unwrap_or_else(|| empty(-1, -1)),
            };
            data.partition_index = asked.partition;
            answer.partitions.push(data);
        }
        response.responses.push(answer);
    }
    response
}

type Key = (String, Uuid, i32);

fn key(topic: &str, id: Uuid, partition: i32) -> Key {
    (topic.to_owned(), id, partition)
}

fn by_partition(told: FetchResponse) -> BTreeMap<Key, PartitionData> {
    let topics = told.responses.into_iter();
    let partitions = topics.flat_map(|topic| {
        let (name, id) = (topic.topic, topic.topic_id);
        topic
            .partitions
            .into_iter()
            .map(move |data| (key(name.as_str(), id, data.partition_index), data))
    });
    partitions.collect()
}

/// Leaves the records of the lowest place that has any; what else came is asked for again.
pub(super) fn first_in_line(response: &mut FetchResponse, gives: &[Give]) {
    let partitions = || response.responses.iter().flat_map(|topic| &topic.partitions);
    let with_records = partitions().zip(gives).filter(|(data, _)| has_records(data));
    let Some(first) = with_records.filter_map(|(_, give)| give.place()).min() else { return };
    let partitions = response.responses.iter_mut().flat_map(|topic| &mut topic.partitions);
    for (data, give) in partitions.zip(gives) {
        if give.place().is_some_and(|place| place != first) {
            data.records = Some(Bytes::new());
        }
    }
}

/// What a client is given of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leaving {
    /// Where it goes on afterwards.
    pub(super) end: i64,
    /// Offsets of which its application sees no record.
    pub(super) hidden: Runs,
    /// Batches with fewer records than offsets.
    pub(super) sparse: Vec<Sparse>,
    /// The one record there was to give is in it.
    pub(super) by_turn: bool,
}

impl Leaving {
    /// The same told to whoever watches.
    pub(super) fn handed(self, partition: TopicPartition, from: i64) -> Handed {
        let Self { end, hidden, sparse, by_turn } = self;
        Handed { partition, from, end, by_turn, hidden, sparse }
    }
}

/// Takes out of a broker's answer what the client is not given. `None`: it is given no batch.
pub(super) fn cut(
    data: &mut PartitionData,
    give: &Give,
    from: i64,
) -> Result<Option<Leaving>, CutError> {
    let Some(records) = data.records.as_ref().filter(|records| !records.is_empty()) else {
        return Ok(None);
    };
    let (end, hidden, sparse) = shown(records, data, from);
    let cut = match give {
        Give::Without(offsets) => cut::without_from(records, from, offsets, UNPACKED_BYTES_MAX)?,
        Give::Alone(offsets) | Give::Turn { without: offsets, .. } => {
            cut::alone_seen(records, from, offsets, &hidden, UNPACKED_BYTES_MAX)?
        }
        Give::Open | Give::Nothing | Give::Refused(_) => {
            return Ok(end.map(|end| Leaving { end, hidden, sparse, by_turn: false }));
        }
    };
    let by_turn = give.place().is_some() && cut.first.is_some();
    let end = (!cut.records.is_empty()).then_some(cut.end);
    data.records = Some(cut.records);
    Ok(end.map(|end| Leaving { end, hidden, sparse, by_turn }))
}

/// Where the last whole batch ends, what an application sees nothing of, and batches with fewer
/// records than offsets.
fn shown(records: &Bytes, data: &PartitionData, from: i64) -> (Option<i64>, Runs, Vec<Sparse>) {
    let mut hidden = Hidden::new(aborted(data));
    let (mut rest, mut end) = (records.clone(), None);
    while let Ok(batch) = Batch::parse(&rest) {
        hidden.show(&batch.header);
        end = Some(batch.header.last_offset().saturating_add(1));
        rest = rest.slice(batch.bytes.len()..);
    }
    let first = hidden.first().unwrap_or(from);
    let (mut hidden, sparse) = hidden.into_parts();
    hidden.add(from..first);
    (end, hidden, sparse)
}

/// Producer and first offset of each aborted transaction.
pub(super) fn aborted(data: &PartitionData) -> impl Iterator<Item = (i64, i64)> {
    let told = data.aborted_transactions.iter().flatten();
    told.map(|told| (told.producer_id.0, told.first_offset))
}

/// Whether the client learns something from it: then it is answered at once.
pub(super) fn says_something(response: &FetchResponse) -> bool {
    let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
    response.error_code != 0 || partitions.into_iter().any(is_news)
}

/// Whether there are bytes of records in it.
pub(super) fn has_records(data: &PartitionData) -> bool {
    data.records.as_ref().is_some_and(|records| !records.is_empty())
}

fn is_news(data: &PartitionData) -> bool {
    data.error_code != 0
        || has_records(data)
        || data.preferred_read_replica.0 >= 0
        || data.diverging_epoch.epoch >= 0
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::BrokerId;
    use kafka_protocol::messages::fetch_request::{FetchPartition, ForgottenTopic};
    use kafka_protocol::messages::fetch_response::AbortedTransaction;

    use super::*;
    use crate::model::{MonoMs, TopicName};
    use crate::retry::watch::Plan;
    use crate::route::convert::wire_topic;
    use crate::wire::Api;
    use crate::wire::batch::{
        Headers, ProducerStamp, RawRecord, TimestampType, crc_of, empty_batch, marker_batch,
        produce_batch, rebase,
    };

    /// Topics with partitions, from offset 5 on.
    fn asking(topics: &[(&str, &[i32])]) -> FetchRequest {
        let mut request = FetchRequest::default();
        (request.session_id, request.session_epoch) = (77, 0);
        request.forgotten_topics_data.push(ForgottenTopic::default());
        for (name, partitions) in topics {
            let mut topic = FetchTopic::default();
            topic.topic = wire_topic(&TopicName::new(name));
            topic.partitions = partitions
                .iter()
                .map(|index| FetchPartition::default().with_partition(*index).with_fetch_offset(5))
                .collect();
            request.topics.push(topic);
        }
        request
    }

    /// A broker's answer in an order of its own: the last one first.
    fn told(asked: &FetchRequest) -> FetchResponse {
        let mut response = FetchResponse::default();
        response.throttle_time_ms = 9;
        for topic in asked.topics.iter().rev() {
            let mut answer = FetchableTopicResponse::default();
            answer.topic = topic.topic.clone();
            for partition in topic.partitions.iter().rev() {
                let mut data = PartitionData::default();
                data.partition_index = partition.partition;
                data.high_watermark = 100 + i64::from(partition.partition);
                data.records = Some(empty_batch(5, 0));
                answer.partitions.push(data);
            }
            response.responses.push(answer);
        }
        response
    }

    fn named<'a, P>(topics: impl IntoIterator<Item = (&'a str, Vec<P>)>) -> Vec<(String, Vec<P>)> {
        topics.into_iter().map(|(name, partitions)| (name.to_owned(), partitions)).collect()
    }

    fn partitions_of(request: &FetchRequest) -> Vec<(String, Vec<i32>)> {
        let of = |topic: &FetchTopic| topic.partitions.iter().map(|p| p.partition).collect();
        request.topics.iter().map(|topic| (topic.topic.to_string(), of(topic))).collect()
    }

    /// Partition, error, high watermark and bytes of records.
    type Row = (i32, i16, i64, usize);

    fn rows(response: &FetchResponse) -> Vec<(String, Vec<Row>)> {
        let row = |data: &PartitionData| {
            let bytes = data.records.as_ref().unwrap().len();
            (data.partition_index, data.error_code, data.high_watermark, bytes)
        };
        let of = |topic: &FetchableTopicResponse| topic.partitions.iter().map(row).collect();
        response.responses.iter().map(|topic| (topic.topic.to_string(), of(topic))).collect()
    }

    #[test]
    fn what_is_held_is_not_asked_for_and_empty_in_the_answer_while_the_rest_flows() {
        let request = asking(&[("a", &[3, 1]), ("b", &[0]), ("c", &[0, 2])]);
        let plan = Plan {
            serve: vec![
                Serve::Nothing,
                Serve::Open,
                Serve::Nothing,
                Serve::Without(vec![7]),
                Serve::Alone { without: vec![] },
            ],
            until: Some(MonoMs(10)),
        };
        let gives: Vec<Give> = plan.serve.iter().map(Give::from).collect();
        let narrowed = narrowed(&request, &gives);
        let asked = named([("a", vec![1]), ("c", vec![0, 2])]);
        assert_eq!(partitions_of(&narrowed), asked);
        assert_eq!((narrowed.session_id, narrowed.session_epoch), (0, -1));
        assert!(narrowed.forgotten_topics_data.is_empty());

        let merged = merged(&request, &gives, told(&narrowed));
        let full = empty_batch(5, 0).len();
        let whole = [
            ("a", vec![(3, 0, -1, 0), (1, 0, 101, full)]),
            ("b", vec![(0, 0, -1, 0)]),
            ("c", vec![(0, 0, 100, full), (2, 0, 102, full)]),
        ];
        assert_eq!(rows(&merged), named(whole), "exactly what was asked for, in that order");
        assert_eq!((merged.throttle_time_ms, merged.session_id), (9, 0));
    }

    #[test]
    fn nothing_is_left_to_ask_when_everything_is_held() {
        let request = asking(&[("a", &[0, 1]), ("b", &[0])]);
        let refused = Give::Refused(ResponseError::NotLeaderOrFollower);
        let gives = [Give::Nothing, refused, Give::Nothing];
        assert!(narrowed(&request, &gives).topics.is_empty());
        let merged = merged(&request, &gives, FetchResponse::default());
        let code = ResponseError::NotLeaderOrFollower.code();
        let whole = [("a", vec![(0, 0, -1, 0), (1, code, -1, 0)]), ("b", vec![(0, 0, -1, 0)])];
        assert_eq!(rows(&merged), named(whole));
        assert!(says_something(&merged), "an error is told at once");
    }

    #[test]
    fn what_a_broker_does_not_answer_or_was_not_asked_goes_nowhere() {
        let request = asking(&[("a", &[0, 1])]);
        let gives = [Give::Open, Give::Nothing];
        let asked = asking(&[("a", &[1, 7]), ("junk", &[0])]);
        let merged = merged(&request, &gives, told(&asked));
        assert_eq!(rows(&merged), named([("a", vec![(0, 0, -1, 0), (1, 0, -1, 0)])]));
        assert!(!says_something(&merged));
    }

    #[test]
    fn everything_else_of_a_broker_s_answer_stays() {
        let request = asking(&[("a", &[0])]);
        let mut told = told(&request);
        let data = &mut told.responses[0].partitions[0];
        data.records = Some(Bytes::new());
        data.preferred_read_replica = BrokerId(4);
        data.last_stable_offset = 55;
        data.log_start_offset = 2;
        data.aborted_transactions = Some(vec![AbortedTransaction::default()]);
        data.diverging_epoch.epoch = 3;
        let expected = data.clone();
        let merged = merged(&request, &[Give::Alone(vec![])], told);
        assert_eq!(merged.responses[0].partitions[0], expected);
        assert!(says_something(&merged), "the client is to ask another replica");
    }

    #[test]
    fn the_answer_has_the_form_of_every_version() {
        for version in 4..=15 {
            let mut request = asking(&[("a", &[0, 1])]);
            if version >= 13 {
                let topic = &mut request.topics[0];
                topic.topic = kafka_protocol::messages::TopicName::default();
                topic.topic_id = Uuid::from_u128(8);
            }
            let gives = [Give::Nothing, Give::Open];
            let mut told = told(&narrowed(&request, &gives));
            told.responses[0].topic_id = request.topics[0].topic_id;
            let merged = merged(&request, &gives, told);
            let frame = crate::wire::encode_at(Api::Fetch, version, 1, &merged).unwrap();
            let read: FetchResponse =
                crate::wire::decode_answer(Api::Fetch, version, 1, &frame.slice(4..)).unwrap();
            assert_eq!(read.responses[0].topic_id, request.topics[0].topic_id, "v{version}");
            assert_eq!(rows(&read)[0].1[1].3, empty_batch(5, 0).len(), "v{version}");
        }
    }

    #[test]
    fn where_a_client_goes_on_is_behind_the_last_whole_batch() {
        let two = [empty_batch(5, 2), empty_batch(8, 0)].concat();
        let torn = [&two[..], &two[..40]].concat();
        for (records, end) in [(Vec::new(), None), (two, Some(9)), (torn, Some(9))] {
            let mut data = empty(0, 0);
            data.records = Some(records.clone().into());
            let cut = cut(&mut data, &Give::Open, 5).unwrap();
            assert_eq!(cut.map(|leaving| leaving.end), end);
            assert_eq!(data.records.unwrap(), records, "not a byte is another");
        }
    }

    /// An aborted batch, its marker, and a record of no transaction.
    fn with_aborted() -> PartitionData {
        let record = RawRecord {
            timestamp_ms: 0,
            timestamp_type: TimestampType::CreateTime,
            key: None,
            value: None,
            headers: Headers::default(),
        };
        let stamp = ProducerStamp { id: 9, epoch: 0, sequence: 0 };
        let record = [record];
        let mut aborted = produce_batch(&record, Some(stamp)).unwrap().to_vec();
        aborted[22] |= 1 << 4;
        let mut all = [aborted, marker_batch(9, 0, false, 0).to_vec()];
        let mut last = produce_batch(&record, None).unwrap().to_vec();
        for (offset, bytes) in (5..).zip(all.iter_mut().chain([&mut last])) {
            rebase(bytes, offset, 0).unwrap();
            let crc = crc_of(bytes).unwrap();
            bytes[17..21].copy_from_slice(&crc.to_be_bytes());
        }
        let mut data = empty(0, 8);
        data.records = Some([all.concat(), last].concat().into());
        let aborted = AbortedTransaction::default();
        data.aborted_transactions =
            Some(vec![aborted.with_producer_id(9.into()).with_first_offset(5)]);
        data
    }

    #[test]
    fn what_was_aborted_is_never_the_one_record_that_is_given() {
        let turn = Give::Turn { place: 0, without: Vec::new() };
        for give in [Give::Alone(Vec::new()), turn] {
            let mut data = with_aborted();
            let leaving = cut(&mut data, &give, 5).unwrap().unwrap();
            assert_eq!((leaving.end, leaving.by_turn), (8, give.place().is_some()));
            assert_eq!(leaving.hidden, std::iter::once(5..7).collect());
            let first = Batch::parse(data.records.as_ref().unwrap()).unwrap();
            assert!(first.header.is_control(), "the end of the transaction stays");
        }
        let mut uncommitted = with_aborted();
        uncommitted.aborted_transactions = None;
        let leaving = cut(&mut uncommitted, &Give::Alone(Vec::new()), 5).unwrap().unwrap();
        assert_eq!(leaving.end, 6, "who reads everything sees it");
    }

    #[test]
    fn what_holds_no_record_takes_nobody_s_turn() {
        let mut data = with_aborted();
        let records = data.records.take().unwrap();
        let last = Batch::parse(&records).unwrap().bytes.len();
        let two = last + Batch::parse(&records.slice(last..)).unwrap().bytes.len();
        data.records = Some(records.slice(..two));
        let turn = Give::Turn { place: 0, without: Vec::new() };
        let leaving = cut(&mut data, &turn, 5).unwrap().unwrap();
        assert_eq!((leaving.end, leaving.by_turn), (7, false));
        assert!(has_records(&data), "the client goes on behind it");
    }
}
