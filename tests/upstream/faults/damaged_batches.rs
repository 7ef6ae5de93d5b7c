//! A broker with a damaged batch on its disk, or with one in an unknown codec. A consumer that
//! cannot get past it is held, the batch becomes a dead letter as it is, and its neighbours are
//! consumed.

use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, OnceLock};

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{FetchRequest, FetchResponse};
use kafka_protocol::protocol::{Decodable, Encodable, Request as Api};
use reprise::wire::batch::{Batch, crc_of, records};

use crate::broker::{answer, broker, request};
use crate::relay::pass;
use crate::support::batch::{Around, batch};
use crate::support::{Got, Member, Rec, Server, until, wall_ms};

const RULES: &str = "retry: {levels: 20ms, max_reconsume_times: 1, isolation_timeout: 3s, \
                     in_place_limit: 2, give_up_after: 200ms, \
                     on_seek_back: retry, order: {interval: 50ms}}";
const ORDERS: &[(&str, i32)] = &[("orders", 1)];
/// Base offset of the damaged batch, which has three records.
const BAD: i64 = 4;
const RECORDS: i64 = 9;
/// Offsets of fields in a batch header.
const LAST: usize = 23;
const ATTRIBUTES: usize = 21;
const CRC: usize = 17;

/// Damages the bytes of a batch.
type Damage = fn(&mut [u8]);

struct House {
    sidecar: Server,
    _behind: Server,
}

/// A cluster with three batches, whose broker damages the second one in its answers.
fn house(damage: Damage, is_last: bool) -> House {
    let behind: Arc<OnceLock<SocketAddr>> = Arc::default();
    let addr = {
        let behind = behind.clone();
        broker(move |stream| damages(stream, *behind.wait(), damage))
    };
    let cluster = Server::alone_as(addr);
    assert!(behind.set(cluster.addr()).is_ok());
    let sidecar = Server::in_front_of(addr, RULES);
    let mut tool = sidecar.client();
    tool.create("orders", 1);
    let ends: &[i64] = if is_last { &[BAD, BAD + 3] } else { &[BAD, BAD + 3, RECORDS] };
    let mut from = 0;
    for end in ends {
        let all: Vec<Rec> = (from..*end).map(|n| Rec::new(&n.to_string()).at(wall_ms())).collect();
        assert_eq!(tool.produce("orders", 0, batch(&all, Around::default())).error_code, 0);
        from = *end;
    }
    House { sidecar, _behind: cluster }
}

fn damages(mut stream: TcpStream, behind: SocketAddr, damage: Damage) {
    let mut behind = TcpStream::connect(behind).unwrap();
    while let Some(asked) = request(&mut stream) {
        let Some(mut told) = pass(&asked, &mut behind) else { return };
        if i16::from_be_bytes([asked.frame[0], asked.frame[1]]) == FetchRequest::KEY {
            let version = i16::from_be_bytes([asked.frame[2], asked.frame[3]]);
            told = damaged(&told, version, damage);
        }
        answer(&mut stream, asked.correlation_id, &told);
    }
}

/// A Fetch answer behind its correlation id, with the batch damaged.
fn damaged(told: &[u8], version: i16, damage: Damage) -> Vec<u8> {
    let tags = usize::from(version >= 12);
    let mut rest = Bytes::copy_from_slice(&told[tags..]);
    let mut response = FetchResponse::decode(&mut rest, version).unwrap();
    for data in response.responses.iter_mut().flat_map(|topic| &mut topic.partitions) {
        let (mut rest, mut all) = (data.records.clone().unwrap_or_default(), BytesMut::new());
        while let Ok(batch) = Batch::parse(&rest) {
            let mut bytes = batch.bytes.to_vec();
            if batch.header.base_offset == BAD {
                damage(&mut bytes);
            }
            all.extend_from_slice(&bytes);
            rest = rest.slice(batch.bytes.len()..);
        }
        data.records = Some(all.freeze());
    }
    let mut out = BytesMut::from(&told[..tags]);
    response.encode(&mut out, version).unwrap();
    out.to_vec()
}

/// Sets an unknown codec, under a valid checksum.
fn codec<const NUMBER: u8>(bytes: &mut [u8]) {
    bytes[ATTRIBUTES + 1] = NUMBER;
    let crc = crc_of(bytes).unwrap();
    bytes[CRC..CRC + 4].copy_from_slice(&crc.to_be_bytes());
}

fn flipped(bytes: &mut [u8]) {
    *bytes.last_mut().unwrap() ^= 1;
}

/// Damages the last offset, so the end of the batch is unknown.
fn without_an_end(bytes: &mut [u8]) {
    bytes[LAST + 3] ^= 2;
}

/// The records that a consumer got, until it failed at an unreadable batch or came to the end.
#[derive(Debug, PartialEq, Eq)]
struct ConsumedRecords {
    offsets: Vec<i64>,
    end: i64,
    fails: bool,
}

fn read(member: &mut Member, from: i64, wait_ms: i32) -> ConsumedRecords {
    let given = member.client.fetch("orders", 0, from, wait_ms);
    let (mut rest, mut read) = (
        given.records.unwrap(),
        ConsumedRecords { offsets: Vec::new(), end: from, fails: given.error_code != 0 },
    );
    while let Ok(batch) = Batch::parse(&rest) {
        let all = batch.check_crc().ok().and_then(|()| records(&batch, usize::MAX).ok());
        let Some(all) = all else {
            read.fails = true;
            break;
        };
        read.offsets.extend(all.map(|record| record.unwrap().offset).filter(|o| *o >= from));
        read.end = batch.header.last_offset() + 1;
        rest = rest.slice(batch.bytes.len()..);
    }
    read
}

fn joined(server: &Server) -> Member {
    let mut member = Member::new(server, "shop", &["orders"]);
    member.join(ORDERS);
    member
}

/// Runs a consumer that ends at an unreadable batch and is restarted, until it has consumed up to
/// `end`.
fn consumed(server: &Server, end: i64) -> Vec<i64> {
    let mut done = Vec::new();
    for _ in 0..30 {
        let mut member = joined(server);
        let mut position = member.position_of("orders", 0).max(0);
        loop {
            let given = read(&mut member, position, 500);
            if given.end > position {
                position = given.end;
                assert_eq!(member.commit("orders", 0, position), 0);
            }
            done.extend(given.offsets);
            if position >= end {
                return done;
            }
            if given.fails {
                break;
            }
        }
        assert_eq!(member.leave(), 0);
    }
    panic!("it does not get past it: {done:?}");
}

fn dead_letters(server: &Server) -> Vec<Got> {
    server.client().read_all("reprise.dlq.shop")
}

#[test]
fn an_undecodable_batch_becomes_one_dead_letter() {
    let damages: [Damage; 4] = [codec::<5>, codec::<6>, codec::<7>, flipped];
    for (n, damage) in damages.into_iter().enumerate() {
        for is_last in [false, true] {
            let House { sidecar, _behind } = house(damage, is_last);
            let end = if is_last { BAD + 3 } else { RECORDS };
            let done = consumed(&sidecar, end);
            let expected: Vec<i64> = (0..BAD).chain(BAD + 3..end).collect();
            assert_eq!(done, expected, "damage {n}, last: {is_last}");
            until("it is a dead letter", || !dead_letters(&sidecar).is_empty());
            let dead = dead_letters(&sidecar);
            assert_eq!(dead.len(), 1, "damage {n}: {dead:?}");
            assert_eq!(dead[0].header("x-retry-disposition").unwrap(), "undecodable");
            let origin = dead[0].header("ORIGIN_MESSAGE_ID").unwrap();
            assert!((BAD..BAD + 3).any(|at| origin == format!("orders-0@{at}")), "{origin}");
            let whole = Batch::parse(dead[0].value.as_ref().unwrap()).unwrap();
            assert_eq!((whole.header.base_offset, whole.header.count), (BAD, 3), "all of it");
        }
    }
}

#[test]
fn a_member_returning_to_an_undecodable_batch_continues_behind_it() {
    let House { sidecar, _behind } = house(codec::<5>, false);
    let mut member = joined(&sidecar);
    assert_eq!(read(&mut member, 0, 5_000).end, BAD);
    assert_eq!(member.commit("orders", 0, BAD), 0);
    until("it is a dead letter", || {
        read(&mut member, BAD, 100);
        !dead_letters(&sidecar).is_empty()
    });
    let dead = dead_letters(&sidecar);
    assert_eq!(dead.len(), 1, "{dead:?}");
    assert_eq!(dead[0].header("x-retry-disposition").unwrap(), "undecodable");
    until("the way is free", || !read(&mut member, BAD, 500).offsets.is_empty());
}

#[test]
fn a_damaged_batch_without_a_known_end_is_held() {
    let House { sidecar, _behind } = house(without_an_end, false);
    let mut member = joined(&sidecar);
    assert_eq!(read(&mut member, 0, 5_000).end, BAD);
    assert_eq!(member.commit("orders", 0, BAD), 0);
    until("it goes back often enough", || {
        let ConsumedRecords { offsets, end, .. } = read(&mut member, BAD, 100);
        if !offsets.is_empty() {
            // A commit of later records does not make the damaged batch a dead letter.
            assert_eq!(member.commit("orders", 0, end), 0);
        }
        sidecar.metric("reprise_batches_unreadable_total") > 0.5
    });
    for _ in 0..2 {
        let held = ConsumedRecords { offsets: Vec::new(), end: BAD, fails: false };
        assert_eq!(read(&mut member, BAD, 500), held);
        assert_eq!(member.leave(), 0);
        member = joined(&sidecar);
    }
    assert!(dead_letters(&sidecar).is_empty());
    assert_eq!(member.commit("orders", 0, BAD + 3), 0);
    assert_eq!(read(&mut member, BAD + 3, 5_000).offsets, [BAD + 3, BAD + 4], "the way out");
}
