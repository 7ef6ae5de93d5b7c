//! Reads records of the cluster back for nacks without the record's bytes.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::timeout;

use crate::model::{Origin, TopicPartition};
use crate::route::Router;
use crate::route::clients::conn::Conn;
use crate::route::nacks::origin_records::{NamedOrigin, ReadBack};
use crate::upstream::{Link, OriginAnswer, UpstreamError};
use crate::wire::RequestHead;
use crate::wire::batch::RawRecord;

/// Bound for reading back all records of one Produce. A client waits at least 10 s for an answer.
const PATIENCE: Duration = Duration::from_secs(8);

/// Bound of parallel reads at other brokers.
const TOGETHER: usize = 64;

impl Router {
    /// Adds a record that the request names without its bytes.
    pub(in crate::route) fn add_named(&self, conn: &Conn, back: &mut ReadBack, of: NamedOrigin) {
        if back.records.contains_key(&of) || back.unread.contains(&of) {
            return;
        }
        if let Some(record) = self.origins.get(conn.id, &of.1) {
            back.put(&self.budget, of, Some(record));
            return;
        }
        let (group, origin) = of.clone();
        let reader =
            self.origins.reading().begin(group, TopicPartition::from(&origin), origin.offset);
        back.readers.push(reader);
        back.unread.insert(of);
    }

    /// Reads the records that a Produce names and that are not cached, as far as possible now. An
    /// error ends the connection.
    pub async fn read_back(
        &self,
        conn: &Conn,
        link: &mut Link,
        head: &RequestHead,
        back: &mut ReadBack,
    ) -> Result<(), UpstreamError> {
        self.read_within(PATIENCE, (conn, link, head), back).await
    }

    /// Asks the broker that this client authenticated at, then the leader with our own credentials.
    /// The leader is asked only if the cluster lets the client READ the topic. No client thus
    /// receives a record through us that it may not read.
    pub(in crate::route) async fn read_within(
        &self,
        patience: Duration,
        (conn, link, head): (&Conn, &mut Link, &RequestHead),
        back: &mut ReadBack,
    ) -> Result<(), UpstreamError> {
        let unbounded = std::mem::take(&mut back.unbounded);
        self.ask_bounds(link, head, unbounded.into_iter().collect()).await?;
        let began = self.clock.elapsed();
        let left = || patience.saturating_sub(self.clock.elapsed().saturating_sub(began));
        let (mut elsewhere, mut known) = (VecDeque::new(), BTreeSet::new());
        for of in back.unread() {
            if back.is_full || left().is_zero() {
                return Ok(());
            }
            let partition = TopicPartition::from(&of.1);
            if known.contains(&partition) {
                elsewhere.push_back(of);
                continue;
            }
            // A timeout ends the connection: a late answer would be taken for that of the next
            // request.
            let told = timeout(PATIENCE, self.ask_here(conn, link, head, &of.1)).await;
            match told.unwrap_or(Err(UpstreamError::TooSlow))? {
                BrokerAnswer::Here(found) => self.is_read(conn, back, of, found),
                BrokerAnswer::Elsewhere => {
                    known.insert(partition);
                    elsewhere.push_back(of);
                }
            }
        }
        let mut asked = FuturesUnordered::new();
        while !back.is_full {
            let room = TOGETHER.saturating_sub(asked.len()).min(elsewhere.len());
            asked.extend(elsewhere.drain(..room).map(|of| self.ask_leader(of)));
            let Ok(Some((of, told))) = timeout(left(), asked.next()).await else { break };
            match told {
                Ok(found) => self.is_read(conn, back, of, found),
                Err(why) => tracing::debug!(origin = %of.1, %why, "a failed record is not read"),
            }
        }
        Ok(())
    }

    fn is_read(&self, conn: &Conn, back: &mut ReadBack, of: NamedOrigin, found: Option<RawRecord>) {
        if let Some(record) = &found {
            self.origins.put(conn.id, of.1.clone(), record.clone());
        }
        back.put(&self.budget, of, found);
    }

    /// Asks the broker that this client has authenticated at.
    async fn ask_here(
        &self,
        conn: &Conn,
        link: &mut Link,
        head: &RequestHead,
        origin: &Origin,
    ) -> Result<BrokerAnswer, UpstreamError> {
        Ok(match link.read_record(conn.fetch_version(), head, origin).await? {
            OriginAnswer::Record(record) => BrokerAnswer::Here(Some(record)),
            OriginAnswer::Gone
            | OriginAnswer::Empty
            | OriginAnswer::Unreadable(_)
            | OriginAnswer::Denied => BrokerAnswer::Here(None),
            OriginAnswer::Elsewhere | OriginAnswer::Damaged => BrokerAnswer::Elsewhere,
        })
    }

    /// Asks the leader with our own credentials.
    async fn ask_leader(&self, of: NamedOrigin) -> (NamedOrigin, OriginResult) {
        let Some(upstream) = &self.upstream else { return (of, Ok(None)) };
        let told = upstream.read_record(&of.1).await;
        let told = told.map(|found| match found {
            OriginAnswer::Record(record) => Some(record),
            _ => None,
        });
        (of, told)
    }
}

/// A record, or `None` if it does not exist. An error: a later attempt may succeed.
type OriginResult = Result<Option<RawRecord>, UpstreamError>;

/// The answer of the broker at the client's connection.
enum BrokerAnswer {
    /// A record, or `None` if it does not exist.
    Here(Option<RawRecord>),
    /// The client may READ the topic, and the leader has to be asked.
    Elsewhere,
}
