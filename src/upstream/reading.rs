//! Reads single records back from the cluster on connections of our own.

use std::collections::BTreeMap;

use tokio::sync::Mutex;

use crate::model::{Origin, TopicName};
use crate::upstream::record::{FETCH_ANYWHERE, Found, fetch, found};
use crate::upstream::{OwnLinks, Upstream, UpstreamError};
use crate::wire::Api;

/// A leader that has moved is asked for again, this often in all.
const ASKED_MAX: usize = 3;

/// Leaders remembered at most; one that is forgotten is asked for again.
const LEADERS_MAX: usize = 10_000;

/// Our own connections and what we have asked for.
#[derive(Debug, Default)]
pub(super) struct Reading(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    links: OwnLinks,
    leaders: BTreeMap<(TopicName, i32), i32>,
}

impl Upstream {
    /// What is found at `origin` on a connection of our own with our own credentials, never
    /// [`Found::Elsewhere`]. An error may be another time.
    pub async fn read_record(&self, origin: &Origin) -> Result<Found, UpstreamError> {
        let mut is_closed = false;
        for _ in 0..ASKED_MAX {
            match self.ask_for(origin).await {
                Ok(Found::Elsewhere) => is_closed = false,
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
        let mut reading = self.reading.0.lock().await;
        let partition = (origin.topic.clone(), origin.partition);
        let State { links, leaders } = &mut *reading;
        // Whatever ends this before its answer is whole takes the leader with it.
        let leader = match leaders.remove(&partition) {
            Some(leader) => leader,
            None => match self.leader(links, origin).await? {
                Some(Some(leader)) => leader,
                Some(None) => return Ok(Found::Elsewhere),
                None => return Ok(Found::Gone),
            },
        };
        let answer =
            links.call(self, Some(leader), (Api::Fetch, FETCH_ANYWHERE), &fetch(origin)).await?;
        let found = found(&answer, origin);
        if matches!(found, Found::Record(_)) && leaders.len() < LEADERS_MAX {
            leaders.insert(partition, leader);
        }
        Ok(found)
    }

    /// `None`: there is no such partition. `Some(None)`: nobody leads it now.
    async fn leader(
        &self,
        links: &mut OwnLinks,
        origin: &Origin,
    ) -> Result<Option<Option<i32>>, UpstreamError> {
        Ok(self.see_topic(links, &origin.topic).await?.partition(origin.partition))
    }
}
