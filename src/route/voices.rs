//! Connections of clients to brokers on which a question of ours may be asked: there the cluster
//! judges the member's own principal. A broker answers in order, so a question waits for what the
//! client asked before it, a long poll included.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::model::{GroupId, Origin};
use crate::route::Router;
use crate::route::conn::Conn;
use crate::route::token::{Token, Tokens};
use crate::route::watching::Whose;
use crate::upstream::{Found, Question};

/// Questions that wait on one connection.
const WAITING_MAX: usize = 16;
/// Who has not answered by then is not waited for alone: its client's long poll goes first, 500 ms by
/// default, and some clients' lasts 5 s.
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
    /// Whose Fetches come there, as far as that was found out.
    whose: Arc<Mutex<Option<Whose>>>,
    questions: mpsc::Sender<Question>,
}

/// How it is known that a connection is a member's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KnownBy {
    /// Its address, or its listener.
    Address,
    /// These, or that its Fetches are taken for a member's: behind TLS addresses tell nothing. Good
    /// enough for who is trusted anyway, not for another client's question.
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
    /// Without an address that tells more.
    fn fetches_for(&self, group: &GroupId) -> bool {
        self.token.is_none() && lock(&self.whose).as_ref().and_then(Whose::group) == Some(group)
    }
}

impl Router {
    /// Makes a connection to a broker one that may be asked through, where it can be known whose
    /// it is.
    pub fn voice(&self, conn: &Conn) -> Option<Voice> {
        let node = conn.node?;
        let whose = conn.last_whose();
        let is_members = || lock(&whose).as_ref().is_some_and(|whose| whose.group().is_some());
        if conn.token.is_none() && conn.group.is_none() && !is_members() {
            return None;
        }
        let (sender, questions) = mpsc::channel(WAITING_MAX);
        let place = (node, conn.id);
        let (token, group) = (conn.token, conn.group.clone());
        let speaker = Speaker { token, group, whose, questions: sender };
        lock(&self.voices.0).insert(place, speaker);
        Some(Voice { place, all: Arc::clone(&self.voices.0), questions })
    }

    /// Brokers at which somebody may be asked through: that one, or all where it is not known.
    pub(super) fn voices_at(&self, node: Option<i32>) -> BTreeSet<i32> {
        let all = lock(&self.voices.0);
        let nodes = all.keys().map(|(known, _)| *known);
        nodes.filter(|known| node.is_none_or(|node| node == *known)).collect()
    }

    /// Connections on which members of `group` may ask that broker.
    pub(super) fn voices_of(
        &self,
        group: &GroupId,
        by: KnownBy,
        node: i32,
    ) -> Vec<mpsc::Sender<Question>> {
        self.voices.of(&self.tokens, (group, by), node)
    }
}

impl Voice {
    /// The next question.
    pub async fn question(&mut self) -> Option<Question> {
        self.questions.recv().await
    }
}

/// Asks one connection after the other until one of them says what counts: each once the one before
/// has answered, or has taken its time; that one may answer still. Nothing bounds how long it takes.
/// `None`: nothing that counts was said.
pub(super) async fn ask_in_turn(
    voices: Vec<mpsc::Sender<Question>>,
    origin: Origin,
    counts: fn(&Found) -> bool,
) -> Option<Found> {
    let mut asked = JoinSet::new();
    let mut voices = voices.into_iter();
    loop {
        let next = voices.next();
        let is_last = next.is_none();
        if let Some(voice) = next {
            asked.spawn(ask(voice, origin.clone()));
        }
        let told = if is_last {
            asked.join_next().await
        } else {
            let Ok(told) = timeout(ALONE, asked.join_next()).await else { continue };
            told
        };
        match told {
            Some(Ok(Some(found))) if counts(&found) => return Some(found),
            None => return None,
            Some(_) => {}
        }
    }
}

/// What the broker at the other end of a connection says; `None`: the connection ends before.
async fn ask(voice: mpsc::Sender<Question>, origin: Origin) -> Option<Found> {
    let (reply, answer) = oneshot::channel();
    voice.send(Question { origin, reply }).await.ok()?;
    answer.await.ok()
}

impl Drop for Voice {
    fn drop(&mut self) {
        lock(&self.all).remove(&self.place);
    }
}

fn lock<T>(all: &Mutex<T>) -> MutexGuard<'_, T> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}
