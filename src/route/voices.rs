//! Connections of clients to brokers on which a question of ours may be asked: there the cluster
//! judges the member's own principal. A broker answers in order, so a question waits for what the
//! client asked before it, a long poll included.

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
use crate::route::conn::Conn;
use crate::route::delivery::FetchOwner;
use crate::route::token::{Token, Tokens};
use crate::upstream::{Found, Question, UpstreamError};

/// Questions that wait on one connection: those of one Produce.
const WAITING_MAX: usize = 64;
/// Who has not answered by then is not waited for alone: its client's long poll goes first, 500 ms
/// by default, and some clients' lasts 5 s.
const ALONE: Duration = Duration::from_millis(1500);

/// A broker and a connection to it.
type Place = (i32, u64);

/// Who may be asked through, by broker.
#[derive(Debug, Default)]
pub struct Voices(Arc<Mutex<BTreeMap<Place, Speaker>>>);

#[derive(Debug)]
struct Speaker {
    token: Option<Token>,
    /// Of a listener that is one group's.
    group: Option<GroupId>,
    fetch_owner: Arc<Mutex<Option<FetchOwner>>>,
    questions: mpsc::Sender<Question>,
}

/// How it is known that a connection is a member's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KnownBy {
    /// Its address, or its listener.
    Address,
    /// Also its Fetches, if client id and host attribute them: TLS clients have no address. Enough
    /// for the operator's question, not for another client's.
    Fetches,
}

/// The connection's end: it is asked through as long as this is held.
#[derive(Debug)]
pub struct Voice {
    place: Place,
    all: Arc<Mutex<BTreeMap<Place, Speaker>>>,
    questions: mpsc::Receiver<Question>,
}

impl Voices {
    /// Connections of members of `group` to that broker.
    fn of(
        &self,
        tokens: &Tokens,
        (group, by): (&GroupId, KnownBy),
        node: i32,
    ) -> Vec<mpsc::Sender<Question>> {
        let all = lock(&self.0);
        let speakers = all.range((node, 0)..=(node, u64::MAX)).map(|(_, speaker)| speaker);
        let is_theirs = |speaker: &&Speaker| {
            speaker.group.as_ref() == Some(group)
                || speaker.token.is_some_and(|token| tokens.member(token, group).is_some())
                || (by == KnownBy::Fetches && speaker.fetches_for(group))
        };
        speakers.filter(is_theirs).map(|speaker| speaker.questions.clone()).collect()
    }
}

impl Speaker {
    /// A client address would tell the member.
    fn fetches_for(&self, group: &GroupId) -> bool {
        self.token.is_none()
            && lock(&self.fetch_owner).as_ref().and_then(FetchOwner::group) == Some(group)
    }
}

impl Router {
    /// Makes a connection to a broker one that may be asked through, where it can be known whose
    /// it is.
    pub fn voice(&self, conn: &Conn) -> Option<Voice> {
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
        let speaker = Speaker { token, group, fetch_owner, questions: sender };
        lock(&self.voices.0).insert(place, speaker);
        Some(Voice { place, all: Arc::clone(&self.voices.0), questions })
    }

    /// Asks members of `group` for a record: at that broker, or at every broker at once where the
    /// leader is unknown. Brokers that do not lead say so.
    pub(super) async fn said_to_members(
        &self,
        group: &GroupId,
        node: Option<i32>,
        origin: &Origin,
    ) -> Result<Option<Found>, UpstreamError> {
        let counts = |found: &Found| !matches!(found, Found::Elsewhere);
        let mut told = FuturesUnordered::new();
        for node in self.voices_at(node) {
            told.push(in_turn(self.said_to(group, KnownBy::Fetches, node, origin), counts));
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

    /// What that broker says of a record to members of `group`.
    pub(super) fn said_to<'a>(
        &self,
        group: &GroupId,
        by: KnownBy,
        node: i32,
        origin: &Origin,
    ) -> Vec<Saying<'a>> {
        let voices = self.voices.of(&self.tokens, (group, by), node).into_iter();
        let said = |voice| -> Saying<'a> { Box::pin(ask(voice, origin.clone())) };
        voices.map(said).collect()
    }

    /// Brokers at which somebody may be asked through: that one, or all where it is not known.
    fn voices_at(&self, node: Option<i32>) -> BTreeSet<i32> {
        let all = lock(&self.voices.0);
        let nodes = all.keys().map(|(known, _)| *known);
        nodes.filter(|known| node.is_none_or(|node| node == *known)).collect()
    }
}

impl Voice {
    /// The next question that somebody still waits for. Cancel-safe.
    pub async fn question(&mut self) -> Option<Question> {
        loop {
            let question = self.questions.recv().await?;
            if !question.reply.is_closed() {
                return Some(question);
            }
        }
    }
}

/// What somebody says of a record, who is asked with the first poll.
pub(super) type Saying<'a> =
    Pin<Box<dyn Future<Output = Result<Found, UpstreamError>> + Send + 'a>>;

/// Asks one after the other until one of them says what counts: each once the one before has
/// answered, or has taken its time; that one may answer still. Nothing bounds how long it takes.
/// `None`: nothing that counts was said. An error: nor was it, and somebody has not answered.
pub(super) async fn in_turn(
    sayings: Vec<Saying<'_>>,
    counts: fn(&Found) -> bool,
) -> Result<Option<Found>, UpstreamError> {
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

/// What the broker at the other end of a connection says.
async fn ask(voice: mpsc::Sender<Question>, origin: Origin) -> Result<Found, UpstreamError> {
    let (reply, answer) = oneshot::channel();
    let sent = voice.send(Question { origin, reply }).await;
    sent.map_err(|_| UpstreamError::Closed)?;
    answer.await.map_err(|_| UpstreamError::Closed)
}

impl Drop for Voice {
    fn drop(&mut self) {
        lock(&self.all).remove(&self.place);
    }
}

fn lock<T>(all: &Mutex<T>) -> MutexGuard<'_, T> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}
