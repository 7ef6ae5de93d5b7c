//! Connections to the upstream cluster: its brokers' addresses, and one connection to a broker for
//! each client connection.
//!
//! ```text
//! bootstrap ─┐
//! Metadata, ─┴▶ view: node id → address ─▶ dial ─▶ link: frames out, frames in, in order
//! coordinators
//! ```
//! A client's requests go over the client's own link: its credentials, transactions and quotas stay
//! its own. Requests of the sidecar go over separate links with the sidecar's credentials.
//!
//! **Bounds.** Attempts and waits begin at 0 with a connection. The protocol counts partitions and
//! sequence numbers in 31 bits.

mod backoff;
mod error;
mod groups;
mod health;
mod link;
mod numbers;
mod outcome;
mod own;
mod read_connections;
mod reading;
mod record;
mod sasl;
mod survey;
mod topic;
mod topic_read;
mod topic_settings;
mod topic_trim;
mod view;
mod writer;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::clock::Clock;
use crate::observe::Metrics;
pub use backoff::Failures;
pub use error::UpstreamError;
pub use groups::GroupLookupError;
use health::Health;
pub use link::{Arrived, Link, LinkReader, LinkWriter, RelayTiming};
pub use outcome::{FailureKind, WriteError};
use own::Identity;
pub use own::OwnLinks;
use read_connections::ReadConnections;
pub use record::{FETCH_ANY_REPLICA, FETCH_ANYWHERE, OriginAnswer, Question};
pub use sasl::{Credentials, SaslError, SecretError, SecretPlace};
pub use survey::{
    BrokerReport, BrokerSeen, ClusterSeen, DEAD_LETTERS_PREFIX, LoginRequirement, ReachedBroker,
    ShareDeadLetters, Survey,
};
pub use topic::TopicSeen;
pub use topic_read::{ReadAnswer, TopicRead};
pub use topic_settings::RetentionDanger;
use view::View;
pub use view::{Address, Brokers};
pub use writer::TopicWriter;

use crate::socket::{Budget, ClientTls, ConnectError, ReadHalf, WriteHalf, plain};

type Halves = (ReadHalf, WriteHalf);
/// The link, and the lifetime of the sidecar's session on it if the broker bounds one.
type DialledLink = (Link, Option<Duration>);

/// The upstream cluster.
#[derive(Debug)]
pub struct Upstream {
    bootstrap: Vec<Address>,
    connect_timeout: Duration,
    frame_bytes_max: usize,
    /// The TLS settings as last read from the files; `None`: plain text.
    tls: Option<watch::Receiver<ClientTls>>,
    budget: Budget,
    view: View,
    turn: AtomicUsize,
    reading: ReadConnections,
    identity: Identity,
    health: Health,
    metrics: Metrics,
}

impl Upstream {
    /// Dials nothing before the first client connects. `frame_bytes_max` bounds an answer that is
    /// read whole.
    pub fn new(
        bootstrap: Vec<Address>,
        connect_timeout: Duration,
        frame_bytes_max: usize,
        budget: Budget,
        metrics: Metrics,
    ) -> Self {
        for broker in &bootstrap {
            metrics.expect_broker(&broker.to_string());
        }
        Self {
            bootstrap,
            connect_timeout,
            frame_bytes_max,
            tls: None,
            budget,
            view: View::default(),
            turn: AtomicUsize::new(0),
            reading: ReadConnections::default(),
            identity: Identity::new(None, Clock::start()),
            health: Health::new(metrics.clone()),
            metrics,
        }
    }

    /// Sets the credentials of the sidecar's own connections; `clock` measures session lifetimes.
    pub fn with_credentials(self, credentials: Option<Credentials>, clock: Clock) -> Self {
        Self { identity: Identity::new(credentials, clock), ..self }
    }

    /// Sets TLS; new connections use the latest settings received.
    pub fn with_tls(self, tls: Option<watch::Receiver<ClientTls>>) -> Self {
        Self { tls, ..self }
    }

    /// Keeps the broker addresses of an earlier start. A client's request for such a node id is
    /// dialled there until the cluster lists its brokers. A connection to any broker never uses
    /// them.
    pub fn remember(&self, brokers: BTreeMap<i32, Address>) {
        self.view.remember(brokers);
    }

    /// The configured addresses, tried first.
    pub fn bootstrap(&self) -> &[Address] {
        &self.bootstrap
    }

    /// Replaces the known brokers by the list that one broker returned.
    pub fn learn_all(&self, brokers: Brokers) {
        self.view.replace(brokers);
    }

    pub fn learn(&self, node: i32, address: Address) {
        self.view.insert(node, address);
    }

    /// Whether the cluster has named any broker since the start.
    pub fn knows_brokers(&self) -> bool {
        !self.view.addresses().is_empty()
    }

    /// Node ids that the cluster has named, ascending.
    pub fn brokers(&self) -> Vec<i32> {
        self.view.nodes()
    }

    pub fn has_broker(&self, node: i32) -> bool {
        self.view.address(node).is_some()
    }

    /// Connects a client to that broker, or for `None` to the next one that answers. The client
    /// authenticates itself on the link.
    pub async fn dial(&self, node: Option<i32>) -> Result<Link, UpstreamError> {
        Ok(self.dial_as(node, false).await?.0)
    }

    /// Whether the last attempt to reach any broker failed for all of them.
    pub fn is_lost(&self) -> bool {
        self.health.is_lost()
    }

    /// With `own`, the sidecar authenticates, and the lifetime of its session is returned.
    async fn dial_as(&self, node: Option<i32>, own: bool) -> Result<DialledLink, UpstreamError> {
        let Some(node) = node else { return self.dial_any(own).await };
        let address = self.view.address(node).ok_or(UpstreamError::UnknownNode(node))?;
        self.reach(&address, own).await
    }

    async fn reach(&self, address: &Address, own: bool) -> Result<DialledLink, UpstreamError> {
        let dialled = self.dial_address(address).await;
        match &dialled {
            Ok(_) => self.health.reached(address),
            Err(error) => self.health.failed(address, error),
        }
        let mut halves = dialled?;
        let session = if own { self.identify(address, &mut halves).await? } else { None };
        Ok((Link::new(halves, self.frame_bytes_max, &self.budget), session))
    }

    async fn dial_any(&self, own: bool) -> Result<DialledLink, UpstreamError> {
        let candidates = self.in_turn(self.view.addresses());
        let known: Vec<&Address> =
            self.bootstrap.iter().filter(|address| !candidates.contains(address)).collect();
        let mut last = UpstreamError::NoBootstrap;
        for address in candidates.iter().chain(known) {
            match self.reach(address, own).await {
                Ok(dialled) => return Ok(dialled),
                // Every other broker would refuse the credentials too.
                Err(error @ UpstreamError::Sasl { .. }) => return Err(error),
                Err(error) => last = error,
            }
        }
        let is_reachable = !matches!(
            last,
            UpstreamError::Connect { .. }
                | UpstreamError::Handshake { .. }
                | UpstreamError::NoBootstrap
        );
        if !is_reachable {
            self.health.nobody();
        }
        Err(last)
    }

    /// Node ids that the cluster has named, rotated by one at each call.
    fn nodes_in_turn(&self) -> Vec<i32> {
        self.in_turn(self.view.nodes())
    }

    fn in_turn<T>(&self, mut all: Vec<T>) -> Vec<T> {
        if !all.is_empty() {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed) % all.len();
            all.rotate_left(turn);
        }
        all
    }

    async fn dial_address(&self, address: &Address) -> Result<Halves, UpstreamError> {
        let halves = tokio::time::timeout(self.connect_timeout, self.open(address));
        let late = |_| UpstreamError::Connect {
            address: address.to_string(),
            cause: std::io::ErrorKind::TimedOut.into(),
        };
        halves.await.map_err(late)?
    }

    async fn open(&self, address: &Address) -> Result<Halves, UpstreamError> {
        let stream = connect(address).await?;
        let Some(tls) = self.tls() else { return Ok(plain(stream)) };
        tls.connect(&address.host, stream, &self.budget)
            .await
            .map_err(|cause| no_tls(address, cause))
    }

    fn tls(&self) -> Option<ClientTls> {
        self.tls.as_ref().map(|tls| tls.borrow().clone())
    }
}

async fn connect(address: &Address) -> Result<TcpStream, UpstreamError> {
    let failed = |cause| UpstreamError::Connect { address: address.to_string(), cause };
    let connecting = TcpStream::connect((address.host.as_str(), address.port));
    let stream = connecting.await.map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    Ok(stream)
}

fn no_tls(address: &Address, cause: ConnectError) -> UpstreamError {
    UpstreamError::Handshake { address: address.to_string(), cause }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    fn metrics() -> Metrics {
        Metrics::new(10).unwrap()
    }

    fn budget() -> Budget {
        Budget::new(1 << 26)
    }

    fn at(port: u16) -> Address {
        Address { host: "127.0.0.1".to_owned(), port }
    }

    async fn open() -> (TcpListener, u16) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        (listener, port)
    }

    /// A port without a listener.
    async fn closed() -> u16 {
        open().await.1
    }

    #[tokio::test]
    async fn any_broker_that_answers_will_do() {
        let (_listener, port) = open().await;
        let nobody = vec![at(closed().await)];
        let nobody = Upstream::new(nobody, Duration::from_secs(5), 1 << 20, budget(), metrics());
        assert!(nobody.dial(None).await.is_err() && nobody.is_lost());
        let bootstrap = vec![at(closed().await), at(port)];
        let upstream =
            Upstream::new(bootstrap, Duration::from_secs(5), 1 << 20, budget(), metrics());
        assert!(upstream.dial(None).await.is_ok());
        upstream.learn_all(vec![(1, at(closed().await)), (2, at(port))]);
        for _ in 0..4 {
            assert!(upstream.dial(None).await.is_ok());
        }
        assert!(upstream.dial(Some(2)).await.is_ok());
        assert!(!upstream.is_lost());
        let error = upstream.dial(Some(1)).await.unwrap_err();
        assert!(matches!(error, UpstreamError::Connect { .. }), "{error}");
        let error = upstream.dial(Some(7)).await.unwrap_err();
        assert!(matches!(error, UpstreamError::UnknownNode(7)), "{error}");
    }

    #[tokio::test]
    async fn brokers_that_left_the_cluster_are_forgotten() {
        let upstream =
            Upstream::new(vec![at(1)], Duration::from_secs(5), 1 << 20, budget(), metrics());
        upstream.learn_all(vec![(1, at(11)), (2, at(12))]);
        upstream.learn(3, at(13));
        assert_eq!(upstream.view.nodes(), [1, 2, 3]);
        upstream.learn_all(vec![(2, at(22))]);
        assert_eq!(upstream.view.nodes(), [2]);
        assert_eq!(upstream.view.address(2), Some(at(22)));
    }

    #[tokio::test]
    async fn remembered_brokers_are_dialled_until_the_cluster_names_its_own() {
        let (_before, before) = open().await;
        let (_bootstrap, bootstrap) = open().await;
        let patience = Duration::from_secs(5);
        let upstream = Upstream::new(vec![at(bootstrap)], patience, 1 << 20, budget(), metrics());
        upstream.remember(BTreeMap::from([(1, at(before)), (2, at(before)), (3, at(before))]));
        assert!(upstream.dial(Some(1)).await.is_ok());
        assert!(!upstream.knows_brokers());
        assert!(upstream.view.addresses().is_empty(), "it is not asked what the cluster is");
        upstream.learn(2, at(22));
        assert_eq!(upstream.view.address(2), Some(at(22)));
        assert_eq!(upstream.view.address(3), Some(at(before)));
        upstream.learn_all(vec![]);
        assert!(upstream.has_broker(1), "that says nothing");
        upstream.learn_all(vec![(2, at(22))]);
        assert!(!upstream.has_broker(1) && !upstream.has_broker(3));
        assert!(matches!(upstream.dial(Some(1)).await, Err(UpstreamError::UnknownNode(1))));
    }
}
