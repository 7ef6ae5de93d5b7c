//! Commits that wait for the nacks before them, and members that were fenced. A fenced member gets
//! the error at once, or at the end of the wait, and nothing of the commit is stored.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use bytes::BytesMut;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::{
    LeaveGroupRequest, OffsetCommitRequest, OffsetCommitResponse, ProduceRequest,
};
use kafka_protocol::protocol::{Decodable, Encodable};
use reprise::route::Reply;
use reprise::route::clients::conn::Conn;
use reprise::route::nacks::origin_records::ReadBack;
use reprise::wire::{Api, RequestHead, ResponseError};

use crate::support::Producer;
use crate::support::batch::plain;
use crate::support::client::{produce_request, s};
use crate::support::held_up::{RULES, STUCK, hold_up, large, wait_for_it};
use crate::support::member::offset_fetch;
use crate::support::{Client, Member, Rec, Server, instant};

/// The longest wait of a commit for nacks.
const PATIENCE: Duration = Duration::from_secs(5);
/// Version of `OffsetCommit`.
const VERSION: i16 = 8;

fn head(commit: &OffsetCommitRequest) -> RequestHead {
    let mut body = BytesMut::new();
    commit.encode(&mut body, VERSION).unwrap();
    let (api, api_key, body) = (Api::OffsetCommit, Api::OffsetCommit.key(), body.freeze());
    RequestHead { api, api_key, version: VERSION, correlation_id: 1, client_id: None, body }
}

fn error_in(reply: &Reply) -> i16 {
    let Reply::Frame(frame) = reply else { panic!("{reply:?}") };
    // The body follows the length, the correlation id and an empty tag section.
    let mut body = frame.slice(9..);
    let answer = OffsetCommitResponse::decode(&mut body, VERSION).unwrap();
    answer.topics[0].partitions[0].error_code
}

fn leave(client: &mut Client, member: &Member) {
    let mut request = LeaveGroupRequest::default();
    let mut identity = MemberIdentity::default();
    identity.member_id = s(&member.id);
    (request.group_id, request.members) = (s(STUCK), vec![identity]);
    let answer = client.call(4, &request);
    assert_eq!((answer.error_code, answer.members[0].error_code), (0, 0));
}

/// Errors of a commit of an earlier generation, plain and in a transaction. Then those of a fenced
/// producer: its offsets, its abort and its commit.
fn told_at_once(server: &Server, member: &Member, producers: [&mut Producer; 2]) -> [i16; 5] {
    let mut past = member.commit_request("orders", 0, 1, "");
    past.generation_id_or_member_epoch -= 1;
    let plain = server.client().call(8, &past).topics[0].partitions[0].error_code;
    let [old, new] = producers;
    let mut request = new.offsets_request(STUCK, &[("orders", 1)]);
    (request.member_id, request.generation_id) = (s(&member.id), member.generation - 1);
    let within = new.client.call(3, &request).topics[0].partitions[0].error_code;
    [plain, within, old.offsets(3, STUCK, &[("orders", 1)])[0], old.end(1, true), old.end(3, true)]
}

#[test]
fn unentitled_commits_are_refused_even_behind_a_slow_nack() {
    let server = Server::with(RULES);
    let held = hold_up();
    server.client().create("orders", 1);
    let mut member = Member::new(&server, STUCK, &["orders", "reprise.retry.stuck"]);
    member.join(&[("orders", 1), ("reprise.retry.stuck", 1)]);
    member.client.put("orders", 0, &[Rec::new("x")]);
    let mut old = Producer::begin(&server, "pay");
    let mut new = Producer::begin(&server, "pay");
    assert_eq!(new.add_group(3, STUCK), 0);
    let mut producer = server.client();
    // A first request is small, since a connection may not begin with a large one.
    producer.metadata(9, &["orders"]);
    let nack = plain(&[Rec::new(&large()).header("x-retry-origin", "orders-0@0")]);
    let nacked = producer.send(9, &produce_request("reprise.retry.stuck", 0, nack, -1));
    wait_for_it();

    let began = instant();
    let at_once = told_at_once(&server, &member, [&mut old, &mut new]);
    let over = ResponseError::IllegalGeneration.code();
    let old_epoch = ResponseError::InvalidProducerEpoch.code();
    let fenced = ResponseError::ProducerFenced.code();
    assert_eq!(at_once, [over, over, old_epoch, old_epoch, fenced]);
    let conn = Conn::new(0, server.addr(), ("here".to_owned(), 1), None, None);
    let commit = member.commit_request("orders", 0, 1, "");
    let mut waits = server.router().answer(&conn, head(&commit), ReadBack::default());
    assert!(server.run(poll_fn(|by| Poll::Ready(waits.as_mut().poll(by).is_pending()))));
    leave(&mut server.client(), &member);
    assert!(began.elapsed() < PATIENCE, "nobody has waited so long");

    drop(held);
    let told = producer.receive::<ProduceRequest>(nacked);
    assert_eq!(told.responses[0].partition_responses[0].error_code, 0);
    let told = error_in(&server.run(waits));
    assert_eq!(told, ResponseError::UnknownMemberId.code(), "it has lost its place");
    assert_eq!(offset_fetch(&mut server.client(), 7, STUCK, "orders", 0).0, -1, "not stored");
}
