//! Connections of clients to brokers on which a question of ours may be asked: there the cluster
//! judges the member's own principal. A broker answers in order, so a question waits for what the
//! client asked before it, a long poll included.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;

use crate::model::GroupId;
use crate::route::Router;
use crate::route::conn::Conn;
use crate::route::token::{Token, Tokens};
use crate::upstream::Question;

/// Questions that wait on one connection.
const WAITING_MAX: usize = 16;

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
    questions: mpsc::Sender<Question>,
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
    fn of(&self, tokens: &Tokens, group: &GroupId, node: i32) -> Vec<mpsc::Sender<Question>> {
        let all = lock(&self.0);
        let speakers = all.range((node, 0)..=(node, u64::MAX)).map(|(_, speaker)| speaker);
        let is_theirs = |speaker: &&Speaker| {
            speaker.group.as_ref() == Some(group)
                || speaker.token.is_some_and(|token| tokens.member(token, group).is_some())
        };
        speakers.filter(is_theirs).map(|speaker| speaker.questions.clone()).collect()
    }
}

impl Router {
    /// Makes a connection to a broker one that may be asked through, where it can be known whose
    /// it is.
    pub fn voice(&self, conn: &Conn) -> Option<Voice> {
        let node = conn.node?;
        if conn.token.is_none() && conn.group.is_none() {
            return None;
        }
        let (sender, questions) = mpsc::channel(WAITING_MAX);
        let place = (node, conn.id);
        let speaker = Speaker { token: conn.token, group: conn.group.clone(), questions: sender };
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
    pub(super) fn voices_of(&self, group: &GroupId, node: i32) -> Vec<mpsc::Sender<Question>> {
        self.voices.of(&self.tokens, group, node)
    }
}

impl Voice {
    /// The next question.
    pub async fn question(&mut self) -> Option<Question> {
        self.questions.recv().await
    }
}

impl Drop for Voice {
    fn drop(&mut self) {
        lock(&self.all).remove(&self.place);
    }
}

fn lock(all: &Mutex<BTreeMap<Place, Speaker>>) -> MutexGuard<'_, BTreeMap<Place, Speaker>> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}
