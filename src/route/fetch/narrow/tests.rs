//! Narrowed Fetches and completed answers.

use kafka_protocol::messages::BrokerId;
use kafka_protocol::messages::fetch_request::{FetchPartition, ForgottenTopic};
use kafka_protocol::messages::fetch_response::AbortedTransaction;

use super::*;
use crate::model::{MonoMs, TopicName};
use crate::retry::detector::Plan;
use crate::route::convert::wire_topic;
use crate::wire::Api;
use crate::wire::batch::{
    Headers, ProducerStamp, RawRecord, TimestampType, crc_of, empty_batch, marker_batch,
    produce_batch, rebase, records,
};

/// A Fetch of these topics and partitions from offset 5.
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

/// A broker's answer in reverse order.
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
fn held_partitions_are_answered_empty_while_others_flow() {
    let request = asking(&[("a", &[3, 1]), ("b", &[0]), ("c", &[0, 2])]);
    let plan = Plan {
        serve: vec![
            FetchDecision::Nothing,
            FetchDecision::Open,
            FetchDecision::Nothing,
            FetchDecision::Without(vec![7]),
            FetchDecision::Below { without: vec![], below: 7 },
        ],
        until: Some(MonoMs(10)),
    };
    let gives: Vec<DeliveryDecision> = plan.serve.iter().map(DeliveryDecision::from).collect();
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
    let refused = DeliveryDecision::Refused(ResponseError::NotLeaderOrFollower);
    let gives = [DeliveryDecision::Nothing, refused, DeliveryDecision::Nothing];
    assert!(narrowed(&request, &gives).topics.is_empty());
    let merged = merged(&request, &gives, FetchResponse::default());
    let code = ResponseError::NotLeaderOrFollower.code();
    let whole = [("a", vec![(0, 0, -1, 0), (1, code, -1, 0)]), ("b", vec![(0, 0, -1, 0)])];
    assert_eq!(rows(&merged), named(whole));
    assert!(says_something(&merged), "an error is told at once");
}

#[test]
fn partitions_without_an_answer_stay_empty() {
    let request = asking(&[("a", &[0, 1])]);
    let gives = [DeliveryDecision::Open, DeliveryDecision::Nothing];
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
    let merged = merged(&request, &[DeliveryDecision::Below { without: vec![], below: 7 }], told);
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
        let gives = [DeliveryDecision::Nothing, DeliveryDecision::Open];
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
fn a_client_continues_behind_the_last_whole_batch() {
    let two = [empty_batch(5, 2), empty_batch(8, 0)].concat();
    let torn = [&two[..], &two[..40]].concat();
    for (records, end) in [(Vec::new(), None), (two, Some(9)), (torn, Some(9))] {
        let mut data = empty(0, 0);
        data.records = Some(records.clone().into());
        let cut = cut(&mut data, &DeliveryDecision::Open, 5).unwrap();
        assert_eq!(cut.map(|leaving| leaving.end), end);
        assert_eq!(data.records.unwrap(), records, "not a byte is another");
    }
}

fn record() -> RawRecord {
    RawRecord {
        timestamp_ms: 0,
        timestamp_type: TimestampType::CreateTime,
        key: None,
        value: None,
        headers: Headers::default(),
    }
}

/// An aborted batch, its marker, and a record outside transactions.
fn with_aborted() -> PartitionData {
    let stamp = ProducerStamp { id: 9, epoch: 0, sequence: 0 };
    let record = [record()];
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
    data.aborted_transactions = Some(vec![aborted.with_producer_id(9.into()).with_first_offset(5)]);
    data
}

fn below(below: i64) -> DeliveryDecision {
    DeliveryDecision::Below { without: Vec::new(), below }
}

#[test]
fn no_record_takes_the_place_of_a_held_one() {
    // Offset 5 was aborted; 6 is the marker of its transaction.
    let held = |at| {
        let mut data = with_aborted();
        let leaving = cut(&mut data, &below(at), 5).unwrap();
        (leaving.map(|leaving| leaving.end), has_records(&data))
    };
    let given = [(Some(5), false), (Some(6), true), (Some(7), true), (Some(8), true)];
    assert_eq!([5, 6, 7, 8].map(held), given);
}

/// A batch of three records.
fn three_at(offset: i64) -> Vec<u8> {
    let mut batch = produce_batch(&vec![record(); 3], None).unwrap().to_vec();
    rebase(&mut batch, offset, 0).unwrap();
    batch
}

/// Offsets of the records in each batch of an answer.
fn batches(data: &PartitionData) -> Vec<Vec<i64>> {
    let (mut rest, mut all) = (data.records.clone().unwrap(), Vec::new());
    while let Ok(batch) = Batch::parse(&rest) {
        let each = records(&batch, 1 << 20).unwrap();
        all.push(each.map(|record| record.unwrap().offset).collect());
        rest = rest.slice(batch.bytes.len()..);
    }
    all
}

#[test]
fn records_below_a_bound_come_by_whole_batches_first() {
    // Three batches of three records each.
    let given = |from: i64, without: &[i64], below: i64| {
        let mut data = empty(0, 9);
        data.records = Some((0..3).flat_map(|nth| three_at(nth * 3)).collect());
        let give = DeliveryDecision::Below { without: without.to_vec(), below };
        let leaving = cut(&mut data, &give, from).unwrap().unwrap();
        (batches(&data), leaving.end, leaving.passed_over(from))
    };
    let (first, second) = (vec![0, 1, 2], vec![3, 4, 5]);
    assert_eq!(given(0, &[], 8), (vec![first.clone(), second.clone()], 6, None));
    assert_eq!(given(0, &[], 5), (vec![first.clone()], 3, None));
    assert_eq!(given(1, &[0], 5), (vec![first], 3, None), "what was cut before is not in the way");
    assert_eq!(given(3, &[], 5), (vec![vec![3, 4]], 5, None));
    assert_eq!(given(4, &[], 5), (vec![vec![4]], 5, None));
    assert_eq!(given(2, &[4], 8), (vec![vec![0, 1, 2]], 3, None), "up to what is cut");
    assert_eq!(given(3, &[4], 8), (vec![vec![3, 5]], 6, None));
    assert_eq!(given(4, &[4], 8), (vec![vec![5]], 6, None));
    assert_eq!(given(5, &[5], 6), (vec![], 5, Some(5..6)), "there is nothing in front of it");
    assert_eq!(given(5, &[], 5), (vec![], 5, None), "nor between");
}

#[test]
fn an_aborted_record_is_never_the_single_record() {
    let turn = DeliveryDecision::Turn { place: 0, without: Vec::new() };
    let mut data = with_aborted();
    let leaving = cut(&mut data, &turn, 5).unwrap().unwrap();
    assert_eq!((leaving.end, leaving.turn), (8, Some(7)));
    assert_eq!(leaving.hidden, std::iter::once(5..7).collect());
    let first = Batch::parse(data.records.as_ref().unwrap()).unwrap();
    assert!(first.header.is_control(), "the end of the transaction stays");
    let mut uncommitted = with_aborted();
    uncommitted.aborted_transactions = None;
    let leaving = cut(&mut uncommitted, &turn, 5).unwrap().unwrap();
    assert_eq!(leaving.end, 6, "who reads everything sees it");
}

#[test]
fn aborted_records_before_a_suspect_are_reported_hidden() {
    let mut data = with_aborted();
    let leaving = cut(&mut data, &below(i64::MAX), 5).unwrap().unwrap();
    assert_eq!((leaving.end, leaving.turn), (8, None));
    assert_eq!(leaving.hidden, std::iter::once(5..7).collect());
    assert_eq!(data.records, with_aborted().records);
}

#[test]
fn batches_without_records_do_not_take_a_turn() {
    let mut data = with_aborted();
    let records = data.records.take().unwrap();
    let last = Batch::parse(&records).unwrap().bytes.len();
    let two = last + Batch::parse(&records.slice(last..)).unwrap().bytes.len();
    data.records = Some(records.slice(..two));
    let turn = DeliveryDecision::Turn { place: 0, without: Vec::new() };
    let leaving = cut(&mut data, &turn, 5).unwrap().unwrap();
    assert_eq!((leaving.end, leaving.turn), (7, None));
    assert!(has_records(&data), "the client goes on behind it");
}
