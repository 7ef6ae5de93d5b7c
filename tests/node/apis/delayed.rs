//! Records with a delivery time set by their producer: each enters its topic once, when it is due.

use std::io::{Read, Write};
use std::net::TcpStream;

use bytes::{Buf, Bytes};
use kafka_protocol::messages::DeleteTopicsRequest;
use reprise::wire::ResponseError;
use reprise::wire::batch::{Batch, Codec, records};
use serde_json::{Value, json};

use crate::support::batch::{Around, Got, batch, plain};
use crate::support::client::s;
use crate::support::{Client, Member, Rec, Server, until, wall_ms};

const AFTER: &str = "x-deliver-after-ms";
const FAR_MS: &str = "3600000";

fn server() -> Server {
    Server::with(
        "topics: {produce_delay_max: 2h, list: [{name: t, produce_delay: true}, {name: plain}]}",
    )
}

fn after(value: &str, ms: &str) -> Rec {
    Rec::new(value).header("trace", "1").header(AFTER, ms)
}

/// All records of the partition. A batch may have fewer records than offsets.
fn all(client: &mut Client) -> Vec<Got> {
    let data = client.fetch("t", 0, 0, 0);
    assert_eq!(data.error_code, 0);
    let (mut rest, mut found): (Bytes, Vec<Got>) = (data.records.unwrap(), Vec::new());
    while !rest.is_empty() {
        let batch = Batch::parse(&rest).unwrap();
        batch.check_crc().unwrap();
        rest.advance(batch.bytes.len());
        for record in records(&batch, usize::MAX).unwrap() {
            let record = record.unwrap();
            let headers = record.headers.iter().map(|header| (header.key, header.value));
            found.push(Got {
                offset: record.offset,
                time_ms: record.timestamp_ms,
                headers: headers.collect(),
                key: record.key,
                value: record.value,
            });
        }
    }
    found
}

fn values(client: &mut Client) -> Vec<String> {
    all(client).iter().map(Got::text).collect()
}

fn post(server: &Server, path: &str, body: &Value) -> (u16, Value) {
    let (admin, body) = (server.admin(), body.to_string());
    let mut stream = TcpStream::connect(admin).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {admin}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    (status, serde_json::from_str(body).unwrap())
}

/// Names of the records that are not due yet.
fn waiting(server: &Server) -> Vec<String> {
    let items = server.json("/api/v1/delayed")["items"].clone();
    items.as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_delayed_record_enters_when_due_and_others_at_once() {
    for codec in [Codec::None, Codec::Zstd] {
        let server = server();
        let mut client = server.client();
        let odd = Rec::odd().header(AFTER, "300");
        let records = [Rec::new("a"), odd.clone(), Rec::new("c")];
        let began_ms = wall_ms();
        let answer = client.produce("t", 0, batch(&records, Around::codec(codec)));
        assert_eq!((answer.error_code, answer.base_offset), (0, 0));
        let early = all(&mut client);
        if wall_ms() - began_ms < 300 {
            let found: Vec<(i64, String)> = early.iter().map(|g| (g.offset, g.text())).collect();
            assert_eq!(found, [(0, "a".to_owned()), (2, "c".to_owned())], "its offset stays free");
        }
        until("it is there", || all(&mut client).len() == 3);
        assert!(wall_ms() - began_ms >= 300, "early");
        let got = all(&mut client).remove(2);
        assert_eq!((got.offset, &got.key, &got.value), (3, &odd.key, &odd.value));
        assert_eq!((got.time_ms, &got.headers), (odd.time_ms, &Rec::odd().headers), "as produced");
        let delivered = "reprise_delayed_records_total{outcome=\"delivered\"}";
        let counted = (server.metric(delivered) - 1.0).abs() < f64::EPSILON;
        assert!(counted && server.metric("reprise_records_delayed").abs() < f64::EPSILON);
    }
}

#[test]
fn each_header_says_when() {
    let server = Server::with("{topics: {produce_delay: true}, retry: {levels: 1ms 2h 30ms}}");
    let mut client = server.client();
    client.create("t", 1);
    let soon = (wall_ms() + 50).to_string();
    let records = [
        Rec::new("after").header(AFTER, "40"),
        Rec::new("at").header("x-deliver-at-ms", &soon),
        Rec::new("gone").header("x-deliver-at-ms", "5"),
        Rec::new("timer").header("TIMER_DELIVER_MS", &soon),
        Rec::new("level").header("DELAY", "3"),
        Rec::new("none").header("DELAY", "0"),
        Rec::new("later").header("DELAY", "2"),
    ];
    client.put("t", 0, &records);
    until("all but one are there", || values(&mut client).len() == 6);
    assert_eq!(values(&mut client)[0], "none");
    let left = server.json("/api/v1/delayed?topic=t")["items"].clone();
    let due_ms = left[0]["due_ms"].as_i64().unwrap() - wall_ms();
    assert!((7_100_000..=7_200_000).contains(&due_ms), "{left}");
    assert!(all(&mut client).iter().all(|got| got.text() == "none" || got.headers.is_empty()));
}

#[test]
fn a_kill_neither_repeats_nor_hastens_delayed_records() {
    let server = server();
    let mut client = server.client();
    let (began_ms, soon) = (wall_ms(), after("soon", "700"));
    client.put("t", 0, &[after("far", FAR_MS), soon, Rec::new("now")]);
    let mut killed = server.killed();
    let mut client = killed.client();
    until("it is there", || values(&mut client).len() == 2);
    assert!(wall_ms() - began_ms >= 700, "early");
    assert_eq!(values(&mut client), ["now", "soon"]);
    let again = killed.killed();
    assert_eq!((values(&mut again.client()).len(), waiting(&again).len()), (2, 1), "once");
    killed.restart();
    assert_eq!((values(&mut killed.client()).len(), waiting(&killed).len()), (2, 1));
}

#[test]
fn a_repeated_batch_delays_nothing_twice() {
    let mut server = server();
    let mut client = server.client();
    let numbered = |sequence, records: &[Rec]| batch(records, Around::producer(7, 0, sequence));
    let mixed = [Rec::new("a"), after("b", "60"), after("far", FAR_MS)];
    let only = [after("c", "60")];
    for round in 0..3 {
        for (sequence, records, base) in [(0, &mixed[..], 0), (3, &only[..], 3)] {
            let answer = client.produce("t", 0, numbered(sequence, records));
            assert_eq!((answer.error_code, answer.base_offset), (0, base), "round {round}");
        }
        until("what is due is there", || values(&mut client).len() == 3);
        assert_eq!(waiting(&server).len(), 1, "round {round}");
        server.restart();
        client = server.client();
    }
    let answer = client.produce("t", 0, numbered(4, &[Rec::new("d")]));
    assert_eq!(answer.error_code, 0);
    let gap = client.produce("t", 0, numbered(9, &only));
    assert_eq!(gap.error_code, ResponseError::OutOfOrderSequenceNumber.code());
    let (mut found, waits) = (values(&mut client), waiting(&server).len());
    found.sort_unstable();
    assert_eq!((found, waits), (["a", "b", "c", "d"].map(String::from).to_vec(), 1));
}

#[test]
fn an_invalid_delay_refuses_its_batch_and_names_the_record() {
    let server = server();
    let mut client = server.client();
    for (bad, says) in [
        (after("x", "-1"), "x-deliver-after-ms \"-1\" is no delay"),
        (after("x", "soon"), "is no delay"),
        (after("x", "7200001"), "the most is 7200000 (produce_delay_max)"),
        (Rec::new("x").header("x-deliver-at-ms", "99999999999999"), "produce_delay_max"),
        (Rec::new("x").header("DELAY", "high"), "DELAY \"high\" is no level"),
        (after("x", "5").header("DELAY", "1"), "both say when"),
    ] {
        let answer = client.produce("t", 0, plain(&[Rec::new("a"), after("b", "5"), bad]));
        assert_eq!(answer.error_code, ResponseError::InvalidRecord.code());
        let message = answer.error_message.unwrap().to_string();
        assert!(message.contains("record 2") && message.contains(says), "{message}");
        assert_eq!(answer.record_errors[0].batch_index, 2);
    }
    assert_eq!((all(&mut client).len(), waiting(&server).len()), (0, 0), "nothing was taken");
}

#[test]
fn delayed_records_are_listed_and_cancelled_by_id() {
    let server = server();
    let mut client = server.client();
    client.put("t", 0, &[after("one", FAR_MS), after("two", FAR_MS), after("three", "80")]);
    let items = server.json("/api/v1/delayed?limit=1");
    let first = &items["items"][0];
    assert_eq!((&first["topic"], &first["partition"]), (&json!("t"), &json!(0)));
    assert_eq!((&first["key"], &first["value_bytes"]), (&json!("k"), &json!(3)));
    assert_eq!((&first["value"], &first["unreadable"]), (&json!("one"), &json!(null)));
    assert_eq!(first["headers"], json!([{ "key": "trace", "value": "1" }]));
    assert_eq!(server.json("/api/v1/delayed?topic=plain")["items"], json!([]));
    let next = items["next"].as_str().unwrap();
    let rest = server.json(&format!("/api/v1/delayed?after={next}"));
    assert!(rest["items"].as_array().unwrap().len() <= 2, "{rest}");
    until("the third is there", || values(&mut client) == ["three"]);
    let ids = waiting(&server);
    let some = json!({ "ids": [ids[0], "t-0@999"] });
    let (status, answer) = post(&server, "/api/v1/delayed/cancel", &some);
    assert_eq!((status, answer), (200, json!({ "cancelled": 1, "unknown": ["t-0@999"] })));
    let killed = server.killed();
    assert_eq!(waiting(&killed), ids[1..], "and it stays so");
    assert_eq!(post(&server, "/api/v1/delayed/cancel", &json!({ "ids": ["rubbish"] })).0, 400);
}

#[test]
fn elsewhere_the_headers_mean_nothing() {
    let server = server();
    let mut client = server.client();
    client.put("plain", 0, &[after("now", FAR_MS)]);
    let got = client.read_all("plain").remove(0);
    assert_eq!((got.text(), got.header(AFTER)), ("now".to_owned(), Some(FAR_MS.to_owned())));
}

#[test]
fn a_deleted_topic_drops_its_delayed_records() {
    let server = server();
    let mut client = server.client();
    client.put("t", 0, &[after("far", FAR_MS)]);
    let request = DeleteTopicsRequest::default().with_topic_names(vec![s("t")]);
    assert_eq!(client.call(5, &request).responses[0].error_code, 0);
    assert_eq!(waiting(&server), Vec::<String>::new());
}

#[test]
fn batches_keep_their_order_despite_delayed_records() {
    let server = server();
    let mut client = server.client();
    let of = |n: i32| {
        let records = if n % 3 == 0 { vec![after("x", FAR_MS)] } else { vec![Rec::new("y")] };
        let around = Around::producer(5, 0, n);
        crate::support::client::produce_request("t", 0, batch(&records, around), -1)
    };
    let sent: Vec<_> = (0..60).map(|n| client.send(9, &of(n))).collect();
    for (n, sent) in (0..).zip(sent) {
        let answer = client.receive::<kafka_protocol::messages::ProduceRequest>(sent);
        let answer = &answer.responses[0].partition_responses[0];
        assert_eq!((answer.error_code, answer.base_offset), (0, n));
    }
    assert_eq!((all(&mut client).len(), waiting(&server).len()), (40, 20));
}

#[test]
fn delayed_records_count_as_pending_for_a_drain() {
    let server = server();
    let mut client = server.client();
    client.put("t", 0, &[after("far", FAR_MS), after("farther", "7200000")]);
    let drain = server.json("/drain");
    assert_eq!((&drain["pending"], &drain["delayed"]), (&json!(2), &json!(2)), "{drain}");
    let due_ms = drain["next_due_ms"].as_i64().unwrap() - wall_ms();
    assert!((3_500_000..=3_600_000).contains(&due_ms), "{drain}");
    assert!(drain["delayed_bytes"].as_u64().unwrap() > 100, "{drain}");
    assert_eq!(server.json("/api/v1/overview")["delayed"], 2);
}

#[test]
fn no_commit_of_a_group_reaches_delayed_records() {
    let server = server();
    let mut client = server.client();
    client.put("t", 0, &[after("far", FAR_MS)]);
    let mut member = Member::new(&server, "shop", &["t"]);
    member.join(&[("t", 1)]);
    let mut request = member.commit_request("t", 0, 1 << 40, "");
    request.group_id = s("\0delayed");
    (request.generation_id_or_member_epoch, request.member_id) = (-1, s(""));
    let answer = client.call(7, &request);
    let refused = ResponseError::InvalidGroupId.code();
    assert_eq!(answer.topics[0].partitions[0].error_code, refused);
    assert_eq!(waiting(&server).len(), 1);
}

#[test]
fn an_oversize_unpacked_batch_is_refused_alone() {
    let server = server();
    let mut client = server.client();
    let large = Rec::new(&"x".repeat(31 << 20));
    let records = [large.clone(), large, after("y", "5")];
    let answer = client.produce("t", 0, batch(&records, Around::codec(Codec::Zstd)));
    assert_eq!(answer.error_code, ResponseError::MessageTooLarge.code());
    client.put("t", 0, &[after("small", "5")]);
    until("it is there", || values(&mut client) == ["small"]);
}

#[test]
fn the_latest_record_by_time_may_be_a_delayed_one() {
    let server = server();
    let mut client = server.client();
    client.put("t", 0, &[after("late", "20")]);
    until("it is there", || values(&mut client).len() == 1);
    let offset = all(&mut client)[0].offset;
    assert_eq!(client.list_offset("t", 0, -3).1, offset);
}
