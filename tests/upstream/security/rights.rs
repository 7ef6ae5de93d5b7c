//! Clients without the right to READ a group at the cluster: their nacks are refused.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kafka_protocol::messages::produce_response::PartitionProduceResponse;
use reprise::wire::ResponseError;

use crate::broker::{answer, broker, request};
use crate::support::batch::plain;
use crate::support::client::produce_request;
use crate::support::{Client, Rec, Server};

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
    let request = produce_request("reprise.retry.shop", 0, plain(&[record]), -1);
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
