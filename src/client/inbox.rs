//! What a client has sent: whole frames for those that are answered here, runs of bytes for those
//! that only pass. Memory grows with the bytes that came, never with a length that was only
//! announced, and not at all for a frame that passes.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use crate::client::Limits;
use crate::client::connection::Cause;
use crate::clock::Clock;
use crate::route::passthrough::Way;
use crate::socket::{READ_BYTES, ReadHalf};
use crate::wire::relay::{RequestStart, StartError};
use crate::wire::split;

/// The next thing a client has sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// A whole frame without its length prefix, to be answered here.
    Frame(Bytes),
    /// Bytes that pass: the rest of a frame, whole ones, the beginning of one.
    Passing(BytesMut),
    /// More has to come.
    Nothing,
}

/// The reading half of a client's connection.
pub(super) struct Inbox {
    read: ReadHalf,
    peer: SocketAddr,
    buffer: BytesMut,
    limits: Limits,
    /// Of one frame that is read whole: less before the first one is.
    bytes_max: usize,
    /// Of one frame whose start is not read yet: what only passes costs no memory.
    start_bytes_max: usize,
    clock: Clock,
    /// When the first byte of the frame in the buffer came.
    begun: Option<Duration>,
    /// Bytes of the frame being passed on that are still to come.
    passing: usize,
}

impl Inbox {
    /// `passes`: some frames may pass.
    pub(super) fn new(
        read: ReadHalf,
        peer: SocketAddr,
        limits: Limits,
        clock: Clock,
        passes: bool,
    ) -> Self {
        let bytes_max = limits.first_frame_bytes;
        let start_bytes_max = if passes { limits.frame_bytes } else { bytes_max };
        let buffer = BytesMut::new();
        Self {
            read,
            peer,
            buffer,
            limits,
            bytes_max,
            start_bytes_max,
            clock,
            begun: None,
            passing: 0,
        }
    }

    /// The next thing among the bytes that are here. `way` judges each frame by its start; of one
    /// that passes `passes` hears when it begins, and whether it is answered.
    pub(super) fn next(
        &mut self,
        way: impl Fn(&RequestStart) -> Way,
        mut passes: impl FnMut(&RequestStart, bool),
    ) -> Result<Sent, Cause> {
        let mut end = 0;
        loop {
            let here = self.passing.min(self.buffer.len() - end);
            self.passing -= here;
            end += here;
            if self.passing > 0 {
                break;
            }
            let rest = self.buffer.get(end..).unwrap_or_default();
            let start = match RequestStart::parse(rest, self.start_bytes_max) {
                Ok(Some(start)) => start,
                Ok(None) => break,
                Err(error) => return Err(self.refuse(&error)),
            };
            if way(&start) == Way::Answer {
                if end > 0 {
                    break;
                }
                return self.whole();
            }
            match start.is_answered(rest) {
                Ok(Some(answered)) => passes(&start, answered),
                Ok(None) => break,
                Err(error) => return Err(self.refuse(&error)),
            }
            self.passing = start.bytes;
        }
        if end == 0 {
            return Ok(Sent::Nothing);
        }
        self.begun = None;
        Ok(Sent::Passing(self.buffer.split_to(end)))
    }

    fn whole(&mut self) -> Result<Sent, Cause> {
        match split(&mut self.buffer, self.bytes_max) {
            Ok(Some(frame)) => {
                self.begun = None;
                self.bytes_max = self.limits.frame_bytes;
                self.start_bytes_max = self.limits.frame_bytes;
                Ok(Sent::Frame(frame))
            }
            Ok(None) => Ok(Sent::Nothing),
            Err(error) => Err(self.refuse(&StartError::Frame(error))),
        }
    }

    /// Reads once. `idle`: nobody waits for an answer on this connection, so silence counts
    /// against `limits.idle`. Cancel-safe: what was read stays in the buffer.
    pub(super) async fn fill(&mut self, idle: bool) -> Result<(), Cause> {
        let (patience, cause) = if !self.buffer.is_empty() {
            let now = self.clock.elapsed();
            let taken = now.saturating_sub(*self.begun.get_or_insert(now));
            (self.limits.handshake.saturating_sub(taken), Cause::Slow)
        } else if self.passing > 0 {
            (self.limits.handshake, Cause::Slow)
        } else if idle {
            (self.limits.idle, Cause::Idle)
        } else {
            (Duration::MAX, Cause::Idle)
        };
        let room = READ_BYTES.min(self.limits.frame_bytes);
        let read = self.read.fill(&mut self.buffer, room);
        match tokio::time::timeout(patience, read).await {
            Err(_) => Err(cause),
            Ok(Ok(0)) => Err(Cause::Client),
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(of_io(&error)),
        }
    }

    fn refuse(&self, error: &StartError) -> Cause {
        tracing::warn!(peer = %self.peer, "connection closed: {error}");
        Cause::Protocol
    }
}

fn of_io(error: &io::Error) -> Cause {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Cause::Client,
        _ => Cause::Io,
    }
}
