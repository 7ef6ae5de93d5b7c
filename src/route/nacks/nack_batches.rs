//! Batches of nacks: records that are read back for them, committed offsets, and refusals.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Display;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use kafka_protocol::messages::ProduceRequest;
use tokio::time::timeout;

use crate::engine::EngineError;
use crate::model::{GroupId, Origin, TopicPartition};
use crate::retry::NackTarget;
use crate::route::Router;
use crate::route::clients::conn::Conn;
use crate::route::convert::topic_of;
use crate::route::nacks::origin_records::{NamedOrigin, ReadBack};
use crate::upstream::{Link, OriginAnswer, UpstreamError};
use crate::wire::batch::{RawRecord, batches, records};
use crate::wire::mark::{self, read_nack};
use crate::wire::{Api, RequestHead, decode};

/// Bound of an unpacked compressed batch of nacks.
pub(in crate::route) const UNPACKED_BYTES_MAX: usize = 64 << 20;
/// Bound for reading back all records of one Produce. A client waits at least 10 s for an answer.
const PATIENCE: Duration = Duration::from_secs(8);
/// Bound of parallel reads at other brokers.
const TOGETHER: usize = 64;

/// A record, or `None` if it does not exist. An error: a later attempt may succeed.
type OriginResult = Result<Option<RawRecord>, UpstreamError>;

/// The answer of the broker at the client's connection.
enum BrokerAnswer {
    /// A record, or `None` if it does not exist.
    Here(Option<RawRecord>),
    /// The client may READ the topic, and the leader has to be asked.
    Elsewhere,
}

impl Router {
    /// Counts a refused batch that was produced to a retry topic, and logs it once for each group
    /// and reason.
    pub(in crate::route) fn nack_refused(
        &self,
        group: &GroupId,
        word: &'static str,
        why: &dyn Display,
    ) {
        self.metrics.nack_refused(group.as_str(), word);
        if self.markers.warns(group.as_str(), "a nack", word) {
            tracing::warn!(
                %group, %why,
                "R0602 a nack was refused; more of this kind are only counted \
                 (reprise_nacks_refused_total)"
            );
        }
    }

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

    /// The records that this Produce names without their bytes, with those that are cached. Errors
    /// of the request are reported when it is handled.
    pub fn named_ahead(&self, conn: &Conn, head: &RequestHead) -> ReadBack {
        let mut back = ReadBack::default();
        if self.upstream.is_none() || head.api != Api::Produce {
            return back;
        }
        let Ok(request) = decode::<ProduceRequest>(head) else { return back };
        for topic in &request.topic_data {
            let Ok(name) = self.named(&topic_of(&topic.name), topic.topic_id) else { continue };
            let Some(group) = self.retry_group(&name) else { continue };
            for bytes in topic.partition_data.iter().filter_map(|data| data.records.clone()) {
                self.named_in(conn, &group, bytes, &mut back);
            }
        }
        back
    }

    fn named_in(&self, conn: &Conn, group: &GroupId, bytes: bytes::Bytes, back: &mut ReadBack) {
        let is_oversize = self.is_oversize(bytes.len());
        for batch in batches(bytes, self.config.frame_bytes_max).map_while(Result::ok) {
            let Ok(records) = records(&batch, UNPACKED_BYTES_MAX) else { return };
            for record in records.map_while(Result::ok) {
                let Ok((asked, _)) = read_nack(&record.headers) else { return };
                let mark::NackedRecord::Origin(origin) = asked.named else { continue };
                if is_oversize && self.is_bound_unknown(&origin.topic) {
                    back.needs_bound(origin.topic.clone());
                }
                // The log may not have noted the delivery of a retry (`engine::mover`).
                let is_read = match name(self, group, origin.clone()) {
                    NackTarget::Origin(_) => asked.by_reference,
                    NackTarget::Delivery(_) => asked.by_reference || asked.delivery.is_none(),
                    _ => false,
                };
                if is_read {
                    self.add_named(conn, back, (group.clone(), origin));
                }
            }
        }
    }

    /// The group's committed offset in the origin's partition, if it is known.
    pub(in crate::route) fn committed(&self, group: &GroupId, origin: &Origin) -> Option<i64> {
        let (topic, partition) = (&origin.topic, origin.partition);
        if self.upstream.is_some() {
            return self.positions.committed(group, topic, partition);
        }
        self.broker.offsets.committed(group, topic, partition).map(|known| known.offset)
    }
}

/// The reason label of `reprise_nacks_refused_total`.
pub(in crate::route) fn word_of(error: &EngineError) -> &'static str {
    match error {
        EngineError::BadNacks(_) => "unknown_record",
        EngineError::BatchTooLarge { .. } => "too_large",
        _ => "not_now",
    }
}

/// Resolves `<topic>-<partition>@<offset>` as the application names it: a delivery of the group's
/// retry topic, one of another group, or an origin.
pub(in crate::route) fn name(router: &Router, group: &GroupId, origin: Origin) -> NackTarget {
    match router.names.retry_pair(&origin.topic) {
        None => NackTarget::Origin(origin),
        Some(owner) if owner.group != *group => NackTarget::OtherGroup,
        Some(_) => {
            let delivery = router.delivery_at(&origin.topic, origin.partition, origin.offset);
            delivery.map_or(NackTarget::NoDelivery, NackTarget::Delivery)
        }
    }
}
