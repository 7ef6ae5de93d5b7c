//! Reads single records back from the cluster on connections of our own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::model::{Origin, TopicName};
use crate::upstream::record::{FETCH_ANYWHERE, Found, fetch, found};
use crate::upstream::topic::Placed;
use crate::upstream::{OwnLinks, Upstream, UpstreamError};
use crate::wire::Api;

/// A leader that has moved is asked for again, this often in all.
const ASKED_MAX: usize = 3;

/// Brokers that know of no such partition, until it is taken for gone; all of a smaller cluster.
const WITNESSES: usize = 2;

/// Leaders remembered at most; one that is forgotten is asked for again.
const LEADERS_MAX: usize = 10_000;

/// A broker that has not answered by then is asked another time, on another connection.
const PATIENCE: Duration = Duration::from_secs(2);

/// Our own connections and what we have asked for.
#[derive(Debug, Default)]
pub(super) struct Reading(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// By node (`None`: any), so that one that hangs holds up nobody who asks another.
    links: BTreeMap<Option<i32>, Arc<tokio::sync::Mutex<OwnLinks>>>,
    leaders: BTreeMap<(TopicName, i32), i32>,
}

impl Reading {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn links(&self, node: Option<i32>) -> Arc<tokio::sync::Mutex<OwnLinks>> {
        Arc::clone(self.state().links.entry(node).or_default())
    }
}

impl Upstream {
    /// What is found at `origin` on a connection of our own with our own credentials, never
    /// [`Found::Elsewhere`]. An error may be another time.
    pub async fn read_record(&self, origin: &Origin) -> Result<Found, UpstreamError> {
        let mut is_closed = false;
        for _ in 0..ASKED_MAX {
            match self.ask_for(origin).await {
                Ok(Found::Elsewhere) | Err(UpstreamError::TooSlow) => is_closed = false,
                Ok(found) => return Ok(found),
                // A connection of before its broker went, perhaps: a new one tells.
                Err(UpstreamError::Closed | UpstreamError::Io(_)) => is_closed = true,
                Err(error) => return Err(error),
            }
        }
        // To close is how a broker treats those it does not know.
        if is_closed { Ok(Found::Denied) } else { Err(UpstreamError::NoLeader) }
    }

    async fn ask_for(&self, origin: &Origin) -> Result<Found, UpstreamError> {
        let partition = (origin.topic.clone(), origin.partition);
        // Whatever ends this before its answer is whole takes the leader with it.
        let known = self.reading.state().leaders.remove(&partition);
        let leader = match known {
            Some(leader) => leader,
            None => match self.placed(origin).await? {
                Placed::LedBy(leader) => leader,
                Placed::Unled | Placed::Unknown => return Ok(Found::Elsewhere),
                Placed::Denied => return Ok(Found::Denied),
                Placed::Nowhere => return Ok(Found::Gone),
            },
        };
        let answer = in_time(async {
            let links = self.reading.links(Some(leader));
            let (mut links, request) = (links.lock().await, fetch(origin));
            links.call(self, Some(leader), (Api::Fetch, FETCH_ANYWHERE), &request).await
        });
        let found = found(&answer.await?, origin);
        let mut state = self.reading.state();
        if matches!(found, Found::Record(_)) && state.leaders.len() < LEADERS_MAX {
            state.leaders.insert(partition, leader);
        }
        Ok(found)
    }

    /// Who leads the partition. Where the first who is asked knows of none, others are: one that
    /// lags behind the cluster knows as little of it.
    async fn placed(&self, origin: &Origin) -> Result<Placed, UpstreamError> {
        let told = self.placed_by(None, origin).await?;
        if told != Placed::Unknown {
            return Ok(told);
        }
        let nodes = self.nodes_in_turn();
        let enough = nodes.len().min(WITNESSES);
        let mut agree = 0;
        for node in nodes.into_iter().take(ASKED_MAX) {
            match in_time(self.placed_by(Some(node), origin)).await {
                Ok(Placed::Unknown) => agree += 1,
                Ok(told) => return Ok(told),
                Err(error) => tracing::debug!(%origin, node, %error, "nothing is said of it"),
            }
            if agree == enough {
                return Ok(Placed::Nowhere);
            }
        }
        Ok(Placed::Unknown)
    }

    async fn placed_by(&self, node: Option<i32>, origin: &Origin) -> Result<Placed, UpstreamError> {
        let links = self.reading.links(node);
        let mut links = links.lock().await;
        Ok(self.see_topic_at(&mut links, node, &origin.topic).await?.placed(origin.partition))
    }
}

async fn in_time<T>(
    asked: impl Future<Output = Result<T, UpstreamError>>,
) -> Result<T, UpstreamError> {
    tokio::time::timeout(PATIENCE, asked).await.unwrap_or(Err(UpstreamError::TooSlow))
}
