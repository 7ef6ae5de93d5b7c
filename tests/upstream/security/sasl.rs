//! `upstream.sasl`: the identity of the sidecar on its own connections, and failed logins. Clients'
//! connections are not affected.

use std::net::SocketAddr;
use std::time::Duration;

use kafka_protocol::messages::ApiVersionsRequest;
use reprise::clock::{Clock, Hand};
use reprise::model::{Secret, WallMs};
use reprise::observe::Metrics;
use reprise::sasl::Mechanism;
use reprise::socket::Budget;
use reprise::upstream::{
    Address, Credentials, OwnLinks, SecretPlace, TopicSeen, Upstream, UpstreamError,
};
use tokio::runtime::Runtime;

use crate::door::Door;
use crate::kafka::{Kafka, State};
use crate::support::Server;

const ALL: [Mechanism; 4] = Mechanism::ALL;

/// The sidecar's own connections, under a simulated clock.
struct OwnConnections {
    runtime: Runtime,
    upstream: Upstream,
    links: OwnLinks,
    hand: Hand,
    metrics: Metrics,
}

fn credentials(mechanism: Mechanism, secret: &str) -> Credentials {
    let username = if mechanism == Mechanism::OauthBearer { "" } else { "side" }.to_owned();
    Credentials { mechanism, username, secret: SecretPlace::Given(Secret::new(secret)) }
}

impl OwnConnections {
    fn new(kafka: &Kafka, credentials: Option<Credentials>) -> Self {
        Self::patient(kafka.addr, credentials, Duration::from_secs(10))
    }

    fn patient(addr: SocketAddr, credentials: Option<Credentials>, patience: Duration) -> Self {
        let (clock, hand) = Clock::told(WallMs(1));
        let metrics = Metrics::new(10).unwrap();
        let bootstrap = vec![Address { host: addr.ip().to_string(), port: addr.port() }];
        let upstream =
            Upstream::new(bootstrap, patience, 1 << 20, Budget::new(1 << 26), metrics.clone())
                .with_credentials(credentials, clock);
        let runtime = Runtime::new().unwrap();
        Self { runtime, upstream, links: OwnLinks::default(), hand, metrics }
    }

    fn asks(&mut self) -> Result<TopicSeen, UpstreamError> {
        let topic = "orders".into();
        self.runtime.block_on(self.upstream.see_topic(&mut self.links, &topic))
    }

    fn is_refused(&mut self) -> String {
        self.asks().unwrap_err().to_string()
    }

    fn refusals(&self) -> usize {
        let text = self.metrics.render().unwrap();
        let lines = text.lines().filter(|line| line.contains("credentials_refused_total{"));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<usize>().unwrap()).sum()
    }
}

fn behind(door: Door) -> Kafka {
    let kafka = Kafka::behind(door);
    kafka.state().topics.insert("orders".to_owned(), 2);
    kafka
}

#[test]
fn every_mechanism_opens_a_connection_in_every_version() {
    for mechanism in ALL {
        for version in 0..=2 {
            let kafka = behind(Door { version, ..Door::of(mechanism.as_str()) });
            let mut own = OwnConnections::new(&kafka, Some(credentials(mechanism, "car")));
            let seen = own.asks().unwrap_or_else(|e| panic!("{mechanism:?} {version}: {e}"));
            assert_eq!(seen.leaders, [Some(0), Some(0)]);
            own.asks().unwrap();
            assert_eq!(kafka.state().connections, 1, "one connection serves for both");
        }
    }
}

#[test]
fn refused_credentials_are_counted_and_retried_after_a_pause() {
    for mechanism in ALL {
        let kafka = behind(Door::of(mechanism.as_str()));
        let mut own = OwnConnections::new(&kafka, Some(credentials(mechanism, "w0rd")));
        let says = own.is_refused();
        assert!(says.contains("check upstream.sasl"), "{says}");
        assert!(!says.contains("w0rd"), "the secret is never shown: {says}");
        assert_eq!(own.refusals(), 1);
        for _ in 0..20 {
            let says = own.is_refused();
            assert!(says.contains("tried again in"), "{says}");
        }
        assert_eq!(kafka.state().connections, 1, "nobody was asked meanwhile");
        own.hand.advance(1_000);
        assert!(own.is_refused().contains("check upstream.sasl"));
        own.hand.advance(1_000);
        assert!(own.is_refused().contains("tried again in"), "the second pause is longer");
        assert_eq!((kafka.state().connections, own.refusals()), (2, 2));
        kafka.state().door.as_mut().unwrap().secret = "w0rd".to_owned();
        own.hand.advance(1_000);
        own.asks().unwrap();
    }
}

#[test]
fn a_sasl_failure_is_reported_with_its_remedy() {
    let wrong = |door: Door, mechanism| {
        OwnConnections::new(&behind(door), Some(credentials(mechanism, "car"))).is_refused()
    };
    let says = wrong(Door::of("SCRAM-SHA-256"), Mechanism::Plain);
    assert!(says.contains("does not take PLAIN, it offers SCRAM-SHA-256"), "{says}");
    let says = wrong(
        Door { user: "other".to_owned(), ..Door::of("SCRAM-SHA-512") },
        Mechanism::ScramSha512,
    );
    assert!(says.contains("refuses user \"side\" by SCRAM-SHA-512 (no such user)"), "{says}");
    let door = Door { iterations: 100, ..Door::of("SCRAM-SHA-256") };
    let says = wrong(door, Mechanism::ScramSha256);
    assert!(says.contains("100 SCRAM iterations"), "{says}");
    let kafka = Kafka::start(State::default());
    let says = OwnConnections::new(&kafka, Some(credentials(Mechanism::Plain, "car"))).is_refused();
    assert!(says.contains("remove upstream.sasl"), "{says}");
    let mut none = credentials(Mechanism::Plain, "car");
    none.secret = SecretPlace::File("not-here".into());
    let says = OwnConnections::new(&behind(Door::of("PLAIN")), Some(none)).is_refused();
    assert!(says.contains("no credentials: not-here cannot be read"), "{says}");
}

#[test]
fn a_broker_without_proof_of_the_password_is_refused() {
    let door = Door { is_impostor: true, secret: "?".to_owned(), ..Door::of("SCRAM-SHA-256") };
    let kafka = behind(door);
    let says =
        OwnConnections::new(&kafka, Some(credentials(Mechanism::ScramSha256, "car"))).is_refused();
    assert!(says.contains("cannot prove that it knows"), "{says}");
    assert_eq!(kafka.asked(3), 0, "nothing was asked of it");
}

#[test]
fn a_connection_is_replaced_before_its_session_ends() {
    let kafka = behind(Door { session_ms: 10_000, ..Door::of("PLAIN") });
    let mut own = OwnConnections::new(&kafka, Some(credentials(Mechanism::Plain, "car")));
    own.asks().unwrap();
    own.hand.advance(8_499);
    own.asks().unwrap();
    assert_eq!(kafka.state().connections, 1);
    own.hand.advance(1);
    own.asks().unwrap();
    assert_eq!(kafka.state().connections, 2);
}

#[test]
fn a_connection_the_broker_closed_meanwhile_is_replaced_once() {
    let kafka = behind(Door::of("PLAIN"));
    let mut own = OwnConnections::new(&kafka, Some(credentials(Mechanism::Plain, "car")));
    own.asks().unwrap();
    kafka.state().closes = 1;
    own.asks().unwrap();
    assert_eq!(kafka.state().connections, 2);
    kafka.state().closes = 2;
    assert!(matches!(own.asks(), Err(UpstreamError::Closed)));
    assert_eq!(kafka.state().connections, 3);
}

#[test]
fn a_broker_that_says_nothing_is_not_waited_for() {
    let addr = crate::broker::broker(|mut stream| {
        drop(std::io::Read::read_to_end(&mut stream, &mut Vec::new()));
    });
    let patience = Duration::from_millis(100);
    let mut own =
        OwnConnections::patient(addr, Some(credentials(Mechanism::Plain, "car")), patience);
    assert!(matches!(own.asks(), Err(UpstreamError::TooSlow)));
}

#[test]
fn a_password_file_is_read_for_every_connection() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("password");
    std::fs::write(&file, "car\n").unwrap();
    let kafka = behind(Door { session_ms: 10_000, ..Door::of("SCRAM-SHA-512") });
    let mut ours = credentials(Mechanism::ScramSha512, "");
    ours.secret = SecretPlace::File(file.clone());
    let mut own = OwnConnections::new(&kafka, Some(ours));
    own.asks().unwrap();
    std::fs::write(&file, "renewed").unwrap();
    kafka.state().door.as_mut().unwrap().secret = "renewed".to_owned();
    own.hand.advance(9_000);
    own.asks().unwrap();
}

#[test]
fn our_credentials_are_never_shown_on_a_client_s_connection() {
    let kafka = behind(Door::of("PLAIN"));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("password");
    std::fs::write(&file, "car").unwrap();
    let yaml = format!(
        "upstream: {{bootstrap: 'a:1', sasl: {{mechanism: PLAIN, username: side, \
         password_file: {}}}}}\n",
        file.display()
    );
    let server = Server::in_front_of(kafka.addr, &yaml);
    // At its start the sidecar asks for the brokers, on a connection of its own.
    let knows = || server.router().upstream.as_ref().unwrap().knows_brokers();
    crate::support::until("it has greeted the cluster", knows);
    let tokens = kafka.state().tokens;
    let handshakes = kafka.asked(17);
    assert!(tokens > 0 && handshakes > 0);
    let mut client = server.client();
    assert!(client.try_call(0, &ApiVersionsRequest::default()).is_some());
    let metadata = kafka_protocol::messages::MetadataRequest::default();
    assert!(client.try_call(9, &metadata).is_none(), "the client itself is not let in");
    assert_eq!(kafka.state().tokens, tokens);
    assert_eq!(kafka.asked(17), handshakes);
}
