//! What a client has sent: whole frames for those that are answered here, runs of bytes for those
//! that only pass. Memory grows with the bytes that came, never with a length that was only
//! announced, and not at all for a frame that passes.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};

use crate::client::Limits;
use crate::client::alarm::Alarm;
use crate::client::cause::Cause;
use crate::clock::Clock;
use crate::route::conn::Conn;
use crate::route::passthrough::Way;
use crate::socket::{Admission, Intake, READ_BYTES, READ_BYTES_MIN};
use crate::wire::frame::PREFIX_BYTES;
use crate::wire::relay::{RequestStart, StartError};
use crate::wire::split;

/// The next thing a client has sent.
#[derive(Debug)]
pub(super) enum Sent {
    /// A whole frame, to be answered here.
    Frame(Frame),
    /// A whole frame that passes once it is read.
    Gathered(Gathered),
    /// Bytes that pass: the rest of a frame, whole ones, the beginning of one.
    Passing(BytesMut),
    /// More has to come.
    Nothing,
}

/// A request that is answered here.
#[derive(Debug)]
pub(super) struct Frame {
    /// Without its length prefix.
    pub(super) bytes: Bytes,
    /// The room it takes, if it is large, until it is answered.
    pub(super) room: Option<Admission>,
}

/// A request that is read, and then passes or is answered here.
#[derive(Debug)]
pub(super) struct Gathered {
    /// Its first fields.
    pub(super) start: RequestStart,
    /// With its length prefix.
    pub(super) bytes: BytesMut,
    /// The room it takes, if it is large.
    pub(super) room: Option<Admission>,
}

impl Gathered {
    /// It is answered here.
    pub(super) fn into_frame(self) -> Frame {
        let mut bytes = self.bytes.freeze();
        bytes.advance(PREFIX_BYTES.min(bytes.len()));
        Frame { bytes, room: self.room }
    }
}

/// The reading half of a client's connection.
pub(super) struct Inbox {
    intake: Intake,
    peer: SocketAddr,
    limits: Limits,
    /// Of one frame that is read whole: less before the first one is.
    bytes_max: usize,
    /// Of one frame whose start is not read yet: what only passes costs no memory.
    start_bytes_max: usize,
    clock: Clock,
    /// When the first byte of the frame in the buffer came.
    begun: Option<Duration>,
    alarm: Alarm,
    /// Bytes of the frame being passed on that are still to come.
    passing: usize,
    /// Bytes of the frame that is read whole and is not all here yet.
    awaited: usize,
    room: Option<Admission>,
    /// When a client that has to say who it is must have done so.
    unknown_until: Option<Duration>,
}

impl Inbox {
    /// `passes`: some frames may pass. `known`: the client need not say who it is.
    pub(super) fn new(
        intake: Intake,
        peer: SocketAddr,
        limits: Limits,
        clock: Clock,
        passes: bool,
        known: bool,
    ) -> Self {
        let bytes_max = limits.first_frame_bytes;
        let start_bytes_max = if passes { limits.frame_bytes } else { bytes_max };
        Self {
            intake,
            peer,
            limits,
            bytes_max,
            start_bytes_max,
            clock,
            begun: None,
            alarm: Alarm::default(),
            passing: 0,
            awaited: 0,
            room: None,
            unknown_until: (!known).then(|| clock.elapsed().saturating_add(limits.handshake)),
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
            let here = self.passing.min(self.intake.buffer.len() - end);
            self.passing -= here;
            end += here;
            if self.passing > 0 {
                break;
            }
            let rest = self.intake.buffer.get(end..).unwrap_or_default();
            let start = match RequestStart::parse(rest, self.start_bytes_max) {
                Ok(Some(start)) => start,
                Ok(None) => break,
                Err(error) => return Err(self.refuse(&error)),
            };
            let way = way(&start);
            // One that is too large to be read only passes.
            let gathers = way == Way::Gather && start.bytes <= self.bytes_max;
            if gathers || way == Way::Answer {
                if end > 0 {
                    break;
                }
                self.awaited = start.bytes;
                return if gathers { Ok(self.gathered(start)) } else { self.whole() };
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
        Ok(Sent::Passing(self.intake.buffer.split_to(end)))
    }

    fn whole(&mut self) -> Result<Sent, Cause> {
        match split(&mut self.intake.buffer, self.bytes_max) {
            Ok(Some(frame)) => {
                self.begun = None;
                if self.unknown_until.is_none() {
                    self.trust();
                }
                self.awaited = 0;
                Ok(Sent::Frame(Frame { bytes: frame, room: self.room.take() }))
            }
            Ok(None) => Ok(Sent::Nothing),
            Err(error) => Err(self.refuse(&StartError::Frame(error))),
        }
    }

    /// The client is known: it may send what it likes.
    pub(super) fn trust(&mut self) {
        self.unknown_until = None;
        self.bytes_max = self.limits.frame_bytes;
        self.start_bytes_max = self.limits.frame_bytes;
    }

    /// The next bytes behind a length, whatever they are.
    pub(super) fn bare(&mut self) -> Result<Option<Frame>, Cause> {
        let split = split(&mut self.intake.buffer, self.bytes_max);
        let bytes = split.map_err(|error| self.refuse(&StartError::Frame(error)))?;
        if bytes.is_some() {
            self.begun = None;
        }
        Ok(bytes.map(|bytes| Frame { bytes, room: None }))
    }

    fn gathered(&mut self, start: RequestStart) -> Sent {
        if self.intake.buffer.len() < start.bytes {
            return Sent::Nothing;
        }
        self.begun = None;
        self.awaited = 0;
        let bytes = self.intake.buffer.split_to(start.bytes);
        Sent::Gathered(Gathered { start, bytes, room: self.room.take() })
    }

    /// Reads once. `idle`: nobody waits for an answer on this connection, so silence counts
    /// against `limits.idle`. Cancel-safe: what was read stays in the buffer.
    pub(super) async fn fill(&mut self, idle: bool) -> Result<(), Cause> {
        if self.awaited > READ_BYTES && self.room.is_none() {
            self.room = self.intake.budget().admit(self.awaited).await;
            // Until then it was not the client that took its time.
            self.begun = None;
        }
        let (patience, cause) = if !self.intake.buffer.is_empty() {
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
        let (patience, cause) = match self.unknown_until {
            Some(until) => {
                let left = until.saturating_sub(self.clock.elapsed());
                if left < patience { (left, Cause::Slow) } else { (patience, cause) }
            }
            None => (patience, cause),
        };
        let read = tokio::select! {
            biased;
            read = self.intake.fill() => read,
            () = self.alarm.after(self.clock, patience) => return Err(cause),
        };
        match read {
            Ok(0) => Err(Cause::Client),
            Ok(_) => Ok(()),
            Err(error) => Err(of_io(&error)),
        }
    }

    /// No request is half passed on: another may go in between.
    pub(super) fn is_between_requests(&self) -> bool {
        self.passing == 0
    }

    /// Ends a while after the client has gone: what it asked for last is done if it can be, and
    /// not waited for if it cannot. Cancel-safe: what comes meanwhile stays in the buffer.
    pub(super) async fn gone(&mut self, conn: &Conn) -> Cause {
        let cause = loop {
            if self.intake.buffer.len() >= READ_BYTES_MIN {
                return std::future::pending().await;
            }
            match self.intake.fill().await {
                Ok(0) => break Cause::Client,
                Ok(_) => {}
                Err(error) => break of_io(&error),
            }
        };
        conn.close();
        tokio::time::sleep(self.limits.handshake).await;
        cause
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
