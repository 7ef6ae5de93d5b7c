//! A client's login at the cluster's broker: the sidecar relays it, whatever its shape.

use bytes::Bytes;
use kafka_protocol::messages::{MetadataRequest, SaslHandshakeRequest, SaslHandshakeResponse};
use reprise::sasl::{ClientExchange, Hash};

use crate::door::Door;
use crate::kafka::Kafka;
use crate::support::client::s;
use crate::support::{Client, Server};

/// A sidecar in front of a cluster with this login.
fn before(door: Door) -> (Kafka, Server) {
    let kafka = Kafka::behind(door);
    let server = Server::in_front_of(kafka.addr, "");
    (kafka, server)
}

/// Chooses a mechanism as clients before Kafka 1.0 did: its tokens have no request header.
fn chooses(client: &mut Client, mechanism: &str) -> SaslHandshakeResponse {
    let mut handshake = SaslHandshakeRequest::default();
    handshake.mechanism = s(mechanism);
    client.call(0, &handshake)
}

/// The answer to a token; `None`: the connection is closed.
fn says(client: &mut Client, token: &[u8]) -> Option<Bytes> {
    client.raw(&u32::try_from(token.len()).unwrap().to_be_bytes());
    client.raw(token);
    client.frame()
}

/// Logs in by this mechanism.
fn enters(client: &mut Client, mechanism: &str) {
    assert_eq!(chooses(client, mechanism).error_code, 0, "{mechanism}");
    let hash = match mechanism {
        "PLAIN" => return assert_eq!(says(client, b"\0side\0car").unwrap()[..], b""[..]),
        "OAUTHBEARER" => {
            let token = b"n,,\x01auth=Bearer car\x01\x01";
            return assert_eq!(says(client, token).unwrap()[..], b""[..]);
        }
        "SCRAM-SHA-256" => Hash::Sha256,
        _ => Hash::Sha512,
    };
    let exchange = ClientExchange::new(hash, "side", "ours".to_owned());
    let told = says(client, exchange.first().as_bytes()).unwrap();
    let last = exchange.answer(&told, "car").unwrap();
    let told = says(client, last.message.as_bytes()).unwrap();
    last.check(&told).unwrap();
}

#[test]
fn tokens_without_requests_around_them_pass_to_every_broker() {
    for mechanism in ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] {
        let (_kafka, server) = before(Door::of(mechanism));
        let mut client = server.client();
        enters(&mut client, mechanism);
        let told = client.call(9, &MetadataRequest::default());
        let broker = told.brokers.iter().find(|broker| broker.node_id.0 == 0).unwrap();
        let mut leader = client.connect_to(broker);
        enters(&mut leader, mechanism);
        assert_eq!(leader.call(9, &MetadataRequest::default()).brokers.len(), 1, "{mechanism}");
    }
}

#[test]
fn a_refused_sasl_token_ends_as_at_the_broker() {
    for (mechanism, token) in [("PLAIN", "\0side\0bus"), ("SCRAM-SHA-256", "n,,n=bus,r=x")] {
        let (_kafka, server) = before(Door::of(mechanism));
        let mut client = server.client();
        assert_eq!(chooses(&mut client, mechanism).error_code, 0);
        assert_eq!(says(&mut client, token.as_bytes()), None, "{mechanism}");
    }
    // The broker sends its reason, and closes once the client has acknowledged it (RFC 7628).
    let (_kafka, server) = before(Door::of("OAUTHBEARER"));
    let mut client = server.client();
    assert_eq!(chooses(&mut client, "OAUTHBEARER").error_code, 0);
    let why = says(&mut client, b"n,,\x01auth=Bearer bus\x01\x01").unwrap();
    assert_eq!(why[..], b"{\"status\":\"invalid_token\"}"[..]);
    assert_eq!(says(&mut client, &[1]), None);
}

#[test]
fn an_unsupported_mechanism_leaves_the_connection_usable() {
    let (_kafka, server) = before(Door::of("PLAIN"));
    let mut client = server.client();
    let told = chooses(&mut client, "SCRAM-SHA-256");
    assert_eq!((told.error_code, told.mechanisms), (33, vec!["PLAIN".into()]));
    enters(&mut client, "PLAIN");
    assert_eq!(client.call(9, &MetadataRequest::default()).brokers.len(), 1);
}

#[test]
fn raw_tokens_of_an_unknown_mechanism_are_not_relayed() {
    let (kafka, server) = before(Door::of("GSSAPI"));
    let mut client = server.client();
    let told = chooses(&mut client, "GSSAPI");
    assert_eq!(told.error_code, 33, "UNSUPPORTED_SASL_MECHANISM");
    assert_eq!(told.mechanisms.len(), 4, "those that may be");
    assert_eq!(client.frame(), None);
    assert_eq!(kafka.asked(17), 0, "the broker has begun nothing");
}

#[test]
fn a_token_may_not_be_larger_than_a_first_request() {
    let (_kafka, server) = before(Door::of("PLAIN"));
    let mut client = server.client();
    assert_eq!(chooses(&mut client, "PLAIN").error_code, 0);
    client.raw(&(600_u32 << 10).to_be_bytes());
    assert_eq!(client.frame(), None, "nobody waits for it");
    server.until_disconnects("protocol", 1.0);
}
