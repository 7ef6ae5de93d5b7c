//! Failed records of the cluster, read back before the nacks that only name them are taken.

use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lru::LruCache;

use crate::model::{GroupId, Origin, TopicName};
use crate::route::Router;
use crate::route::conn::Conn;
use crate::route::voices::{KnownBy, in_turn};
use crate::upstream::{Found, Link, UpstreamError};
use crate::wire::RequestHead;
use crate::wire::batch::RawRecord;

/// How long all records of one Produce may take to be read back: long polls of members go first, and
/// some clients' last 5 s. No client waits less than 10 s for an answer.
const PATIENCE: Duration = Duration::from_secs(8);
/// Records remembered at most.
const RECORDS_MAX: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();
/// Bytes of records remembered at most, beyond the largest one.
const BYTES_MAX: usize = 16 << 20;

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

impl Router {
    /// Reads back what is not at hand of these records. One that is not there stays away, and the
    /// nack that names it is refused; an error means that it may be there another time.
    pub async fn read_back(
        &self,
        conn: &Conn,
        link: &mut Link,
        head: &RequestHead,
        wanted: Vec<(GroupId, Origin)>,
    ) -> Result<(), UpstreamError> {
        let reading = async {
            for (group, origin) in wanted {
                if self.origins.get(conn.id, &origin).is_none()
                    && let Some(record) = self.read(conn, link, head, &group, &origin).await?
                {
                    self.origins.put(conn.id, origin, record);
                }
            }
            Ok(())
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
