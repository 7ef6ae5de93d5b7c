//! The request reader of a client: whole frames for requests that are answered here, runs of bytes
//! for relayed ones. Memory grows with the bytes that arrive, never with an announced length, and
//! not at all for a relayed frame.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};

use crate::client::ClientLimits;
use crate::client::close_cause::CloseCause;
use crate::client::idle_timer::IdleTimer;
use crate::client::log_rate_limit::LogRateLimit;
use crate::client::read_deadline::ReadDeadline;
use crate::clock::Clock;
use crate::route::clients::conn::Conn;
use crate::route::dispatch::RoutingDecision;
use crate::socket::{Admission, READ_BYTES_MIN, ReadBuffer};
use crate::wire::frame::PREFIX_BYTES;
use crate::wire::relay::{FrameStartError, RequestStart};
use crate::wire::{Api, split};

/// Interval of checks whether a client has gone, while its bytes are not read.
const LOOK: Duration = Duration::from_secs(1);

/// The next piece of a client's stream.
#[derive(Debug)]
pub(super) enum ClientInput {
    /// A whole frame, to be answered here.
    Frame(RequestFrame),
    /// A whole frame that is relayed once it is read.
    Gathered(GatheredRequest),
    /// Bytes to relay: the rest of a frame, whole frames, the beginning of one.
    Passing(BytesMut),
    /// More bytes are needed.
    Nothing,
}

/// A request that is answered here.
#[derive(Debug)]
pub(super) struct RequestFrame {
    /// Without its length prefix.
    pub(super) bytes: Bytes,
    /// The memory of a large request, until it is answered.
    pub(super) room: Option<Admission>,
}

/// A request that is read whole, and then relayed or answered here.
#[derive(Debug)]
pub(super) struct GatheredRequest {
    pub(super) start: RequestStart,
    /// With its length prefix.
    pub(super) bytes: BytesMut,
    /// The memory of a large request.
    pub(super) room: Option<Admission>,
}

impl GatheredRequest {
    /// Turns the request into one that is answered here.
    pub(super) fn into_frame(self) -> RequestFrame {
        let mut bytes = self.bytes.freeze();
        bytes.advance(PREFIX_BYTES.min(bytes.len()));
        RequestFrame { bytes, room: self.room }
    }
}

/// The reading half of a client's connection.
pub(super) struct RequestReader {
    intake: ReadBuffer,
    peer: SocketAddr,
    limits: ClientLimits,
    /// Largest frame that is read whole, in bytes; smaller for the first one.
    bytes_max: usize,
    /// Largest frame whose start is not read yet, in bytes: relayed frames cost no memory.
    start_bytes_max: usize,
    clock: Clock,
    notices: LogRateLimit,
    /// The read deadline of the frame that is arriving.
    pace: ReadDeadline,
    alarm: IdleTimer,
    /// Bytes of the relayed frame that have not arrived.
    passing: usize,
    /// Bytes of the frame that is read whole and has not arrived completely.
    awaited: usize,
    room: Option<Admission>,
    /// Deadline of the client's login.
    unknown_until: Option<Duration>,
    /// Whether the client sends no more; it may still wait for answers.
    ended: bool,
}

impl RequestReader {
    /// `passes`: frames may be relayed. `known`: the client needs no login.
    pub(super) fn new(
        intake: ReadBuffer,
        peer: SocketAddr,
        limits: ClientLimits,
        clock: Clock,
        notices: LogRateLimit,
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
            notices,
            pace: ReadDeadline::default(),
            alarm: IdleTimer::default(),
            passing: 0,
            awaited: 0,
            room: None,
            unknown_until: (!known).then(|| clock.elapsed().saturating_add(limits.handshake)),
            ended: false,
        }
    }

    /// The next piece among the bytes that have arrived. `way` decides about each frame from its
    /// start. `passes` is called for each relayed frame, with whether it has an answer.
    pub(super) fn next(
        &mut self,
        way: impl Fn(&RequestStart, &[u8]) -> Result<Option<RoutingDecision>, FrameStartError>,
        mut passes: impl FnMut(&RequestStart, bool),
    ) -> Result<ClientInput, CloseCause> {
        let mut end = 0;
        loop {
            let here = self.passing.min(self.intake.buffer.len() - end);
            self.passing -= here;
            end += here;
            if self.passing > 0 {
                break;
            }
            if here > 0 {
                self.pace.end();
            }
            let rest = self.intake.buffer.get(end..).unwrap_or_default();
            let start = match RequestStart::parse(rest, self.start_bytes_max) {
                Ok(Some(start)) => start,
                Ok(None) => break,
                Err(error) => return Err(self.refuse(&error)),
            };
            let way = match way(&start, rest) {
                Ok(Some(way)) => way,
                Ok(None) => break,
                Err(error) => return Err(self.refuse(&error)),
            };
            // A frame that is too large to be read is only relayed. No Produce is: each is looked
            // at.
            let is_read = start.bytes <= self.bytes_max || start.api_key == Api::Produce.key();
            let gathers = way == RoutingDecision::Gather && is_read;
            if gathers || way == RoutingDecision::Answer {
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
            return Ok(ClientInput::Nothing);
        }
        Ok(ClientInput::Passing(self.intake.buffer.split_to(end)))
    }

    fn whole(&mut self) -> Result<ClientInput, CloseCause> {
        match split(&mut self.intake.buffer, self.bytes_max) {
            Ok(Some(frame)) => {
                self.pace.end();
                if self.unknown_until.is_none() {
                    self.trust();
                }
                self.awaited = 0;
                Ok(ClientInput::Frame(RequestFrame { bytes: frame, room: self.room.take() }))
            }
            Ok(None) => Ok(ClientInput::Nothing),
            Err(error) => Err(self.refuse(&FrameStartError::Frame(error))),
        }
    }

    /// The client is logged in, so the usual limits apply.
    pub(super) fn trust(&mut self) {
        self.unknown_until = None;
        self.bytes_max = self.limits.frame_bytes;
        self.start_bytes_max = self.limits.frame_bytes;
    }

    /// The next bytes of a bare SASL token, behind their length.
    pub(super) fn bare(&mut self) -> Result<Option<RequestFrame>, CloseCause> {
        let split = split(&mut self.intake.buffer, self.limits.first_frame_bytes);
        let bytes = split.map_err(|error| self.refuse(&FrameStartError::Frame(error)))?;
        if bytes.is_some() {
            self.pace.end();
        }
        Ok(bytes.map(|bytes| RequestFrame { bytes, room: None }))
    }

    fn gathered(&mut self, start: RequestStart) -> ClientInput {
        if self.intake.buffer.len() < start.bytes {
            return ClientInput::Nothing;
        }
        self.pace.end();
        self.awaited = 0;
        let bytes = self.intake.buffer.split_to(start.bytes);
        ClientInput::Gathered(GatheredRequest { start, bytes, room: self.room.take() })
    }

    /// Reads once. `idle`: no answer is pending on this connection, so silence counts against
    /// `limits.idle`. Cancel-safe: bytes that were read stay in the buffer.
    pub(super) async fn fill(&mut self, idle: bool) -> Result<(), CloseCause> {
        self.admit().await;
        let (patience, cause) = if !self.intake.buffer.is_empty() || self.passing > 0 {
            let wanted = self.room.is_some() && self.intake.budget().is_wanted();
            (self.pace.patience(self.clock.elapsed(), &self.limits, wanted), CloseCause::Slow)
        } else if idle {
            (self.limits.idle, CloseCause::Idle)
        } else {
            (Duration::MAX, CloseCause::Idle)
        };
        let (patience, cause) = match self.unknown_until {
            Some(until) => {
                let left = until.saturating_sub(self.clock.elapsed());
                if left < patience { (left, CloseCause::Slow) } else { (patience, cause) }
            }
            None => (patience, cause),
        };
        if patience.is_zero() {
            // Ends even if another byte can always be read.
            return Err(cause);
        }
        let read = tokio::select! {
            biased;
            read = self.intake.fill() => read,
            () = self.alarm.after(self.clock, patience) => return Err(cause),
        };
        match read {
            Ok(0) => self.ended = true,
            Ok(bytes) => self.pace.came(bytes),
            Err(error) => return Err(CloseCause::of_io(&error)),
        }
        Ok(())
    }

    /// A request that fills a buffer and is still not whole waits for its turn. An announced length
    /// alone takes no memory of others.
    async fn admit(&mut self) {
        let (budget, free) = (self.intake.budget(), self.intake.room());
        if self.room.is_none() && self.awaited > free && self.intake.buffer.len() >= free / 2 {
            self.pace.pause(self.clock.elapsed());
            self.room = budget.admit(self.awaited).await;
            self.intake.expect(self.awaited);
        }
    }

    /// Whether no byte is left to take.
    pub(super) fn is_empty(&self) -> bool {
        self.intake.buffer.is_empty()
    }

    /// Whether the client has closed its side.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether a request of the sidecar may go to the broker now: no request is half relayed, and
    /// more may come.
    pub(super) fn may_be_asked_aside(&self) -> bool {
        self.passing == 0 && !self.ended
    }

    /// Completes some time after the client has gone: the work on its last request gets that time
    /// and no more. Cancel-safe: bytes that arrive meanwhile stay in the buffer.
    pub(super) async fn gone(&mut self, conn: &Conn) -> CloseCause {
        self.pace.pause(self.clock.elapsed());
        let cause = loop {
            if self.ended {
                break CloseCause::Client;
            }
            if self.intake.buffer.len() >= READ_BYTES_MIN {
                // More reading would take memory for requests that are not answered yet.
                if self.intake.has_ended() {
                    break CloseCause::Client;
                }
                tokio::time::sleep(LOOK).await;
                continue;
            }
            match self.intake.fill().await {
                Ok(0) => self.ended = true,
                Ok(_) => {}
                Err(error) => break CloseCause::of_io(&error),
            }
        };
        conn.close();
        tokio::time::sleep(self.limits.handshake).await;
        cause
    }

    fn refuse(&self, error: &FrameStartError) -> CloseCause {
        let peer = self.peer;
        self.notices.tell(CloseCause::Protocol, |more| {
            tracing::warn!(%peer, "R0100 connection closed: {error}{more}");
        });
        CloseCause::Protocol
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::advance;

    use super::*;
    use crate::clock::Hand;
    use crate::model::WallMs;
    use crate::socket::{Budget, plain};

    const LIMITS: ClientLimits = ClientLimits {
        connections: 1,
        per_ip: 1,
        frame_bytes: 100 << 20,
        first_frame_bytes: 8 << 20,
        upload_rate_min: 64 << 10,
        idle: Duration::from_mins(10),
        handshake: Duration::from_secs(30),
    };

    /// A client that has begun a Produce of 4 MiB, its inbox and the clock's hand.
    async fn begun(passes: bool) -> (TcpStream, RequestReader, Hand, std::net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut far = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (near, peer) = listener.accept().await.unwrap();
        let near = near.into_std().unwrap();
        let look = near.try_clone().unwrap();
        let (read, _write) = plain(TcpStream::from_std(near).unwrap());
        let (clock, hand) = Clock::told(WallMs(0));
        let intake = ReadBuffer::new(read, &Budget::new(64 << 20));
        let inbox =
            RequestReader::new(intake, peer, LIMITS, clock, LogRateLimit::new(clock), passes, true);
        // Version 8, no client id, no transactional id, acks all.
        let start = [0, 64, 0, 0, 0, 0, 0, 8, 0, 0, 0, 1, 255, 255, 255, 255, 255, 255];
        far.write_all(&start).await.unwrap();
        (far, inbox, hand, look)
    }

    /// Returns once the socket is readable: paused time advances as soon as all tasks wait, even
    /// with bytes still on their way.
    fn until_here(look: &std::net::TcpStream) {
        while look.peek(&mut [0]).is_err() {
            std::thread::yield_now();
        }
    }

    /// Seconds until the connection is cut at so many bytes per second; `None`: the frame became
    /// whole.
    async fn lasts(bytes: usize, way: RoutingDecision) -> Option<u64> {
        let passes = way == RoutingDecision::Pass;
        let (mut far, mut inbox, hand, look) = begun(passes).await;
        let mut left = (4 << 20) - 14;
        for second in 0..200 {
            until_here(&look);
            let asked = inbox.fill(true).await;
            if asked == Err(CloseCause::Slow) {
                return Some(second);
            }
            asked.unwrap();
            loop {
                match inbox.next(|_, _| Ok(Some(way)), |_, _| {}).unwrap() {
                    ClientInput::Frame(_) => return None,
                    ClientInput::Passing(_) if inbox.passing == 0 => return None,
                    ClientInput::Passing(_) | ClientInput::Gathered(_) => {}
                    ClientInput::Nothing => break,
                }
            }
            let piece = vec![0; bytes.min(left)];
            left -= piece.len();
            far.write_all(&piece).await.unwrap();
            hand.advance(1000);
            advance(Duration::from_secs(1)).await;
        }
        panic!("neither whole nor cut");
    }

    #[tokio::test(start_paused = true)]
    async fn a_trickling_request_is_cut_on_either_path() {
        for way in [RoutingDecision::Answer, RoutingDecision::Pass] {
            let cut = lasts(1, way).await.unwrap();
            assert!((29..=31).contains(&cut), "{way:?}: after {cut} s");
            assert_eq!(lasts(64 << 10, way).await, None, "{way:?}: slow, but within the rate");
        }
    }
}
