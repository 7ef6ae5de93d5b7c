//! The real cluster: where its brokers are, and a connection to one of them for each connection of
//! a client.
//!
//! ```text
//! bootstrap ─┐
//! Metadata, ─┴▶ view: node id → address ─▶ dial ─▶ link: frames out, frames in, in order
//! coordinators
//! ```
//! A client's own bytes travel on its own link, so its credentials, its transactions and its place
//! in each broker's quotas stay what they are without us.

mod error;
mod health;
mod link;
mod reading;
mod survey;
mod view;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::observe::Metrics;
pub use error::UpstreamError;
use health::Health;
pub use link::{Arrived, Link, LinkReader, LinkWriter, Turn};
use reading::Own;
pub use survey::{BrokerSeen, ClusterSeen, Login, Reached, Served, Survey};
pub use view::Address;
use view::View;

use crate::socket::{ClientTls, ConnectError, ReadHalf, WriteHalf, plain};

/// The cluster in front of which this sidecar stands.
#[derive(Debug)]
pub struct Upstream {
    bootstrap: Vec<Address>,
    connect_timeout: Duration,
    frame_bytes_max: usize,
    /// As last read from the files; `None`: plain text.
    tls: Option<watch::Receiver<ClientTls>>,
    view: View,
    turn: AtomicUsize,
    own: Own,
    health: Health,
}

impl Upstream {
    /// Nothing is dialled before a client comes. `frame_bytes_max` bounds an answer that is read
    /// whole.
    pub fn new(
        bootstrap: Vec<Address>,
        connect_timeout: Duration,
        frame_bytes_max: usize,
        metrics: Metrics,
    ) -> Self {
        Self {
            bootstrap,
            connect_timeout,
            frame_bytes_max,
            tls: None,
            view: View::default(),
            turn: AtomicUsize::new(0),
            own: Own::default(),
            health: Health::new(metrics),
        }
    }

    /// The same under TLS; what is received last holds for new connections.
    pub fn with_tls(self, tls: Option<watch::Receiver<ClientTls>>) -> Self {
        Self { tls, ..self }
    }

    /// Every broker of the cluster, as one of them says; those it does not name are gone.
    pub fn learn_all(&self, brokers: Vec<(i32, Address)>) {
        self.view.replace(brokers);
    }

    /// Where one broker is.
    pub fn learn(&self, node: i32, address: Address) {
        self.view.insert(node, address);
    }

    /// Whether the cluster has named a broker of that id.
    pub fn has_broker(&self, node: i32) -> bool {
        self.view.address(node).is_some()
    }

    /// Connects to that broker; `None`: to any that answers, in turn.
    pub async fn dial(&self, node: Option<i32>) -> Result<Link, UpstreamError> {
        let Some(node) = node else { return self.dial_any().await };
        let address = self.view.address(node).ok_or(UpstreamError::UnknownNode(node))?;
        self.reach(&address).await
    }

    /// Whether no broker at all could be reached, the last time one was looked for.
    pub fn is_lost(&self) -> bool {
        self.health.is_lost()
    }

    async fn reach(&self, address: &Address) -> Result<Link, UpstreamError> {
        let dialled = self.dial_address(address).await;
        match &dialled {
            Ok(_) => self.health.reached(address),
            Err(error) => self.health.failed(address, error),
        }
        dialled
    }

    async fn dial_any(&self) -> Result<Link, UpstreamError> {
        let mut candidates = self.view.addresses();
        if !candidates.is_empty() {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed) % candidates.len();
            candidates.rotate_left(turn);
        }
        let known: Vec<&Address> =
            self.bootstrap.iter().filter(|address| !candidates.contains(address)).collect();
        let mut last = UpstreamError::NoBootstrap;
        for address in candidates.iter().chain(known) {
            match self.reach(address).await {
                Ok(link) => return Ok(link),
                Err(error) => last = error,
            }
        }
        self.health.nobody();
        Err(last)
    }

    async fn dial_address(&self, address: &Address) -> Result<Link, UpstreamError> {
        let halves = tokio::time::timeout(self.connect_timeout, self.open(address));
        let late = |_| UpstreamError::Connect {
            address: address.to_string(),
            cause: std::io::ErrorKind::TimedOut.into(),
        };
        Ok(Link::new(halves.await.map_err(late)??, self.frame_bytes_max))
    }

    async fn open(&self, address: &Address) -> Result<(ReadHalf, WriteHalf), UpstreamError> {
        let stream = connect(address).await?;
        let Some(tls) = self.tls() else { return Ok(plain(stream)) };
        tls.connect(&address.host, stream).await.map_err(|cause| no_tls(address, cause))
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

    fn at(port: u16) -> Address {
        Address { host: "127.0.0.1".to_owned(), port }
    }

    async fn open() -> (TcpListener, u16) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        (listener, port)
    }

    /// A port nobody listens on.
    async fn closed() -> u16 {
        open().await.1
    }

    #[tokio::test]
    async fn any_broker_that_answers_will_do() {
        let (_listener, port) = open().await;
        let nobody = vec![at(closed().await)];
        let nobody = Upstream::new(nobody, Duration::from_secs(5), 1 << 20, metrics());
        assert!(nobody.dial(None).await.is_err() && nobody.is_lost());
        let bootstrap = vec![at(closed().await), at(port)];
        let upstream = Upstream::new(bootstrap, Duration::from_secs(5), 1 << 20, metrics());
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
        let upstream = Upstream::new(vec![at(1)], Duration::from_secs(5), 1 << 20, metrics());
        upstream.learn_all(vec![(1, at(11)), (2, at(12))]);
        upstream.learn(3, at(13));
        assert_eq!(upstream.view.nodes(), [1, 2, 3]);
        upstream.learn_all(vec![(2, at(22))]);
        assert_eq!(upstream.view.nodes(), [2]);
        assert_eq!(upstream.view.address(2), Some(at(22)));
    }
}
