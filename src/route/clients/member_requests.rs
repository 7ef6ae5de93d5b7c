//! Requests of the sidecar on member connections.

use std::pin::Pin;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::model::{GroupId, Origin};
use crate::route::Router;
use crate::upstream::{OriginAnswer, Question, UpstreamError};

/// Wait for an answer before another connection is asked too. A client's long poll goes first: 500
/// ms by default, and 5 s in some clients.
const ALONE: Duration = Duration::from_millis(1500);

impl Router {
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
        for node in self.voices.brokers(node) {
            told.push(in_turn(self.said_to(group, node, origin), counts));
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
    fn said_to<'a>(&self, group: &GroupId, node: i32, origin: &Origin) -> Vec<PollRequest<'a>> {
        let voices = self.voices.of(&self.tokens, group, node).into_iter();
        let said = |voice| -> PollRequest<'a> { Box::pin(ask(voice, origin.clone())) };
        voices.map(said).collect()
    }
}

/// A request for a record, which is sent with the first poll.
type PollRequest<'a> =
    Pin<Box<dyn Future<Output = Result<OriginAnswer, UpstreamError>> + Send + 'a>>;

/// Sends the requests in turn until an answer counts. The next one is sent after an answer, or
/// after [`ALONE`]; an earlier request may still be answered. The total time is unbounded. `None`:
/// no answer counts. An error: no answer counts, and a request failed.
async fn in_turn(
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
