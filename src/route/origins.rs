//! Failed records of the cluster, read back before the nacks that only name them are taken.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lru::LruCache;

use crate::model::{GroupId, Origin, TopicName};
use crate::route::Router;
use crate::route::conn::Conn;
use crate::route::voices::{KnownBy, in_turn};
use crate::socket::{Budget, Charge};
use crate::upstream::{Found, Link, UpstreamError};
use crate::wire::batch::RawRecord;
use crate::wire::{RequestHead, ResponseError};

/// How long all records of one Produce may take to be read back: long polls of members go first,
/// and some clients' last 5 s. No client waits less than 10 s for an answer.
const PATIENCE: Duration = Duration::from_secs(8);
/// Records remembered at most.
const RECORDS_MAX: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();
/// Bytes of records remembered at most, beyond the largest one.
const BYTES_MAX: usize = 16 << 20;
/// Bytes of all records that one request names, at most.
pub(super) const NAMED_BYTES_MAX: usize = 64 << 20;

/// Records read back lately, by the connection they were read for: the cluster has let its client
/// read them, and nobody else.
#[derive(Debug)]
pub struct Origins(Mutex<Known>);

#[derive(Debug)]
struct Known {
    records: LruCache<(u64, Origin), RawRecord>,
    bytes: usize,
}

impl Default for Origins {
    fn default() -> Self {
        Self(Mutex::new(Known { records: LruCache::new(RECORDS_MAX), bytes: 0 }))
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Records of the cluster that one Produce names without their bytes. They are kept with it until
/// it is taken: what is remembered of all producers together may be less.
#[derive(Debug, Default)]
pub struct ReadBack {
    /// `None`: it is not read yet.
    records: BTreeMap<(GroupId, Origin), Option<Recalled>>,
    charge: Option<Charge>,
}

/// What became of a record that was to be read back; `None`: there is none.
type Recalled = Result<Option<RawRecord>, Unread>;

/// Why a record that may be there is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unread {
    /// With others of its request.
    #[error("the records it names are more than 64 MiB together: name fewer in one batch")]
    TooMuch,
}

impl Unread {
    pub(super) fn code(self) -> ResponseError {
        match self {
            // Producers split a batch that is refused so (Java).
            Self::TooMuch => ResponseError::MessageTooLarge,
        }
    }

    /// In the words of `reprise_nacks_refused_total`.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::TooMuch => "too_large",
        }
    }
}

impl ReadBack {
    /// Whether nothing is left to be read.
    pub fn is_whole(&self) -> bool {
        self.records.values().all(Option::is_some)
    }

    /// What became of a record that was named.
    pub(super) fn get(&self, group: &GroupId, origin: &Origin) -> Recalled {
        let recalled = self.records.get(&(group.clone(), origin.clone()));
        recalled.cloned().flatten().unwrap_or(Ok(None))
    }

    /// Whether there was room for it.
    fn put(&mut self, budget: &Budget, of: (GroupId, Origin), record: Option<RawRecord>) -> bool {
        let charge = self.charge.get_or_insert_with(|| budget.charge(0));
        let bytes = record.as_ref().map_or(0, RawRecord::payload_bytes);
        let all = charge.bytes().saturating_add(bytes);
        if all > NAMED_BYTES_MAX {
            self.records.insert(of, Some(Err(Unread::TooMuch)));
            return false;
        }
        charge.set(all);
        self.records.insert(of, Some(Ok(record)));
        true
    }
}

impl Router {
    /// This Produce names a record without its bytes.
    pub(super) fn names_ahead(&self, conn: &Conn, back: &mut ReadBack, of: (GroupId, Origin)) {
        if back.records.contains_key(&of) {
            return;
        }
        match self.origins.get(conn.id, &of.1) {
            Some(record) => {
                back.put(&self.budget, of, Some(record));
            }
            None => {
                back.records.insert(of, None);
            }
        }
    }

    /// Reads back what is not at hand. Of one that is not there the nack that names it is refused;
    /// an error means that it may be there another time.
    pub async fn read_back(
        &self,
        conn: &Conn,
        link: &mut Link,
        head: &RequestHead,
        mut back: ReadBack,
    ) -> Result<ReadBack, UpstreamError> {
        let left = back.records.iter().filter(|(_, recalled)| recalled.is_none());
        let left: Vec<_> = left.map(|(of, _)| of.clone()).collect();
        let reading = async {
            let mut has_room = true;
            for of in left {
                if !has_room {
                    back.records.insert(of, Some(Err(Unread::TooMuch)));
                    continue;
                }
                let (group, origin) = &of;
                let record = self.read(conn, link, head, group, origin).await?;
                if let Some(record) = &record {
                    self.origins.put(conn.id, origin.clone(), record.clone());
                }
                has_room = back.put(&self.budget, of, record);
            }
            Ok(back)
        };
        let read = tokio::time::timeout(PATIENCE, reading).await;
        read.unwrap_or(Err(UpstreamError::TooSlow))
    }

    /// The same for one record. An error inside: it may be there another time, and the connection
    /// is as good as before; one outside ends it.
    pub(super) async fn read_one(
        &self,
        conn: &Conn,
        link: &mut Link,
        head: &RequestHead,
        (group, origin): (&GroupId, &Origin),
        patience: Duration,
    ) -> Result<Result<Option<RawRecord>, UpstreamError>, UpstreamError> {
        if let Some(record) = self.origins.get(conn.id, origin) {
            return Ok(Ok(Some(record)));
        }
        let found = match self.ask_here(conn, link, head, origin).await? {
            Told::Here(found) => Ok(found),
            Told::Elsewhere { leader, may } => {
                let asked = self.ask_elsewhere(group, origin, leader, may);
                let asked = tokio::time::timeout(patience, asked).await;
                asked.unwrap_or(Err(UpstreamError::TooSlow))
            }
        };
        if let Ok(Some(record)) = &found {
            self.origins.put(conn.id, origin.clone(), record.clone());
        }
        Ok(found)
    }

    /// Asked in turn: the broker this client has authenticated at, the leader in the name of a
    /// member of the group, the leader with our own credentials. That last one only when the
    /// cluster lets the client READ the topic: nobody learns through us what is not for him.
    async fn read(
        &self,
        conn: &Conn,
        link: &mut Link,
        head: &RequestHead,
        group: &GroupId,
        origin: &Origin,
    ) -> Result<Option<RawRecord>, UpstreamError> {
        match self.ask_here(conn, link, head, origin).await? {
            Told::Here(found) => Ok(found),
            Told::Elsewhere { leader, may } => self.ask_elsewhere(group, origin, leader, may).await,
        }
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
            Found::Gone | Found::TakenBack | Found::Unreadable(_) => {
                return Ok(Told::Here(None));
            }
            Found::Denied => false,
            Found::Elsewhere | Found::Damaged => true,
        };
        let leader = upstream.leader_for(link, head, origin).await?;
        Ok(Told::Elsewhere { leader, may })
    }

    /// What the leader says, in the name of a member of the group or in our own.
    async fn ask_elsewhere(
        &self,
        group: &GroupId,
        origin: &Origin,
        leader: Option<i32>,
        may: bool,
    ) -> Result<Option<RawRecord>, UpstreamError> {
        let Some(upstream) = &self.upstream else { return Ok(None) };
        let members = leader.map(|node| self.said_to(group, KnownBy::Address, node, origin));
        let mut said = members.unwrap_or_default();
        if may {
            said.push(Box::pin(upstream.read_record(origin)));
        }
        let counts = |found: &Found| match found {
            Found::Record(_) | Found::Gone | Found::TakenBack | Found::Unreadable(_) => true,
            Found::Denied | Found::Elsewhere | Found::Damaged => false,
        };
        Ok(match in_turn(said, counts).await? {
            Some(Found::Record(record)) => Some(record),
            _ => None,
        })
    }
}

/// What the broker of a connection says of a record.
enum Told {
    /// It, or that there is none.
    Here(Option<RawRecord>),
    /// Others are to be asked.
    Elsewhere {
        /// Who leads its partition.
        leader: Option<i32>,
        /// The client may read it.
        may: bool,
    },
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
