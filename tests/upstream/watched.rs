//! Relayed Fetches of members: the sidecar reads them, and changes only their session. A program
//! between the sidecar and its cluster notes them.

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::fetch_request::FetchPartition;
use kafka_protocol::messages::{
    ApiVersionsRequest, FetchRequest, FetchResponse, MetadataRequest, RequestHeader,
};
use kafka_protocol::protocol::{Decodable, HeaderVersion, Request as Api};
use reprise::config::RetryDelivery;
use reprise::wire::ResponseError;
use reprise::wire::batch::{Batch, records};

use crate::broker::{answer, broker, request};
use crate::relay::{is_greeting, pass};
use crate::support::batch::{plain, unpack};
use crate::support::client::fetch_request;
use crate::support::{Client, Member, Rec, Server, instant};

/// The time for which a partition is held after a seek back.
const HOLD: Duration = Duration::from_millis(400);
const SETTINGS: &str = "retry: {on_seek_back: retry, crash_limit: 1, order: {interval: 400ms}, \
                        isolation_timeout: 100ms}";

/// A Fetch at the cluster, and the whole frame of its answer without its length.
struct Exchange {
    request: FetchRequest,
    told: Vec<u8>,
}

struct House {
    sidecar: Server,
    behind: Server,
    seen: Arc<Mutex<Vec<Exchange>>>,
    mood: Arc<Mood>,
}

/// Faults of the program's answers to Fetches.
#[derive(Default)]
struct Mood {
    /// The answers are not valid.
    lies: AtomicBool,
    /// The connection ends without an answer.
    goes: AtomicBool,
}

impl House {
    fn new() -> Self {
        Self::with(SETTINGS)
    }

    fn with(settings: &str) -> Self {
        let behind: Arc<OnceLock<std::net::SocketAddr>> = Arc::default();
        let (seen, mood) = (Arc::default(), Arc::<Mood>::default());
        let addr = {
            let (behind, seen, mood) = (behind.clone(), Arc::clone(&seen), Arc::clone(&mood));
            broker(move |stream| spy(stream, *behind.wait(), &seen, &mood))
        };
        let cluster = Server::alone_as(addr);
        assert!(behind.set(cluster.addr()).is_ok());
        let sidecar = Server::in_front_of(addr, settings);
        Self { sidecar, behind: cluster, seen, mood }
    }

    /// The only member of a group, which owns these partitions of `orders`.
    fn member(&self, partitions: i32) -> Member {
        let mut member = Member::new(&self.sidecar, "shop", &["orders"]);
        member.join(&[("orders", partitions)]);
        member
    }

    /// Fetches at the cluster and their answers, since the last call.
    fn exchanges(&self) -> Vec<Exchange> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

fn spy(
    mut stream: TcpStream,
    behind: std::net::SocketAddr,
    seen: &Mutex<Vec<Exchange>>,
    mood: &Mood,
) {
    if is_greeting(&stream) {
        return;
    }
    let mut behind = TcpStream::connect(behind).unwrap();
    while let Some(asked) = request(&mut stream) {
        let Some(mut told) = pass(&asked, &mut behind) else { return };
        let key = i16::from_be_bytes([asked.frame[0], asked.frame[1]]);
        if key == FetchRequest::KEY {
            if mood.goes.load(Ordering::SeqCst) {
                return;
            }
            if mood.lies.load(Ordering::SeqCst) {
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

/// Fetches of every partition in turn, with limits far above any buffer.
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

/// Fills `partitions` partitions with `batches` batches of about 400 KB each.
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
fn fetched_records_pass_unchanged_and_in_order() {
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
fn members_get_no_fetch_session_and_old_ones_are_unknown() {
    // Each version fetches the record again.
    let house = House::with("retry: {on_seek_back: observe}");
    filled(&house, 1, 1);
    let mut member = house.member(1);
    let leader = member.client.leader("orders");
    house.exchanges();
    let with = |id: i32, epoch: i32| {
        fetch_request("orders", 0, 0, 0).with_session_id(id).with_session_epoch(epoch)
    };
    // Pipelined: a new session, the next Fetch of an unknown one, no session, and a session begun
    // again.
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
fn a_non_member_keeps_its_fetch_session() {
    let house = House::new();
    filled(&house, 1, 1);
    let mut client = house.sidecar.client();
    let asked = whole(1, 0).with_session_epoch(0);
    client.leader("orders").call(12, &asked);
    assert_eq!(house.exchanges().pop().unwrap().request, asked);
}

/// The next Fetch of a session, without changes.
fn goes_on(epoch: i32) -> FetchRequest {
    FetchRequest::default().with_session_id(77).with_session_epoch(epoch)
}

/// Fetches without changes. Returns whether the Fetch reached the cluster. The cluster has no such
/// session, so the answer is the same.
fn passes(house: &House, leader: &mut Client, asked: &FetchRequest) -> bool {
    house.exchanges();
    let told = leader.call(12, asked);
    assert_eq!(told.error_code, ResponseError::FetchSessionIdNotFound.code());
    house.exchanges().iter().any(|seen| seen.request == *asked)
}

#[test]
fn a_fetch_session_from_before_the_join_is_unknown() {
    let house = House::new();
    filled(&house, 1, 1);
    let begins = whole(1, 0).with_session_epoch(0);
    let mut member = Member::new(&house.sidecar, "shop", &["orders"]);
    member.client.leader("orders").call(12, &begins);
    assert_eq!(house.exchanges().pop().unwrap().request, begins, "nobody is known");
    assert!(passes(&house, member.client.leader("orders"), &goes_on(1)));
    member.join(&[("orders", 1)]);
    let leader = member.client.leader("orders");
    assert!(!passes(&house, leader, &goes_on(2)), "its records would leave unseen");
    leader.call(12, &begins);
    assert_eq!(house.exchanges().pop().unwrap().request.session_epoch, -1);
    leader.call(12, &FetchRequest::default().with_session_epoch(0));
    assert!(passes(&house, leader, &goes_on(1)), "nothing was asked for");
}

#[test]
fn an_unattributed_fetch_session_lasts_until_its_member_joins() {
    let house = House::new();
    filled(&house, 1, 1);
    house.sidecar.client().create("other", 1);
    let mut others = Member::new(&house.sidecar, "others", &["other"]);
    others.join(&[("other", 1)]);
    let mut member = Member::new(&house.sidecar, "shop", &["orders"]);
    let begins = whole(1, 0).with_session_epoch(0);
    member.client.leader("orders").call(12, &begins);
    assert_eq!(house.exchanges().pop().unwrap().request, begins);
    assert!(passes(&house, member.client.leader("orders"), &goes_on(1)));
    others.join(&[("other", 1)]);
    assert!(passes(&house, member.client.leader("orders"), &goes_on(2)), "it is nobody's still");
    let more = fetch_request("other", 0, 0, 0).with_session_id(77).with_session_epoch(3);
    assert!(!passes(&house, member.client.leader("orders"), &more), "it was not begun for that");
    member.client.leader("orders").call(12, &begins);
    member.join(&[("orders", 1)]);
    assert!(!passes(&house, member.client.leader("orders"), &goes_on(1)));
}

#[test]
fn an_unwatched_groups_fetch_session_lasts_until_it_is_watched() {
    let mut house = House::with("retry: {delivery: off}");
    filled(&house, 1, 1);
    let mut member = house.member(1);
    let begins = whole(1, 0).with_session_epoch(0);
    member.client.leader("orders").call(12, &begins);
    assert_eq!(house.exchanges().pop().unwrap().request, begins);
    assert!(passes(&house, member.client.leader("orders"), &goes_on(1)));
    house.sidecar.reload_with(|config| config.retry.delivery = RetryDelivery::Auto);
    assert!(!passes(&house, member.client.leader("orders"), &goes_on(2)));
}

#[test]
fn an_unattributable_fetch_begins_no_session() {
    let house = House::new();
    filled(&house, 1, 1);
    let mut others = Member::new(&house.sidecar, "others", &["other"]);
    others.join(&[]);
    let mut client = house.sidecar.client();
    // Only the cluster has named this topic, in an answer that did not pass the sidecar.
    let mut behind = Client::connect(house.behind.addr());
    let id = behind.metadata(12, &["orders"]).topics[0].topic_id;
    let mut begins = whole(1, 0).with_session_epoch(0);
    begins.topics[0].topic = kafka_protocol::messages::TopicName::default();
    begins.topics[0].topic_id = id;
    let leader = client.leader("orders");
    leader.call(13, &begins);
    let seen = house.exchanges().pop().unwrap().request;
    assert_eq!(seen, begins.clone().with_session_epoch(-1));
    client.metadata(12, &["orders"]);
    client.leader("orders").call(13, &begins);
    assert_eq!(house.exchanges().pop().unwrap().request, begins);
}

#[test]
fn a_fetch_by_topic_id_is_attributed_to_its_member() {
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
fn an_unreadable_fetch_answer_still_reaches_the_member() {
    let house = House::new();
    filled(&house, 1, 1);
    let mut member = house.member(1);
    let leader = member.client.leader("orders");
    house.exchanges();
    house.mood.lies.store(true, Ordering::SeqCst);
    let _unread = leader.send(12, &whole(1, 0));
    let frame = leader.frame().unwrap();
    assert_eq!(frame, house.exchanges().pop().unwrap().told);
    house.mood.lies.store(false, Ordering::SeqCst);
    let told = leader.call(12, &whole(1, 0));
    assert_eq!(unpack(&told.responses[0].partitions[0].records.clone().unwrap()).len(), 1);
}

#[test]
fn a_request_in_pieces_is_read_in_order() {
    let house = House::new();
    filled(&house, 1, 1);
    let mut member = house.member(1);
    let leader = member.client.leader("orders");
    house.exchanges();
    let asked = whole(1, 0).with_session_epoch(0);
    let frame = leader.encoded(12, &asked);
    let (first, rest) = frame.split_at(frame.len() / 2);
    leader.raw(first);
    // Another request cannot drop_superseded it; the second half comes with the next write.
    let mut other = house.sidecar.client();
    other.metadata(9, &["orders"]);
    leader.raw(rest);
    let sent = leader.send(12, &asked);
    let versions = leader.send(0, &ApiVersionsRequest::default());
    leader.receive::<FetchRequest>(sent);
    leader.receive::<FetchRequest>(sent);
    leader.receive::<ApiVersionsRequest>(versions);
}

/// A member of two partitions with three records each, which has sought back to the second record
/// of the first. Returns its next Fetch as well.
fn gone_back(house: &House) -> (Member, FetchRequest) {
    let mut tool = house.sidecar.client();
    tool.create("orders", 2);
    for index in [0, 1] {
        tool.put("orders", index, &[Rec::new("a"), Rec::new("b"), Rec::new("c")]);
    }
    let mut member = house.member(2);
    let mut next = fetch_request("orders", 0, 0, 10_000);
    member.client.leader("orders").call(12, &next);
    assert_eq!(member.commit("orders", 0, 1), 0);
    next.topics[0].partitions[0].fetch_offset = 1;
    let other = FetchPartition::default().with_partition(1).with_partition_max_bytes(1 << 20);
    next.topics[0].partitions.push(other);
    house.exchanges();
    (member, next)
}

/// Offsets of the records in each partition. Batches may have gaps, as behind a log cleaner.
fn offsets(told: &FetchResponse) -> Vec<Vec<i64>> {
    let partitions = told.responses[0].partitions.iter();
    let of = partitions.map(|data| {
        let (mut rest, mut offsets) = (data.records.clone().unwrap(), Vec::new());
        while !rest.is_empty() {
            let batch = Batch::parse(&rest).unwrap();
            batch.check_crc().unwrap();
            let got = records(&batch, usize::MAX).unwrap();
            offsets.extend(got.map(|record| record.unwrap().offset));
            rest = rest.slice(batch.bytes.len()..);
        }
        offsets
    });
    of.collect()
}

/// Offsets in the answer after the hold. A Fetch that waited for the end of the hold returns empty,
/// and is sent again.
fn behind_the_hold(leader: &mut Client, next: &FetchRequest) -> Vec<Vec<i64>> {
    let told = offsets(&leader.call(12, next));
    if told.iter().any(|offsets| !offsets.is_empty()) {
        return told;
    }
    offsets(&leader.call(12, next))
}

#[test]
fn a_held_partition_is_skipped_until_its_single_record_goes() {
    let house = House::new();
    let (mut member, mut next) = gone_back(&house);
    let leader = member.client.leader("orders");
    assert_eq!(offsets(&leader.call(12, &next)), [vec![], vec![0, 1, 2]]);
    let asked = house.exchanges();
    let first = &asked[0].request;
    let partitions: Vec<i32> = first.topics[0].partitions.iter().map(|p| p.partition).collect();
    assert_eq!((asked.len(), partitions), (1, vec![1]));
    assert_eq!((first.max_bytes, first.session_epoch), (1 << 20, -1));
    assert!(first.max_wait_ms <= 250, "{}", first.max_wait_ms);

    next.topics[0].partitions[1].fetch_offset = 3;
    let leader = member.client.leader("orders");
    assert_eq!(behind_the_hold(leader, &next), [vec![1], vec![]], "of three that are there");
}

#[test]
fn a_broker_failure_ends_the_connection_but_not_the_hold() {
    let house = House::new();
    let (mut member, mut next) = gone_back(&house);
    next.topics[0].partitions[1].fetch_offset = 3;
    house.mood.goes.store(true, Ordering::SeqCst);
    let began = instant();
    assert_eq!(member.client.leader("orders").try_call(12, &next), None);
    house.mood.goes.store(false, Ordering::SeqCst);
    // The client connects again with the same client object, as clients do.
    let told = member.client.call(9, &MetadataRequest::default());
    let mut leader = member.client.connect_to(&told.brokers[0]);
    next.topics[0].partitions[0].fetch_offset = 1;
    assert_eq!(behind_the_hold(&mut leader, &next), [vec![1], vec![]], "alone, at the same offset");
    assert!(began.elapsed() >= HOLD, "{:?}", began.elapsed());
}

#[test]
fn a_closed_client_leaves_its_held_record_to_the_next() {
    let house = House::new();
    let (mut member, mut next) = gone_back(&house);
    next.topics[0].partitions.pop();
    let leader = member.client.leader("orders");
    let _never = leader.send(12, &next);
    // The next request gets no answer while the Fetch before it is held.
    let _behind = leader.send(0, &ApiVersionsRequest::default());
    leader.stream.tcp().shutdown(std::net::Shutdown::Both).unwrap();
    let told = member.client.call(9, &MetadataRequest::default());
    let mut leader = member.client.connect_to(&told.brokers[0]);
    assert_eq!(behind_the_hold(&mut leader, &next), [vec![1]], "alone");
}
