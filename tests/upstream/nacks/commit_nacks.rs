//! Evidence `commit-nack` in front of a cluster that records its commits. The cluster is a sidecar
//! by itself behind a program.

use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;
use kafka_protocol::messages::{HeartbeatRequest, OffsetCommitRequest, RequestHeader};
use kafka_protocol::protocol::{Decodable, HeaderVersion, Message, Request as Api};
use reprise::wire::ResponseError;

use crate::broker::{Request, answer, broker, request};
use crate::relay::pass;
use crate::support::member::offset_fetch;
use crate::support::{Member, Rec, Server, rebalance};

/// A commit of one partition at the cluster: partition, metadata, and the number of waiting retries
/// at that moment.
type CommitObservation = (i32, Option<String>, u64);

#[derive(Default)]
struct Cluster {
    behind: OnceLock<SocketAddr>,
    /// Asks the sidecar for the number of waiting retries.
    sidecar: OnceLock<Box<dyn Fn() -> u64 + Send + Sync>>,
    heard: Mutex<Vec<CommitObservation>>,
    /// The cluster refuses READ on the group to everyone but its members.
    is_closed: Mutex<bool>,
}

fn serve(mut stream: TcpStream, cluster: &Cluster) {
    let mut behind = TcpStream::connect(cluster.behind.wait()).unwrap();
    while let Some(asked) = request(&mut stream) {
        let key = i16::from_be_bytes([asked.frame[0], asked.frame[1]]);
        if key == HeartbeatRequest::KEY && *cluster.is_closed.lock().unwrap() {
            let denied = ResponseError::GroupAuthorizationFailed.code();
            answer(&mut stream, asked.correlation_id, &denied.to_be_bytes());
            continue;
        }
        if key == OffsetCommitRequest::KEY {
            hear(cluster, &asked);
        }
        let Some(told) = pass(&asked, &mut behind) else { return };
        answer(&mut stream, asked.correlation_id, &told);
    }
}

fn hear(cluster: &Cluster, asked: &Request) {
    let mut bytes = Bytes::copy_from_slice(&asked.frame);
    let version = i16::from_be_bytes([bytes[2], bytes[3]]);
    let header = OffsetCommitRequest::header_version(version);
    RequestHeader::decode(&mut bytes, header).unwrap();
    let commit = OffsetCommitRequest::decode(&mut bytes, version).unwrap();
    let waiting = cluster.sidecar.wait()();
    let partitions = commit.topics.iter().flat_map(|topic| &topic.partitions);
    let heard = partitions.map(|partition| {
        let metadata = partition.committed_metadata.as_ref().map(ToString::to_string);
        (partition.partition_index, metadata, waiting)
    });
    cluster.heard.lock().unwrap().extend(heard);
}

/// A sidecar in front of such a cluster, and a member that owns both partitions of `orders`.
fn house() -> (Arc<Cluster>, Server, Arc<Server>, Member) {
    let cluster = Arc::new(Cluster::default());
    let program = Arc::clone(&cluster);
    let addr = broker(move |stream| serve(stream, &program));
    let behind = Server::alone_as(addr);
    cluster.behind.set(behind.addr()).unwrap();
    let sidecar = Arc::new(Server::in_front_of(addr, "retry: {levels: 1h}"));
    let asked = Arc::downgrade(&sidecar);
    let waiting = move || {
        let sidecar = asked.upgrade().unwrap();
        sidecar.json("/api/v1/overview")["pending"].as_u64().unwrap()
    };
    assert!(cluster.sidecar.set(Box::new(waiting)).is_ok());
    sidecar.client().create("orders", 2);
    let mut member = Member::new(&sidecar, "shop", &["orders"]);
    rebalance(&mut [&mut member], &[("orders", 2)]);
    member.client.put("orders", 0, &[Rec::new("zero"), Rec::new("one")]);
    (cluster, behind, sidecar, member)
}

/// Commits both partitions, the first with a marker. Returns the error of each.
fn commit(member: &mut Member, marker: &str, version: i16) -> [i16; 2] {
    let mut request = member.commit_request("orders", 0, 2, marker);
    let mut beside = member.commit_request("orders", 1, 0, "mine");
    request.topics[0].partitions.append(&mut beside.topics[0].partitions);
    let answer = member.client.call(version, &request);
    let partitions = &answer.topics[0].partitions;
    assert_eq!(partitions.iter().map(|p| p.partition_index).collect::<Vec<_>>(), [0, 1]);
    [partitions[0].error_code, partitions[1].error_code]
}

fn mine(waiting: u64) -> CommitObservation {
    (1, Some("mine".to_owned()), waiting)
}

#[test]
fn nacks_are_durable_before_their_commit_reaches_the_cluster() {
    let (cluster, _behind, sidecar, mut member) = house();
    for (version, waiting) in (OffsetCommitRequest::VERSIONS.min..=9).zip([1, 2, 2, 2]) {
        let marker = format!("!retry:{};reason=v{version}", (version + 1) % 2);
        assert_eq!(commit(&mut member, &marker, version), [0, 0], "v{version}");
        let heard = std::mem::take(&mut *cluster.heard.lock().unwrap());
        assert_eq!(heard, [(0, Some(String::new()), waiting), mine(waiting)], "v{version}");
    }
    let stored = offset_fetch(&mut sidecar.client(), 7, "shop", "orders", 0);
    assert_eq!(stored, (2, Some(String::new()), 0));
}

#[test]
fn a_refused_commit_partition_is_not_relayed_and_others_are() {
    let (cluster, _behind, sidecar, mut member) = house();
    let invalid = ResponseError::InvalidCommitOffsetSize.code();
    assert_eq!(commit(&mut member, "!retry:one", 9), [invalid, 0]);
    assert_eq!(*cluster.heard.lock().unwrap(), [mine(0)]);
    assert_eq!(offset_fetch(&mut sidecar.client(), 7, "shop", "orders", 0).0, -1);
}

#[test]
fn without_read_nothing_is_nacked() {
    let (cluster, _behind, sidecar, mut member) = house();
    *cluster.is_closed.lock().unwrap() = true;
    // a new connection without earlier requests
    member.client = sidecar.client();
    let denied = ResponseError::GroupAuthorizationFailed.code();
    assert_eq!(commit(&mut member, "!retry:1", 9), [denied, 0]);
    assert_eq!(*cluster.heard.lock().unwrap(), [mine(0)]);
    assert_eq!(sidecar.json("/api/v1/overview")["pending"], 0, "nothing was taken");
}
