//! A nack by reference whose record the leader shows to members only: the sidecar fetches it on a
//! connection of a member of the group. The cluster is a sidecar by itself behind two programs that
//! play its brokers: the first one coordinates, the second one leads.

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;
use kafka_protocol::messages::{
    ApiVersionsRequest, FetchRequest, FetchResponse, MetadataRequest, MetadataResponse,
    ProduceRequest,
};
use kafka_protocol::protocol::Request as Api;
use reprise::wire::ResponseError;

use crate::broker::{Request, answer, broker, request};
use crate::relay::{changed, header, pass};
use crate::support::batch::plain;
use crate::support::client::{fetch_request, produce_request};
use crate::support::{Client, Member, Rec, Server, until, wall_ms};

const MEMBER: &str = "the-member";
const NOT_LEADER: ResponseError = ResponseError::NotLeaderOrFollower;

/// Addresses of the brokers, and their behaviour towards clients.
struct Cluster {
    first: SocketAddr,
    second: SocketAddr,
    /// The third broker leads the topic `stuck`, accepts connections and never answers.
    hangs: SocketAddr,
    has_third: AtomicBool,
    /// Fetches that the third broker got.
    in_vain: Arc<AtomicUsize>,
    behind: SocketAddr,
    /// The error for Fetches of clients other than the member.
    refusal: Mutex<ResponseError>,
    /// Errors in the next Metadata answers to the sidecar itself, without partitions; `None`: no
    /// error and no partitions.
    unplaced: Mutex<VecDeque<Option<ResponseError>>>,
    /// Whether the second broker serves the sidecar's own Fetches.
    knows_reprise: bool,
    /// Client ids of the Fetches at the second broker.
    fetched: Mutex<Vec<String>>,
}

struct House {
    sidecar: Server,
    _behind: Server,
    cluster: Arc<Cluster>,
}

impl House {
    fn new(refusal: ResponseError, knows_reprise: bool) -> Self {
        let before = |first| Server::in_front_of(first, "retry: {levels: 20ms}");
        Self::before(refusal, knows_reprise, before)
    }

    /// Clients of this sidecar have no client addresses.
    fn without_addresses(refusal: ResponseError) -> Self {
        let before = |first| Server::in_front_of_told(first, "retry: {levels: 20ms}");
        Self::before(refusal, false, before)
    }

    fn before(
        refusal: ResponseError,
        knows_reprise: bool,
        sidecar: impl FnOnce(SocketAddr) -> Server,
    ) -> Self {
        let cluster: Arc<OnceLock<Arc<Cluster>>> = Arc::default();
        let play = |leads: bool| {
            let cluster = Arc::clone(&cluster);
            broker(move |stream| serve(stream, leads, cluster.wait()))
        };
        let (first, second) = (play(false), play(true));
        let in_vain = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&in_vain);
        let hangs = broker(move |mut stream| {
            while let Some(asked) = request(&mut stream) {
                if asked.frame[..2] == FetchRequest::KEY.to_be_bytes() {
                    counted.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
        let behind = Server::alone_as(first);
        let made = Arc::new(Cluster {
            first,
            second,
            hangs,
            has_third: AtomicBool::new(false),
            in_vain,
            behind: behind.addr(),
            refusal: Mutex::new(refusal),
            unplaced: Mutex::default(),
            knows_reprise,
            fetched: Mutex::default(),
        });
        assert!(cluster.set(Arc::clone(&made)).is_ok());
        let sidecar = sidecar(first);
        sidecar.client().create("orders", 1);
        // Produced to the cluster directly, into its only partition.
        Client::connect(made.behind).put("orders", 0, &["zero", "one"].map(fresh));
        Self { sidecar, _behind: behind, cluster: made }
    }

    /// A member with a connection to the leader, on which it has fetched.
    fn with_member(&self) -> (Member, Client) {
        let mut member = Member::new(&self.sidecar, "shop", &["orders", "reprise.retry.shop"]);
        member.client.id = MEMBER.into();
        member.join(&[("orders", 1), ("reprise.retry.shop", 1)]);
        let brokers = member.client.call(9, &MetadataRequest::default()).brokers;
        let mut leader = member.client.connect_to(&brokers[1]);
        leader.call(3, &ApiVersionsRequest::default());
        assert_eq!(fetched(&mut leader, 0), "zero");
        (member, leader)
    }

    /// Nacks by reference, from a client object that is no member.
    fn nack(&self, offset: i64) -> i16 {
        self.client().produce("reprise.retry.shop", 0, by_reference("orders", offset)).error_code
    }

    fn client(&self) -> Client {
        let mut client = self.sidecar.client();
        client.call(3, &ApiVersionsRequest::default());
        client
    }

    fn fetched_by(&self, who: &str) -> usize {
        self.cluster.fetched.lock().unwrap().iter().filter(|client| *client == who).count()
    }
}

/// A record that retention does not remove during the test.
fn fresh(value: &str) -> Rec {
    Rec::new(value).at(wall_ms())
}

fn by_name(topic: &str, offset: i64) -> Rec {
    let record = Rec::new("").header("x-retry-by-reference", "true");
    record.header("x-retry-origin", format!("{topic}-0@{offset}"))
}

fn by_reference(topic: &str, offset: i64) -> Bytes {
    plain(&[by_name(topic, offset)])
}

fn fetched(leader: &mut Client, offset: i64) -> String {
    let answer = leader.call(11, &fetch_request("orders", 0, offset, 0));
    let records = answer.responses[0].partitions[0].records.clone().unwrap();
    let got = crate::support::batch::unpack(&records);
    got.iter().find(|record| record.offset == offset).unwrap().text()
}

fn serve(mut stream: TcpStream, leads: bool, cluster: &Cluster) {
    let mut behind = TcpStream::connect(cluster.behind).unwrap();
    while let Some(asked) = request(&mut stream) {
        let key = i16::from_be_bytes([asked.frame[0], asked.frame[1]]);
        let told = match key {
            FetchRequest::KEY => {
                let client = header(&asked).0.client_id.unwrap_or_default().to_string();
                if client == "reprise" && !cluster.knows_reprise {
                    return;
                }
                if leads && [MEMBER, "reprise"].contains(&client.as_str()) {
                    cluster.fetched.lock().unwrap().push(client);
                    pass(&asked, &mut behind)
                } else {
                    pass(&asked, &mut behind).map(|told| refused(cluster, &asked, &told))
                }
            }
            MetadataRequest::KEY => pass(&asked, &mut behind)
                .map(|told| changed::<MetadataRequest>(&asked, &told, |all| brokers(cluster, all)))
                .map(|told| unplaced(cluster, &asked, told)),
            _ => pass(&asked, &mut behind),
        };
        let Some(told) = told else { return };
        answer(&mut stream, asked.correlation_id, &told);
    }
}

fn refused(cluster: &Cluster, asked: &Request, told: &[u8]) -> Vec<u8> {
    let any_replica_answers = header(asked).1 >= 11;
    let refusal = match *cluster.refusal.lock().unwrap() {
        ResponseError::OffsetOutOfRange if !any_replica_answers => NOT_LEADER,
        refusal => refusal,
    };
    let code = refusal.code();
    changed::<FetchRequest>(asked, told, |answer: &mut FetchResponse| {
        let partition = &mut answer.responses[0].partitions[0];
        (partition.error_code, partition.records) = (code, Some(Bytes::new()));
    })
}

/// Two or three brokers; the second leads every topic but `stuck`.
fn brokers(cluster: &Cluster, answer: &mut MetadataResponse) {
    let mut second = answer.brokers[0].clone();
    second.node_id.0 += 1;
    second.port = cluster.second.port().into();
    answer.brokers[0].port = cluster.first.port().into();
    let mut third = second.clone();
    third.node_id.0 += 1;
    third.port = cluster.hangs.port().into();
    for topic in &mut answer.topics {
        let is_stuck = topic.name.as_ref().is_some_and(|name| name.as_str() == "stuck");
        for partition in &mut topic.partitions {
            partition.leader_id = if is_stuck { third.node_id } else { second.node_id };
        }
    }
    answer.brokers.push(second);
    if cluster.has_third.load(Ordering::SeqCst) {
        answer.brokers.push(third);
    }
}

fn unplaced(cluster: &Cluster, asked: &Request, told: Vec<u8>) -> Vec<u8> {
    let is_ours = header(asked).0.client_id.is_some_and(|client| client.as_str() == "reprise");
    let said = || cluster.unplaced.lock().unwrap().pop_front();
    let Some(said) = is_ours.then(said).flatten() else { return told };
    changed::<MetadataRequest>(asked, &told, |answer| {
        let topic = &mut answer.topics[0];
        topic.error_code = said.map_or(0, |error| error.code());
        topic.partitions.clear();
    })
}

#[test]
fn a_record_that_the_nacking_connection_cannot_read_is_refused() {
    for refusal in [NOT_LEADER, ResponseError::TopicAuthorizationFailed] {
        let house = House::new(refusal, false);
        let (mut member, mut leader) = house.with_member();
        let told = house.client().produce("reprise.retry.shop", 0, by_reference("orders", 1));
        assert_eq!(told.error_code, ResponseError::InvalidRecord.code(), "{refusal}");
        let why = told.record_errors[0].batch_index_error_message.as_ref().unwrap();
        assert!(why.contains("may not be read; send them with the nack"), "{why}");
        let request = member.commit_request("orders", 0, 2, "!retry:1");
        // The connection may lead to either broker, and the second one serves the member.
        member.client.id = "another".into();
        let told = member.client.call(8, &request).topics[0].partitions[0].error_code;
        assert_ne!(told, 0, "{refusal}");
        assert_eq!(house.fetched_by(MEMBER), 1, "the member's connection is its own");
        assert_eq!(fetched(&mut leader, 1), "one");
    }
}

#[test]
fn a_read_back_waits_for_the_members_own_requests() {
    let house = House::new(NOT_LEADER, false);
    let (mut member, mut leader) = house.with_member();
    // A long poll at the end of the log.
    let polling = leader.send(11, &fetch_request("orders", 0, 2, 300));
    assert_eq!(posted(&house).0, 200);
    let polled = leader.receive::<FetchRequest>(polling);
    assert_eq!(polled.responses[0].partitions[0].error_code, 0);
    assert_eq!(member.retry_once().text(), "one");
}

#[test]
fn an_own_connection_respects_the_clients_read_rights() {
    let house = House::new(NOT_LEADER, true);
    assert_eq!(house.nack(1), 0);
    assert_eq!(house.fetched_by("reprise"), 1);
    *house.cluster.refusal.lock().unwrap() = ResponseError::TopicAuthorizationFailed;
    assert_eq!(house.nack(0), ResponseError::InvalidRecord.code());
    // A record that was read for one client is not used for another one, whatever its group.
    let told = house.client().produce("reprise.retry.audit", 0, by_reference("orders", 1));
    assert_eq!(told.error_code, ResponseError::InvalidRecord.code());
    assert_eq!(house.fetched_by("reprise"), 1, "it was not even asked");
}

#[test]
fn a_hanging_leader_does_not_delay_reads_from_another() {
    let house = House::new(NOT_LEADER, true);
    house.sidecar.client().create("stuck", 1);
    assert_eq!(house.nack(0), 0);
    // Each client connects to its broker before the third one exists.
    let (mut stuck, mut other) = (house.client(), house.client());
    house.cluster.has_third.store(true, Ordering::SeqCst);
    let nack = produce_request("reprise.retry.shop", 0, by_reference("stuck", 0), -1);
    let sent = stuck.send(9, &nack);
    until("its leader is asked", || house.cluster.in_vain.load(Ordering::SeqCst) > 0);
    let told = other.produce("reprise.retry.shop", 0, by_reference("orders", 1));
    assert_eq!(told.error_code, 0);
    assert!(stuck.is_silent());
    let told = stuck.receive::<ProduceRequest>(sent).responses.remove(0).partition_responses;
    assert_eq!(told[0].error_code, ResponseError::RequestTimedOut.code(), "another time");
    assert_eq!(stuck.produce("reprise.retry.shop", 0, by_reference("orders", 1)).error_code, 0);
}

#[test]
fn lagging_replicas_and_starting_brokers_do_not_lose_a_record() {
    for refusal in [
        ResponseError::OffsetOutOfRange,
        ResponseError::UnknownTopicOrPartition,
        ResponseError::UnknownServerError,
    ] {
        let house = House::new(refusal, true);
        assert_eq!(house.nack(1), 0, "{refusal}: its leader has it");
        assert_eq!(house.nack(7), ResponseError::InvalidRecord.code(), "{refusal}: nobody has it");
    }
}

#[test]
fn one_broker_without_a_topic_does_not_lose_its_records() {
    use ResponseError::{UnknownServerError, UnknownTopicOrPartition};
    let house = House::new(NOT_LEADER, true);
    let records: Vec<Rec> = (2..7).map(|n: i32| Rec::new(&n.to_string())).collect();
    Client::connect(house.cluster.behind).put("orders", 0, &records);
    let nack = |offset, told: &[Option<ResponseError>]| {
        // After a record was not found, the sidecar asks for the leader again.
        assert_eq!(house.nack(99), ResponseError::InvalidRecord.code());
        *house.cluster.unplaced.lock().unwrap() = told.iter().copied().collect();
        let code = house.nack(offset);
        assert!(house.cluster.unplaced.lock().unwrap().is_empty(), "{told:?}");
        code
    };
    let unknown = Some(UnknownTopicOrPartition);
    for (offset, told) in (0..).zip([None, unknown, Some(UnknownServerError)]) {
        assert_eq!(nack(offset, &[told]), 0, "{told:?}");
    }
    assert_eq!(nack(3, &[unknown, unknown, Some(UnknownServerError)]), 0, "they do not agree");
    assert_eq!(nack(4, &[unknown; 3]), ResponseError::InvalidRecord.code(), "they do");
}

/// Posts a failure of `orders-0@1` to the admin port. Returns status and answer.
fn posted(house: &House) -> (u16, String) {
    let body = r#"{"group": "shop", "topic": "orders", "partition": 0, "offset": 1}"#;
    let (status, answer) = house.sidecar.post("/api/v1/nack", body);
    (status, answer.to_string())
}

#[test]
fn an_admin_nack_is_read_on_a_member_connection() {
    let house = House::new(NOT_LEADER, false);
    let (mut member, _leader) = house.with_member();
    assert_eq!(posted(&house).0, 200);
    assert_eq!(house.fetched_by(MEMBER), 2, "its own Fetch, and one in its name");
    assert_eq!(member.retry_once().text(), "one");
}

#[test]
fn an_admin_nack_does_not_bypass_a_members_read_rights() {
    let house = House::new(NOT_LEADER, true);
    let mut member = Member::new(&house.sidecar, "shop", &["orders", "reprise.retry.shop"]);
    member.join(&[("orders", 1), ("reprise.retry.shop", 1)]);
    let brokers = member.client.call(9, &MetadataRequest::default()).brokers;
    let mut leader = member.client.connect_to(&brokers[1]);
    leader.call(3, &ApiVersionsRequest::default());
    *house.cluster.refusal.lock().unwrap() = ResponseError::TopicAuthorizationFailed;
    leader.call(11, &fetch_request("orders", 0, 0, 0));
    let (status, said) = posted(&house);
    assert!(status == 503 && said.contains("members READ its topic"), "{status} {said}");
    assert_eq!(house.fetched_by("reprise"), 0, "it was not even asked");
    drop(leader);
    until("nobody can be asked: anybody may read what we may", || posted(&house).0 == 200);
    assert_eq!(house.fetched_by("reprise"), 1);
}

#[test]
fn client_id_and_host_tell_a_member_without_address() {
    let house = House::without_addresses(NOT_LEADER);
    let (mut member, mut leader) = house.with_member();
    assert_eq!(posted(&house).0, 200);
    assert_eq!(house.fetched_by(MEMBER), 2, "its own Fetch, and one in its name");
    assert_eq!(member.retry_once().text(), "one");
    assert_eq!(fetched(&mut leader, 1), "one", "and its connection goes on");
}

#[test]
fn members_that_share_a_client_id_are_not_asked() {
    let house = House::without_addresses(NOT_LEADER);
    let mut other = Member::new(&house.sidecar, "audit", &["orders"]);
    other.client.id = MEMBER.into();
    other.join(&[("orders", 1)]);
    let (member, leader) = house.with_member();
    let (status, said) = posted(&house);
    assert_eq!(status, 503, "{said}");
    assert_eq!(house.fetched_by(MEMBER), 1, "its own Fetch");
    drop((member, leader));
}
