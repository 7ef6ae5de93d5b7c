//! The retry topics in the cluster, and the writer that takes due retries there.

use std::collections::BTreeMap;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use reprise::engine::{ReleaseBatch, ReleaseOutcome, RetryPartitionLog};
use reprise::journal::StreamId;
use reprise::model::{GroupId, Origin, RetryPair, RetryPlace};
use reprise::wire::batch::RawRecord;

use crate::model::Nack;
use crate::release::PARTITIONS;
use crate::world::{self, Cut, PendingRequest, World};

/// The retry topic of a group. No crash of the engine changes it.
#[derive(Debug)]
pub struct RetryLog {
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
    /// The stream of the topic at that time.
    stream: u32,
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
    /// Tells the engine of the retry topic of a group.
    pub fn serve(&mut self, group: &GroupId) -> Result<(), Cut> {
        let RetryLog { stream, partitions, .. } = &self.logs[group];
        let (stream, partitions) = (*stream, partitions.clone());
        self.model.serve(group, stream);
        self.in_question();
        for (of, (_, committed)) in (0..).zip(&partitions) {
            self.model.retry_commit(group, of, *committed);
            self.in_question();
        }
        let log = |(_, committed)| RetryPartitionLog { stream: StreamId(stream), committed };
        self.engine().serve_topic_behind(
            &RetryPair::of_group(group),
            partitions.into_iter().map(log).collect(),
        );
        self.tell()
    }

    /// The retry topic of a group is deleted and made anew.
    pub fn recreate(&mut self, group: &GroupId) -> Result<(), Cut> {
        let log = self.logs.get_mut(group).unwrap();
        *log = RetryLog::new(log.stream + 1, std::mem::take(&mut log.deliveries));
        self.model.lose(group);
        self.engine().serve_topic_behind(&RetryPair::of_group(group), Vec::new());
        self.tell()?;
        self.serve(group)
    }

    /// Takes what the engine has handed over. Every retry must be there that is due and may leave,
    /// once and in order, and no other one.
    pub fn take_handed_over(&mut self) -> Result<(), Cut> {
        let engine = self.engine();
        let mut context = Context::from_waker(Waker::noop());
        let next = || match pin!(engine.next_release()).poll(&mut context) {
            Poll::Ready(batch) => Some(batch),
            Poll::Pending => None,
        };
        let batches: Vec<ReleaseBatch> = std::iter::from_fn(next).collect();
        let groups = self.model.topics.keys();
        let due: BTreeMap<GroupId, Vec<u64>> =
            groups.map(|group| (group.clone(), self.model.releasable(group))).collect();
        let mut sent: Vec<SentBatch> = Vec::new();
        for batch in batches {
            let mut later = due[batch.group()].iter();
            let id = |record| {
                let (count, text) = redelivery(record);
                later.find(|id| self.model.redelivery(**id) == (count, text.as_str())).copied()
            };
            let Some(ids) = batch.records.iter().map(id).collect() else {
                return self.failed(("not due, or out of order", &due[batch.group()], batch));
            };
            let stream = self.model.topics[batch.group()].stream;
            sent.push(SentBatch { batch, ids, stream, base: None });
        }
        for (group, mut due) in due {
            let of_group = sent.iter().filter(|one| *one.batch.group() == group);
            let mut ids: Vec<u64> = of_group.flat_map(|one| one.ids.clone()).collect();
            ids.sort_unstable();
            due.sort_unstable();
            if ids != due {
                return self.failed((group, "handed over", ids, "due", due));
            }
        }
        for one in sent {
            let SentBatch { batch, ids, .. } = &one;
            self.tell_story(|| {
                format!("  partition {} of {}: {ids:?}", batch.partition(), batch.group())
            });
            self.model.hand_over(batch.group(), index_of(batch), ids);
            self.sent.push(one);
        }
        Ok(())
    }

    /// Writes a batch into its topic, as that is now.
    pub fn write(&mut self, at: usize) {
        let SentBatch { batch, base, .. } = &mut self.sent[at];
        let log = self.logs.get_mut(batch.group()).unwrap();
        let (end, _) = &mut log.partitions[usize::from(index_of(batch))];
        *base = Some(*end);
        for record in &batch.records {
            let place = RetryPlace::in_stream(index_of(batch), log.stream, *end);
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
        let SentBatch { batch, ids, stream, .. } = self.sent.remove(at);
        let (group, partition) = (batch.group().clone(), index_of(&batch));
        let behind = self.model.release_ended(&group, (stream, partition), &ids, &outcome);
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

/// The partition of a batch of retries.
fn index_of(batch: &ReleaseBatch) -> u16 {
    u16::try_from(batch.partition()).unwrap()
}
