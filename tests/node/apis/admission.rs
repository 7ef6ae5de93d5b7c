//! Batches that only a raw client sends: each gets the answer that Kafka 4.3.1 gave to it, and is
//! stored as Kafka stored it. `produced.tsv` has both; docs/protocol.md#produce has the rules.

use bytes::Bytes;
use kafka_protocol::messages::{ApiVersionsRequest, ProduceRequest};
use reprise::wire::ResponseError as E;
use reprise::wire::batch::{Batch, Codec, crc_of};

use crate::support::batch::{Around, TIME_MS, TRANSACTIONAL, batch, plain};
use crate::support::client::{produce_request, s};
use crate::support::{Client, Rec, Server};

const HOUR_MS: i64 = 3_600_000;
const MEASURED: &str = include_str!("produced.tsv");
/// `UNKNOWN_SERVER_ERROR`: an exception Kafka did not expect.
const UNEXPECTED: i16 = -1;

/// Cases that reprise answers otherwise than Kafka, each with our code.
const DIFFERENCES: &[(&str, E)] = &[
    ("codec 5", E::UnsupportedCompressionType),
    ("codec 6", E::UnsupportedCompressionType),
    ("codec 7", E::UnsupportedCompressionType),
    ("codec 5 by v3", E::UnsupportedCompressionType),
    // With equal offsets, a nack could not say which of the two records failed.
    ("deltas 0 0 0", E::InvalidRecord),
    ("deltas 1 2 3", E::InvalidRecord),
    ("deltas 0 2 1", E::InvalidRecord),
    // Kafka's own consumer stops at each of these batches.
    ("gzip record len lies", E::InvalidRecord),
    ("gzip record len lies short", E::InvalidRecord),
    ("gzip record len neg", E::InvalidRecord),
    // Other clients stop at each of these batches.
    ("varint of 5 bytes, high bits", E::InvalidRecord),
    ("gzip reserved flags", E::InvalidRecord),
    ("lz4 content checksum wrong", E::InvalidRecord),
    ("zstd skippable cut", E::InvalidRecord),
    ("zstd trailing magic cut", E::InvalidRecord),
];

/// A batch and Kafka's answer.
struct Case<'a> {
    name: &'a str,
    version: i16,
    acks: i16,
    has_id: bool,
    /// `Err`: with acks 0, whether the connection stays open.
    code: Result<i16, bool>,
    named: &'a str,
    /// Attributes and largest time.
    stored: Option<(i16, i64)>,
    bytes: Bytes,
}

impl<'a> Case<'a> {
    fn parse(line: &'a str) -> Self {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, version, acks, id, code, named, stored, hex] = fields[..] else {
            panic!("{line}");
        };
        let code = match code {
            "open" => Err(true),
            "closed" => Err(false),
            code => Ok(code.parse().unwrap()),
        };
        let stored = stored
            .split_once(',')
            .map(|(attributes, time)| (attributes.parse().unwrap(), time.parse().unwrap()));
        let hex = hex.trim_matches('-');
        let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        Self {
            name,
            version: version.parse().unwrap(),
            acks: acks.parse().unwrap(),
            has_id: id == "tx",
            code,
            named: named.trim_matches('-'),
            stored,
            bytes: (0..hex.len()).step_by(2).map(byte).collect(),
        }
    }

    /// The expected error code; `Err` as in `code`.
    fn wanted(&self) -> Result<i16, bool> {
        let ours = DIFFERENCES.iter().find(|(name, _)| *name == self.name);
        match (ours, self.code) {
            (Some((_, ours)), _) => Ok(ours.code()),
            (None, Ok(UNEXPECTED)) => Ok(E::InvalidRecord.code()),
            (None, code) => code,
        }
    }

    fn sent(&self, client: &mut Client, index: i32) -> (Result<i16, bool>, String) {
        let mut request = produce_request("t", index, self.bytes.clone(), self.acks);
        request.transactional_id = self.has_id.then(|| s("tx"));
        if self.acks == 0 {
            let _unanswered = client.send(self.version, &request);
            let after = client.try_call(0, &ApiVersionsRequest::default());
            return (Err(after.is_some()), String::new());
        }
        let mut answer = client.call(self.version, &request);
        let one = answer.responses.remove(0).partition_responses.remove(0);
        let named = one.record_errors.iter().map(|error| error.batch_index.to_string());
        (Ok(one.error_code), named.collect::<Vec<_>>().join(","))
    }
}

fn cases() -> Vec<Case<'static>> {
    let lines = MEASURED.lines().filter(|line| !line.starts_with('#'));
    lines.map(Case::parse).collect()
}

/// Attributes and largest time of the first stored batch; its checksum is right. A Fetch waits for
/// an expected batch: with acks 0 no answer says when it is stored.
fn stored(client: &mut Client, index: i32, is_expected: bool) -> Option<(i16, i64)> {
    let wait_ms = if is_expected { 10_000 } else { 0 };
    let data = client.fetch("t", index, 0, wait_ms).records?;
    if data.is_empty() {
        return None;
    }
    let batch = Batch::parse(&data).unwrap();
    assert_eq!(crc_of(&batch.bytes), Some(batch.header.crc));
    Some((batch.header.attributes, batch.header.max_timestamp_ms))
}

#[test]
fn odd_batches_are_answered_and_stored_as_kafka_does() {
    let server = Server::told("");
    let cases = cases();
    assert!(cases.len() > 190);
    let mut client = server.client();
    client.create("t", i32::try_from(cases.len()).unwrap());
    let mut wrong = Vec::new();
    for (index, case) in (0..).zip(&cases) {
        let mut own = server.client();
        let (code, named) = case.sent(own.leader("t"), index);
        let wanted = case.wanted();
        if code != wanted {
            wrong.push(format!("{}: {code:?}, not {wanted:?}", case.name));
            continue;
        }
        // Kafka believes the header's largest time there.
        let is_believed = case.name.starts_with("LogAppendTime bit") && case.stored.is_some();
        if wanted != case.code || is_believed {
            continue;
        }
        let got = stored(&mut client, index, case.stored.is_some());
        if named != case.named || got != case.stored {
            let wanted = (case.named, case.stored);
            wrong.push(format!("{}: {:?}, not {wanted:?}", case.name, (named, got)));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// The batch with another field at `at`, and a checksum that fits.
fn patched(bytes: &Bytes, at: usize, field: &[u8]) -> Bytes {
    let mut out = bytes.to_vec();
    out[at..at + field.len()].copy_from_slice(field);
    let crc = crc_of(&out).unwrap();
    out[17..21].copy_from_slice(&crc.to_be_bytes());
    out.into()
}

#[test]
fn the_largest_time_is_computed_from_the_records() {
    let server = Server::told("");
    let mut client = server.client();
    let month = 30 * 24 * HOUR_MS;
    let records = [Rec::new("old").at(TIME_MS - month), Rec::new("new"), Rec::new("x").at(-1)];
    let claims = [-1, 0, TIME_MS - month, TIME_MS + 5 * HOUR_MS, i64::MAX];
    for (n, claim) in claims.into_iter().enumerate() {
        for codec in [Codec::None, Codec::Gzip, Codec::Zstd] {
            let topic = format!("t-{n}-{codec:?}");
            client.create(&topic, 1);
            let sent = patched(&batch(&records, Around::codec(codec)), 35, &claim.to_be_bytes());
            assert_eq!(client.produce(&topic, 0, sent).error_code, 0, "{topic}");
            let (_, offset, time_ms) = client.list_offset(&topic, 0, TIME_MS - HOUR_MS);
            assert_eq!((offset, time_ms), (1, TIME_MS), "{topic}");
            assert_eq!(client.list_offset(&topic, 0, -3).1, 1, "{topic}: the latest by time");
            assert_eq!(client.list_offset(&topic, 0, TIME_MS + 1).1, -1, "{topic}");
            let data = client.fetch(&topic, 0, 0, 0).records.unwrap();
            let stored = Batch::parse(&data).unwrap();
            assert_eq!(stored.header.max_timestamp_ms, TIME_MS, "{topic}");
            assert_eq!(crc_of(&stored.bytes), Some(stored.header.crc), "{topic}");
            assert_eq!(client.read_all(&topic).len(), 3, "{topic}");
        }
    }
}

#[test]
fn a_timestamp_type_of_the_broker_becomes_the_producer_s() {
    let server = Server::told("");
    let mut client = server.client();
    client.create("t", 1);
    let records = [Rec::new("a").at(TIME_MS - HOUR_MS), Rec::new("b")];
    let around = Around { attributes: 1 << 3, ..Around::default() };
    let claimed = patched(&batch(&records, around), 35, &(TIME_MS - 77).to_be_bytes());
    assert_eq!(client.produce("t", 0, claimed).error_code, 0);
    assert_eq!(stored(&mut client, 0, true), Some((0, TIME_MS)));
    let times: Vec<i64> = client.read_all("t").iter().map(|got| got.time_ms).collect();
    assert_eq!(times, [TIME_MS - HOUR_MS, TIME_MS]);
}

#[test]
fn records_out_of_time_bounds_are_refused_by_index() {
    let server = Server::told("");
    let mut client = server.client();
    client.create("t", 1);
    let ahead = |n: usize| Rec::new(&n.to_string()).at(TIME_MS + HOUR_MS + 1);
    let many: Vec<Rec> = (0..3_000).map(ahead).collect();
    let answer = client.produce("t", 0, plain(&many));
    assert_eq!(answer.error_code, E::InvalidTimestamp.code());
    assert_eq!(answer.record_errors.len(), 1_000, "an answer has a bound");
    let within = Rec::new("x").at(TIME_MS + HOUR_MS);
    let answer = client.produce("t", 0, plain(&[within.clone(), ahead(1), within]));
    let named: Vec<i32> = answer.record_errors.iter().map(|e| e.batch_index).collect();
    assert_eq!((answer.error_code, named), (E::InvalidTimestamp.code(), vec![1]));
    let why = answer.record_errors[0].batch_index_error_message.as_ref().unwrap();
    assert!(why.contains(&(TIME_MS + HOUR_MS + 1).to_string()), "{why}");
    assert!(client.read_all("t").is_empty());
}

#[test]
fn a_refused_batch_with_acks_0_closes_the_connection() {
    let server = Server::start();
    let mut client = server.client();
    client.create("t", 1);
    let good = plain(&[Rec::new("x")]);
    let nack = plain(&[Rec::new("x").header("x-retry-origin", "t-0@0")]);
    let damaged = patched(&good, 57, &9_i32.to_be_bytes());
    let bad_nack = plain(&[Rec::new("x").header("x-retry-origin", "nowhere")]);
    let stays_open = [
        ("t", good.clone(), true),
        ("t", damaged.clone(), false),
        ("nowhere", good, false),
        ("reprise.retry.shop", nack, true),
        ("reprise.retry.shop", damaged, false),
        ("reprise.retry.shop", bad_nack, false),
    ];
    for (topic, bytes, is_open) in stays_open {
        let mut own = server.client();
        let own = own.leader(topic);
        let _unanswered = own.send(9, &produce_request(topic, 0, bytes, 0));
        let after = own.try_call(0, &ApiVersionsRequest::default());
        assert_eq!(after.is_some(), is_open, "{topic}");
    }
}

#[test]
fn a_transactional_batch_needs_a_transactional_id_in_its_request() {
    let server = Server::start();
    let mut client = server.client();
    client.create("t", 2);
    let around = Around { attributes: TRANSACTIONAL, ..Around::producer(3, 0, 0) };
    let mut request = produce_request("t", 0, plain(&[Rec::new("plain")]), -1);
    let other = produce_request("t", 1, batch(&[Rec::new("tx")], around), -1);
    let data = other.topic_data[0].partition_data[0].clone();
    request.topic_data[0].partition_data.push(data);
    let answer = client.leader("t").call(9, &request);
    let codes: Vec<i16> =
        answer.responses[0].partition_responses.iter().map(|one| one.error_code).collect();
    assert_eq!(codes, [E::TransactionalIdAuthorizationFailed.code(); 2], "the whole request");
    assert!(client.read_all("t").is_empty());
}

#[test]
fn a_partition_named_twice_takes_both_batches_in_order() {
    let server = Server::start();
    let mut client = server.client();
    client.create("t", 1);
    let mut request = produce_request("t", 0, plain(&[Rec::new("first")]), -1);
    let more = produce_request("t", 0, plain(&[Rec::new("second")]), -1);
    let data = more.topic_data[0].partition_data[0].clone();
    request.topic_data[0].partition_data.push(data);
    let sent = client.leader("t").send(9, &request);
    let answer = client.leader("t").receive::<ProduceRequest>(sent);
    let offsets = answer.responses[0].partition_responses.iter().map(|one| one.base_offset);
    assert_eq!(offsets.collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn a_nack_is_validated_as_any_batch_but_its_time() {
    let server = Server::told("");
    let mut client = server.client();
    let nacks: Vec<Rec> = (0..3)
        .map(|n| Rec::new("x").header("x-retry-origin", format!("orders-0@{n}")))
        .map(|record| record.at(TIME_MS + 9 * HOUR_MS))
        .collect();
    let good = plain(&nacks);
    let zstd = batch(&nacks, Around::codec(Codec::Zstd));
    let fewer = patched(&patched(&good, 57, &2_i32.to_be_bytes()), 23, &1_i32.to_be_bytes());
    let refused = [
        ("base offset", patched(&good, 7, &[5]), 9, E::InvalidRecord),
        ("count", patched(&good, 57, &4_i32.to_be_bytes()), 9, E::InvalidRecord),
        ("one too many", fewer, 9, E::InvalidRecord),
        ("zstd by v6", zstd.clone(), 6, E::UnsupportedCompressionType),
    ];
    for (what, bytes, version, code) in refused {
        let request = produce_request("reprise.retry.shop", 0, bytes, -1);
        let answer = client.call(version, &request);
        let code_of = answer.responses[0].partition_responses[0].error_code;
        assert_eq!(code_of, code.code(), "{what}");
    }
    assert!(server.pending("shop").is_empty());
    assert_eq!(client.produce("reprise.retry.shop", 0, zstd).error_code, 0);
    assert_eq!(server.pending("shop").len(), 3);
}
