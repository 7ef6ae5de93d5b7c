//! Fetches of members on their way through: read, not changed, but for their session. A program
//! between the sidecar and its cluster writes down what is fetched.

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;
use kafka_protocol::messages::fetch_request::FetchPartition;
use kafka_protocol::messages::{FetchRequest, RequestHeader};
use kafka_protocol::protocol::{Decodable, HeaderVersion, Request as Api};
use reprise::wire::ResponseError;

use crate::broker::{answer, broker, request};
use crate::relay::{is_greeting, pass};
use crate::support::batch::{plain, unpack};
use crate::support::client::fetch_request;
use crate::support::{Member, Rec, Server};

/// A Fetch as the cluster saw it, and the whole frame it answered, without its length.
struct Exchange {
    request: FetchRequest,
    told: Vec<u8>,
}

struct House {
    sidecar: Server,
    _behind: Server,
    seen: Arc<Mutex<Vec<Exchange>>>,
    /// Whether Fetches are answered with what is no answer.
    lies: Arc<AtomicBool>,
}

impl House {
    fn new() -> Self {
        let behind: Arc<OnceLock<std::net::SocketAddr>> = Arc::default();
        let (seen, lies) = (Arc::default(), Arc::default());
        let addr = {
            let (behind, seen, lies) = (behind.clone(), Arc::clone(&seen), Arc::clone(&lies));
            broker(move |stream| spy(stream, *behind.wait(), &seen, &lies))
        };
        let cluster = Server::alone_as(addr);
        assert!(behind.set(cluster.addr()).is_ok());
        let sidecar = Server::in_front_of(addr, "retry: {levels: 20ms}");
        Self { sidecar, _behind: cluster, seen, lies }
    }

    /// The only member of a group, with these partitions of `orders`.
    fn member(&self, partitions: i32) -> Member {
        let mut member = Member::new(&self.sidecar, "shop", &["orders"]);
        member.join(&[("orders", partitions)]);
        member
    }

    /// What the cluster was asked for and answered since the last look.
    fn exchanges(&self) -> Vec<Exchange> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

fn spy(
    mut stream: TcpStream,
    behind: std::net::SocketAddr,
    seen: &Mutex<Vec<Exchange>>,
    lies: &AtomicBool,
) {
    if is_greeting(&stream) {
        return;
    }
    let mut behind = TcpStream::connect(behind).unwrap();
    while let Some(asked) = request(&mut stream) {
        let Some(mut told) = pass(&asked, &mut behind) else { return };
        let key = i16::from_be_bytes([asked.frame[0], asked.frame[1]]);
        if key == FetchRequest::KEY {
            if lies.load(Ordering::SeqCst) {
                told = vec![0xff; 200_000];
            }
            let version = i16::from_be_bytes([asked.frame[2], asked.frame[3]]);
            let mut bytes = Bytes::from(asked.frame.clone());
            RequestHeader::decode(&mut bytes, FetchRequest::header_version(version)).unwrap();
            let request = FetchRequest::decode(&mut bytes, version).unwrap();
            let whole = [&asked.correlation_id.to_be_bytes()[..], &told].concat();
            seen.lock().unwrap().push(Exchange { request, told: whole });
        }
        answer(&mut stream, asked.correlation_id, &told);
    }
}

/// Fetches of every partition in turn, far larger than any buffer.
fn whole(partitions: i32, offset: i64) -> FetchRequest {
    let mut request = fetch_request("orders", 0, offset, 0);
    request.topics[0].partitions = (0..partitions)
        .map(|index| {
            let asked = FetchPartition::default().with_partition(index).with_fetch_offset(offset);
            asked.with_partition_max_bytes(50 << 20)
        })
        .collect();
    request
}

/// `partitions` partitions, each with so many batches of some 400 KB.
fn filled(house: &House, partitions: i32, batches: usize) {
    let mut client = house.sidecar.client();
    client.create("orders", partitions);
    for index in 0..partitions {
        for n in 0..batches {
            let value = format!("{index} {n} ").repeat(100_000);
            client.produce("orders", index, plain(&[Rec::new(&value)]));
        }
    }
}

#[test]
fn what_a_member_fetches_passes_byte_for_byte_and_in_order() {
    let house = House::new();
    filled(&house, 3, 5);
    let mut member = house.member(3);
    let leader = member.client.leader("orders");
    house.exchanges();
    let sent: Vec<_> = (0..3).map(|offset| leader.send(12, &whole(3, offset))).collect();
    let frames: Vec<Bytes> = sent.iter().map(|_| leader.frame().unwrap()).collect();
    let seen = house.exchanges();
    assert_eq!(seen.len(), 3);
    for ((frame, seen), offset) in frames.iter().zip(&seen).zip(0..) {
        assert_eq!(seen.request.topics[0].partitions[0].fetch_offset, offset, "in order");
        assert!(frame.len() > 2_000_000 && frame == &seen.told, "not a byte is another");
    }
}

#[test]
fn a_member_has_no_session_and_one_of_before_is_not_known() {
    let house = House::new();
    filled(&house, 1, 1);
    let mut member = house.member(1);
    let leader = member.client.leader("orders");
    house.exchanges();
    let with = |id: i32, epoch: i32| {
        fetch_request("orders", 0, 0, 0).with_session_id(id).with_session_epoch(epoch)
    };
    // All at once: a new one, the next of one of before, one without, one that begins anew.
    let asked = [with(0, 0), with(77, 3), with(0, -1), with(77, 0)];
    for version in [7, 12] {
        let sent = asked.each_ref().map(|request| leader.send(version, request));
        let told = sent.map(|sent| leader.receive::<FetchRequest>(sent));
        let unknown = ResponseError::FetchSessionIdNotFound.code();
        assert_eq!(told.each_ref().map(|told| told.error_code), [0, unknown, 0, 0]);
        assert_eq!(told.each_ref().map(|told| told.session_id), [0; 4]);
        let seen = house.exchanges();
        let sessions: Vec<_> =
            seen.iter().map(|seen| (seen.request.session_id, seen.request.session_epoch)).collect();
        assert_eq!(sessions, [(0, -1); 3], "v{version}: the cluster opens none");
    }
}

#[test]
fn who_is_no_member_keeps_its_session() {
    let house = House::new();
    filled(&house, 1, 1);
    let mut client = house.sidecar.client();
    let asked = whole(1, 0).with_session_epoch(0);
    client.leader("orders").call(12, &asked);
    assert_eq!(house.exchanges().pop().unwrap().request, asked);
}

#[test]
fn a_member_that_asks_by_topic_id_is_known_as_well() {
    let house = House::new();
    filled(&house, 1, 1);
    let mut member = house.member(1);
    let id = member.client.metadata(12, &["orders"]).topics[0].topic_id;
    let mut asked = whole(1, 0).with_session_epoch(0);
    asked.topics[0].topic = kafka_protocol::messages::TopicName::default();
    asked.topics[0].topic_id = id;
    let told = member.client.leader("orders").call(13, &asked);
    let records = told.responses[0].partitions[0].records.clone().unwrap();
    assert_eq!((told.responses[0].topic_id, unpack(&records).len()), (id, 1));
    let seen = house.exchanges().pop().unwrap().request;
    assert_eq!(seen, asked.with_session_epoch(-1));
}

#[test]
fn what_is_no_answer_passes_to_the_member_for_all_that() {
    let house = House::new();
    filled(&house, 1, 1);
    let mut member = house.member(1);
    let leader = member.client.leader("orders");
    house.exchanges();
    house.lies.store(true, Ordering::SeqCst);
    let _unread = leader.send(12, &whole(1, 0));
    let frame = leader.frame().unwrap();
    assert_eq!(frame, house.exchanges().pop().unwrap().told);
    house.lies.store(false, Ordering::SeqCst);
    let told = leader.call(12, &whole(1, 0));
    assert_eq!(unpack(&told.responses[0].partitions[0].records.clone().unwrap()).len(), 1);
}

#[test]
fn a_request_in_pieces_is_read_and_what_comes_behind_keeps_its_place() {
    let house = House::new();
    filled(&house, 1, 1);
    let mut member = house.member(1);
    let leader = member.client.leader("orders");
    house.exchanges();
    let asked = whole(1, 0).with_session_epoch(0);
    let frame = leader.encoded(12, &asked);
    let (first, rest) = frame.split_at(frame.len() / 2);
    leader.raw(first);
    // Another request cannot overtake it; the rest comes with the next one.
    let mut other = house.sidecar.client();
    other.metadata(9, &["orders"]);
    leader.raw(rest);
    let sent = leader.send(12, &asked);
    let versions = leader.send(0, &kafka_protocol::messages::ApiVersionsRequest::default());
    leader.receive::<FetchRequest>(sent);
    leader.receive::<FetchRequest>(sent);
    leader.receive::<kafka_protocol::messages::ApiVersionsRequest>(versions);
}
