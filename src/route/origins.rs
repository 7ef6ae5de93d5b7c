//! Failed records of the cluster, read back before the nacks that only name them are taken.

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
use crate::route::conn::Conn;
use crate::route::reading::{Reader, Reading};
use crate::route::voices::{KnownBy, in_turn};
use crate::socket::{Budget, Charge};
use crate::upstream::{Found, Link, UpstreamError};
use crate::wire::batch::RawRecord;
use crate::wire::{RequestHead, ResponseError};

/// How long all records of one Produce may take to be read back: long polls of members go first,
/// and some clients' last 5 s. No client waits less than 10 s for an answer.
const PATIENCE: Duration = Duration::from_secs(8);
/// So many are asked for together where others lead them: all wait for one long poll.
const TOGETHER: usize = 64;
/// Records remembered at most.
const RECORDS_MAX: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();
/// Bytes of records remembered at most, beyond the largest one.
const BYTES_MAX: usize = 16 << 20;
/// Bytes of all records that one request names, at most.
pub(super) const NAMED_BYTES_MAX: usize = 64 << 20;

/// Records read back lately, by the connection they were read for: the cluster has let its client
/// read them, and nobody else.
#[derive(Debug)]
pub struct Origins {
    known: Mutex<Known>,
    reading: Reading,
}

#[derive(Debug)]
struct Known {
    records: LruCache<(u64, Origin), RawRecord>,
    bytes: usize,
}

impl Default for Origins {
    fn default() -> Self {
        let known = Mutex::new(Known { records: LruCache::new(RECORDS_MAX), bytes: 0 });
        Self { known, reading: Reading::default() }
    }
}

impl Origins {
    /// The record, if it was read back lately.
    pub(super) fn get(&self, conn: u64, origin: &Origin) -> Option<RawRecord> {
        self.lock().records.get(&(conn, origin.clone())).cloned()
    }

    /// Nothing of that topic is what it was.
    pub(super) fn forget(&self, topic: &TopicName) {
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

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The records that are read back for nacks.
    pub(super) fn reading(&self) -> &Reading {
        &self.reading
    }
}

/// Records of the cluster that one request names without their bytes. They are kept with it until
/// it is taken: what is remembered of all producers together may be less.
#[derive(Debug, Default)]
pub struct ReadBack {
    /// Not read yet, or without room.
    unread: BTreeSet<Named>,
    /// `None`: there is none.
    records: BTreeMap<Named, Option<RawRecord>>,
    charge: Option<Charge>,
    /// One of them had no room beside the others.
    is_full: bool,
    /// Topics of the cluster whose largest batch has to be known.
    unbounded: BTreeSet<TopicName>,
    /// Commits wait for these as long as the request is not taken.
    readers: Vec<Reader>,
}

/// A record, and in whose name it is asked for.
type Named = (GroupId, Origin);

/// Why a record that may be there is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unread {
    /// With others of its request.
    #[error("the records it names are more than 64 MiB together: name fewer at once")]
    TooMuch,
    /// It may be read another time.
    #[error("a record it names could not be read back in time")]
    Later,
}

impl Unread {
    pub(super) fn code(self) -> ResponseError {
        match self {
            // Producers split a batch that is refused so (Java).
            Self::TooMuch => ResponseError::MessageTooLarge,
            Self::Later => ResponseError::RequestTimedOut,
        }
    }

    /// In the words of `reprise_nacks_refused_total`.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::TooMuch => "too_large",
            Self::Later => "not_now",
        }
    }
}

impl ReadBack {
    /// Whether nothing is left to be read.
    pub fn is_whole(&self) -> bool {
        self.unread.is_empty() && self.unbounded.is_empty()
    }

    /// A large batch names a record of that topic.
    pub(super) fn needs_bound(&mut self, topic: TopicName) {
        self.unbounded.insert(topic);
    }

    /// What was read of a record that was named; `None`: there is no such record.
    pub(super) fn get(
        &self,
        group: &GroupId,
        origin: &Origin,
    ) -> Result<Option<RawRecord>, Unread> {
        match self.records.get(&(group.clone(), origin.clone())) {
            Some(read) => Ok(read.clone()),
            None if self.is_full => Err(Unread::TooMuch),
            None => Err(Unread::Later),
        }
    }

    fn unread(&self) -> Vec<Named> {
        self.unread.iter().cloned().collect()
    }

    fn put(&mut self, budget: &Budget, of: Named, record: Option<RawRecord>) {
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
    /// A request names a record without its bytes.
    pub(super) fn names_ahead(&self, conn: &Conn, back: &mut ReadBack, of: Named) {
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

    /// Reads back what a Produce names and is not at hand, as far as that is possible now. An error
    /// ends the connection.
    pub async fn read_back(
        &self,
        conn: &Conn,
        link: &mut Link,
        head: &RequestHead,
        back: &mut ReadBack,
    ) -> Result<(), UpstreamError> {
        self.read_within(PATIENCE, (conn, link, head), back).await
    }

    /// Asked in turn: the broker this client has authenticated at, the leader in the name of a
    /// member of the group, the leader with our own credentials. That last one only when the
    /// cluster lets the client READ the topic: nobody learns through us what is not for him.
    pub(super) async fn read_within(
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
            // Given up in between, its answer would be taken for another one's.
            let told = timeout(PATIENCE, self.ask_here(conn, link, head, &of.1)).await;
            match told.unwrap_or(Err(UpstreamError::TooSlow))? {
                Told::Here(found) => self.is_read(conn, back, of, found),
                Told::Elsewhere(asked) => {
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

    fn is_read(&self, conn: &Conn, back: &mut ReadBack, of: Named, found: Option<RawRecord>) {
        if let Some(record) = &found {
            self.origins.put(conn.id, of.1.clone(), record.clone());
        }
        back.put(&self.budget, of, found);
    }

    /// What the broker says that this client has authenticated at.
    async fn ask_here(
        &self,
        conn: &Conn,
        link: &mut Link,
        head: &RequestHead,
        origin: &Origin,
    ) -> Result<Told, UpstreamError> {
        let Some(upstream) = &self.upstream else { return Ok(Told::Here(None)) };
        let may = match link.read_record(conn.fetch_version(), head, origin).await? {
            Found::Record(record) => return Ok(Told::Here(Some(record))),
            Found::Gone | Found::Empty | Found::Unreadable(_) => {
                return Ok(Told::Here(None));
            }
            Found::Denied => false,
            Found::Elsewhere | Found::Damaged => true,
        };
        let leader = upstream.leader_for(link, head, origin).await?;
        Ok(Told::Elsewhere(Asked { leader, may }))
    }

    /// What the leader says, in the name of a member of the group or in our own.
    async fn ask_elsewhere(&self, of: Named, asked: Asked) -> (Named, Recalled) {
        let Some(upstream) = &self.upstream else { return (of, Ok(None)) };
        let (group, origin) = &of;
        let leader = asked.leader;
        let members = leader.map(|node| self.said_to(group, KnownBy::Address, node, origin));
        let mut said = members.unwrap_or_default();
        if asked.may {
            said.push(Box::pin(upstream.read_record(origin)));
        }
        let counts =
            |found: &Found| !matches!(found, Found::Denied | Found::Elsewhere | Found::Damaged);
        let told = in_turn(said, counts).await.map(|found| match found {
            Some(Found::Record(record)) => Some(record),
            _ => None,
        });
        (of, told)
    }
}

/// A record, or that there is none. An error: it may be there another time.
type Recalled = Result<Option<RawRecord>, UpstreamError>;

/// What the broker of a connection says.
enum Told {
    /// A record, or that there is none.
    Here(Option<RawRecord>),
    /// Others are to be asked.
    Elsewhere(Asked),
}

/// Who else is to be asked of a partition.
#[derive(Clone, Copy)]
struct Asked {
    /// Who leads it.
    leader: Option<i32>,
    /// The client may read it.
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
    fn the_oldest_make_room_and_the_last_one_stays_whatever_its_size() {
        let origins = Origins::default();
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
