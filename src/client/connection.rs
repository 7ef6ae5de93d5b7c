//! One connection: frames in, replies out in request order.
//!
//! A Produce may follow a Produce whose fdatasync is still awaited; anything else waits until all
//! earlier requests are answered, as in Kafka. What a Produce appends is appended when its frame
//! is taken, so overlap never changes the order of the log.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::watch;

use crate::client::Limits;
use crate::clock::Clock;
use crate::route::conn::Conn;
use crate::route::{Answering, Reply, Router};
use crate::wire::{Api, FrameError, HeadError, RequestHead, split};

/// Produce requests of one connection that may wait for their fdatasync at once
/// (librdkafka's largest `max.in.flight` that keeps order is 5; Go clients send more).
const OVERLAP_MAX: usize = 64;
/// Bytes asked for in one read.
const READ_BYTES: usize = 64 << 10;

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The client closed it.
    Client,
    /// The sidecar stops.
    Stop,
    /// Nothing came for `limits.idle`.
    Idle,
    /// A request was not whole within `limits.handshake`.
    Slow,
    /// Bytes that are no Kafka request.
    Protocol,
    /// A read or write failed.
    Io,
    /// Over a limit before anything was read.
    Limit,
    /// Not from this host.
    NotLoopback,
}

impl Cause {
    /// The value of the metric's label.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Stop => "stop",
            Self::Idle => "idle",
            Self::Slow => "slow",
            Self::Protocol => "protocol",
            Self::Io => "io",
            Self::Limit => "limit",
            Self::NotLoopback => "not_loopback",
        }
    }
}

/// One accepted connection.
pub(super) struct Connection {
    pub(super) conn: Conn,
    pub(super) router: Arc<Router>,
    pub(super) limits: Limits,
    pub(super) stop: watch::Receiver<bool>,
}

impl Connection {
    /// Serves the connection to its end.
    pub(super) async fn run(self, stream: TcpStream) -> Cause {
        if stream.set_nodelay(true).is_err() {
            return Cause::Io;
        }
        let (read, write) = stream.into_split();
        let mut stop = self.stop.clone();
        tokio::select! {
            cause = self.serve(read, write) => cause,
            _ = stop.wait_for(|stop| *stop) => Cause::Stop,
        }
    }

    async fn serve(&self, read: OwnedReadHalf, mut write: OwnedWriteHalf) -> Cause {
        let mut frames = Frames {
            read,
            buffer: BytesMut::new(),
            limits: self.limits,
            bytes_max: self.limits.first_frame_bytes,
            clock: self.router.clock,
            begun: None,
        };
        let mut pending: FuturesOrdered<Answering<'_>> = FuturesOrdered::new();
        loop {
            let (idle, room) = (pending.is_empty(), pending.len() < OVERLAP_MAX);
            let frame = tokio::select! {
                biased;
                Some(reply) = pending.next(), if !idle => {
                    if let Err(cause) = self.send(&mut write, reply).await {
                        return cause;
                    }
                    continue;
                }
                frame = frames.next(idle), if room => frame,
            };
            let frame = match frame {
                Ok(frame) => frame,
                Err(cause) => return cause,
            };
            self.router.metrics.request_bytes(bytes_of(&frame), 0);
            let head = match RequestHead::parse(&frame) {
                Ok(head) => head,
                Err(error) => match self.refuse(&error) {
                    Ok(reply) => {
                        if let Err(cause) = self.send_all(&mut write, &mut pending).await {
                            return cause;
                        }
                        if let Err(cause) = self.send(&mut write, reply).await {
                            return cause;
                        }
                        continue;
                    }
                    Err(cause) => return cause,
                },
            };
            self.conn.heard(head.client_id.as_ref().map(crate::model::ClientId::as_str));
            if head.api != Api::Produce
                && let Err(cause) = self.send_all(&mut write, &mut pending).await
            {
                return cause;
            }
            let produce = head.api == Api::Produce;
            let answering = self.router.answer(&self.conn, head);
            if produce {
                pending.push_back(answering);
            } else if let Err(cause) = self.send(&mut write, answering.await).await {
                return cause;
            }
        }
    }

    /// Waits for every answer that is still due, and sends it.
    async fn send_all(
        &self,
        write: &mut OwnedWriteHalf,
        pending: &mut FuturesOrdered<Answering<'_>>,
    ) -> Result<(), Cause> {
        while let Some(reply) = pending.next().await {
            self.send(write, reply).await?;
        }
        Ok(())
    }

    /// What to do with a request that cannot be taken.
    fn refuse(&self, error: &HeadError) -> Result<Reply, Cause> {
        if let HeadError::UnsupportedVersion { api: Api::ApiVersions, correlation_id, .. } = error {
            return Ok(self.router.unsupported_api_versions(*correlation_id));
        }
        tracing::warn!(conn = self.conn.id, peer = %self.conn.peer, "connection closed: {error}");
        self.router.metrics.request_error("unknown", "unsupported_version");
        Err(Cause::Protocol)
    }

    async fn send(&self, write: &mut OwnedWriteHalf, reply: Reply) -> Result<(), Cause> {
        match reply {
            Reply::Nothing => Ok(()),
            Reply::Frame(frame) => {
                self.router.metrics.request_bytes(0, bytes_of(&frame));
                write.write_all(&frame).await.map_err(|_| Cause::Io)
            }
            Reply::Close(why) => {
                let (conn, peer, client) = (self.conn.id, self.conn.peer, self.conn.client());
                tracing::warn!(conn, %peer, %client, "connection closed: {why}");
                Err(Cause::Protocol)
            }
        }
    }
}

/// Cuts the byte stream into frames. Memory grows with the bytes that came, never with a length
/// that was only announced.
struct Frames {
    read: OwnedReadHalf,
    buffer: BytesMut,
    limits: Limits,
    /// Of one frame: less before the first one is whole.
    bytes_max: usize,
    clock: Clock,
    /// When the first byte of the frame in the buffer came.
    begun: Option<Duration>,
}

impl Frames {
    /// The next whole frame. `idle`: nobody waits for an answer on this connection, so silence
    /// counts against `limits.idle`. Cancel-safe: what was read stays in the buffer.
    async fn next(&mut self, idle: bool) -> Result<Bytes, Cause> {
        loop {
            match split(&mut self.buffer, self.bytes_max) {
                Ok(Some(frame)) => {
                    self.begun = None;
                    self.bytes_max = self.limits.frame_bytes;
                    return Ok(frame);
                }
                Ok(None) => {}
                Err(error) => return Err(refuse(&self.read, &error)),
            }
            let (patience, cause) = if !self.buffer.is_empty() {
                let now = self.clock.elapsed();
                let taken = now.saturating_sub(*self.begun.get_or_insert(now));
                (self.limits.handshake.saturating_sub(taken), Cause::Slow)
            } else if idle {
                (self.limits.idle, Cause::Idle)
            } else {
                (Duration::MAX, Cause::Idle)
            };
            self.buffer.reserve(READ_BYTES.min(self.limits.frame_bytes));
            let read = tokio::time::timeout(patience, self.read.read_buf(&mut self.buffer)).await;
            match read {
                Err(_) => return Err(cause),
                Ok(Ok(0)) => return Err(Cause::Client),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(of_io(&error)),
            }
        }
    }
}

fn refuse(read: &OwnedReadHalf, error: &FrameError) -> Cause {
    let peer = read.peer_addr().map_or_else(|_| "gone".to_owned(), |peer| peer.to_string());
    tracing::warn!(%peer, "connection closed: {error}");
    Cause::Protocol
}

fn of_io(error: &io::Error) -> Cause {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Cause::Client,
        _ => Cause::Io,
    }
}

fn bytes_of(frame: &Bytes) -> u64 {
    u64::try_from(frame.len()).unwrap_or(u64::MAX)
}
