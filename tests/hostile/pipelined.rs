//! A thousand requests on one connection before the first answer is read.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use kafka_protocol::messages::{ApiVersionsRequest, FetchRequest, MetadataRequest, ProduceRequest};

use crate::bounded::Bounded;
use crate::support::batch::{plain, unpack};
use crate::support::client::{SentRequest, fetch_request, produce_request};
use crate::support::{Client, Rec, Server, until};

const REQUESTS: i32 = 1000;
/// Bytes of each unread answer.
const ANSWER_BYTES: usize = 200 << 10;
const FETCHES: &str = "reprise_requests_total{api=\"Fetch\"}";
/// Growth: an answer or two, and memory that the allocator retains.
const GROWN_MIB_MAX: f64 = 8.0;

/// Sends the requests on a thread that reads no answers.
fn blindly(client: &mut Client, frames: Vec<u8>) -> std::thread::JoinHandle<()> {
    let mut writer = client.writer();
    std::thread::spawn(move || writer.write_all(&frames).unwrap())
}

#[test]
fn a_thousand_requests_of_all_kinds_are_answered_in_order() {
    let house = Bounded::start(&[]);
    let mut client = house.client();
    client.create("t", 1);
    let (mut frames, mut sent) = (Vec::new(), Vec::new());
    for n in 0..REQUESTS {
        let (bytes, one) = match n % 4 {
            0 | 1 => {
                let batch = plain(&[Rec::new(&n.to_string())]);
                client.prepared(9, &produce_request("t", 0, batch, -1))
            }
            2 => client.prepared(9, &MetadataRequest::default().with_topics(None)),
            _ => client.prepared(3, &ApiVersionsRequest::default()),
        };
        frames.extend_from_slice(&bytes);
        sent.push(one);
    }
    let writing = blindly(&mut client, frames);
    let mut stored = 0;
    for (n, sent) in (0..REQUESTS).zip(sent) {
        match n % 4 {
            0 | 1 => {
                let answer = client.receive::<ProduceRequest>(sent);
                let offset = answer.responses[0].partition_responses[0].base_offset;
                assert_eq!(offset, stored, "request {n}");
                stored += 1;
            }
            2 => assert_eq!(client.receive::<MetadataRequest>(sent).topics.len(), 1),
            _ => assert_eq!(client.receive::<ApiVersionsRequest>(sent).error_code, 0),
        }
    }
    writing.join().unwrap();
    let values: Vec<String> = client.read_all("t").iter().map(crate::support::Got::text).collect();
    let expected: Vec<String> =
        (0..REQUESTS).filter(|n| n % 4 < 2).map(|n| n.to_string()).collect();
    assert_eq!(values, expected);
    house.has_grown_less_than(GROWN_MIB_MAX, "a thousand requests");
}

/// A thousand Fetches of one record.
fn fetches(client: &mut Client) -> (Vec<u8>, Vec<SentRequest>) {
    client.create("t", 1);
    client.put("t", 0, &[Rec::new(&"x".repeat(ANSWER_BYTES))]);
    let (mut frames, mut sent) = (Vec::new(), Vec::new());
    for _ in 0..REQUESTS {
        let (bytes, one) = client.prepared(12, &fetch_request("t", 0, 0, 0));
        frames.extend_from_slice(&bytes);
        sent.push(one);
    }
    (frames, sent)
}

/// Waits until the sidecar answers no further Fetch: unread answers block the rest.
fn until_no_more_is_answered(count: impl Fn() -> f64) {
    let mut seen = 0.0;
    until("no more is answered", || {
        let before = std::mem::replace(&mut seen, count());
        seen > 0.0 && seen.total_cmp(&before).is_eq()
    });
    assert!(seen < 200.0, "{seen} answers of 200 KiB wait somewhere");
}

fn all_come(client: &mut Client, sent: Vec<SentRequest>) {
    for (n, sent) in sent.into_iter().enumerate() {
        let answer = client.receive::<FetchRequest>(sent);
        assert_eq!(answer.responses[0].partitions[0].error_code, 0, "answer {n}");
        let records = answer.responses[0].partitions[0].records.as_ref().unwrap();
        assert_eq!(unpack(records).len(), 1, "answer {n}");
    }
}

#[test]
fn unread_answers_do_not_pile_up() {
    let server = Server::with("topics: {retention: unlimited}");
    let mut client = server.client();
    let (frames, sent) = fetches(&mut client);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let mut most = 0;
            while !ended.load(Ordering::Relaxed) {
                most = most.max(server.router().budget.used());
                std::thread::yield_now();
            }
            most
        });
        let writing = blindly(&mut client, frames);
        until_no_more_is_answered(|| server.metric(FETCHES));
        all_come(&mut client, sent);
        writing.join().unwrap();
        ended.store(true, Ordering::Relaxed);
        let most = watching.join().unwrap();
        assert!((100 << 10..2 << 20).contains(&most), "{most} bytes");
    });
}

#[test]
fn unread_answers_take_no_memory_of_the_process() {
    let house = Bounded::start(&[]);
    let mut client = house.client();
    let (frames, sent) = fetches(&mut client);
    let writing = blindly(&mut client, frames);
    until_no_more_is_answered(|| house.metric(FETCHES));
    all_come(&mut client, sent);
    writing.join().unwrap();
    house.has_grown_less_than(GROWN_MIB_MAX, "answers that nobody reads");
}
