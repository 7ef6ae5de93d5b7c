//! Records of this node's own topics for a member, as the detector of its group plans.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::FetchResponse;
use kafka_protocol::messages::fetch_response::PartitionData;

use crate::broker::OffsetOutcome;
use crate::broker::topic::Partition;
use crate::journal::ReadSize;
use crate::model::{MonoMs, TopicName, TopicPartition};
use crate::retry::detector::{DeliveredRange, ExhaustedRecord, FetchDecision, FetchPosition, Plan};
use crate::route::Router;
use crate::route::clients::conn::Conn;
use crate::route::delivery::{FinalForm, ReadOutcome};
use crate::route::fetch::answer_room::AnswerRoom;
use crate::route::fetch::member::{FetchGuard, FetchMember, FinalReader, settled_plan};
use crate::route::fetch::narrow::{DeliveryDecision, DeliveryExtent, UNPACKED_BYTES_MAX, cut};
use crate::route::fetch::partition_data::{empty, from_log, readable_end};
use crate::route::fetch::plan::{PartitionRead, PlannedTopic, ReadSource};
use crate::route::topics::topic_names::TopicKind;
use crate::wire::batch::{Batch, UnreadableBatch, whole_at};

/// Bytes read to find the end of an unreadable batch.
const WHOLE_BYTES: usize = 1 << 20;

/// Records of this node's topics for one Fetch.
pub(super) struct LocalRecords<'a> {
    router: &'a Router,
    member: FetchMember<'a>,
}

/// The answer for one partition.
pub(super) struct PartitionAnswer {
    pub(super) data: PartitionData,
    /// Deliveries, recorded in the detector before they leave.
    pub(super) handed: Option<DeliveredRange>,
    /// Answer without waiting for more records.
    pub(super) at_once: bool,
}

impl<'a> LocalRecords<'a> {
    pub(super) fn of(
        router: &'a Router,
        conn: &'a Conn,
        planned: &[PlannedTopic],
        max_wait_ms: u64,
    ) -> Self {
        let mut topics: Vec<TopicName> = Vec::new();
        for log in real(planned) {
            if topics.last() != Some(&log.topic.name) {
                topics.push(log.topic.name.clone());
            }
        }
        Self { router, member: FetchMember::of(router, conn, &topics, max_wait_ms) }
    }

    /// The plan for the requested partitions of ordinary topics, in their order; empty: nothing is
    /// withheld.
    pub(super) async fn plan(&self, planned: &[PlannedTopic]) -> Plan {
        if !self.member.is_tracked() {
            return self.member.asked(&[]);
        }
        let asked =
            |log: &PartitionRead| FetchPosition { partition: log.partition(), offset: log.offset };
        let asked: Vec<FetchPosition> = real(planned).map(asked).collect();
        let start = |log: &PartitionRead| {
            let partition = log.topic.partition(log.index)?;
            Some((log.partition(), self.router.broker.bounds(partition).start))
        };
        self.member.begin(real(planned).filter_map(start));
        let Ok(plan) = settled_plan(&self.member, self.router.clock, &asked, self).await;
        plan
    }

    /// A record that is to be settled; `None`: it cannot be read now.
    fn exhausted(&self, settling: &ExhaustedRecord) -> Option<ReadOutcome> {
        let TopicPartition { topic, partition } = &settling.partition;
        let Some(TopicKind::Local(topic)) = self.router.place(topic) else {
            return Some(ReadOutcome::Gone);
        };
        let Some(log) = topic.partition(*partition) else { return Some(ReadOutcome::Gone) };
        match self.router.broker.at(log, settling.offset) {
            Ok(OffsetOutcome::Record(record)) => {
                Some(ReadOutcome::Found(FinalForm::Record(record)))
            }
            Ok(OffsetOutcome::Nobodys) => Some(ReadOutcome::Gone),
            Ok(OffsetOutcome::Open) => None,
            Ok(OffsetOutcome::Nothing)
                if settling.offset < self.router.broker.bounds(log).start =>
            {
                Some(ReadOutcome::Gone)
            }
            Ok(OffsetOutcome::Nothing | OffsetOutcome::Unreadable)
                if let Some(whole) = self.whole(log, settling.offset) =>
            {
                Some(ReadOutcome::Found(FinalForm::Batch(Box::new(whole))))
            }
            Ok(OffsetOutcome::Nothing | OffsetOutcome::Unreadable) => {
                let why = format_args!("no record can be read at offset {}", settling.offset);
                self.member.unreadable(&settling.partition, &why);
                None
            }
            Err(error) => {
                self.member.unreadable(&settling.partition, &error);
                None
            }
        }
    }

    /// The batch at that offset, if none of its records can be read.
    fn whole(&self, log: &Partition, offset: i64) -> Option<UnreadableBatch> {
        let read = self.router.broker.read(log, offset, ReadSize::any(WHOLE_BYTES)).ok()?;
        whole_at(&read.records, offset, read.bounds.visible_end, UNPACKED_BYTES_MAX)
    }

    /// Reads a partition and keeps what `serve` allows. `first`: the first records of this answer,
    /// at least one whole batch, once there is `room` for it.
    pub(super) async fn give(
        &self,
        log: &PartitionRead,
        serve: &FetchDecision,
        (bytes_max, first): (usize, bool),
        room: &mut AnswerRoom<'_>,
    ) -> PartitionAnswer {
        let is_alone = matches!(serve, FetchDecision::Turn { .. } | FetchDecision::Below { .. });
        if matches!(serve, FetchDecision::Nothing | FetchDecision::Again | FetchDecision::Settle(_))
        {
            return PartitionAnswer {
                at_once: *serve == FetchDecision::Again,
                ..self.nothing(log)
            };
        }
        let is_whole = first || is_alone;
        let read_max = if is_whole { bytes_max.max(1) } else { bytes_max };
        let give = DeliveryDecision::from(serve);
        let (data, leaving) = loop {
            let first_max = if is_whole { room.batch_bytes() } else { bytes_max };
            let size = ReadSize { bytes_max: read_max, first_max };
            let larger = match from_log(self.router, log, size) {
                Ok(mut data) => {
                    let leaving = self.cut(log, &give, &mut data);
                    // A compressed batch that is cut leaves unpacked.
                    let bytes = data.records.as_ref().map_or(0, Bytes::len);
                    if bytes <= first_max {
                        break (data, leaving);
                    }
                    bytes
                }
                Err(larger) => larger,
            };
            // Nothing of the batch is in memory while it waits.
            if !is_whole || !room.admit_batch(larger).await {
                return self.nothing(log);
            }
        };
        if data.records.as_ref().is_some_and(|records| !records.is_empty()) {
            room.keep_batch();
        }
        let passed_over = leaving.as_ref().and_then(|leaving| leaving.passed_over(log.offset));
        if let Some(nothing) = passed_over.filter(|_| self.member.is_tracked()) {
            self.member.passed_over(&log.partition(), nothing);
            return self.nothing(log);
        }
        let at_once = is_alone && leaving.is_some();
        let leaving = leaving.filter(|_| self.detectors(log));
        let handed = leaving.map(|leaving| leaving.handed(log.partition(), log.offset));
        PartitionAnswer { data, handed, at_once }
    }

    /// An answer without records.
    pub(super) fn nothing(&self, log: &PartitionRead) -> PartitionAnswer {
        let broker = &self.router.broker;
        let mut data = empty(-1, -1);
        if let Some(partition) = log.topic.partition(log.index) {
            let stable = broker.stable_end(partition);
            let bounds = broker.bounds(partition);
            data = empty(bounds.start, bounds.visible_end);
            data.last_stable_offset = stable;
        }
        PartitionAnswer { data, handed: None, at_once: false }
    }

    /// The one record that goes by turn, and the position of its partition in the plan.
    pub(super) async fn by_turn(
        &self,
        planned: &[PlannedTopic],
        serve: &[FetchDecision],
        bytes_max: usize,
        room: &mut AnswerRoom<'_>,
    ) -> Option<(usize, PartitionAnswer)> {
        let mut line: Vec<_> = real(planned)
            .zip(serve)
            .enumerate()
            .filter_map(|(of, (log, serve))| match serve {
                FetchDecision::Turn { place, .. } => Some((*place, of, log, serve)),
                _ => None,
            })
            .collect();
        line.sort_by_key(|(place, ..)| *place);
        for (_, of, log, serve) in line {
            let given = self.give(log, serve, (bytes_max, true), room).await;
            if given.handed.is_some() || given.data.error_code != 0 {
                return Some((of, given));
            }
        }
        None
    }

    fn detectors(&self, log: &PartitionRead) -> bool {
        log.is_real && self.member.is_tracked()
    }

    /// Removes withheld records; returns the extent of the rest.
    fn cut(
        &self,
        log: &PartitionRead,
        give: &DeliveryDecision,
        data: &mut PartitionData,
    ) -> Option<DeliveryExtent> {
        if *give == DeliveryDecision::Open && !self.detectors(log) {
            return None;
        }
        cut(data, give, log.offset).unwrap_or_else(|error| {
            self.member.unreadable(&log.partition(), &error);
            data.records = Some(Bytes::new());
            None
        })
    }

    /// Records the deliveries, if the client is still connected.
    pub(super) fn handed(&self, handed: &[DeliveredRange]) {
        self.member.handed(handed);
    }

    /// Returns after `pause`, or when a new plan may differ.
    pub(super) async fn wait(&self, pause: Duration, until: Option<MonoMs>) {
        // A timeout and a change both lead to the next round.
        drop(tokio::time::timeout(pause, self.member.replan(until)).await);
    }
}

impl FinalReader for &LocalRecords<'_> {
    type Error = Infallible;

    async fn read(
        &mut self,
        settling: &ExhaustedRecord,
    ) -> Result<Option<ReadOutcome>, Infallible> {
        Ok(self.exhausted(settling))
    }
}

/// The logs of ordinary topics, in the requested order.
fn real(planned: &[PlannedTopic]) -> impl Iterator<Item = &PartitionRead> {
    let sources = planned.iter().flat_map(|topic| &topic.partitions).map(|asked| &asked.source);
    sources.filter_map(|source| match source {
        ReadSource::Log(log) if log.is_real => Some(log),
        _ => None,
    })
}

/// Whether the records are only empty batches up to the end, in place of cut ones. Some clients do
/// not advance past an empty batch and would fetch it again without a pause.
pub(super) fn only_skips(data: &PartitionData) -> bool {
    let Some(mut rest) = data.records.clone() else { return false };
    let mut end = None;
    while let Ok(batch) = Batch::parse(&rest) {
        if batch.header.count != 0 {
            return false;
        }
        end = Some(batch.header.last_offset().saturating_add(1));
        rest = rest.slice(batch.bytes.len()..);
    }
    rest.is_empty() && end.is_some_and(|end| end >= readable_end(data))
}

/// Clients with these versions may throw at an answer of only empty batches: kafka-python up to
/// 2.0.2 indexes the last of its records.
pub(super) fn throws_at_skips(version: i16) -> bool {
    version <= 4
}

/// Removes empty batches up to the end: the client keeps its offset until more records come.
pub(super) fn leave_out_skips(response: &mut FetchResponse) {
    let partitions = response.responses.iter_mut().flat_map(|topic| &mut topic.partitions);
    for data in partitions.filter(|data| only_skips(data)) {
        data.records = Some(Bytes::new());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::batch::empty_batch;

    #[test]
    fn only_empty_batches_up_to_the_end_are_no_news() {
        let data = |records: Vec<Bytes>, end| {
            let mut data = empty(0, end);
            data.records = Some(Bytes::from(records.concat()));
            data
        };
        let skips = vec![empty_batch(5, 2), empty_batch(8, 0)];
        assert!(only_skips(&data(skips.clone(), 9)));
        assert!(!only_skips(&data(skips.clone(), 10)), "more lies behind them");
        assert!(!only_skips(&data(Vec::new(), 9)));
        let mut open = data(skips.clone(), 12);
        (open.last_stable_offset, open.aborted_transactions) = (9, None);
        assert!(!only_skips(&open), "who reads everything is given more");
        open.aborted_transactions = Some(Vec::new());
        assert!(only_skips(&open), "a transaction is open behind them");
        open.last_stable_offset = -1;
        assert!(!only_skips(&open), "a broker that does not tell");
        // The record count in the header says one.
        let mut counted = skips[1].to_vec();
        counted[60] = 1;
        assert!(!only_skips(&data(vec![skips[0].clone(), counted.into()], 9)));
        let torn = skips[1].slice(..40);
        assert!(!only_skips(&data(vec![skips[0].clone(), torn], 8)));
    }
}
