//! Offsets in a transaction: they count here with its end. The cluster is a sidecar by itself
//! behind a program with the transaction APIs.

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, OnceLock};

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use kafka_protocol::messages::{
    AddPartitionsToTxnRequest, EndTxnRequest, EndTxnResponse, InitProducerIdRequest,
    InitProducerIdResponse, RequestHeader, TxnOffsetCommitRequest, TxnOffsetCommitResponse,
};
use kafka_protocol::protocol::{Decodable, Encodable, Request as Api};
use reprise::wire::ResponseError;

use crate::broker::{Request, answer, broker, request};
use crate::relay::pass;
use crate::support::batch::plain;
use crate::support::client::{produce_request, s};
use crate::support::{Got, Member, Rec, Server};

const TOPICS: &[&str] = &["orders", "reprise.retry.shop"];
const PARTITIONS: &[(&str, i32)] = &[("orders", 1), ("reprise.retry.shop", 1)];

/// Requests that the cluster's coordinators got, and their next answers.
#[derive(Default)]
struct CoordinatorLog {
    /// Topics of each `TxnOffsetCommit`.
    committed: Vec<Vec<String>>,
    /// Whether each `EndTxn` was a commit.
    ended: Vec<bool>,
    /// Errors of the next `EndTxn` requests; afterwards they succeed.
    end_errors: VecDeque<ResponseError>,
    /// The next `EndTxn` takes effect, and the connection ends without an answer.
    loses_end: bool,
    commit_error: Option<ResponseError>,
}

struct House {
    sidecar: Server,
    _cluster: Server,
    told: Arc<Mutex<CoordinatorLog>>,
}

impl House {
    fn new() -> Self {
        Self::over(|addr| Server::in_front_of(addr, "retry: {levels: 20ms}"))
    }

    fn over(sidecar: impl FnOnce(SocketAddr) -> Server) -> Self {
        let behind = Arc::new(OnceLock::new());
        let told = Arc::new(Mutex::new(CoordinatorLog::default()));
        let addr = {
            let (behind, told) = (Arc::clone(&behind), Arc::clone(&told));
            broker(move |stream| coordinate(stream, *behind.get().unwrap(), &told))
        };
        let cluster = Server::alone_as(addr);
        behind.set(cluster.addr()).unwrap();
        let sidecar = sidecar(addr);
        sidecar.client().create("orders", 1);
        Self { sidecar, _cluster: cluster, told }
    }

    /// A member with one outstanding retry.
    fn with_retry(&self) -> (Member, Got) {
        let mut member = self.with_nack();
        let retry = member.retry_once();
        (member, retry)
    }

    /// A member after a nack of its only record.
    fn with_nack(&self) -> Member {
        let mut member = Member::new(&self.sidecar, "shop", TOPICS);
        member.join(PARTITIONS);
        member.client.put("orders", 0, &[Rec::new("x")]);
        member.client.nack("shop", "orders-0@0", Rec::new("x"));
        member
    }

    fn told(&self) -> std::sync::MutexGuard<'_, CoordinatorLog> {
        self.told.lock().unwrap()
    }
}

/// Answers the transaction APIs, and relays everything else.
fn coordinate(mut stream: TcpStream, cluster: SocketAddr, told: &Mutex<CoordinatorLog>) {
    let mut behind = TcpStream::connect(cluster).unwrap();
    while let Some(asked) = request(&mut stream) {
        match i16::from_be_bytes([asked.frame[0], asked.frame[1]]) {
            TxnOffsetCommitRequest::KEY => reply(&mut stream, &asked, |r| committed(told, &r)),
            EndTxnRequest::KEY if std::mem::take(&mut told.lock().unwrap().loses_end) => return,
            EndTxnRequest::KEY => reply(&mut stream, &asked, |r| ended(told, &r)),
            InitProducerIdRequest::KEY => {
                reply(&mut stream, &asked, |_: InitProducerIdRequest| {
                    let mut answer = InitProducerIdResponse::default();
                    (answer.producer_id, answer.producer_epoch) = (7.into(), 1);
                    answer
                });
            }
            AddPartitionsToTxnRequest::KEY => panic!("nothing of ours may be told"),
            _ => {
                let Some(told) = pass(&asked, &mut behind) else { return };
                answer(&mut stream, asked.correlation_id, &told);
            }
        }
    }
}

fn reply<R: Api>(stream: &mut TcpStream, asked: &Request, with: impl FnOnce(R) -> R::Response)
where
    R::Response: Encodable,
{
    let mut bytes = Bytes::copy_from_slice(&asked.frame);
    let version = i16::from_be_bytes([bytes[2], bytes[3]]);
    RequestHeader::decode(&mut bytes, R::header_version(version)).unwrap();
    let mut out = BytesMut::new();
    if R::header_version(version) >= 2 {
        out.extend_from_slice(&[0]);
    }
    with(R::decode(&mut bytes, version).unwrap()).encode(&mut out, version).unwrap();
    answer(stream, asked.correlation_id, &out);
}

fn committed(
    told: &Mutex<CoordinatorLog>,
    asked: &TxnOffsetCommitRequest,
) -> TxnOffsetCommitResponse {
    let mut told = told.lock().unwrap();
    told.committed.push(asked.topics.iter().map(|topic| topic.name.to_string()).collect());
    let mut response = TxnOffsetCommitResponse::default();
    for topic in &asked.topics {
        let mut result = TxnOffsetCommitResponseTopic::default();
        result.name = topic.name.clone();
        for partition in &topic.partitions {
            let mut one = TxnOffsetCommitResponsePartition::default();
            one.partition_index = partition.partition_index;
            one.error_code = told.commit_error.map_or(0, |error| error.code());
            result.partitions.push(one);
        }
        response.topics.push(result);
    }
    response
}

fn ended(told: &Mutex<CoordinatorLog>, asked: &EndTxnRequest) -> EndTxnResponse {
    let mut told = told.lock().unwrap();
    told.ended.push(asked.committed);
    let mut response = EndTxnResponse::default();
    response.error_code = told.end_errors.pop_front().map_or(0, |error| error.code());
    (response.producer_id, response.producer_epoch) = (7.into(), asked.producer_epoch + 1);
    response
}

/// The error codes of a `TxnOffsetCommit`, in the order of the request.
fn commit(member: &mut Member, version: i16, offsets: &[(&str, i64)]) -> Vec<i16> {
    let mut request = TxnOffsetCommitRequest::default();
    (request.transactional_id, request.group_id) = (s("pay"), s(&member.group));
    (request.producer_id, request.producer_epoch) = (7.into(), 0);
    if version >= 3 {
        (request.member_id, request.generation_id) = (s(&member.id), member.generation);
    }
    for (topic, offset) in offsets {
        let mut partition = TxnOffsetCommitRequestPartition::default();
        partition.committed_offset = *offset;
        let mut one = TxnOffsetCommitRequestTopic::default();
        (one.name, one.partitions) = (s(topic), vec![partition]);
        request.topics.push(one);
    }
    let answer = member.client.call(version, &request);
    let names: Vec<String> = answer.topics.iter().map(|topic| topic.name.to_string()).collect();
    assert_eq!(names, offsets.iter().map(|(topic, _)| *topic).collect::<Vec<_>>());
    answer.topics.iter().map(|topic| topic.partitions[0].error_code).collect()
}

fn end(member: &mut Member, version: i16, committed: bool) -> EndTxnResponse {
    let mut request = EndTxnRequest::default();
    (request.transactional_id, request.committed) = (s("pay"), committed);
    (request.producer_id, request.producer_epoch) = (7.into(), 0);
    member.client.call(version, &request)
}

/// Number of retries of `shop` that are not acknowledged.
fn open(house: &House) -> usize {
    house.sidecar.pending("shop").len()
}

#[test]
fn retries_are_acknowledged_only_when_their_transaction_commits() {
    for version in 0..=5 {
        let house = House::new();
        let (mut member, retry) = house.with_retry();
        let offsets = [("orders", 1), ("reprise.retry.shop", retry.offset + 1)];
        assert_eq!(commit(&mut member, version, &offsets), [0, 0], "v{version}");
        assert_eq!(house.told().committed, [["orders", "reprise.retry.shop"]]);
        assert_eq!(open(&house), 1, "not acknowledged yet");
        assert_eq!(end(&mut member, version, true).error_code, 0);
        assert_eq!((open(&house), &house.told().ended[..]), (0, &[true][..]), "v{version}");
    }
}

#[test]
fn an_aborted_transaction_acknowledges_no_retry() {
    let mut init = InitProducerIdRequest::default();
    init.transactional_id = Some(s("pay"));
    for is_fenced in [false, true] {
        let house = House::new();
        let (mut member, retry) = house.with_retry();
        let offsets = [("orders", 1), ("reprise.retry.shop", retry.offset + 1)];
        assert_eq!(commit(&mut member, 3, &offsets), [0, 0]);
        if is_fenced {
            assert_eq!(member.client.call(2, &init).error_code, 0);
        }
        assert_eq!(end(&mut member, 3, is_fenced).error_code, 0);
        assert_eq!(open(&house), 1);
        assert_eq!(member.retries_from(retry.offset)[0].text(), "x");
    }
}

#[test]
fn concurrent_ends_may_be_repeated_and_fenced_ones_abort() {
    let house = House::new();
    let (mut member, retry) = house.with_retry();
    assert_eq!(commit(&mut member, 3, &[("reprise.retry.shop", retry.offset + 1)]), [0]);
    let later = ResponseError::ConcurrentTransactions;
    house.told().end_errors.push_back(later);
    assert_eq!(end(&mut member, 3, true).error_code, later.code());
    assert_eq!(open(&house), 1);
    assert_eq!(end(&mut member, 3, true).error_code, 0);
    assert_eq!(open(&house), 0);
    let house = House::new();
    let (mut member, retry) = house.with_retry();
    assert_eq!(commit(&mut member, 3, &[("reprise.retry.shop", retry.offset + 1)]), [0]);
    house.told().end_errors.push_back(ResponseError::ProducerFenced);
    assert_eq!(end(&mut member, 3, true).error_code, ResponseError::ProducerFenced.code());
    assert_eq!(open(&house), 1);
}

/// The cluster has committed, and the producer repeats its request.
#[test]
fn a_lost_end_answer_commits() {
    let house = House::new();
    let (mut member, retry) = house.with_retry();
    assert_eq!(commit(&mut member, 3, &[("reprise.retry.shop", retry.offset + 1)]), [0]);
    house.told().loses_end = true;
    let mut request = EndTxnRequest::default();
    (request.transactional_id, request.committed) = (s("pay"), true);
    (request.producer_id, request.producer_epoch) = (7.into(), 0);
    assert!(member.client.try_call(3, &request).is_none());
    member.client = house.sidecar.client();
    assert_eq!(end(&mut member, 3, true).error_code, 0);
    assert_eq!(open(&house), 0);
}

#[test]
fn a_commit_refused_by_the_cluster_is_not_noted() {
    let house = House::new();
    let (mut member, retry) = house.with_retry();
    house.told().commit_error = Some(ResponseError::IllegalGeneration);
    let refused = ResponseError::IllegalGeneration.code();
    let offsets = [("orders", 1), ("reprise.retry.shop", retry.offset + 1)];
    assert_eq!(commit(&mut member, 3, &offsets), [refused; 2]);
    assert_eq!(end(&mut member, 3, true).error_code, 0);
    assert_eq!(open(&house), 1, "nothing was held");
}

#[test]
fn offsets_of_a_transaction_carry_no_nacks() {
    let house = House::new();
    let (mut member, _) = house.with_retry();
    let mut request = TxnOffsetCommitRequest::default();
    (request.transactional_id, request.group_id) = (s("pay"), s(&member.group));
    (request.member_id, request.generation_id) = (s(&member.id), member.generation);
    for (topic, metadata) in [("orders", "!retry:0"), ("reprise.retry.shop", "")] {
        let mut partition = TxnOffsetCommitRequestPartition::default();
        (partition.committed_offset, partition.committed_metadata) = (1, Some(s(metadata)));
        let mut one = TxnOffsetCommitRequestTopic::default();
        (one.name, one.partitions) = (s(topic), vec![partition]);
        request.topics.push(one);
    }
    let answer = member.client.call(3, &request);
    let codes: Vec<i16> = answer.topics.iter().map(|t| t.partitions[0].error_code).collect();
    assert_eq!(codes, [ResponseError::InvalidTxnState.code(); 2], "all of it");
    assert!(house.told().committed.is_empty(), "the transaction knows nothing of it");
    assert_eq!(open(&house), 1);
}

#[test]
fn topics_of_ours_take_no_part_in_transactions() {
    let house = House::new();
    let mut client = house.sidecar.client();
    let topic = |name: &str| {
        let mut topic = AddPartitionsToTxnTopic::default();
        (topic.name, topic.partitions) = (s(name), vec![0]);
        topic
    };
    for version in 0..=3 {
        let mut request = AddPartitionsToTxnRequest::default();
        request.v3_and_below_transactional_id = s("pay");
        request.v3_and_below_topics = vec![topic("orders"), topic("reprise.retry.shop")];
        let answer = client.call(version, &request);
        let codes = answer.results_by_topic_v3_and_below.iter();
        let codes = codes.map(|topic| topic.results_by_partition[0].partition_error_code);
        assert_eq!(
            codes.collect::<Vec<_>>(),
            [ResponseError::OperationNotAttempted.code(), ResponseError::InvalidTxnState.code()]
        );
    }
    let mut request = produce_request("reprise.retry.shop", 0, plain(&[Rec::new("x")]), -1);
    request.transactional_id = Some(s("pay"));
    let answer = client.call(9, &request);
    let told = &answer.responses[0].partition_responses[0];
    assert_eq!(told.error_code, ResponseError::InvalidTxnState.code());
    assert!(told.error_message.as_ref().unwrap().contains("no transactional.id"));
}
