//! One connection: requests in, answers out in the order of the requests.
//!
//! ```text
//! client ─▶ inbox ─┬─ passes ───────────▶ link ─▶ broker
//!                  └─ route ─▶ answer          (in front of a cluster)
//! client ◀─ replies in request order ◀──── link ◀─ broker
//! ```
//! A Produce may follow a Produce that waits for its fdatasync, and a relayed request may follow a
//! relayed one. Any other request waits until all earlier ones are answered, as in Kafka. The
//! records of a Produce are appended when its frame is taken, so overlap never changes their order.

mod ahead;
mod ends;
mod fetches;

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::client::ClientLimits;
use crate::client::close_cause::CloseCause;
use crate::client::leave_signal::LeaveSignal;
use crate::client::log_rate_limit::LogRateLimit;
use crate::client::outgoing;
use crate::client::pending_responses::{
    Dues, InjectedResponse, LocalResponse, PendingResponse, RelayedResponse,
};
use crate::client::request_reader::{ClientInput, RequestFrame, RequestReader};
use crate::route::clients::conn::Conn;
use crate::route::clients::member_connections::MemberConnection;
use crate::route::nacks::origin_records::ReadBack;
use crate::route::{Reply, Router};
use crate::socket::{AcceptError, Budget, ReadBuffer, ReadHalf, ServerTls, WriteHalf, plain};
use crate::upstream::{Arrived, Link, LinkWriter, Question, RelayTiming, UpstreamError};
use crate::wire::endpoints::Naming;
use crate::wire::relay::RequestStart;
use crate::wire::{Api, HeadError, RequestHead};

/// Time for TLS `close_notify` when the client has stopped reading.
const GOODBYE: Duration = Duration::from_secs(1);

/// One accepted connection.
pub(super) struct Connection {
    pub(super) conn: Conn,
    pub(super) router: Arc<Router>,
    pub(super) limits: ClientLimits,
    pub(super) notices: LogRateLimit,
    pub(super) stop: watch::Receiver<bool>,
    pub(super) leaving: LeaveSignal,
}

impl Connection {
    /// Serves the connection to its end.
    pub(super) async fn run(&self, stream: TcpStream, tls: Option<ServerTls>) -> CloseCause {
        let mut stop = self.stop.clone();
        let opened = tokio::select! {
            opened = self.open(stream, tls) => opened,
            _ = stop.wait_for(|stop| *stop) => Err(CloseCause::Stop),
        };
        let (read, write) = match opened {
            Ok(halves) => halves,
            Err(cause) => return cause,
        };
        let passes = self.router.upstream.is_some();
        let mut serving = ServedConnection {
            connection: self,
            inbox: RequestReader::new(
                ReadBuffer::new(read, &self.router.budget),
                self.conn.peer,
                self.limits,
                self.router.clock,
                self.notices.clone(),
                passes,
                self.conn.session.is_known(),
            ),
            write,
            due: Dues::new(),
            held: None,
            link: None,
            voice: None,
            question: None,
            asked: 0,
            in_sasl: false,
        };
        let cause = tokio::select! {
            biased;
            cause = serving.serve() => cause,
            _ = stop.wait_for(|stop| *stop) => CloseCause::Stop,
        };
        // The client may have gone, so the result does not matter.
        drop(tokio::time::timeout(GOODBYE, serving.write.close()).await);
        cause
    }

    /// The halves of the connection, after the handshake if the listener has TLS.
    async fn open(
        &self,
        stream: TcpStream,
        tls: Option<ServerTls>,
    ) -> Result<(ReadHalf, WriteHalf), CloseCause> {
        stream.set_nodelay(true).map_err(|_| CloseCause::Io)?;
        let Some(tls) = tls else { return Ok(plain(stream)) };
        let accepting = Box::pin(tls.accept(stream, &self.router.budget));
        match tokio::time::timeout(self.limits.handshake, accepting).await {
            Ok(Ok(halves)) => Ok(halves),
            Ok(Err(AcceptError::Closed)) => Err(CloseCause::Client),
            Ok(Err(error)) => {
                self.closes(CloseCause::Tls, &error);
                Err(CloseCause::Tls)
            }
            Err(_) => Err(CloseCause::Slow),
        }
    }

    /// The answer to a request with an unsupported version, or the reason to close.
    fn refuse(&self, error: &HeadError) -> Result<Reply, CloseCause> {
        if let HeadError::UnsupportedVersion { api: Api::ApiVersions, correlation_id, .. } = error {
            return Ok(self.router.unsupported_api_versions(*correlation_id));
        }
        if let HeadError::UnknownApi { api_key, version, correlation_id } = error {
            let key = (*api_key, *version);
            if let Some(reply) = self.router.unserved(&self.conn, key, *correlation_id) {
                return Ok(reply);
            }
        }
        self.closes(CloseCause::Protocol, error);
        self.router.metrics.request_error("unknown", "unsupported_version");
        Err(CloseCause::Protocol)
    }

    /// The answer to a request, made with data of the broker if it is needed.
    async fn answer(
        &self,
        link: &mut Option<Link>,
        frame: RequestFrame,
    ) -> Result<Reply, CloseCause> {
        let Self { router, conn, .. } = self;
        if conn.session.awaits_bare_token() {
            if router.upstream.is_none() {
                return Ok(router.bare_token(conn, frame.bytes).await);
            }
            let link = self.linked(link).await?;
            let passed = router.bare_token_with(conn, link, &frame.bytes).await;
            return passed.map_err(|error| self.upstream_lost(&error));
        }
        match RequestHead::parse(&frame.bytes) {
            Ok(head) => {
                conn.heard(head.client_id.as_ref().map(crate::model::ClientId::as_str));
                if router.upstream.is_some() {
                    if head.api == Api::Produce {
                        return self.produce(link, head).await;
                    }
                    let link = self.linked(link).await?;
                    return Ok(Box::pin(router.answer_with(conn, link, head)).await);
                }
                Ok(router.answer(conn, head, ReadBack::default()).await)
            }
            Err(error) => self.refuse(&error),
        }
    }

    /// The connection to the broker, opened now if there is none.
    async fn linked<'a>(&self, link: &'a mut Option<Link>) -> Result<&'a mut Link, CloseCause> {
        let known = if let Some(known) = link.take() {
            known
        } else {
            let Some(upstream) = &self.router.upstream else { return Err(CloseCause::Io) };
            let dialled = Box::pin(upstream.dial(self.conn.node)).await;
            dialled.map_err(|error| self.upstream_lost(&error))?
        };
        Ok(link.insert(known))
    }

    async fn send(&self, write: &mut WriteHalf, reply: Reply) -> Result<(), CloseCause> {
        let Router { metrics, budget, .. } = &*self.router;
        let (frame, is_short): (_, fn(&Budget) -> bool) = match &reply {
            Reply::Nothing => return Ok(()),
            Reply::Frame(frame) => (frame, Budget::is_full),
            Reply::Large(frame, _) => (frame, Budget::is_wanted),
            Reply::Last(frame, why) => {
                metrics.request_bytes(0, bytes_of(frame));
                let cause = self.at_fault(why);
                return outgoing::send(write, frame, self.limits.idle).await.and(Err(cause));
            }
            Reply::Close(why) => return Err(self.at_fault(why)),
        };
        metrics.request_bytes(0, bytes_of(frame));
        let _unsent = budget.charge(frame.len());
        outgoing::send_made(write, frame, &self.limits, || is_short(budget)).await
    }
}

/// The state of a connection while it is served.
struct ServedConnection<'a> {
    connection: &'a Connection,
    inbox: RequestReader,
    write: WriteHalf,
    due: Dues<'a>,
    /// A request that waits until all earlier answers are sent.
    held: Option<RequestFrame>,
    /// The connection to the broker, opened for the first request that needs it.
    link: Option<Link>,
    /// Requests of the sidecar to this member's broker.
    voice: Option<MemberConnection>,
    /// The next of these requests.
    question: Option<Question>,
    /// Requests sent so far, for their correlation ids.
    asked: i32,
    /// The client authenticates again (KIP-368): the broker gets no other request meanwhile.
    in_sasl: bool,
}

impl ServedConnection<'_> {
    /// Serves until there is a reason to end.
    async fn serve(&mut self) -> CloseCause {
        loop {
            if let Err(cause) = self.turn().await {
                return cause;
            }
        }
    }

    /// Does all that can be done now, then waits for the first event.
    async fn turn(&mut self) -> Result<(), CloseCause> {
        while self.pass_answers().await? {}
        let flushed = self.link.as_ref().is_none_or(|link| link.writer.is_empty());
        let alone = flushed && self.due.is_empty() && self.between_answers();
        if let Some(frame) = self.held.take_if(|_| alone) {
            return self.take_alone(frame).await;
        }
        let full = self.due.is_full(&self.connection.router.budget);
        let room = self.held.is_none() && flushed && !full;
        if room && self.inbox.may_be_asked_aside() && self.ask_aside()? {
            return Ok(());
        }
        if room && self.take_next().await? {
            return Ok(());
        }
        if room && self.due.is_empty() && self.inbox.has_ended() {
            return Err(CloseCause::Client);
        }
        self.wait(room && !self.inbox.has_ended()).await
    }

    /// Sends the next request of the sidecar to the broker; false when there is none.
    fn ask_aside(&mut self) -> Result<bool, CloseCause> {
        let connection = self.connection;
        if self.question.is_none() || self.in_sasl || connection.conn.session.awaits_bare_token() {
            return Ok(false);
        }
        let (Some(link), Some(question)) = (&mut self.link, self.question.take()) else {
            return Ok(false);
        };
        self.asked = self.asked.wrapping_add(1);
        let (correlation_id, client) = (self.asked, connection.conn.client());
        let frame = question.frame(correlation_id, client.as_str());
        let frame = frame.map_err(|error| connection.upstream_lost(&error))?;
        link.writer.push(frame.into());
        self.due.push(PendingResponse::Aside(InjectedResponse { correlation_id, question }));
        Ok(true)
    }

    /// Whether no answer of the broker is half forwarded.
    fn between_answers(&self) -> bool {
        self.link.as_ref().is_none_or(|link| link.reader.is_between_answers())
    }

    /// Whether no request has arrived, even in part, and no answer is pending.
    fn has_nothing_in_flight(&self) -> bool {
        self.due.is_empty()
            && self.held.is_none()
            && self.inbox.is_empty()
            && self.inbox.may_be_asked_aside()
    }

    /// Waits for bytes or for an answer; each branch is cancel-safe.
    async fn wait(&mut self, room: bool) -> Result<(), CloseCause> {
        let between = self.between_answers();
        let nothing_in_flight = room && self.has_nothing_in_flight();
        let Self { connection, inbox, write, due, link, voice, question, .. } = self;
        let idle = due.is_empty();
        let (reader, writer) = match link {
            Some(link) => (Some(&mut link.reader), Some(&mut link.writer)),
            None => (None, None),
        };
        let from_here = between && matches!(due.front(), Some(PendingResponse::Here(_)));
        tokio::select! {
            biased;
            reply = due.first_of_here(), if from_here => {
                due.pop();
                connection.send(write, reply).await
            }
            sent = flush(writer) => sent.map_err(|error| connection.upstream_lost(&error)),
            // Reads even when no answer is pending, to see the broker close its connection.
            came = async { match reader {
                Some(reader) => reader.fill().await,
                None => std::future::pending().await,
            } }, if !from_here => came.map_err(|error| connection.upstream_lost(&error)),
            asked = next_question(voice), if question.is_none() => {
                *question = asked;
                Ok(())
            }
            came = async {
                if room { inbox.fill(idle).await } else { Err(inbox.gone(&connection.conn).await) }
            } => came,
            // After the branch that reads: a request that has arrived is answered first.
            () = connection.leaving.begun(), if nothing_in_flight => Err(CloseCause::Stop),
        }
    }

    /// Forwards a broker's answer, as far as its turn has come; true: there may be more.
    async fn pass_answers(&mut self) -> Result<bool, CloseCause> {
        let Self { connection, write, due, link, voice, .. } = self;
        let Some(link) = link.as_mut().filter(|link| !link.reader.is_empty()) else {
            return Ok(false);
        };
        let router = &connection.router;
        let arrived = link.reader.arrived(|id, whole| match due.front() {
            Some(PendingResponse::There(passing)) if passing.correlation_id == id => {
                if passing.tracked.is_some() {
                    return RelayTiming::Apart;
                }
                match (passing.looked_at, whole) {
                    (Some(_), None) => return RelayTiming::Gather,
                    (Some(naming), Some(frame)) => match naming.names_brokers(frame) {
                        Ok(true) => return RelayTiming::Whole,
                        Ok(false) => {}
                        Err(_) => return RelayTiming::Never,
                    },
                    (None, _) => {}
                }
                passing.answered(router);
                // A client whose Fetch was answered is known to its broker as a member.
                if passing.api == Api::Fetch.name() && voice.is_none() {
                    *voice = router.voices.open(&connection.conn);
                }
                due.pop();
                RelayTiming::Now
            }
            Some(PendingResponse::Aside(aside)) if aside.correlation_id == id => {
                if whole.is_some() { RelayTiming::Whole } else { RelayTiming::Gather }
            }
            Some(PendingResponse::Here(_)) => RelayTiming::Later,
            Some(PendingResponse::There(_) | PendingResponse::Aside(_)) | None => {
                RelayTiming::Never
            }
        });
        match arrived.map_err(|error| connection.upstream_lost(&error))? {
            Arrived::Passing(bytes) if bytes.is_empty() => Ok(false),
            Arrived::Passing(bytes) => {
                router.metrics.request_bytes(0, bytes_of(&bytes));
                outgoing::send(write, &bytes, connection.limits.idle).await?;
                Ok(true)
            }
            Arrived::Apart { bytes, begins } => self.pass_apart(&bytes, begins).await,
            Arrived::Whole(frame) => {
                let passing = match due.pop() {
                    Some(PendingResponse::There(passing)) => passing,
                    Some(PendingResponse::Aside(InjectedResponse { correlation_id, question })) => {
                        let told = question.answered(correlation_id, &frame);
                        told.map_err(|error| connection.upstream_lost(&error))?;
                        return Ok(true);
                    }
                    _ => return Err(CloseCause::Io),
                };
                passing.answered(router);
                let Some(naming) = passing.looked_at else { return Err(CloseCause::Io) };
                let rewritten = router.without_brokers(&connection.conn, naming, &frame);
                let frame = Box::pin(rewritten).await;
                let frame = frame.map_err(|error| connection.upstream_lost(&error))?;
                connection.send(write, Reply::Frame(frame)).await?;
                Ok(true)
            }
        }
    }

    /// Takes the next request that has arrived; false when more bytes are needed.
    async fn take_next(&mut self) -> Result<bool, CloseCause> {
        if self.inbox.is_empty() {
            return Ok(false);
        }
        if self.connection.conn.session.awaits_bare_token() {
            self.held = self.inbox.bare()?;
            return Ok(self.held.is_some());
        }
        let Self { connection, inbox, due, in_sasl, .. } = self;
        let Connection { router, conn, .. } = connection;
        let way = |start: &RequestStart, buffer: &[u8]| router.way(conn, start, buffer);
        let passes = |start: &RequestStart, answered: bool| {
            *in_sasl = is_sasl(start.api_key);
            let api = Api::from_key(start.api_key).map_or("other", Api::name);
            if start.api_key == Api::Fetch.key() {
                router.metrics.fetch_unattributed();
                conn.begins(None);
            }
            if answered {
                let began = router.clock.elapsed();
                due.push(PendingResponse::There(RelayedResponse {
                    correlation_id: start.correlation_id,
                    api,
                    began,
                    looked_at: Naming::of(start.api_key, start.version),
                    tracked: None,
                }));
            } else {
                router.metrics.request(api, 0.0);
            }
        };
        match inbox.next(way, passes)? {
            ClientInput::Nothing => Ok(false),
            ClientInput::Passing(bytes) => {
                router.metrics.request_bytes(bytes_of(&bytes), 0);
                self.send_on(bytes).await?;
                Ok(true)
            }
            ClientInput::Frame(frame) => {
                router.metrics.request_bytes(bytes_of(&frame.bytes), 0);
                self.take(frame);
                Ok(true)
            }
            ClientInput::Gathered(gathered) => {
                router.metrics.request_bytes(bytes_of(&gathered.bytes), 0);
                self.take_gathered(gathered).await?;
                Ok(true)
            }
        }
    }

    /// A request that is answered here: a Produce at once, any other when its turn has come.
    fn take(&mut self, frame: RequestFrame) {
        let Connection { router, conn, .. } = self.connection;
        let Some((head, back)) = self.connection.at_once(&frame) else {
            self.held = Some(frame);
            return;
        };
        conn.heard(head.client_id.as_ref().map(crate::model::ClientId::as_str));
        let bytes = frame.bytes.len();
        let answering = router.answer(conn, head, back);
        self.due.push(PendingResponse::Here(LocalResponse::new(answering, bytes, frame.room)));
    }

    /// Answers a request while no other answer is pending. After the client has gone, the work on
    /// the answer ends within `ClientLimits::handshake`: a hanging broker would hold it for ever.
    async fn take_alone(&mut self, frame: RequestFrame) -> Result<(), CloseCause> {
        let Self { connection, inbox, write, link, voice, .. } = self;
        let is_fetch = frame.bytes.starts_with(&Api::Fetch.key().to_be_bytes());
        let reply = tokio::select! {
            reply = connection.answer(link, frame) => reply?,
            cause = inbox.gone(&connection.conn) => return Err(cause),
        };
        if connection.conn.session.is_known() {
            inbox.trust();
        }
        if is_fetch && voice.is_none() {
            *voice = connection.router.voices.open(&connection.conn);
        }
        connection.send(write, reply).await
    }

    /// Relays a request, as far as the system accepts it at once.
    async fn send_on(&mut self, bytes: BytesMut) -> Result<(), CloseCause> {
        let connection = self.connection;
        let writer = &mut self.linked().await?.writer;
        writer.push(bytes);
        writer.start().await.map_err(|error| connection.upstream_lost(&error))
    }

    /// The connection to the broker, opened now if there is none.
    async fn linked(&mut self) -> Result<&mut Link, CloseCause> {
        self.connection.linked(&mut self.link).await
    }
}

/// SaslHandshake and SaslAuthenticate.
fn is_sasl(api_key: i16) -> bool {
    matches!(api_key, 17 | 36)
}

async fn next_question(voice: &mut Option<MemberConnection>) -> Option<Question> {
    match voice {
        Some(voice) => voice.question().await,
        None => std::future::pending().await,
    }
}

async fn flush(writer: Option<&mut LinkWriter>) -> Result<(), UpstreamError> {
    match writer {
        Some(writer) if !writer.is_empty() => writer.flush().await,
        _ => std::future::pending().await,
    }
}

fn bytes_of(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}
