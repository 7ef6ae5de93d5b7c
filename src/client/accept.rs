//! Accepts connections within the limits and runs each in a task of its own.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::client::Limits;
use crate::client::cause::Cause;
use crate::client::connection::Connection;
use crate::client::listener::Listener;
use crate::client::seats::Seats;
use crate::route::Router;
use crate::route::conn::Conn;
use crate::route::doors::OpenDoor;

/// Pause after a failed accept (as a rule no file descriptors are left): time for some to close.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What all listeners share.
#[derive(Clone, Debug)]
pub struct Acceptor {
    router: Arc<Router>,
    limits: watch::Receiver<Limits>,
    seats: Seats,
    ids: Arc<AtomicU64>,
}

impl Acceptor {
    /// Connections are answered by `router`; `limits` may change at any time.
    pub fn new(router: Arc<Router>, limits: watch::Receiver<Limits>) -> Self {
        Self { router, limits, seats: Seats::default(), ids: Arc::new(AtomicU64::new(1)) }
    }

    /// Open connections.
    pub fn connections(&self) -> usize {
        self.seats.count()
    }
}

/// Accepts on `listener` until `stop` is true; then every connection is closed. `asked`: brokers
/// for which a port is wanted.
pub async fn accept(
    acceptor: Acceptor,
    mut listener: Listener,
    mut asked: mpsc::UnboundedReceiver<OpenDoor>,
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
            Some(OpenDoor { node, reply }) = asked.recv() => {
                if let Some(distance) = doors.get(&node) {
                    // Asked twice at once: it is open by now.
                    reply.send(Some(*distance)).unwrap_or_default();
                    continue;
                }
                let door = listener.open_door(node).await;
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
                        "no port behind the listener is free for a broker: clients cannot reach \
                         it; choose a `listen` address with free ports behind it"
                    );
                }
                // The asker may have gone; the port is there for the next one.
                reply.send(distance).unwrap_or_default();
            }
            () = stopped(stop.clone()) => break,
        }
    }
    while loops.join_next().await.is_some() {}
}

/// Accepts on one socket: connections meant for `node`, or for this node.
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
            accepted = next(&socket) => {
                let (stream, peer) = accepted;
                acceptor.admit(&listener, node, stream, peer, &stop, &mut connections);
            }
            Some(_) = connections.join_next() => {}
            () = stopped(stop.clone()) => break,
        }
    }
    // Each connection sees `stop` too and ends by itself.
    while connections.join_next().await.is_some() {}
}

async fn stopped(mut stop: watch::Receiver<bool>) {
    // An error means that nobody can stop us any more: the server is gone.
    drop(stop.wait_for(|stop| *stop).await);
}

async fn next(socket: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match socket.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => {
                tracing::warn!(%error, "no connection can be accepted at the moment");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

impl Acceptor {
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
            metrics.disconnected(&listener.name, Cause::NotLoopback.word());
            return;
        }
        let limits = *self.limits.borrow();
        let seat = match self.seats.take(peer.ip(), limits.connections, limits.per_ip) {
            Ok(seat) => seat,
            Err(full) => {
                tracing::warn!(%peer, "connection refused: {full}");
                metrics.disconnected(&listener.name, Cause::Limit.word());
                return;
            }
        };
        let arrived = listener.token_of(local);
        let token = arrived.or_else(|| self.router.tokens.issue(&listener.scheme));
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let advertised = listener.advertise(token);
        let conn = Conn::new(id, peer, advertised, token, listener.group.clone())
            .behind(listener.doors.clone(), node, listener.advertise(None).1)
            .asking(listener.login.clone());
        let connection =
            Connection { conn, router: Arc::clone(&self.router), limits, stop: stop.clone() };
        let name = listener.name.clone();
        let tls = listener.tls.as_ref().map(|tls| tls.borrow().clone());
        connections.spawn(async move {
            let cause = connection.run(stream, tls).await;
            tracing::debug!(conn = id, %peer, ?cause, "connection closed");
            metrics.disconnected(&name, cause.word());
            drop(seat);
        });
    }
}
