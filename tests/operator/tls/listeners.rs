//! Clients under TLS: admitted ones, and the errors of the others.

use std::io::{Read, Write};
use std::net::TcpStream;

use kafka_protocol::messages::{ApiVersionsRequest, MetadataRequest};
use tokio_rustls::rustls::{CipherSuite, HandshakeKind, ProtocolVersion};

use crate::support::{Client, Rec, Server, Stream, Trust};
use crate::tls::authority::{Authority, BOTH, HOST, OLD};
use crate::tls::heard::{hear, heard, listen};

/// A sidecar with a valid certificate; `more` keys of `tls`.
fn server(authority: &Authority, more: &str) -> Server {
    listen();
    Server::with(&authority.signs("server", &[HOST]).listen(more))
}

fn secure(server: &Server, trust: &Trust) -> Client {
    Client::secure(server.addr(), HOST, trust).unwrap()
}

fn asks(client: &mut Client) -> Option<i16> {
    client.try_call(3, &ApiVersionsRequest::default()).map(|told| told.error_code)
}

#[test]
fn a_tls_client_can_use_every_advertised_address() {
    let authority = Authority::new();
    let server = server(&authority, "");
    let mut client = secure(&server, &authority.trust());
    assert_eq!(client.stream.session().protocol_version(), Some(ProtocolVersion::TLSv1_3));
    client.create("orders", 1);
    client.put("orders", 0, &[Rec::new("x")]);
    assert_eq!(client.nack("shop", "orders-0@0", Rec::new("x")).error_code, 0);
    // Metadata has the verified name, with a port of this client's own.
    let told = client.call(9, &MetadataRequest::default());
    let broker = &told.brokers[0];
    assert_eq!(broker.host.as_str(), HOST);
    assert_ne!(broker.port, i32::from(server.addr().port()));
    assert_eq!(client.another().read_all("orders").len(), 1);
}

#[test]
fn a_client_of_tls_1_2_speaks_through() {
    let authority = Authority::new();
    let server = server(&authority, "");
    let mut client = secure(&server, &authority.client(OLD, None));
    assert_eq!(client.stream.session().protocol_version(), Some(ProtocolVersion::TLSv1_2));
    assert_eq!(asks(&mut client), Some(0));
}

/// The clients offer AES-256 first, like nearly every client.
#[test]
fn the_cheaper_cipher_is_negotiated_in_both_tls_versions() {
    let authority = Authority::new();
    let server = server(&authority, "");
    let tls12 = CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256;
    for (versions, suite) in [(OLD, tls12), (BOTH, CipherSuite::TLS13_AES_128_GCM_SHA256)] {
        let mut client = secure(&server, &authority.client(versions, None));
        assert_eq!(asks(&mut client), Some(0));
        let taken = client.stream.session().negotiated_cipher_suite();
        assert_eq!(taken.map(|taken| taken.suite()), Some(suite));
    }
}

#[test]
fn a_client_that_comes_again_needs_no_whole_handshake() {
    let authority = Authority::new();
    let server = server(&authority, "");
    let trust = authority.trust();
    let mut first = secure(&server, &trust);
    assert_eq!(asks(&mut first), Some(0));
    let mut again = secure(&server, &trust);
    assert_eq!(asks(&mut again), Some(0));
    let kinds = [&first, &again].map(|client| client.stream.session().handshake_kind());
    assert_eq!(kinds, [Some(HandshakeKind::Full), Some(HandshakeKind::Resumed)]);
}

#[test]
fn only_clients_with_a_valid_required_certificate_are_served() {
    let (authority, strangers) = (Authority::new(), Authority::new());
    let server = server(&authority, &format!(", client_ca: {}", authority.ca().display()));
    let shop = authority.signs("shop", &["shop"]);
    assert_eq!(asks(&mut secure(&server, &authority.showing(&shop))), Some(0));
    let stranger = strangers.signs("stranger", &["shop"]);
    let old = authority.signed_long_ago();
    for (trust, words) in [
        (authority.trust(), "shows no certificate and this listener has tls.client_ca"),
        (authority.showing(&stranger), "the peer's certificate is refused: "),
        (authority.showing(&old), "the peer's certificate is refused: "),
    ] {
        let before = server.disconnects("tls");
        // In TLS 1.3 a client learns of the refusal at its first read.
        let mut client = secure(&server, &trust);
        let peer = client.stream.tcp().local_addr().unwrap().to_string();
        let refused = client.stream.read(&mut [0]).unwrap_err().to_string();
        assert!(refused.contains("alert"), "{refused}");
        hear(&[&format!("peer={peer}"), " WARN ", words]);
        server.until_disconnects("tls", before + 1.0);
    }
}

#[test]
fn plaintext_clients_on_a_tls_listener_are_closed_and_logged() {
    let authority = Authority::new();
    let server = server(&authority, "");
    let mut client = server.client();
    let peer = client.stream.tcp().local_addr().unwrap().to_string();
    assert_eq!(asks(&mut client), None, "not a byte that looks like a length");
    hear(&[
        &format!("peer={peer}"),
        " WARN ",
        "the peer does not speak TLS and this listener does",
    ]);
    server.until_disconnects("tls", 1.0);
    assert_eq!((server.disconnects("tls"), server.disconnects("protocol")), (1.0, 0.0));
}

#[test]
fn tls_clients_on_a_plaintext_listener_are_closed_and_logged() {
    listen();
    let server = Server::start();
    let mut stream = Stream::connect(server.addr());
    let peer = stream.tcp().local_addr().unwrap().to_string();
    stream.write_all(&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    hear(&[&format!("peer={peer}"), " WARN ", "begins a TLS handshake on a plaintext listener"]);
    server.until_disconnects("protocol", 1.0);
}

#[test]
fn an_unfinished_tls_handshake_is_cut_at_the_limit() {
    let authority = Authority::new();
    let made = authority.signs("server", &[HOST]).listen("");
    let server = Server::with(&format!("{made}limits: {{handshake: 100ms}}\n"));
    for bytes in [&b""[..], &[0x16, 3, 1, 2, 0, 1]] {
        let before = server.disconnects("slow");
        let mut stream = Stream::connect(server.addr());
        stream.write_all(bytes).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        server.until_disconnects("slow", before + 1.0);
    }
}

#[test]
fn a_port_check_is_no_failure() {
    let authority = Authority::new();
    let server = server(&authority, "");
    let peer = TcpStream::connect(server.addr()).unwrap().local_addr().unwrap();
    server.until_disconnects("client", 1.0);
    assert_eq!(heard(&[&format!("peer={peer}"), " WARN "]), Vec::<String>::new());
}

#[test]
fn a_client_that_does_not_trust_the_certificate_is_named() {
    let (authority, strangers) = (Authority::new(), Authority::new());
    let server = server(&authority, "");
    assert!(Client::secure(server.addr(), HOST, &strangers.trust()).is_err());
    let port = server.addr().port();
    assert!(
        Stream::secure(([127, 0, 0, 1], port).into(), "localhost", &authority.trust()).is_err()
    );
    server.until_disconnects("tls", 2.0);
    hear(&["UnknownCA", "does it trust the authority of this listener's certificate"]);
}

#[test]
fn the_sidecar_ends_a_tls_connection_with_close_notify() {
    let authority = Authority::new();
    let mut server = server(&authority, "");
    let mut client = secure(&server, &authority.trust());
    assert_eq!(asks(&mut client), Some(0));
    server.stop();
    assert_eq!(client.stream.read(&mut [0]).unwrap(), 0, "an end, not a break");
}
