//! The retry topics in the cluster, and the writer that takes due retries there.

use std::collections::BTreeMap;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use reprise::engine::{ReleaseBatch, ReleaseOutcome, ReleaseTarget, RetryPartitionLog};
use reprise::journal::StreamId;
use reprise::model::{GroupId, Origin, RetryPair, RetryPartition, RetryPlace};
use reprise::wire::batch::RawRecord;

use crate::model::Nack;
use crate::release::{PARTITIONS, Source};
use crate::world::{self, Cut, PendingRequest, World};

/// A retry topic. No crash of the engine changes it.
#[derive(Debug)]
pub struct RetryLog {
    /// Number of the topic: another one for each pair of a group, and for each topic by one name.
    pub stream: u32,
    /// The end of each partition, and the group's committed offset.
    pub partitions: Vec<(i64, i64)>,
    /// The deliveries of this topic and of former ones.
    pub deliveries: Vec<Delivery>,
}

/// A place in a retry topic, with the origin and the failures that the headers there name.
pub type Delivery = (RetryPlace, Option<(Origin, u32)>);

/// A batch that the engine has handed over.
pub struct SentBatch {
    pub batch: ReleaseBatch,
    ids: Vec<u64>,
    /// The offset of the first record, once they are written.
    pub base: Option<i64>,
}

/// Nacks that wait for the end of a batch.
pub struct Postponed {
    pub group: GroupId,
    pub stamp: Option<(i64, i32, i32)>,
    pub nacks: Vec<Nack>,
    pub asked: PendingRequest,
}

impl RetryLog {
    pub fn new(stream: u32, deliveries: Vec<Delivery>) -> Self {
        Self { stream, partitions: vec![(0, 0); usize::from(PARTITIONS)], deliveries }
    }
}

/// The number of failures and the value of a released record.
fn redelivery(record: &RawRecord) -> (u32, String) {
    let text = |bytes: bytes::Bytes| String::from_utf8(bytes.to_vec()).unwrap();
    let count = record.headers.last("RECONSUME_TIME").flatten().unwrap();
    (text(count).parse().unwrap(), text(record.value.clone().unwrap()))
}

impl World {
    /// Tells the engine of a retry topic.
    pub fn serve(&mut self, pair: &RetryPair) -> Result<(), Cut> {
        let RetryLog { stream, partitions, .. } = &self.logs[pair];
        let (stream, partitions) = (*stream, partitions.clone());
        self.model.serve(pair, stream);
        self.in_question();
        for (index, (_, committed)) in (0..).zip(&partitions) {
            self.model.retry_commit(&pair.group, pair.partition(stream, index), *committed);
            self.in_question();
        }
        let log = |(_, committed)| RetryPartitionLog { stream: StreamId(stream), committed };
        self.engine().serve_topic_behind(pair, partitions.into_iter().map(log).collect());
        self.tell()
    }

    /// A retry topic is deleted and made anew.
    pub fn recreate(&mut self, pair: &RetryPair) -> Result<(), Cut> {
        let log = self.logs.get_mut(pair).unwrap();
        *log = RetryLog::new(log.stream + 1, std::mem::take(&mut log.deliveries));
        self.model.lose(pair);
        self.engine().serve_topic_behind(pair, Vec::new());
        self.tell()?;
        self.serve(pair)
    }

    /// Takes what the engine has handed over: retries that are due and may leave, once and in
    /// order, to the topic that each enters. A retry may stay only if all partitions of its topic
    /// have a batch on its way.
    pub fn take_handed_over(&mut self) -> Result<(), Cut> {
        let engine = self.engine();
        let mut context = Context::from_waker(Waker::noop());
        let next = || match pin!(engine.next_release()).poll(&mut context) {
            Poll::Ready(batch) => Some(batch),
            Poll::Pending => None,
        };
        let batches: Vec<ReleaseBatch> = std::iter::from_fn(next).collect();
        let due: BTreeMap<GroupId, Vec<(u64, Source)>> = self
            .model
            .topics
            .keys()
            .map(|group| (group.clone(), self.model.releasable(group)))
            .collect();
        let mut sent: Vec<SentBatch> = Vec::new();
        for batch in batches {
            let (pair, _) = target_of(&batch);
            let to_topic = due[&pair.group].iter().filter(|(_, source)| *source == pair.source);
            let mut later = to_topic.map(|(id, _)| *id);
            let id = |record| {
                let (count, text) = redelivery(record);
                later.find(|id| self.model.redelivery(*id) == (count, text.as_str()))
            };
            let Some(ids) = batch.records.iter().map(id).collect() else {
                return self.failed(("not due, or out of order", &due[&pair.group], batch));
            };
            sent.push(SentBatch { batch, ids, base: None });
        }
        let mut gone: Vec<u64> = sent.iter().flat_map(|one| one.ids.clone()).collect();
        gone.sort_unstable();
        assert!(gone.is_sorted_by(|a, b| a < b), "a retry leaves once");
        for one in sent {
            let SentBatch { batch, ids, .. } = &one;
            self.tell_story(|| {
                format!("  partition {} of {}: {ids:?}", batch.partition(), batch.topic)
            });
            let (pair, partition) = target_of(batch);
            self.model.hand_over(&pair.group, partition, ids);
            self.sent.push(one);
        }
        for (group, due) in due {
            let left = self.model.releasable(&group);
            if !left.is_empty() {
                return self.failed((group, "left", left, "of", due));
            }
        }
        Ok(())
    }

    /// Writes a batch into its topic, as that is now.
    pub fn write(&mut self, at: usize) {
        let SentBatch { batch, base, .. } = &mut self.sent[at];
        let (pair, RetryPartition { index, .. }) = target_of(batch);
        let log = self.logs.get_mut(&pair).unwrap();
        let (end, _) = &mut log.partitions[usize::from(index)];
        *base = Some(*end);
        for record in &batch.records {
            let place = pair.partition(log.stream, index).at(*end);
            let origin = record.headers.last("ORIGIN_MESSAGE_ID").flatten();
            let origin = origin.map(|text| str::from_utf8(&text).unwrap().parse().unwrap());
            let named = origin.map(|origin| (origin, redelivery(record).0));
            log.deliveries.push((place, named));
            self.released += 1;
            *end += 1;
        }
    }

    /// Ends a batch; the nacks that waited for it are taken now.
    pub fn end(&mut self, at: usize, outcome: ReleaseOutcome) -> Result<(), Cut> {
        let SentBatch { batch, ids, .. } = self.sent.remove(at);
        let (RetryPair { group, .. }, partition) = target_of(&batch);
        let behind = self.model.release_ended(&group, partition, &ids, &outcome);
        self.in_question();
        if let Some(committed) = behind {
            self.model.retry_commit(&group, partition, committed);
            self.in_question();
        }
        let mut asked = Vec::new();
        for one in std::mem::take(&mut self.postponed) {
            if one.group != group || self.model.waits(&group, &one.nacks) {
                self.postponed.push(one);
                continue;
            }
            let said = self.model.nacks(&group, one.stamp, &one.nacks);
            self.in_question();
            asked.push((one.asked, said, self.states()));
        }
        self.engine().release_ended(batch, outcome);
        self.tell()?;
        asked.into_iter().try_for_each(|(asked, said, count)| self.answer(asked, said, count))
    }

    /// Sends nacks that wait for the end of a batch.
    pub fn postpone(&mut self, mut one: Postponed) -> Result<(), Cut> {
        let said = world::poll(&mut one.asked);
        assert!(said.is_pending(), "said without asking: {said:?}");
        self.tell()?;
        let said = world::poll(&mut one.asked);
        assert!(said.is_pending(), "the topic may have a retry that is not noted: {said:?}");
        self.postponements += 1;
        self.postponed.push(one);
        Ok(())
    }
}

/// The retry topic of a batch, and the partition.
fn target_of(batch: &ReleaseBatch) -> (RetryPair, RetryPartition) {
    match &batch.target {
        ReleaseTarget::Retries(pair, partition) => (pair.clone(), *partition),
        ReleaseTarget::Letters(_) => panic!("letters lie in the log"),
    }
}
