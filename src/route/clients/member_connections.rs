//! Member connections: connections of clients to brokers on which the sidecar may send requests, so
//! that the cluster checks the member's principal. A broker answers in order: a request of ours
//! waits for the client's earlier ones, long polls included.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;

use crate::model::GroupId;
use crate::route::clients::client_address::{ClientAddress, Tokens};
use crate::route::clients::conn::Conn;
use crate::route::delivery::FetchOwner;
use crate::upstream::Question;

/// Bound of requests that wait on one connection: those of one Produce.
const WAITING_MAX: usize = 64;

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

/// The connection's end of the queue; the connection is usable as long as this exists.
#[derive(Debug)]
pub struct MemberConnection {
    place: BrokerConnection,
    all: Arc<Mutex<BTreeMap<BrokerConnection, UsableConnection>>>,
    questions: mpsc::Receiver<Question>,
}

impl MemberConnections {
    /// Makes a connection to a broker usable for requests, if its member can be known.
    pub fn open(&self, conn: &Conn) -> Option<MemberConnection> {
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
        lock(&self.0).insert(place, speaker);
        Some(MemberConnection { place, all: Arc::clone(&self.0), questions })
    }

    /// Brokers with a usable connection: `node`, or all of them if it is `None`.
    pub(super) fn brokers(&self, node: Option<i32>) -> BTreeSet<i32> {
        let all = lock(&self.0);
        let nodes = all.keys().map(|(known, _)| *known);
        nodes.filter(|known| node.is_none_or(|node| node == *known)).collect()
    }

    /// Connections of members of `group` to that broker: by client address, by listener, or by the
    /// attribution of their Fetches.
    pub(super) fn of(
        &self,
        tokens: &Tokens,
        group: &GroupId,
        node: i32,
    ) -> Vec<mpsc::Sender<Question>> {
        let all = lock(&self.0);
        let speakers = all.range((node, 0)..=(node, u64::MAX)).map(|(_, speaker)| speaker);
        let is_theirs = |speaker: &&UsableConnection| {
            speaker.group.as_ref() == Some(group)
                || speaker.token.is_some_and(|token| tokens.member(token, group).is_some())
                || speaker.fetches_for(group)
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

impl Drop for MemberConnection {
    fn drop(&mut self) {
        lock(&self.all).remove(&self.place);
    }
}

fn lock<T>(all: &Mutex<T>) -> MutexGuard<'_, T> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}
