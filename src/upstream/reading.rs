//! Reads single records back from the cluster on the sidecar's own connections.

use std::time::Duration;

use crate::model::Origin;
use crate::upstream::record::{FETCH_ANYWHERE, OriginAnswer, answer_for, fetch};
use crate::upstream::topic::LeaderLookup;
use crate::upstream::{Upstream, UpstreamError};
use crate::wire::Api;

/// Attempts to read one record, each with a new look-up of the leader.
const ATTEMPTS_MAX: usize = 3;

/// Brokers that must report no such partition before it counts as removed; all of a smaller
/// cluster.
const WITNESSES: usize = 2;

/// Leaders cached at most; others are looked up again.
const LEADERS_MAX: usize = 10_000;

/// After this time without an answer the request is sent again on another connection.
const PATIENCE: Duration = Duration::from_secs(2);

impl Upstream {
    /// Reads the record at `origin` with the sidecar's own credentials. Never returns
    /// [`OriginAnswer::Elsewhere`]; after an error a later call may succeed.
    pub async fn read_record(&self, origin: &Origin) -> Result<OriginAnswer, UpstreamError> {
        let mut is_closed = false;
        for _ in 0..ATTEMPTS_MAX {
            match self.read_once(origin).await {
                Ok(OriginAnswer::Elsewhere) | Err(UpstreamError::TooSlow) => is_closed = false,
                Ok(answer) => return Ok(answer),
                // The cached connection may be older than a restart of its broker: a new one
                // decides.
                Err(UpstreamError::Closed | UpstreamError::Io(_)) => is_closed = true,
                Err(error) => return Err(error),
            }
        }
        // A broker closes the connection of a client that does not authenticate.
        if is_closed { Ok(OriginAnswer::Denied) } else { Err(UpstreamError::NoLeader) }
    }

    async fn read_once(&self, origin: &Origin) -> Result<OriginAnswer, UpstreamError> {
        let partition = (origin.topic.clone(), origin.partition);
        // The leader is cached again only after a whole answer.
        let known = self.reading.state().leaders.remove(&partition);
        let leader = match known {
            Some(leader) => leader,
            None => match self.look_up_leader(origin).await? {
                LeaderLookup::LedBy(leader) => leader,
                LeaderLookup::Unled | LeaderLookup::Unknown => return Ok(OriginAnswer::Elsewhere),
                LeaderLookup::Denied => return Ok(OriginAnswer::Denied),
                LeaderLookup::Nowhere => return Ok(OriginAnswer::Gone),
            },
        };
        let answer = in_time(async {
            let links = self.reading.links(Some(leader));
            let (mut links, request) = (links.lock().await, fetch(origin));
            links.call(self, Some(leader), (Api::Fetch, FETCH_ANYWHERE), &request).await
        });
        let answer = answer_for(&answer.await?, origin);
        let mut state = self.reading.state();
        if matches!(answer, OriginAnswer::Record(_)) && state.leaders.len() < LEADERS_MAX {
            state.leaders.insert(partition, leader);
        }
        Ok(answer)
    }

    /// Looks up the partition's leader. A broker that lags behind the cluster may not know the
    /// partition yet. So the answer "unknown" is checked with other brokers.
    async fn look_up_leader(&self, origin: &Origin) -> Result<LeaderLookup, UpstreamError> {
        let lookup = self.look_up_leader_at(None, origin).await?;
        if lookup != LeaderLookup::Unknown {
            return Ok(lookup);
        }
        let nodes = self.nodes_in_turn();
        let enough = nodes.len().min(WITNESSES);
        let mut agree = 0;
        for node in nodes.into_iter().take(ATTEMPTS_MAX) {
            match in_time(self.look_up_leader_at(Some(node), origin)).await {
                Ok(LeaderLookup::Unknown) => agree += 1,
                Ok(lookup) => return Ok(lookup),
                Err(error) => tracing::debug!(%origin, node, %error, "nothing is said of it"),
            }
            if agree == enough {
                return Ok(LeaderLookup::Nowhere);
            }
        }
        Ok(LeaderLookup::Unknown)
    }

    async fn look_up_leader_at(
        &self,
        node: Option<i32>,
        origin: &Origin,
    ) -> Result<LeaderLookup, UpstreamError> {
        let links = self.reading.links(node);
        let mut links = links.lock().await;
        Ok(self
            .see_topic_at(&mut links, node, &origin.topic)
            .await?
            .leader_lookup(origin.partition))
    }
}

async fn in_time<T>(
    call: impl Future<Output = Result<T, UpstreamError>>,
) -> Result<T, UpstreamError> {
    tokio::time::timeout(PATIENCE, call).await.unwrap_or(Err(UpstreamError::TooSlow))
}
