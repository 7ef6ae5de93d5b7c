//! Markers: the metadata of a partition's commit may name failed records, such as `!retry:812`.
//! Each named record is nacked (evidence `commit-nack`).
//!
//! **Invariant:** the nacks are durable before the commit is stored or relayed to the cluster. The
//! marker is removed from the stored metadata. A client that reads the offset back and commits it
//! again thus sends no nack. A partition with an invalid marker is refused, and the others go on.
//! A marker that repeats the last one of its partition sends no nack, while the group has committed
//! nothing since.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::PoisonError;

use kafka_protocol::messages::OffsetCommitRequest;
use kafka_protocol::protocol::StrBytes;

use crate::engine::{EngineError, NackBatch, NackReply, NackRequest};
use crate::model::{GroupId, Origin};
use crate::retry::{
    BadNack, Evidence, FailureHistory, Nack, NackTarget as NamedBy, Reporter, RequestedDelay,
};
use crate::route::Router;
use crate::route::clients::conn::Conn;
use crate::route::convert::topic_of;
use crate::route::nacks::nack_batches::name;
use crate::route::nacks::origin_records::{NAMED_BYTES_MAX, ReadBack, UnreadReason};
use crate::route::offsets::commit_markers::MarkedCommit;
use crate::route::offsets::offset_commit::{CommitDeadline, NamedPartition};
use crate::route::owner::{GroupOwner, OwnerCall, RequestContext};
use crate::route::produce::{by_reference, origin_record};
use crate::upstream::UpstreamError;
use crate::wire::ResponseError;
use crate::wire::batch::RawRecord;
use crate::wire::mark::{BadMark, CommitMark, is_mark, read_mark};

/// Partitions that are refused because of their metadata.
pub(in crate::route) type RefusedPartitions = BTreeMap<NamedPartition, ResponseError>;

/// A partition whose metadata is a marker.
#[derive(Debug)]
pub(in crate::route) struct MarkedPartition {
    named: NamedPartition,
    committed: i64,
    metadata: StrBytes,
}

/// The reason why a partition is refused.
#[derive(Debug, thiserror::Error)]
enum MarkerRefusal {
    #[error(transparent)]
    Bad(#[from] BadMark),
    #[error(
        "offset {0}: there is no such record in the partition; it was never written, is gone by \
         retention, or may not be read on this connection"
    )]
    NoRecord(i64),
    #[error("offset {0}: no hand-out of this retry topic has it")]
    NoHandOut(i64),
    #[error("offset {0}: {1}")]
    Nack(i64, BadNack),
    #[error("the records it names are too many bytes together: name fewer in one commit")]
    TooMuch,
    #[error("the group has no retries here (retry.delivery: off)")]
    RetriesOff,
    #[error("the cluster does not let this client READ the group")]
    Denied,
    #[error("{0}; the client tries again")]
    Later(String),
}

impl From<UnreadReason> for MarkerRefusal {
    fn from(why: UnreadReason) -> Self {
        match why {
            UnreadReason::TooMuch => Self::TooMuch,
            UnreadReason::Later | UnreadReason::NoTopic => Self::Later(why.to_string()),
        }
    }
}

impl MarkerRefusal {
    fn code(&self) -> ResponseError {
        match self {
            Self::Bad(BadMark::TooLong { .. }) => ResponseError::OffsetMetadataTooLarge,
            Self::Denied => ResponseError::GroupAuthorizationFailed,
            Self::Later(_) => ResponseError::CoordinatorNotAvailable,
            _ => ResponseError::InvalidCommitOffsetSize,
        }
    }

    fn word(&self) -> &'static str {
        match self {
            Self::Bad(BadMark::TooLong { .. }) | Self::TooMuch => "too_large",
            Self::Bad(_) => "malformed",
            Self::NoRecord(_) | Self::NoHandOut(_) | Self::Nack(..) => "unknown_record",
            Self::RetriesOff => "retries_off",
            Self::Denied => "denied",
            Self::Later(_) => "not_now",
        }
    }
}

pub(in crate::route) fn is_marked(request: &OffsetCommitRequest) -> bool {
    let partitions = request.topics.iter().flat_map(|topic| &topic.partitions);
    partitions.filter_map(|p| p.committed_metadata.as_deref()).any(is_mark)
}

/// Removes the markers from a request and returns them. Their partitions stay in it.
pub(super) fn take_markers(request: &mut OffsetCommitRequest) -> Vec<MarkedPartition> {
    let mut marked = Vec::new();
    for topic in &mut request.topics {
        for partition in &mut topic.partitions {
            let metadata = partition.committed_metadata.take_if(|text| is_mark(text));
            let Some(metadata) = metadata else { continue };
            partition.committed_metadata = Some(StrBytes::default());
            let named = (topic_of(&topic.name), partition.partition_index);
            marked.push(MarkedPartition { named, committed: partition.committed_offset, metadata });
        }
    }
    marked
}

/// Takes the nacks of the markers; returns the refused partitions. In front of a cluster it holds
/// the records and decides who may nack them. An error ends the connection, and the client tries
/// again.
pub(super) async fn nack(
    call: &mut OwnerCall<'_>,
    group: &GroupId,
    deadline: &CommitDeadline<'_>,
    mut marked: Vec<MarkedPartition>,
) -> Result<RefusedPartitions, UpstreamError> {
    let RequestContext { router, conn, head, .. } = call.at;
    let mut taking = CommitMarkers::new(router, conn, group, deadline);
    if marked.is_empty() {
        return Ok(taking.refused);
    }
    match &mut call.owner {
        // An unknown partition is refused when the offsets are stored.
        GroupOwner::Node => marked.retain(|one| {
            let place = router.place(&one.named.0);
            place.is_some_and(|place| (0..place.partitions()).contains(&one.named.1))
        }),
        GroupOwner::Cluster(link) => {
            if !router.may_read(conn, (&mut *link, head), group).await? {
                for one in marked {
                    taking.refuse(one.named, one.committed, &MarkerRefusal::Denied);
                }
                return Ok(taking.refused);
            }
            // A hand-out is known once its topic is open.
            for pair in marked.iter().filter_map(|one| router.retry_pair(&one.named.0)) {
                router.open_behind(&pair).await;
            }
        }
    }
    let all: Vec<_> = marked.into_iter().filter_map(|one| taking.begin(one)).collect();
    let mut back = ReadBack::default();
    if let GroupOwner::Cluster(link) = &mut call.owner {
        for place in all.iter().flat_map(|asked| &asked.places) {
            if let NamedBy::Origin(origin) = place {
                router.add_named(conn, &mut back, (group.clone(), origin.clone()));
            }
        }
        if !back.is_whole() {
            router.read_within(deadline.left(), (conn, link, head), &mut back).await?;
        }
    }
    for asked in all {
        let found = taking.at_hand(&back, &asked.places);
        taking.send(asked, found);
    }
    Ok(taking.end().await)
}

/// A marker whose nacks are to be taken.
struct MarkerRequest {
    named: NamedPartition,
    committed: i64,
    commit: MarkedCommit,
    mark: CommitMark,
    places: Vec<NamedBy>,
}

/// Records of the named offsets; `None` for an offset of a retry partition, or for a missing
/// record.
type NamedRecords = Result<Vec<Option<RawRecord>>, MarkerRefusal>;

type NackFuture = Pin<Box<dyn Future<Output = Result<NackReply, EngineError>> + Send>>;

/// All markers of one commit.
struct CommitMarkers<'a> {
    router: &'a Router,
    conn: &'a Conn,
    group: &'a GroupId,
    deadline: &'a CommitDeadline<'a>,
    /// Bytes of the records collected so far.
    bytes: usize,
    sent: Vec<(MarkerRequest, NackFuture)>,
    refused: RefusedPartitions,
}

impl<'a> CommitMarkers<'a> {
    fn new(
        router: &'a Router,
        conn: &'a Conn,
        group: &'a GroupId,
        deadline: &'a CommitDeadline<'a>,
    ) -> Self {
        let (sent, refused) = (Vec::new(), RefusedPartitions::new());
        Self { router, conn, group, deadline, bytes: 0, sent, refused }
    }

    /// Parses a marker; `None`: it is refused, or repeats one that was taken before.
    fn begin(&mut self, one: MarkedPartition) -> Option<MarkerRequest> {
        let MarkedPartition { named, committed, metadata } = one;
        let is_on = self.router.has_retry_topic(self.group);
        let read = if is_on { Ok(()) } else { Err(MarkerRefusal::RetriesOff) };
        let mark = match read.and_then(|()| Ok(read_mark(&metadata)?)) {
            Ok(mark) => mark,
            Err(refusal) => {
                self.refuse(named, committed, &refusal);
                return None;
            }
        };
        let topic = &named.0;
        let commit = MarkedCommit::new(committed, &metadata);
        let at =
            |offset: &i64| Origin { topic: topic.clone(), partition: named.1, offset: *offset };
        let before = self.router.committed(self.group, &at(&committed));
        let (now, of) = (self.router.clock.now().mono, (self.group, topic, named.1));
        let timeout_ms = self.consume_timeout_ms();
        // With `order.mode: partition` every failure of a record is reported by the same commit.
        let is_in_order = self.router.is_in_order(self.group);
        if !is_in_order && self.router.markers.is_repeated(of, &commit, before, (now, timeout_ms)) {
            return None;
        }
        let places = mark.offsets.iter().map(|offset| name(self.router, self.group, at(offset)));
        let places = places.collect();
        Some(MarkerRequest { named, committed, commit, mark, places })
    }

    /// The records of a marker; those of a cluster come from `back`.
    fn at_hand(&mut self, back: &ReadBack, places: &[NamedBy]) -> NamedRecords {
        let before = self.bytes;
        let found = self.read(back, places);
        if found.is_err() {
            // The records of a refused partition are dropped.
            self.bytes = before;
        }
        found
    }

    fn read(&mut self, back: &ReadBack, places: &[NamedBy]) -> NamedRecords {
        let mut found = Vec::with_capacity(places.len());
        for place in places {
            let record = match place {
                NamedBy::Origin(origin) if self.router.upstream.is_some() => {
                    back.get(self.group, origin)?
                }
                NamedBy::Origin(origin) => origin_record(self.router, origin),
                _ => None,
            };
            self.takes(record.as_ref())?;
            found.push(record);
        }
        Ok(found)
    }

    /// Bounds memory: a commit may name any number of records.
    fn takes(&mut self, record: Option<&RawRecord>) -> Result<(), MarkerRefusal> {
        self.bytes = self.bytes.saturating_add(record.map_or(0, RawRecord::payload_bytes));
        if self.bytes <= NAMED_BYTES_MAX { Ok(()) } else { Err(MarkerRefusal::TooMuch) }
    }

    /// Sends the nacks to the engine's queue, all of a partition or none.
    fn send(&mut self, asked: MarkerRequest, found: NamedRecords) {
        let found = match found {
            Ok(found) => found,
            Err(refusal) => {
                self.refuse(asked.named, asked.committed, &refusal);
                return;
            }
        };
        let places = asked.places.iter().cloned().zip(found);
        let nacks = places.map(|(named, found)| request(&asked.mark, named, found));
        let batch = NackBatch {
            group: self.group.clone(),
            by: Reporter {
                member: self.router.member_of(self.conn, self.group),
                client: self.conn.client(),
            },
            producer: None,
            nacks: nacks.collect(),
        };
        let source = self.router.source_of(&asked.named.0);
        self.router.names.register(&self.router.pair_in_use(self.group, source.as_ref()));
        let answer = self.router.engine.said(batch, Evidence::CommitMarker);
        self.sent.push((asked, Box::pin(answer)));
    }

    /// Waits until everything that was sent is durable. A nack that comes too late may still be
    /// durable; the client repeats it, and the ledger charges no repeat.
    async fn end(mut self) -> RefusedPartitions {
        for (asked, answer) in std::mem::take(&mut self.sent) {
            let taken = match tokio::time::timeout(self.deadline.left(), answer).await {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(error)) => Err(refusal_of(&error, &asked.mark.offsets)),
                Err(_) => Err(MarkerRefusal::Later("it could not be written in time".to_owned())),
            };
            let MarkerRequest { named, committed, commit, .. } = asked;
            match taken {
                Ok(()) => {
                    let (of, now) = ((self.group, &named.0, named.1), self.router.clock.now().mono);
                    self.router.markers.taken(of, commit, now);
                }
                Err(refusal) => {
                    self.refuse(named, committed, &refusal);
                }
            }
        }
        self.refused
    }

    /// Counts a refusal, and logs it once for each group and reason.
    fn refuse(&mut self, named: NamedPartition, committed: i64, why: &MarkerRefusal) {
        let (group, word) = (self.group, why.word());
        self.router.metrics.commit_marker_refused(group.as_str(), word);
        if self.router.markers.warns(group.as_str(), "a commit", word) {
            let ((topic, partition), client) = (&named, self.conn.client());
            tracing::warn!(
                %group, %topic, partition, offset = committed, %client, %why,
                "R0603 a commit is refused for a nack in its metadata; more of this kind are only \
                 counted (reprise_commit_markers_refused_total)"
            );
        }
        self.refused.insert(named, why.code());
    }

    fn consume_timeout_ms(&self) -> u64 {
        let policies = self.router.policies.read().unwrap_or_else(PoisonError::into_inner);
        policies.of(self.group).consume_timeout_ms
    }
}

fn refusal_of(error: &EngineError, offsets: &[i64]) -> MarkerRefusal {
    match error {
        EngineError::BadNacks(bad) => match bad.first() {
            None => MarkerRefusal::Later(error.to_string()),
            Some((index, why)) => {
                let offset = offsets.get(*index).copied().unwrap_or(-1);
                match why {
                    BadNack::BytesGone => MarkerRefusal::NoRecord(offset),
                    BadNack::NoDelivery => MarkerRefusal::NoHandOut(offset),
                    why => MarkerRefusal::Nack(offset, *why),
                }
            }
        },
        EngineError::BatchTooLarge { .. } => MarkerRefusal::TooMuch,
        error => MarkerRefusal::Later(error.to_string()),
    }
}

fn request(mark: &CommitMark, named: NamedBy, found: Option<RawRecord>) -> NackRequest {
    let (bytes, record) = by_reference(&named, found);
    let nack = Nack {
        named,
        copied: None,
        want: RequestedDelay { level: mark.level, delay_ms: mark.delay_ms },
        max_reconsume_times: mark.max_reconsume_times,
        reason: mark.reason.clone(),
        produced_for: None,
        committed: None,
        carried: FailureHistory::default(),
        bytes,
        record_bytes: u64::try_from(record.len()).unwrap_or(u64::MAX),
    };
    NackRequest { nack, record }
}
