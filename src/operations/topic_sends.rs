//! Records of dead letters that an operator sends to a topic, for all of its readers.
//!
//! **Invariant:** in the embedded cluster the record and the discard of its letter are one atomic
//! group of the log. A Kafka cluster stores the record before the letter is discarded: a crash in
//! between sends the record once more.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};

use crate::engine::{Arrival, EngineError, OperateRequest, SendTarget};
use crate::model::{EntryId, Origin, TopicName};
use crate::retry::{Action, StateKind};
use crate::route::Router;
use crate::upstream::{FailureKind, TopicWriter, Upstream, WriteError};
use crate::wire::ResponseError;
use crate::wire::batch::RawRecord;
use crate::wire::mark::appended_at;
use crate::wire::partitioner::partition_of;

/// Bytes of records in one batch: below the smallest usual `max.message.bytes`, 1 MiB.
const BATCH_BYTES: usize = 512 << 10;
/// Time for a look at a topic before a job starts.
const LOOK: Duration = Duration::from_secs(10);
/// Attempts while a cluster is not ready, and the pause between two: 15 s in all.
const ATTEMPTS: u32 = 60;
const PAUSE: Duration = Duration::from_millis(250);
/// The header with the number of redrives, this one included.
const REDRIVES: &str = "x-retry-redrive-count";

/// A record that leaves its dead-letter topic.
#[derive(Clone, Debug)]
pub(super) struct OutgoingRecord {
    pub(super) id: EntryId,
    pub(crate) origin: Option<Origin>,
    /// Redrives before this one.
    pub(super) redrives: u32,
    pub(crate) record: RawRecord,
}

/// The outcome of sending records.
#[derive(Debug, Default)]
pub(super) struct SentRecords {
    /// Entries whose letters may be discarded.
    pub(super) ids: Vec<EntryId>,
    /// Records of these entries, in the embedded cluster.
    pub(super) arrivals: Vec<Arrival>,
    pub(crate) refused: Vec<(EntryId, String)>,
    /// The cluster did not answer: records without an outcome are sent again later.
    pub(super) failure: Option<WriteError>,
}

impl SentRecords {
    /// Turns a request into the one that discards the letters of the records that were sent.
    pub(crate) fn request(&self, target: SendTarget, request: OperateRequest) -> OperateRequest {
        OperateRequest {
            action: Action::Send,
            ids: self.ids.clone(),
            arrivals: self.arrivals.clone(),
            target: Some(target),
            ..request
        }
    }
}

/// Sends records of one request at a time.
#[derive(Debug)]
pub struct RecordSender {
    router: Arc<Router>,
    writer: Mutex<TopicWriter>,
}

/// The turn of one request. It discards its letters before it ends, so no other request sends them
/// again.
pub(super) struct SendTurn<'a> {
    router: &'a Router,
    writer: MutexGuard<'a, TopicWriter>,
    /// Partitions of the topics of this turn; or the reason why a topic takes nothing.
    topics: BTreeMap<TopicName, Result<i32, String>>,
}

/// Records of one partition, in order.
type PartitionRecords = Vec<OutgoingRecord>;

impl RecordSender {
    pub(crate) fn new(router: Arc<Router>) -> Self {
        Self { router, writer: Mutex::new(TopicWriter::to_existing_topics()) }
    }

    pub(super) async fn turn(&self) -> SendTurn<'_> {
        let mut writer = self.writer.lock().await;
        writer.forget_topics();
        SendTurn { router: &self.router, writer, topics: BTreeMap::new() }
    }

    /// The reason why nothing can be sent to a target. `None` as well where another request keeps
    /// the sender busy: then the request itself tells.
    pub(super) async fn refusal(&self, target: &SendTarget) -> Option<String> {
        let SendTarget::Topic(topic) = target else { return None };
        let looked = async { self.turn().await.partitions(topic).await };
        let looked = tokio::time::timeout(LOOK, looked).await.ok()?;
        looked.err().map(|error| error.to_string())
    }
}

/// The reason why a record does not reach its topic.
#[derive(Debug, thiserror::Error)]
enum TopicError {
    /// The topic takes no record.
    #[error("{0}")]
    Refused(String),
    /// Another time it may.
    #[error(transparent)]
    Cluster(#[from] WriteError),
}

impl SendTurn<'_> {
    /// The number of partitions of a topic. Each topic is looked up once in a turn.
    async fn partitions(&mut self, topic: &TopicName) -> Result<i32, TopicError> {
        if let Some(known) = self.topics.get(topic) {
            return known.clone().map_err(TopicError::Refused);
        }
        let known = self.look_up(topic).await?;
        self.topics.insert(topic.clone(), known.clone());
        known.map_err(TopicError::Refused)
    }

    async fn look_up(&mut self, topic: &TopicName) -> Result<Result<i32, String>, WriteError> {
        if self.router.names.is_ours(topic) {
            let says =
                "is a topic of reprise itself; leave the topic out for the group's retry topic";
            return Ok(Err(format!("{topic} {says}")));
        }
        let unknown = || Err(format!("there is no topic {topic}"));
        let Some(upstream) = &self.router.upstream else {
            let found = self.router.broker.topics.find(topic);
            let partitions = found.map(|topic| i32::try_from(topic.partitions.len()));
            return Ok(partitions.map_or_else(unknown, |count| Ok(count.unwrap_or(i32::MAX))));
        };
        match self.writer.partitions(upstream, topic).await {
            Ok(partitions) => Ok(Ok(partitions)),
            Err(WriteError::Topic { error: ResponseError::UnknownTopicOrPartition, .. }) => {
                Ok(unknown())
            }
            Err(error) => Err(error),
        }
    }

    /// Sends records to their topics, again and again while the cluster is not ready yet. The
    /// caller discards the letters of [`SentRecords::ids`].
    pub(crate) async fn send_patiently(
        &mut self,
        target: &SendTarget,
        mut records: Vec<OutgoingRecord>,
    ) -> Result<SentRecords, EngineError> {
        let mut sent = SentRecords::default();
        for attempt in 1..=ATTEMPTS {
            let SentRecords { ids, arrivals, refused, failure } =
                self.send(target, records.clone()).await?;
            let is_done =
                |id: &EntryId| ids.contains(id) || refused.iter().any(|(one, _)| one == id);
            records.retain(|one| !is_done(&one.id));
            sent.ids.extend(ids);
            sent.arrivals.extend(arrivals);
            sent.refused.extend(refused);
            sent.failure = failure;
            let may_pass = sent.failure.as_ref().is_some_and(WriteError::is_passing);
            if !may_pass || attempt == ATTEMPTS {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(sent)
    }

    /// Sends records to their topics. The caller discards the letters of [`SentRecords::ids`].
    pub(crate) async fn send(
        &mut self,
        target: &SendTarget,
        records: Vec<OutgoingRecord>,
    ) -> Result<SentRecords, EngineError> {
        self.router.engine.may_operate().await?;
        let mut sent = SentRecords::default();
        let mut pieces = BTreeMap::<(TopicName, i32), PartitionRecords>::new();
        for mut one in self.dead(records, &mut sent).await? {
            match self.place(target, &one).await {
                Ok(place) => {
                    let redrives = one.redrives.saturating_add(1).to_string();
                    let headers = one.record.headers.with(&[(REDRIVES, redrives)]);
                    one.record.headers = headers;
                    pieces.entry(place).or_default().push(one);
                }
                Err(TopicError::Cluster(error)) => {
                    sent.failure = Some(error);
                    break;
                }
                Err(TopicError::Refused(why)) => sent.refused.push((one.id, why)),
            }
        }
        for ((topic, partition), piece) in pieces {
            match &self.router.upstream {
                None => arrive(self.router, (&topic, partition), piece, &mut sent),
                Some(upstream) => {
                    let place = (&topic, partition);
                    if let Err(error) = self.write(upstream, place, piece, &mut sent).await {
                        sent.failure = Some(error);
                        break;
                    }
                }
            }
        }
        Ok(sent)
    }

    /// The records whose letters are still dead.
    async fn dead(
        &self,
        records: Vec<OutgoingRecord>,
        sent: &mut SentRecords,
    ) -> Result<Vec<OutgoingRecord>, EngineError> {
        let ids = records.iter().map(|one| one.id).collect();
        let states = self.router.engine.entry_states(ids).await?;
        let mut found = Vec::with_capacity(records.len());
        for (one, state) in records.into_iter().zip(states) {
            if state.is_some_and(|entry| entry.state.kind() == StateKind::Dead) {
                found.push(one);
            } else {
                sent.refused.push((one.id, "the record is no dead letter any more".to_owned()));
            }
        }
        Ok(found)
    }

    /// The partition that a record goes to: that of its origin, or the one of its key.
    async fn place(
        &mut self,
        target: &SendTarget,
        one: &OutgoingRecord,
    ) -> Result<(TopicName, i32), TopicError> {
        let (topic, own) = match (target, &one.origin) {
            (SendTarget::Topic(topic), _) => (topic, None),
            (SendTarget::Origin, Some(origin)) => (&origin.topic, Some(origin.partition)),
            (SendTarget::Origin, None) => {
                return Err(TopicError::Refused("the record has no origin".to_owned()));
            }
        };
        let partitions = self.partitions(topic).await?;
        let number = i64::try_from(one.id.0).unwrap_or(0);
        let by_key = || partition_of(one.record.key.as_deref(), number, partitions);
        let own = own.filter(|own| (0..partitions).contains(own));
        Ok((topic.clone(), own.unwrap_or_else(by_key)))
    }

    /// Writes records of one partition. A record that the cluster refuses holds up no other one.
    async fn write(
        &mut self,
        upstream: &Upstream,
        (topic, partition): (&TopicName, i32),
        piece: PartitionRecords,
        sent: &mut SentRecords,
    ) -> Result<(), WriteError> {
        let now = self.router.clock.now().wall;
        let mut parts: VecDeque<PartitionRecords> = parts(piece).into();
        while let Some(part) = parts.pop_front() {
            let records: Vec<RawRecord> = part.iter().map(|one| one.record.clone()).collect();
            match self.writer.write(upstream, topic, partition, &records, now).await {
                Ok(_) => sent.ids.extend(part.iter().map(|one| one.id)),
                Err(error) if error.kind() == FailureKind::Refused && part.len() > 1 => {
                    part.into_iter().rev().for_each(|one| parts.push_front(vec![one]));
                }
                Err(error) if error.kind() == FailureKind::Refused => {
                    sent.refused.extend(part.iter().map(|one| (one.id, error.to_string())));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Collects the records that the engine appends together with the discards of their letters.
fn arrive(
    router: &Router,
    (topic, partition): (&TopicName, i32),
    piece: PartitionRecords,
    sent: &mut SentRecords,
) {
    let index = usize::try_from(partition).unwrap_or(usize::MAX);
    let topic = router.broker.topics.find(topic);
    let stream = topic.and_then(|topic| Some(topic.partitions.get(index)?.stream));
    let now = router.clock.now().wall;
    for one in piece {
        match stream {
            Some(stream) => {
                sent.ids.push(one.id);
                sent.arrivals.push(Arrival::new(stream, &appended_at(&one.record, now)));
            }
            None => sent.refused.push((one.id, "its topic is gone".to_owned())),
        }
    }
}

/// The records of a partition, cut into batches.
fn parts(piece: PartitionRecords) -> Vec<PartitionRecords> {
    let (mut parts, mut bytes) = (vec![Vec::new()], 0);
    for one in piece {
        let own = one.record.payload_bytes();
        if bytes + own > BATCH_BYTES && parts.last().is_some_and(|part| !part.is_empty()) {
            parts.push(Vec::new());
            bytes = 0;
        }
        bytes += own;
        if let Some(part) = parts.last_mut() {
            part.push(one);
        }
    }
    parts
}
