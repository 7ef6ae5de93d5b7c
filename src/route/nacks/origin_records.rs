//! Origin record cache: records of the cluster, read back for nacks without the record's bytes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lru::LruCache;
use tokio::time::timeout;

use crate::model::{GroupId, Origin, TopicName, TopicPartition};
use crate::route::Router;
use crate::route::clients::conn::Conn;
use crate::route::clients::member_connections::{MembershipProof, in_turn};
use crate::route::nacks::ongoing_reads::{OngoingReads, ReadGuard};
use crate::socket::{Budget, Charge};
use crate::upstream::{Link, OriginAnswer, UpstreamError};
use crate::wire::batch::RawRecord;
use crate::wire::{RequestHead, ResponseError};

/// Bound for reading back all records of one Produce. Long polls of members go first, up to 5 s in
/// some clients. A client waits at least 10 s for an answer.
const PATIENCE: Duration = Duration::from_secs(8);
/// Bound of parallel reads at other brokers: all of them wait for one long poll.
const TOGETHER: usize = 64;
/// Bound of cached records.
const RECORDS_MAX: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();
/// Bound of the cached bytes; a single larger record is still kept.
const BYTES_MAX: usize = 16 << 20;
/// Bound of the bytes of all records that one request names.
pub(in crate::route) const NAMED_BYTES_MAX: usize = 64 << 20;

/// Records read back recently, by connection: the cluster allowed only that client to read them.
#[derive(Debug)]
pub struct OriginRecordCache {
    known: Mutex<CachedRecords>,
    reading: OngoingReads,
}

#[derive(Debug)]
struct CachedRecords {
    records: LruCache<(u64, Origin), RawRecord>,
    bytes: usize,
}

impl Default for OriginRecordCache {
    fn default() -> Self {
        let known = Mutex::new(CachedRecords { records: LruCache::new(RECORDS_MAX), bytes: 0 });
        Self { known, reading: OngoingReads::default() }
    }
}

impl OriginRecordCache {
    /// The record, if it is cached for this connection.
    pub(in crate::route) fn get(&self, conn: u64, origin: &Origin) -> Option<RawRecord> {
        self.lock().records.get(&(conn, origin.clone())).cloned()
    }

    /// Forgets the records of a topic that was deleted or recreated.
    pub(in crate::route) fn forget(&self, topic: &TopicName) {
        let mut known = self.lock();
        let gone = known.records.iter().map(|(of, _)| of);
        let gone: Vec<_> = gone.filter(|(_, origin)| origin.topic == *topic).cloned().collect();
        for of in gone {
            let bytes = known.records.pop(&of).map_or(0, |record| record.payload_bytes());
            known.bytes = known.bytes.saturating_sub(bytes);
        }
    }

    fn put(&self, conn: u64, origin: Origin, record: RawRecord) {
        let mut known = self.lock();
        known.bytes = known.bytes.saturating_add(record.payload_bytes());
        if let Some((_, old)) = known.records.push((conn, origin), record) {
            known.bytes = known.bytes.saturating_sub(old.payload_bytes());
        }
        while known.bytes > BYTES_MAX && known.records.len() > 1 {
            let Some((_, old)) = known.records.pop_lru() else { return };
            known.bytes = known.bytes.saturating_sub(old.payload_bytes());
        }
    }

    fn lock(&self) -> MutexGuard<'_, CachedRecords> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::route) fn reading(&self) -> &OngoingReads {
        &self.reading
    }
}

/// Records of the cluster that one request names without their bytes. They stay with the request
/// until it is handled, since the shared cache may evict them before.
#[derive(Debug, Default)]
pub struct ReadBack {
    /// Records that are not read yet, or that exceeded the byte bound.
    unread: BTreeSet<NamedOrigin>,
    /// `None`: the record does not exist.
    records: BTreeMap<NamedOrigin, Option<RawRecord>>,
    charge: Option<Charge>,
    /// A record exceeded the byte bound together with the others.
    is_full: bool,
    /// Topics of the cluster whose largest batch has to be known.
    unbounded: BTreeSet<TopicName>,
    /// Commits wait for these until the request is handled.
    readers: Vec<ReadGuard>,
}

/// The origin of a record, and the group in whose name it is read.
type NamedOrigin = (GroupId, Origin);

/// The reason why a record that may exist was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::route) enum UnreadReason {
    /// All records of the request together exceed the byte bound.
    #[error("the records it names are more than 64 MiB together: name fewer at once")]
    TooMuch,
    /// A later attempt may succeed.
    #[error("a record it names could not be read back in time")]
    Later,
}

impl UnreadReason {
    pub(in crate::route) fn code(self) -> ResponseError {
        match self {
            // Java producers split a batch that is refused with this error and send it again.
            Self::TooMuch => ResponseError::MessageTooLarge,
            Self::Later => ResponseError::RequestTimedOut,
        }
    }

    /// The reason label of `reprise_nacks_refused_total`.
    pub(in crate::route) fn word(self) -> &'static str {
        match self {
            Self::TooMuch => "too_large",
            Self::Later => "not_now",
        }
    }
}

impl ReadBack {
    /// Whether everything is read.
    pub fn is_whole(&self) -> bool {
        self.unread.is_empty() && self.unbounded.is_empty()
    }

    /// Requests the bound of a topic: an oversize batch names a record of it.
    pub(in crate::route) fn needs_bound(&mut self, topic: TopicName) {
        self.unbounded.insert(topic);
    }

    /// The record that was read; `None`: it does not exist.
    pub(in crate::route) fn get(
        &self,
        group: &GroupId,
        origin: &Origin,
    ) -> Result<Option<RawRecord>, UnreadReason> {
        match self.records.get(&(group.clone(), origin.clone())) {
            Some(read) => Ok(read.clone()),
            None if self.is_full => Err(UnreadReason::TooMuch),
            None => Err(UnreadReason::Later),
        }
    }

    fn unread(&self) -> Vec<NamedOrigin> {
        self.unread.iter().cloned().collect()
    }

    fn put(&mut self, budget: &Budget, of: NamedOrigin, record: Option<RawRecord>) {
        let charge = self.charge.get_or_insert_with(|| budget.charge(0));
        let bytes = record.as_ref().map_or(0, RawRecord::payload_bytes);
        let all = charge.bytes().saturating_add(bytes);
        if all > NAMED_BYTES_MAX {
            self.unread.insert(of);
            self.is_full = true;
            return;
        }
        charge.set(all);
        self.unread.remove(&of);
        self.records.insert(of, record);
    }
}

impl Router {
    /// Adds a record that the request names without its bytes.
    pub(in crate::route) fn names_ahead(&self, conn: &Conn, back: &mut ReadBack, of: NamedOrigin) {
        if back.records.contains_key(&of) || back.unread.contains(&of) {
            return;
        }
        if let Some(record) = self.origins.get(conn.id, &of.1) {
            back.put(&self.budget, of, Some(record));
            return;
        }
        let (group, origin) = of.clone();
        let reader =
            self.origins.reading.begin(group, TopicPartition::from(&origin), origin.offset);
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

    /// Asks in this order: the broker that this client authenticated at, the leader in the name of
    /// a group member, the leader with our own credentials. The last one is asked only if the
    /// cluster lets the client READ the topic. No client thus receives a record through us that it
    /// may not read.
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
        let (mut elsewhere, mut known) = (VecDeque::new(), BTreeMap::new());
        for of in back.unread() {
            if back.is_full || left().is_zero() {
                return Ok(());
            }
            let partition = TopicPartition::from(&of.1);
            if let Some(asked) = known.get(&partition) {
                elsewhere.push_back((of, *asked));
                continue;
            }
            // A timeout ends the connection: a late answer would be taken for that of the next
            // request.
            let told = timeout(PATIENCE, self.ask_here(conn, link, head, &of.1)).await;
            match told.unwrap_or(Err(UpstreamError::TooSlow))? {
                BrokerAnswer::Here(found) => self.is_read(conn, back, of, found),
                BrokerAnswer::Elsewhere(asked) => {
                    known.insert(partition, asked);
                    elsewhere.push_back((of, asked));
                }
            }
        }
        let mut asked = FuturesUnordered::new();
        while !back.is_full {
            let room = TOGETHER.saturating_sub(asked.len()).min(elsewhere.len());
            asked.extend(elsewhere.drain(..room).map(|(of, asked)| self.ask_elsewhere(of, asked)));
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
        let Some(upstream) = &self.upstream else { return Ok(BrokerAnswer::Here(None)) };
        let may = match link.read_record(conn.fetch_version(), head, origin).await? {
            OriginAnswer::Record(record) => return Ok(BrokerAnswer::Here(Some(record))),
            OriginAnswer::Gone | OriginAnswer::Empty | OriginAnswer::Unreadable(_) => {
                return Ok(BrokerAnswer::Here(None));
            }
            OriginAnswer::Denied => false,
            OriginAnswer::Elsewhere | OriginAnswer::Damaged => true,
        };
        let leader = upstream.leader_for(link, head, origin).await?;
        Ok(BrokerAnswer::Elsewhere(OriginQuery { leader, may }))
    }

    /// Asks the leader, in the name of a group member or in our own.
    async fn ask_elsewhere(
        &self,
        of: NamedOrigin,
        asked: OriginQuery,
    ) -> (NamedOrigin, OriginResult) {
        let Some(upstream) = &self.upstream else { return (of, Ok(None)) };
        let (group, origin) = &of;
        let leader = asked.leader;
        let members =
            leader.map(|node| self.said_to(group, MembershipProof::Address, node, origin));
        let mut said = members.unwrap_or_default();
        if asked.may {
            said.push(Box::pin(upstream.read_record(origin)));
        }
        let counts = |found: &OriginAnswer| {
            !matches!(found, OriginAnswer::Denied | OriginAnswer::Elsewhere | OriginAnswer::Damaged)
        };
        let told = in_turn(said, counts).await.map(|found| match found {
            Some(OriginAnswer::Record(record)) => Some(record),
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
    /// Another broker or connection has to be asked.
    Elsewhere(OriginQuery),
}

/// The next step for the records of a partition.
#[derive(Clone, Copy)]
struct OriginQuery {
    leader: Option<i32>,
    /// Whether the client may READ the topic.
    may: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    use crate::wire::batch::{Headers, TimestampType};

    fn record(bytes: usize) -> RawRecord {
        RawRecord {
            timestamp_ms: 1,
            timestamp_type: TimestampType::CreateTime,
            key: None,
            value: Some(Bytes::from(vec![7; bytes])),
            headers: Headers::default(),
        }
    }

    fn at(offset: i64) -> Origin {
        Origin { topic: "orders".into(), partition: 0, offset }
    }

    #[test]
    fn the_oldest_records_are_evicted_but_never_the_last() {
        let origins = OriginRecordCache::default();
        for offset in 0..8 {
            origins.put(1, at(offset), record(BYTES_MAX / 4));
        }
        let kept = |offset| origins.get(1, &at(offset)).is_some();
        assert_eq!([3, 4, 5, 6, 7].map(kept), [false, true, true, true, true]);
        origins.put(1, at(8), record(BYTES_MAX * 2));
        assert_eq!([7, 8].map(kept), [false, true]);
        origins.put(1, at(8), record(1));
        origins.put(1, at(9), record(1));
        assert_eq!([8, 9].map(kept), [true, true], "a replaced record's bytes are given back");
        assert!(origins.get(2, &at(9)).is_none(), "what one client may read is for that one");
        origins.forget(&"orders".into());
        assert_eq!(([8, 9].map(kept), origins.lock().bytes), ([false, false], 0));
    }
}
