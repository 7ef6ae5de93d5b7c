//! Member connections: connections of clients to brokers on which the sidecar may send requests, so
//! that the cluster checks the member's principal. A broker answers in order: a request of ours
//! waits for the client's earlier ones, long polls included.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::model::{GroupId, Origin};
use crate::route::Router;
use crate::route::clients::client_address::{ClientAddress, Tokens};
use crate::route::clients::conn::Conn;
use crate::route::delivery::FetchOwner;
use crate::upstream::{OriginAnswer, Question, UpstreamError};

/// Bound of requests that wait on one connection: those of one Produce.
const WAITING_MAX: usize = 64;
/// Wait for an answer before another connection is asked too. A client's long poll goes first: 500
/// ms by default, and 5 s in some clients.
const ALONE: Duration = Duration::from_millis(1500);

/// Node id of a broker and id of a connection to it.
type BrokerConnection = (i32, u64);

/// The usable connections, by broker.
#[derive(Debug, Default)]
pub struct MemberConnections(Arc<Mutex<BTreeMap<BrokerConnection, UsableConnection>>>);

#[derive(Debug)]
struct UsableConnection {
    token: Option<ClientAddress>,
    /// The group of a listener that is bound to one.
    group: Option<GroupId>,
    fetch_owner: Arc<Mutex<Option<FetchOwner>>>,
    questions: mpsc::Sender<Question>,
}

/// The proof that a connection belongs to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::route) enum MembershipProof {
    /// The client address, or the listener.
    Address,
    /// The attribution of its Fetches too, by client id and host, since TLS clients have no client
    /// address. It is enough for requests of the operator, not for those of another client.
    Fetches,
}

/// The connection's end of the queue; the connection is usable as long as this exists.
#[derive(Debug)]
pub struct MemberConnection {
    place: BrokerConnection,
    all: Arc<Mutex<BTreeMap<BrokerConnection, UsableConnection>>>,
    questions: mpsc::Receiver<Question>,
}

impl MemberConnections {
    /// Connections of members of `group` to that broker.
    fn of(
        &self,
        tokens: &Tokens,
        (group, by): (&GroupId, MembershipProof),
        node: i32,
    ) -> Vec<mpsc::Sender<Question>> {
        let all = lock(&self.0);
        let speakers = all.range((node, 0)..=(node, u64::MAX)).map(|(_, speaker)| speaker);
        let is_theirs = |speaker: &&UsableConnection| {
            speaker.group.as_ref() == Some(group)
                || speaker.token.is_some_and(|token| tokens.member(token, group).is_some())
                || (by == MembershipProof::Fetches && speaker.fetches_for(group))
        };
        speakers.filter(is_theirs).map(|speaker| speaker.questions.clone()).collect()
    }
}

impl UsableConnection {
    /// A connection with a client address is attributed by that address instead.
    fn fetches_for(&self, group: &GroupId) -> bool {
        self.token.is_none()
            && lock(&self.fetch_owner).as_ref().and_then(FetchOwner::group) == Some(group)
    }
}

impl Router {
    /// Makes a connection to a broker usable for requests, if its member can be known.
    pub fn voice(&self, conn: &Conn) -> Option<MemberConnection> {
        let node = conn.node?;
        let fetch_owner = conn.last_fetch_owner();
        let is_members =
            || lock(&fetch_owner).as_ref().is_some_and(|owner| owner.group().is_some());
        if conn.token.is_none() && conn.group.is_none() && !is_members() {
            return None;
        }
        let (sender, questions) = mpsc::channel(WAITING_MAX);
        let place = (node, conn.id);
        let (token, group) = (conn.token, conn.group.clone());
        let speaker = UsableConnection { token, group, fetch_owner, questions: sender };
        lock(&self.voices.0).insert(place, speaker);
        Some(MemberConnection { place, all: Arc::clone(&self.voices.0), questions })
    }

    /// Asks members of `group` for a record: at the leader, or at every broker at once if the
    /// leader is unknown. Other brokers answer that they do not lead.
    pub(in crate::route) async fn said_to_members(
        &self,
        group: &GroupId,
        node: Option<i32>,
        origin: &Origin,
    ) -> Result<Option<OriginAnswer>, UpstreamError> {
        let counts = |found: &OriginAnswer| !matches!(found, OriginAnswer::Elsewhere);
        let mut told = FuturesUnordered::new();
        for node in self.voices_at(node) {
            told.push(in_turn(self.said_to(group, MembershipProof::Fetches, node, origin), counts));
        }
        let mut unanswered = None;
        while let Some(told) = told.next().await {
            match told {
                Ok(Some(found)) => return Ok(Some(found)),
                Ok(None) => {}
                Err(error) => unanswered = Some(error),
            }
        }
        unanswered.map_or(Ok(None), Err)
    }

    /// Requests for a record at that broker, one for each connection of a member of `group`.
    pub(in crate::route) fn said_to<'a>(
        &self,
        group: &GroupId,
        by: MembershipProof,
        node: i32,
        origin: &Origin,
    ) -> Vec<PollRequest<'a>> {
        let voices = self.voices.of(&self.tokens, (group, by), node).into_iter();
        let said = |voice| -> PollRequest<'a> { Box::pin(ask(voice, origin.clone())) };
        voices.map(said).collect()
    }

    /// Brokers with a usable connection: `node`, or all of them if it is `None`.
    fn voices_at(&self, node: Option<i32>) -> BTreeSet<i32> {
        let all = lock(&self.voices.0);
        let nodes = all.keys().map(|(known, _)| *known);
        nodes.filter(|known| node.is_none_or(|node| node == *known)).collect()
    }
}

impl MemberConnection {
    /// The next request whose asker still waits. Cancel-safe.
    pub async fn question(&mut self) -> Option<Question> {
        loop {
            let question = self.questions.recv().await?;
            if !question.reply.is_closed() {
                return Some(question);
            }
        }
    }
}

/// A request for a record, which is sent with the first poll.
pub(super) type PollRequest<'a> =
    Pin<Box<dyn Future<Output = Result<OriginAnswer, UpstreamError>> + Send + 'a>>;

/// Sends the requests in turn until an answer counts. The next one is sent after an answer, or
/// after [`ALONE`]; an earlier request may still be answered. The total time is unbounded. `None`:
/// no answer counts. An error: no answer counts, and a request failed.
pub(in crate::route) async fn in_turn(
    sayings: Vec<PollRequest<'_>>,
    counts: fn(&OriginAnswer) -> bool,
) -> Result<Option<OriginAnswer>, UpstreamError> {
    let mut asked = FuturesUnordered::new();
    let mut sayings = sayings.into_iter();
    let mut unanswered = None;
    loop {
        let next = sayings.next();
        let is_last = next.is_none();
        asked.extend(next);
        let said = if is_last {
            asked.next().await
        } else {
            let Ok(said) = timeout(ALONE, asked.next()).await else { continue };
            said
        };
        match said {
            Some(Ok(found)) if counts(&found) => return Ok(Some(found)),
            Some(Ok(_)) => {}
            Some(Err(error)) => unanswered = Some(error),
            None => return unanswered.map_or(Ok(None), Err),
        }
    }
}

/// Sends one request through a member connection.
async fn ask(voice: mpsc::Sender<Question>, origin: Origin) -> Result<OriginAnswer, UpstreamError> {
    let (reply, answer) = oneshot::channel();
    let sent = voice.send(Question { origin, reply }).await;
    sent.map_err(|_| UpstreamError::Closed)?;
    answer.await.map_err(|_| UpstreamError::Closed)
}

impl Drop for MemberConnection {
    fn drop(&mut self) {
        lock(&self.all).remove(&self.place);
    }
}

fn lock<T>(all: &Mutex<T>) -> MutexGuard<'_, T> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}
