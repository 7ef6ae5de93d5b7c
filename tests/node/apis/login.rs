//! A listener with users: nothing is answered before a login, and everything after it.

use std::path::PathBuf;

use bytes::Bytes;
use kafka_protocol::messages::{
    ApiVersionsRequest, MetadataRequest, SaslAuthenticateRequest, SaslAuthenticateResponse,
    SaslHandshakeRequest,
};
use reprise::sasl::{ClientExchange, Hash, ITERATIONS, Verifier};
use reprise::wire::{Api, ResponseError};
use tempfile::TempDir;

use crate::support::client::s;
use crate::support::{Client, Rec, Server};

const SCRAM: &str = "SCRAM-SHA-512";

/// A users file.
struct File(TempDir);

impl File {
    fn of(users: &[(&str, &str)]) -> Self {
        let file = Self(tempfile::tempdir().unwrap());
        file.write(users);
        file
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("users")
    }

    fn write(&self, users: &[(&str, &str)]) {
        let line = |(name, password): &(&str, &str)| {
            let of = |hash| Verifier::of(hash, password.as_bytes(), vec![9; 16], ITERATIONS);
            format!("{name}:{}\n{name}:{}\n", of(Hash::Sha256), of(Hash::Sha512))
        };
        std::fs::write(self.path(), users.iter().map(line).collect::<String>()).unwrap();
    }

    fn server(&self, more: &str) -> Server {
        let listener = format!(
            "{{address: 127.0.0.1:0, sasl: {{users_file: {}{more}}}}}",
            self.path().display()
        );
        Server::with(&format!("listen: [{listener}]\nlimits: {{handshake: 5s}}"))
    }
}

fn alice() -> (File, Server) {
    let file = File::of(&[("alice", "pencil")]);
    let server = file.server("");
    (file, server)
}

fn chooses(client: &mut Client, mechanism: &str) -> i16 {
    client.call(1, &SaslHandshakeRequest::default().with_mechanism(s(mechanism))).error_code
}

fn says(client: &mut Client, token: &[u8]) -> SaslAuthenticateResponse {
    let token = Bytes::copy_from_slice(token);
    client.call(2, &SaslAuthenticateRequest::default().with_auth_bytes(token))
}

fn plain(client: &mut Client, name: &str, password: &str) -> SaslAuthenticateResponse {
    assert_eq!(chooses(client, "PLAIN"), 0);
    says(client, format!("\0{name}\0{password}").as_bytes())
}

/// Logs in by SCRAM, and checks the broker's proof.
fn scram(client: &mut Client, name: &str, password: &str) -> SaslAuthenticateResponse {
    assert_eq!(chooses(client, SCRAM), 0);
    let exchange = ClientExchange::new(Hash::Sha512, name, "theirs".to_owned());
    let told = says(client, exchange.first().as_bytes());
    assert_eq!(told.error_code, 0, "{:?}", told.error_message);
    let last = exchange.answer(&told.auth_bytes, password).unwrap();
    let told = says(client, last.message.as_bytes());
    if told.error_code == 0 {
        last.check(&told.auth_bytes).unwrap();
    }
    told
}

fn is_served(client: &mut Client) -> bool {
    client.try_call(9, &MetadataRequest::default()).is_some()
}

fn judged(server: &Server, mechanism: &str, outcome: &str) -> f64 {
    let labels = format!("{{mechanism=\"{mechanism}\",outcome=\"{outcome}\"}}");
    server.metric(&format!("reprise_authentications_total{labels}"))
}

#[test]
fn users_with_a_valid_password_are_served() {
    let (_file, server) = alice();
    for way in [plain, scram] {
        let mut client = server.client();
        assert_eq!(way(&mut client, "alice", "pencil").error_code, 0);
        assert!(is_served(&mut client));
    }
    assert!(judged(&server, "PLAIN", "ok") > 0.5);
    assert!(judged(&server, SCRAM, "ok") > 0.5);
}

#[test]
fn nothing_else_is_answered_before_that() {
    let (_file, server) = alice();
    let before = [Api::ApiVersions, Api::SaslHandshake, Api::SaslAuthenticate];
    let after = Api::ALL.iter().filter(|api| !before.contains(api));
    for api in after {
        for version in [api.served().0, api.served().1] {
            let mut client = server.client();
            let mut frame = Vec::new();
            frame.extend(api.key().to_be_bytes());
            frame.extend(version.to_be_bytes());
            frame.extend([0, 0, 0, 7, 0, 1, b'x', 0]);
            client.raw(&u32::try_from(frame.len()).unwrap().to_be_bytes());
            client.raw(&frame);
            assert_eq!(client.frame(), None, "{} {version}", api.name());
        }
    }
    let mut client = server.client();
    assert_eq!(client.call(0, &ApiVersionsRequest::default()).error_code, 0);
    assert_eq!(chooses(&mut client, SCRAM), 0);
    assert!(!is_served(&mut client), "half a login is none");
    server.until_disconnects("unauthenticated", 2.0);
}

#[test]
fn wrong_passwords_and_unknown_users_get_the_same_refusal() {
    let (_file, server) = alice();
    let refused = ResponseError::SaslAuthenticationFailed.code();
    let mut words = Vec::new();
    for way in [plain, scram] {
        for (name, password) in [("alice", "Pencil"), ("mallory", "pencil")] {
            let mut client = server.client();
            let told = way(&mut client, name, password);
            assert_eq!(told.error_code, refused, "{name}");
            words.push(told.error_message.unwrap().to_string());
            assert_eq!(client.frame(), None, "{name}: the connection ends");
        }
    }
    words.dedup();
    assert_eq!(words, ["the user or the password is wrong"]);
    assert!((judged(&server, SCRAM, "refused") - 2.0).abs() < 0.5);
}

#[test]
fn raw_sasl_tokens_are_accepted_after_handshake_v0() {
    let (_file, server) = alice();
    for (token, served) in [(&b"\0alice\0pencil"[..], true), (b"\0a\0b", false)] {
        let mut client = server.client();
        let handshake = SaslHandshakeRequest::default().with_mechanism(s("PLAIN"));
        assert_eq!(client.call(0, &handshake).error_code, 0);
        client.raw(&u32::try_from(token.len()).unwrap().to_be_bytes());
        client.raw(token);
        assert_eq!(client.frame(), served.then(Bytes::new));
        if served {
            assert!(is_served(&mut client));
        }
    }
}

#[test]
fn large_requests_need_a_login() {
    let (_file, server) = alice();
    let large = Rec::new(&"x".repeat(600 << 10));
    let mut client = server.client();
    assert_eq!(scram(&mut client, "alice", "pencil").error_code, 0);
    client.create("large", 1);
    assert_eq!(client.put("large", 0, &[large]), 0);
    let mut stranger = server.client();
    assert_eq!(chooses(&mut stranger, "PLAIN"), 0);
    stranger.raw(&(600_u32 << 10).to_be_bytes());
    assert_eq!(stranger.frame(), None);
    server.until_disconnects("protocol", 1.0);
}

#[test]
fn mechanisms_are_those_that_are_configured() {
    let file = File::of(&[("alice", "pencil")]);
    let server = file.server(", mechanisms: [SCRAM-SHA-256]");
    let handshake = SaslHandshakeRequest::default().with_mechanism(s("PLAIN"));
    let told = server.client().call(1, &handshake);
    assert_eq!(told.error_code, ResponseError::UnsupportedSaslMechanism.code());
    let names: Vec<String> = told.mechanisms.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["SCRAM-SHA-256"]);
    // A listener without users refuses a handshake.
    let open = Server::start();
    let illegal = ResponseError::IllegalSaslState.code();
    assert_eq!(open.client().call(1, &handshake).error_code, illegal);
    assert_eq!(says(&mut open.client(), b"x").error_code, illegal);
}

#[test]
fn clients_without_a_login_are_disconnected_in_time() {
    let file = File::of(&[("alice", "pencil")]);
    let mut server = file.server("");
    server.reload_with(|config| config.limits.handshake = std::time::Duration::from_millis(200));
    let mut idle = server.client();
    assert_eq!(idle.call(0, &ApiVersionsRequest::default()).error_code, 0);
    assert_eq!(idle.frame(), None);
    server.until_disconnects("slow", 1.0);
}

#[test]
fn a_reload_of_users_leaves_open_connections() {
    let (file, server) = alice();
    let mut old = server.client();
    assert_eq!(plain(&mut old, "alice", "pencil").error_code, 0);
    file.write(&[("bob", "crayon")]);
    assert_eq!(server.reload(|_| {}).unwrap(), [""; 0]);
    assert!(is_served(&mut old));
    assert_ne!(plain(&mut server.client(), "alice", "pencil").error_code, 0);
    assert_eq!(plain(&mut server.client(), "bob", "crayon").error_code, 0);
    std::fs::write(file.path(), "bob\n").unwrap();
    let error = server.reload(|_| {}).unwrap_err().to_string();
    assert!(error.contains("line 1 is not USER:VERIFIER"), "{error}");
    assert_eq!(plain(&mut server.client(), "bob", "crayon").error_code, 0, "the old ones stay");
}

#[test]
fn a_session_is_renewed_only_by_the_same_user() {
    let file = File::of(&[("alice", "pencil"), ("bob", "crayon")]);
    let server = file.server(", session_max: 1h");
    let mut client = server.client();
    let told = scram(&mut client, "alice", "pencil");
    assert_eq!((told.error_code, told.session_lifetime_ms), (0, 3_600_000));
    assert_eq!(scram(&mut client, "alice", "pencil").error_code, 0);
    assert!(is_served(&mut client));
    assert_ne!(scram(&mut client, "bob", "crayon").error_code, 0);
    assert_eq!(client.frame(), None);
}
