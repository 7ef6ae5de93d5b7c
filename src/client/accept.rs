//! Accepts connections within the limits and serves each in its own task.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::client::ClientLimits;
use crate::client::close_cause::CloseCause;
use crate::client::connection::Connection;
use crate::client::connection_permits::ConnectionPermits;
use crate::client::files::Files;
use crate::client::leave_signal::LeaveSignal;
use crate::client::listener::Listener;
use crate::client::log_rate_limit::LogRateLimit;
use crate::route::Router;
use crate::route::clients::broker_ports::PortRequest;
use crate::route::clients::conn::Conn;

/// Pause when no file descriptors are left; new connections wait in the backlog.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The state that all listeners share.
#[derive(Clone, Debug)]
pub struct Acceptor {
    router: Arc<Router>,
    limits: watch::Receiver<ClientLimits>,
    notices: LogRateLimit,
    seats: ConnectionPermits,
    ids: Arc<AtomicU64>,
    leaving: LeaveSignal,
}

impl Acceptor {
    /// `limits` may change at any time. Once `leaving` begins, new connections are refused, and
    /// each open one ends when none of its requests is in flight.
    pub fn new(
        router: Arc<Router>,
        limits: watch::Receiver<ClientLimits>,
        leaving: LeaveSignal,
    ) -> Self {
        let notices = LogRateLimit::new(router.clock);
        let ids = Arc::new(AtomicU64::new(1));
        Self { router, limits, notices, seats: ConnectionPermits::default(), ids, leaving }
    }

    /// The number of open connections.
    pub fn connections(&self) -> usize {
        self.seats.count()
    }

    /// Client objects with open connections.
    pub fn clients(&self) -> usize {
        self.seats.clients()
    }
}

/// Accepts on `listener` until `stop` is true, then closes every connection. `asked`: brokers that
/// need a port of their own.
pub async fn accept(
    acceptor: Acceptor,
    mut listener: Listener,
    mut asked: mpsc::UnboundedReceiver<PortRequest>,
    stop: watch::Receiver<bool>,
) {
    let mut loops = JoinSet::new();
    let sockets = std::mem::take(&mut listener.sockets);
    let listener = Arc::new(listener);
    let mut doors = BTreeMap::new();
    for socket in sockets {
        loops.spawn(accept_on(acceptor.clone(), Arc::clone(&listener), socket, None, stop.clone()));
    }
    loop {
        tokio::select! {
            Some(PortRequest { node, before, reply }) = asked.recv() => {
                if let Some(distance) = doors.get(&node) {
                    // A second request for the same broker: its port is open by now.
                    reply.send(Some(*distance)).unwrap_or_default();
                    continue;
                }
                let door = listener.open_door(node, before).await;
                let distance = door.as_ref().map(|(_, distance)| *distance);
                doors.extend(distance.map(|distance| (node, distance)));
                if let Some((socket, distance)) = door {
                    let port = listener.address.port().saturating_add(distance);
                    tracing::info!(listener = listener.name, node, port, "a broker has a port");
                    let (acceptor, listener) = (acceptor.clone(), Arc::clone(&listener));
                    loops.spawn(accept_on(acceptor, listener, socket, Some(node), stop.clone()));
                } else {
                    tracing::error!(
                        listener = listener.name, node,
                        "R0212 no port behind the listener is free for a broker: clients cannot \
                         reach it; choose a `listen` address with free ports behind it"
                    );
                }
                // The requester may have gone; the port stays open for the next one.
                reply.send(distance).unwrap_or_default();
            }
            () = stopped(stop.clone()) => break,
        }
    }
    while loops.join_next().await.is_some() {}
}

/// Accepts on one socket: connections for the broker `node`, or for this node.
async fn accept_on(
    acceptor: Acceptor,
    listener: Arc<Listener>,
    socket: TcpListener,
    node: Option<i32>,
    stop: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = acceptor.next(&socket, &listener.name) => {
                let (stream, peer) = accepted;
                acceptor.admit(&listener, node, stream, peer, &stop, &mut connections);
            }
            Some(_) = connections.join_next() => {}
            () = acceptor.leaving.begun() => break,
            () = stopped(stop.clone()) => break,
        }
    }
    drop(socket);
    // Each connection sees `stop` and `leaving` as well, and ends by itself.
    while connections.join_next().await.is_some() {}
}

async fn stopped(mut stop: watch::Receiver<bool>) {
    // An error means that the server, which holds the sender, has ended.
    drop(stop.wait_for(|stop| *stop).await);
}

/// Whether the client gave up before it was accepted.
fn is_its_own(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

impl Acceptor {
    /// The next connection for which there is a file descriptor.
    async fn next(&self, socket: &TcpListener, name: &str) -> (TcpStream, SocketAddr) {
        let metrics = &self.router.metrics;
        loop {
            let why = match socket.accept().await {
                Ok((stream, _)) if self.files_are_short(&stream) => {
                    metrics.connected(name);
                    metrics.disconnected(name, CloseCause::Files.word());
                    "too few file descriptors are left".to_owned()
                }
                Ok(accepted) => return accepted,
                Err(error) if is_its_own(&error) => continue,
                Err(error) => error.to_string(),
            };
            metrics.accept_failed();
            self.notices.tell(CloseCause::Files, |more| {
                tracing::warn!(
                    "R0101 no connection can be accepted at the moment: {why}; open ones go on. \
                     Raise the limit of open files, or lower limits.connections{more}"
                );
            });
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
    }

    fn files_are_short(&self, accepted: &TcpStream) -> bool {
        Files::now(self.router.upstream.is_some()).are_short(accepted, self.seats.count())
    }

    fn admit(
        &self,
        listener: &Arc<Listener>,
        node: Option<i32>,
        stream: TcpStream,
        peer: SocketAddr,
        stop: &watch::Receiver<bool>,
        connections: &mut JoinSet<()>,
    ) {
        let metrics = self.router.metrics.clone();
        let Ok(local) = stream.local_addr() else { return };
        metrics.connected(&listener.name);
        if listener.loopback_only && !local.ip().is_loopback() {
            tracing::debug!(%peer, "dropped: this listener serves this host only");
            metrics.disconnected(&listener.name, CloseCause::NotLoopback.word());
            return;
        }
        let limits = *self.limits.borrow();
        let seat = match self.seats.take(peer.ip(), limits.connections, limits.per_ip) {
            Ok(seat) => seat,
            Err(full) => {
                self.notices.tell(CloseCause::Limit, |more| {
                    tracing::warn!(%peer, "R0102 connection refused: {full}{more}");
                });
                metrics.disconnected(&listener.name, CloseCause::Limit.word());
                return;
            }
        };
        let arrived = listener.token_of(local);
        let token = arrived.or_else(|| self.router.tokens.issue(&listener.scheme));
        let seat = seat.of_client(token);
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let advertised = listener.advertise(token);
        let conn = Conn::new(id, peer, advertised, token, listener.group.clone())
            .behind(listener.doors.clone(), node, listener.advertise(None).1)
            .asking(listener.login.clone())
            .under_tls(listener.tls.is_some());
        let notices = self.notices.clone();
        let router = Arc::clone(&self.router);
        let (stop, leaving) = (stop.clone(), self.leaving.clone());
        let connection = Connection { conn, router, limits, notices, stop, leaving };
        let name = listener.name.clone();
        let tls = listener.tls.as_ref().map(|tls| tls.borrow().clone());
        connections.spawn(async move {
            let cause = connection.run(stream, tls).await;
            connection.ended(cause);
            connection.router.disconnected(&connection.conn);
            metrics.disconnected(&name, cause.word());
            drop(seat);
        });
    }
}
