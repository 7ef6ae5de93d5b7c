//! Brokers whose TLS handshake fails: the client's connection ends, and the log names the broker,
//! the fault and the next step.

use std::io::Read;
use std::net::TcpListener;
use std::thread;

use kafka_protocol::messages::ApiVersionsRequest;

use crate::support::Server;
use crate::tls::authority::{Authority, CertificateFiles, HOST};
use crate::tls::heard::{hear, listen};
use crate::tls::upstreams::{cluster, upstream};

/// Checks that a request in front of `cluster` ends its connection, and that the log says so.
fn refuses(cluster: &Server, tls: &str, words: &[&str]) {
    let server = Server::with(&upstream(cluster.addr(), tls));
    ends(&server, &cluster.addr().to_string(), words);
    server.until_disconnects("upstream", 1.0);
}

fn ends(server: &Server, broker: &str, words: &[&str]) {
    let mut client = server.client();
    let peer = client.stream.tcp().local_addr().unwrap();
    assert!(client.try_call(3, &ApiVersionsRequest::default()).is_none(), "{words:?}");
    let at = format!("peer={peer}");
    hear(&[&[at.as_str(), " WARN ", broker], words].concat());
}

fn trusting(authority: &Authority) -> String {
    format!("ca: {}", authority.ca().display())
}

#[test]
fn a_bad_broker_certificate_is_refused_with_cause_and_remedy() {
    let (authority, strangers) = (Authority::new(), Authority::new());
    let of_ca = format!("upstream.tls.ca ({})", authority.ca().display());
    let unknown = ["self-signed, or signed by an authority that", of_ca.as_str(), "into upstream"];
    let cases: [(CertificateFiles, &[&str]); 5] = [
        (
            authority.signs("elsewhere", &["kafka.elsewhere"]),
            &["its certificate is not for \"127.0.0.1\" but for", "kafka.elsewhere", "add that"],
        ),
        (authority.signed_long_ago(), &["its certificate has expired", "days ago: renew"]),
        (strangers.signs("stranger", &[HOST]), &unknown),
        (authority.not_signed("self", false), &unknown),
        (authority.not_signed("self-ca", true), &["an authority's own (CA:TRUE)", "give the"]),
    ];
    for (made, words) in &cases {
        refuses(&cluster(made, "", ""), &trusting(&authority), words);
    }
}

#[test]
fn without_a_file_the_authorities_of_the_system_are_asked() {
    let authority = Authority::new();
    let cluster = cluster(&authority.signs("broker", &[HOST]), "", "");
    refuses(&cluster, "", &["that the system's store does not hold"]);
}

#[test]
fn a_configured_self_signed_certificate_is_trusted() {
    let authority = Authority::new();
    let made = authority.not_signed("self", false);
    let cluster = cluster(&made, "", "");
    let tls = format!("ca: {}", made.certificate.display());
    let server = Server::with(&upstream(cluster.addr(), &tls));
    assert_eq!(server.client().call(3, &ApiVersionsRequest::default()).error_code, 0);
}

#[test]
fn a_broker_rejecting_the_client_certificate_is_reported() {
    let (authority, strangers) = (Authority::new(), Authority::new());
    let demands = format!(", client_ca: {}", authority.ca().display());
    let cluster = cluster(&authority.signs("broker", &[HOST]), &demands, "");
    let words = ["does it ask for a client certificate (upstream.tls.certificate"];
    let stranger = strangers.signs("sidecar", &["sidecar"]);
    let theirs = format!(
        "{}, certificate: {}, key: {}",
        trusting(&authority),
        stranger.certificate.display(),
        stranger.key.display()
    );
    for tls in [trusting(&authority), theirs] {
        let server = Server::with(&upstream(cluster.addr(), &tls));
        ends(&server, "the broker", &words);
    }
}

#[test]
fn tls_to_a_plaintext_port_and_the_reverse_are_reported() {
    listen();
    let authority = Authority::new();
    let tls = trusting(&authority);
    let plain = Server::start();
    refuses(&plain, &tls, &["closes the connection inside the TLS handshake", "leave out"]);
    // Kafka answers bytes that are not TLS with an alert.
    let alerting = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = alerting.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in alerting.incoming().map_while(Result::ok) {
            drop(stream.read(&mut [0; 64]));
            drop(std::io::Write::write_all(&mut stream, &[0x15, 3, 3, 0, 2, 2, 80]));
        }
    });
    let server = Server::in_front_of(addr, "");
    ends(&server, "the broker", &["wants TLS on this port: set upstream.tls"]);
    // The second broker speaks another protocol.
    let talking = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = talking.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in talking.incoming().map_while(Result::ok) {
            drop(std::io::Write::write_all(&mut stream, b"220 mail.example ESMTP\r\n"));
            drop(stream.read(&mut [0; 64]));
        }
    });
    let server = Server::with(&upstream(addr, &tls));
    ends(&server, &addr.to_string(), &["it does not speak TLS on this port"]);
}
