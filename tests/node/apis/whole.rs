//! Every API in every version: the answer is exactly the encoding of its version. A version that is
//! not served gets no answer.

use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::*;
use reprise::wire::{Api, ResponseError, unserved};

use crate::apis::cases::cases;
use crate::support::client::s;
use crate::support::reading::reader;
use crate::support::{Client, Consumer, Rec, Server};

/// Correlation id in the frames of `cases`.
const CORRELATION_ID: i32 = 77;

fn served() -> impl Iterator<Item = Api> {
    Api::ALL.iter().copied()
}

/// The topic, the record and the member that the requests of `cases` name.
fn shop() -> (Server, Client) {
    let server = Server::start();
    let mut client = server.client();
    make(&mut client);
    Consumer::new(&server, "shop", &["shop"]).enter();
    (server, client)
}

/// Creates the topic if a request has deleted it.
fn make(client: &mut Client) {
    let mut topic = CreatableTopic::default();
    (topic.name, topic.num_partitions, topic.replication_factor) = (s("shop"), 4, 1);
    let request = CreateTopicsRequest::default().with_topics(vec![topic]);
    let told = client.call(7, &request).topics[0].error_code;
    assert!(told == 0 || told == ResponseError::TopicAlreadyExists.code(), "{told}");
    client.put("shop", 3, &[Rec::new("x")]);
}

#[test]
fn every_answer_is_exactly_its_encoding_in_every_version() {
    let (server, mut client) = shop();
    let mut asked = Vec::new();
    for case in &cases() {
        let (min, max) = case.api.served();
        for version in min..=max {
            make(&mut client);
            let request = (case.frame)(version);
            // A failed login is answered, and ends its connection.
            let mut asks = server.client();
            asks.raw(&i32::try_from(request.len()).unwrap().to_be_bytes());
            asks.raw(&request);
            let frame = asks.frame().unwrap_or_else(|| panic!("{:?} v{version}", case.api));
            assert_eq!(frame[..4], CORRELATION_ID.to_be_bytes(), "{:?} v{version}", case.api);
            let read = (reader(case.api).answer)(version, &frame);
            let read = read.unwrap_or_else(|error| panic!("{:?} v{version}: {error}", case.api));
            assert_eq!(read.again, frame, "{:?} v{version}", case.api);
        }
        asked.push(case.api);
    }
    asked.sort_unstable();
    let mut all: Vec<Api> = served().collect();
    all.sort_unstable();
    assert_eq!(asked, all);
}

#[test]
fn api_versions_answers_have_no_tagged_fields_in_their_header() {
    let (_server, mut client) = shop();
    for version in 0..=4 {
        let mut request = ApiVersionsRequest::default();
        if version >= 3 {
            (request.client_software_name, request.client_software_version) = (s("t"), s("1"));
        }
        let bytes = client.encoded(version, &request);
        client.raw(&bytes);
        let frame = client.frame().unwrap();
        assert_eq!(frame[4..6], [0, 0], "v{version}: the error code follows the correlation id");
        let count = i32::try_from(served().count()).unwrap();
        match version {
            0..=2 => assert_eq!(frame[6..10], count.to_be_bytes(), "v{version}"),
            _ => assert_eq!(i32::from(frame[6]), count + 1, "v{version}"),
        }
    }
}

/// Kafka closes a connection if it cannot parse the request.
#[test]
fn requests_for_unserved_apis_close_the_connection() {
    let (server, mut client) = shop();
    let refused = |key: i16, version: i16, request: &[u8]| {
        let mut bytes = i32::try_from(request.len()).unwrap().to_be_bytes().to_vec();
        bytes.extend(key.to_be_bytes());
        bytes.extend(version.to_be_bytes());
        bytes.extend(&request[4..]);
        let mut stranger = server.client();
        stranger.raw(&bytes);
        assert_eq!(stranger.frame(), None, "API {key} v{version}");
    };
    let cases = cases();
    let some = (cases[0].frame)(3);
    for key in (-2..100).chain([i16::MIN, i16::MAX]) {
        // Some client APIs have an answer with UNSUPPORTED_VERSION: tests/node/apis/one_node.rs.
        if Api::from_key(key).is_none() && unserved::refusal(key, 3, 0).is_none() {
            refused(key, 3, &some);
        }
    }
    for case in cases.iter().filter(|case| case.api != Api::ApiVersions) {
        // Each body is encoded as if its version, or the API, were served.
        let (min, max) = case.api.served();
        let (first, last) = ((case.frame)(min), (case.frame)(max));
        for version in [min - 1, -1, i16::MIN] {
            refused(case.api.key(), version, &first);
        }
        for version in [max + 1, i16::MAX] {
            refused(case.api.key(), version, &last);
        }
    }
    assert_eq!(client.metadata(9, &[]).brokers.len(), 1, "others go on");
}
