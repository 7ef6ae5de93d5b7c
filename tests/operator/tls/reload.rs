//! A reload reads the certificate files again. New handshakes use the new content, connections go
//! on, and an invalid file changes nothing.

use std::fs;

use kafka_protocol::messages::ApiVersionsRequest;
use reprise::server::ReloadError;
use tokio_rustls::rustls::pki_types::CertificateDer;

use crate::support::{Client, Server, Trust};
use crate::tls::authority::{Authority, CertificateFiles, HOST};
use crate::tls::heard::listen;
use crate::tls::upstreams::{cluster, upstream};

/// A server that reads its certificate from files of this name.
fn serving(authority: &Authority) -> (CertificateFiles, Server) {
    listen();
    let made = authority.signs("served", &[HOST]);
    let server = Server::with(&made.listen(""));
    (made, server)
}

/// The certificate that new connections get.
fn shown(server: &Server, trust: &Trust) -> CertificateDer<'static> {
    let client = Client::secure(server.addr(), HOST, trust).unwrap();
    client.stream.session().peer_certificates().unwrap()[0].clone().into_owned()
}

fn is_served(client: &mut Client) -> bool {
    client.try_call(3, &ApiVersionsRequest::default()).is_some_and(|told| told.error_code == 0)
}

#[test]
fn new_handshakes_use_the_reloaded_certificate_and_old_connections_continue() {
    let authority = Authority::new();
    let (made, server) = serving(&authority);
    let old = made.der();
    let mut client = Client::secure(server.addr(), HOST, &authority.trust()).unwrap();
    assert!(is_served(&mut client));
    assert_eq!(shown(&server, &authority.trust()), old);
    let new = authority.signs("served", &[HOST]).der();
    assert_eq!(shown(&server, &authority.trust()), old, "not before it is told");
    assert_eq!(server.reload(|_| ()).unwrap(), Vec::<String>::new());
    assert_eq!(shown(&server, &authority.trust()), new);
    assert_ne!(new, old);
    assert!(is_served(&mut client), "the connection of before goes on");
}

#[test]
fn a_broken_file_keeps_the_old_certificate_and_is_named() {
    let authority = Authority::new();
    let (made, server) = serving(&authority);
    let old = made.der();
    fs::write(&made.certificate, "half a certi").unwrap();
    let error = server.reload(|config| config.retry.max_reconsume_times = 3).unwrap_err();
    let said = error.to_string();
    assert!(said.contains("listen[0].tls.certificate: "), "{said}");
    assert!(said.contains("served.pem holds no certificate"), "{said}");
    assert_eq!(shown(&server, &authority.trust()), old);
    assert!(server.get("/config").contains("\"max_reconsume_times\":16"), "nothing of it is taken");
}

#[test]
fn a_reload_may_demand_certificates_but_not_change_the_address() {
    let authority = Authority::new();
    let (_, server) = serving(&authority);
    let ca = authority.ca().display().to_string();
    let changed = server
        .reload(|config| config.listen[0].tls.as_mut().unwrap().client_ca = Some(ca.clone()))
        .unwrap();
    assert_eq!(changed, ["listen[0].tls.client_ca"]);
    let mut nobody = Client::secure(server.addr(), HOST, &authority.trust()).unwrap();
    drop(std::io::Write::write_all(&mut nobody.stream, &[0; 4]));
    assert!(std::io::Read::read(&mut nobody.stream, &mut [0]).is_err());
    let shop = authority.showing(&authority.signs("shop", &["shop"]));
    assert!(is_served(&mut Client::secure(server.addr(), HOST, &shop).unwrap()));
    let refused = server.reload(|config| config.listen[0].tls = None).unwrap_err();
    let ReloadError::Keys(keys) = refused else { panic!("{refused}") };
    assert_eq!(keys[0].0, "listen[0].tls");
}

#[test]
fn brokers_are_judged_by_the_authorities_as_they_are_now() {
    let (before, after) = (Authority::new(), Authority::new());
    let cluster = cluster(&after.signs("broker", &[HOST]), "", "");
    let ca = before.ca();
    let server = Server::with(&upstream(cluster.addr(), &format!("ca: {}", ca.display())));
    assert!(!is_served(&mut server.client()));
    fs::copy(after.ca(), &ca).unwrap();
    assert!(!is_served(&mut server.client()), "not before it is told");
    server.reload(|_| ()).unwrap();
    assert!(is_served(&mut server.client()));
}
