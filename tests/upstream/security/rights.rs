//! Clients without the right to READ a group at the cluster: their nacks are refused, and no topic
//! is made for them.

use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use kafka_protocol::messages::MetadataResponse;
use kafka_protocol::messages::produce_response::PartitionProduceResponse;
use kafka_protocol::protocol::Encodable;
use reprise::wire::ResponseError;

use crate::broker::{answer, broker, request};
use crate::support::batch::plain;
use crate::support::client::produce_request;
use crate::support::{Client, Rec, Server};

const RETRY: &str = "reprise.retry.shop";
const METADATA: i16 = 3;
const HEARTBEAT: i16 = 12;

/// A broker that answers every Heartbeat with this error, and counts the requests.
fn judging(error: ResponseError) -> (Server, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let addr = broker(move |mut stream: TcpStream| {
        while let Some(request) = request(&mut stream) {
            if i16::from_be_bytes([request.frame[0], request.frame[1]]) != HEARTBEAT {
                return;
            }
            counted.fetch_add(1, Ordering::SeqCst);
            answer(&mut stream, request.correlation_id, &error.code().to_be_bytes());
        }
    });
    (Server::in_front_of(addr, ""), asked)
}

/// A nack at the sidecar's first port.
fn nack(client: &mut Client, origin: &str) -> PartitionProduceResponse {
    let record = Rec::new("x").header("x-retry-origin", origin);
    let request = produce_request(RETRY, 0, plain(&[record]), -1);
    client.call(9, &request).responses.remove(0).partition_responses.remove(0)
}

#[test]
fn without_read_nothing_is_nacked() {
    let (server, asked) = judging(ResponseError::GroupAuthorizationFailed);
    let mut client = server.client();
    let denied = ResponseError::TopicAuthorizationFailed.code();
    let told = nack(&mut client, "orders-0@1");
    assert_eq!(told.error_code, denied);
    assert!(told.error_message.unwrap().contains("READ"));
    assert_eq!(nack(&mut client, "orders-0@2").error_code, denied);
    assert_eq!(asked.load(Ordering::SeqCst), 1, "one question for each connection and group");
    assert_eq!(server.json("/api/v1/overview")["pending"], 0, "nothing was taken");
}

#[test]
fn without_read_no_topic_is_looked_up_or_made() {
    let naming = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&naming);
    let addr = broker(move |mut stream: TcpStream| {
        while let Some(request) = request(&mut stream) {
            let [api, version] =
                [0, 2].map(|at| i16::from_be_bytes([request.frame[at], request.frame[at + 1]]));
            if request.frame.windows(RETRY.len()).any(|bytes| bytes == RETRY.as_bytes()) {
                seen.lock().unwrap().push((api, version));
            }
            let mut body = Vec::new();
            match (api, version) {
                (HEARTBEAT, 0) => {
                    let denied = ResponseError::GroupAuthorizationFailed.code();
                    body.extend(denied.to_be_bytes());
                }
                (METADATA, 12) => {
                    // No tagged fields in the header.
                    body.push(0);
                    MetadataResponse::default().encode(&mut body, 12).unwrap();
                }
                _ => return,
            }
            answer(&mut stream, request.correlation_id, &body);
        }
    });
    let server = Server::in_front_of(addr, "");
    let mut client = server.client();
    for _ in 0..2 {
        client.metadata(12, &[RETRY]);
    }
    assert_eq!(*naming.lock().unwrap(), [(METADATA, 12); 2], "only what was asked");
}

#[test]
fn group_read_access_does_not_depend_on_its_coordinator() {
    for error in [ResponseError::NotCoordinator, ResponseError::UnknownMemberId] {
        let (server, asked) = judging(error);
        let mut client = server.client();
        for n in 0..3 {
            let told = nack(&mut client, &format!("orders-0@{n}"));
            assert_eq!(told.error_code, 0, "{:?}", told.error_message);
        }
        assert_eq!(asked.load(Ordering::SeqCst), 1);
    }
}
