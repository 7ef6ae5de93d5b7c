//! Records that no well-behaved client produces. Old formats are refused with a message; odd
//! records survive byte for byte, through a topic and through a nack.

use bytes::{BufMut, Bytes, BytesMut};
use reprise::wire::ResponseError as E;
use reprise::wire::batch::Codec;

use crate::bounded::Bounded;
use crate::support::batch::{Around, TIME_MS, batch, plain};
use crate::support::client::fetch_request;
use crate::support::{Client, Member, Rec};

const DAY_MS: i64 = 86_400_000;
const SOON: &str = "retry.levels=20ms";
/// Growth for small batches: a decoder of each codec and the log's buffers. Their claimed sizes are
/// thousands of times larger.
const GROWN_MIB_MAX: f64 = 12.0;
/// Growth for a record of 10 MiB: its request, the log's buffer and its answer. The nack needs as
/// much again, before the allocator returns memory.
const LARGE_GROWN_MIB_MAX: f64 = 96.0;
const PARTITIONS: &[(&str, i32)] = &[("orders", 1), ("reprise.retry.shop", 1)];

/// A message set of format 0 or 1, as clients before Kafka 0.11 sent it; `value` is its only
/// record.
fn old(magic: i8, value: &[u8]) -> Bytes {
    let mut message = BytesMut::new();
    message.put_i8(magic);
    message.put_i8(0);
    if magic == 1 {
        message.put_i64(TIME_MS);
    }
    message.put_i32(-1);
    message.put_i32(i32::try_from(value.len()).unwrap());
    message.put_slice(value);
    let mut crc = flate2::Crc::new();
    crc.update(&message);
    let mut set = BytesMut::new();
    set.put_i64(0);
    set.put_i32(i32::try_from(4 + message.len()).unwrap());
    set.put_u32(crc.sum());
    set.put_slice(&message);
    set.freeze()
}

#[test]
fn old_message_sets_are_refused_by_name() {
    let house = Bounded::start(&[SOON]);
    let mut client = house.client();
    client.create("orders", 1);
    for topic in ["orders", "reprise.retry.shop"] {
        for magic in [0, 1] {
            for value in [&b""[..], b"x", &[b'x'; 100]] {
                let set = old(magic, value);
                for bytes in [set.clone(), [&set[..], &set].concat().into()] {
                    let answer = client.produce(topic, 0, bytes);
                    let code = E::InvalidRecord.code();
                    let why = (topic, magic, value.len(), answer.error_message);
                    assert_eq!(answer.error_code, code, "{why:?}");
                }
            }
        }
    }
    assert_eq!(client.put("orders", 0, &[Rec::new("x")]), 0, "nothing of them is stored");
    let retries = client.fetch("reprise.retry.shop", 0, 0, 500).records.unwrap();
    assert!(retries.is_empty(), "nothing of them comes back");
    house.has_grown_less_than(GROWN_MIB_MAX, "old formats");
}

#[test]
fn lengths_that_lie_are_refused_and_store_nothing() {
    let house = Bounded::start(&[SOON]);
    let mut client = house.client();
    client.create("orders", 1);
    let good = plain(&[Rec::new("x"), Rec::odd()]);
    let corrupt = [-1, 0, 1, 48, 49, 50, i32::MIN].map(|length| (length, E::CorruptMessage));
    // Kafka finds no whole batch in these bytes.
    for (length, code) in corrupt.into_iter().chain([(i32::MAX, E::InvalidRecord)]) {
        let mut bytes = BytesMut::from(&good[..]);
        bytes[8..12].copy_from_slice(&length.to_be_bytes());
        for topic in ["orders", "reprise.retry.shop"] {
            let answer = client.produce(topic, 0, bytes.clone().freeze());
            assert_eq!(answer.error_code, code.code(), "{length}");
        }
    }
    assert_eq!(client.put("orders", 0, &[Rec::new("x")]), 0);
    house.has_grown_less_than(GROWN_MIB_MAX, "lengths that lie");
}

/// Odd records: times 30 days apart, keys that are not UTF-8, repeated header names.
fn odd_ones() -> Vec<Rec> {
    vec![
        Rec::odd(),
        Rec::odd().at(TIME_MS + 30 * DAY_MS),
        Rec::odd().at(TIME_MS - 30 * DAY_MS).header([0xc3, 0x28], [0xff]),
        Rec::new("").header("", "").header("", ""),
    ]
}

fn stored(client: &mut Client, topic: &str, sent: &Bytes) {
    let answer = client.produce(topic, 0, sent.clone());
    assert_eq!(answer.error_code, 0, "{:?}", answer.error_message);
    let mut request = fetch_request(topic, 0, answer.base_offset, 0);
    request.topics[0].partitions[0].partition_max_bytes = i32::MAX;
    request.max_bytes = i32::MAX;
    let mut fetched = client.leader(topic).call(12, &request);
    let got = fetched.responses[0].partitions.remove(0).records.unwrap();
    assert!(got[16..] == sent[16..], "all but base offset and leader epoch is as it was sent");
}

#[test]
fn odd_records_survive_a_topic_and_a_nack() {
    let house = Bounded::start(&[SOON]);
    let mut member = Member::on(house.client(), "shop", &["orders", "reprise.retry.shop"]);
    member.client.create("orders", 1);
    member.join(PARTITIONS);
    for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        stored(&mut member.client, "orders", &batch(&odd_ones(), Around::codec(codec)));
    }
    for (offset, record) in (0..).zip(odd_ones()) {
        let origin = format!("orders-0@{offset}");
        let answer = member.client.nack("shop", &origin, record.clone());
        assert_eq!(answer.error_code, 0, "{:?}", answer.error_message);
        let got = member.retry_once();
        assert_eq!(
            (&got.key, &got.value, got.time_ms),
            (&record.key, &record.value, record.time_ms)
        );
        assert_eq!(got.headers[..record.headers.len()], record.headers);
        member.done(got.offset + 1);
    }
    house.has_grown_less_than(GROWN_MIB_MAX, "odd records");
}

#[test]
fn a_record_of_10_mib_survives_produce_and_nack() {
    let house = Bounded::start(&["retry.levels=20ms", "topics.max_message_bytes=11MiB"]);
    let mut member = Member::on(house.client(), "shop", &["orders", "reprise.retry.shop"]);
    member.client.create("orders", 1);
    member.join(PARTITIONS);
    let large: String = ('a'..='z').cycle().take(10 << 20).collect();
    stored(&mut member.client, "orders", &plain(&[Rec::new(&large)]));
    assert_eq!(member.client.nack("shop", "orders-0@0", Rec::new(&large)).error_code, 0);
    assert!(member.retry_once().text() == large);
    house.has_grown_less_than(LARGE_GROWN_MIB_MAX, "10 MiB");
}
