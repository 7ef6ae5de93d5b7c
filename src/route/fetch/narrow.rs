//! Narrows a Fetch to what the plan allows, and completes the broker's answer: the client gets
//! exactly the partitions it requested, in its order.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;
use kafka_protocol::messages::fetch_request::FetchTopic;
use kafka_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use kafka_protocol::messages::{FetchRequest, FetchResponse};
use uuid::Uuid;

use crate::model::{OffsetRuns, Sparse, TopicPartition};
use crate::retry::detector::{DeliveredRange, FetchDecision};
use crate::route::fetch::partition_data::{empty, refused};
use crate::wire::ResponseError;
use crate::wire::batch::cut::{self, CutError};
use crate::wire::batch::{Batch, Hidden};

/// Bound of an unpacked compressed batch.
pub(super) const UNPACKED_BYTES_MAX: usize = 64 << 20;

/// The decision for one requested partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DeliveryDecision {
    /// All records of the broker's answer.
    Open,
    /// All records except these offsets.
    Without(Vec<i64>),
    /// Records below the bound: whole batches, or else the records of the next batch outside
    /// `without`.
    Below { without: Vec<i64>, below: i64 },
    /// One record outside `without`, if no partition with a lower place has records.
    Turn { place: usize, without: Vec<i64> },
    /// No records; the broker is not asked.
    Nothing,
    /// An error; the broker is not asked.
    Refused(ResponseError),
}

impl From<&FetchDecision> for DeliveryDecision {
    fn from(serve: &FetchDecision) -> Self {
        match serve {
            FetchDecision::Open => Self::Open,
            FetchDecision::Without(offsets) => Self::Without(offsets.clone()),
            FetchDecision::Below { without, below } => {
                Self::Below { without: without.clone(), below: *below }
            }
            FetchDecision::Turn { without, place } => {
                Self::Turn { place: *place, without: without.clone() }
            }
            FetchDecision::Nothing | FetchDecision::Again | FetchDecision::Settle(_) => {
                Self::Nothing
            }
        }
    }
}

impl DeliveryDecision {
    fn is_asked(&self) -> bool {
        !matches!(self, Self::Nothing | Self::Refused(_))
    }

    /// Whether the record at this offset is withheld by the bound.
    fn holds(&self, offset: i64) -> bool {
        matches!(self, Self::Below { below, .. } if *below <= offset)
    }

    fn place(&self) -> Option<usize> {
        match self {
            Self::Turn { place, .. } => Some(*place),
            _ => None,
        }
    }
}

/// Whether the plan delivers a single record, from one of the partitions.
pub(super) fn is_by_turn(gives: &[DeliveryDecision]) -> bool {
    gives.iter().any(|give| give.place().is_some())
}

/// The request for the broker: only the partitions that the plan allows, without a session. `gives`
/// has one item for each partition of `request`, in its order.
pub(super) fn narrowed(request: &FetchRequest, gives: &[DeliveryDecision]) -> FetchRequest {
    let mut narrowed = request.clone();
    let mut each = gives.iter();
    let mut topics: Vec<(Option<usize>, FetchTopic)> = Vec::new();
    for mut topic in std::mem::take(&mut narrowed.topics) {
        let asked = topic.partitions.into_iter().zip(each.by_ref());
        let asked = asked.filter(|(_, give)| give.is_asked());
        let mut asked: Vec<_> = asked.map(|(of, give)| (give.place(), of)).collect();
        asked.sort_by_key(|(place, _)| *place);
        let lowest = asked.first().map(|(place, _)| *place);
        topic.partitions = asked.into_iter().map(|(_, of)| of).collect();
        topics.extend(lowest.map(|lowest| (lowest, topic)));
    }
    // A broker fills its answer in the order of the request, and returns the first batch whatever
    // the limit (KIP-74). The first batch is thus of the lowest place, as far as the grouping by
    // topic allows.
    topics.sort_by_key(|(lowest, _)| *lowest);
    narrowed.topics = topics.into_iter().map(|(_, topic)| topic).collect();
    if is_by_turn(gives) {
        narrowed.max_bytes = 1;
    }
    narrowed.forgotten_topics_data.clear();
    (narrowed.session_id, narrowed.session_epoch) = (0, -1);
    narrowed
}

/// The client's answer from the broker's; partitions that were not requested upstream are empty.
pub(super) fn merged(
    request: &FetchRequest,
    gives: &[DeliveryDecision],
    told: FetchResponse,
) -> FetchResponse {
    let mut response = FetchResponse::default();
    response.throttle_time_ms = told.throttle_time_ms;
    let mut told = by_partition(told);
    let mut gives = gives.iter();
    for topic in &request.topics {
        let mut answer = FetchableTopicResponse::default();
        (answer.topic, answer.topic_id) = (topic.topic.clone(), topic.topic_id);
        for asked in &topic.partitions {
            let key = key(topic.topic.as_str(), topic.topic_id, asked.partition);
            let mut data = match gives.next() {
                Some(DeliveryDecision::Refused(error)) => refused(*error),
                Some(DeliveryDecision::Nothing) => empty(-1, -1),
                _ => told.remove(&key).unwrap_or_else(|| empty(-1, -1)),
            };
            data.partition_index = asked.partition;
            answer.partitions.push(data);
        }
        response.responses.push(answer);
    }
    response
}

type PartitionKey = (String, Uuid, i32);

fn key(topic: &str, id: Uuid, partition: i32) -> PartitionKey {
    (topic.to_owned(), id, partition)
}

fn by_partition(told: FetchResponse) -> BTreeMap<PartitionKey, PartitionData> {
    let topics = told.responses.into_iter();
    let partitions = topics.flat_map(|topic| {
        let (name, id) = (topic.topic, topic.topic_id);
        topic
            .partitions
            .into_iter()
            .map(move |data| (key(name.as_str(), id, data.partition_index), data))
    });
    partitions.collect()
}

/// Keeps the records of the lowest place that has any; the others are fetched again later.
pub(super) fn first_in_line(response: &mut FetchResponse, gives: &[DeliveryDecision]) {
    let partitions = || response.responses.iter().flat_map(|topic| &topic.partitions);
    let with_records = partitions().zip(gives).filter(|(data, _)| has_records(data));
    let Some(first) = with_records.filter_map(|(_, give)| give.place()).min() else { return };
    let partitions = response.responses.iter_mut().flat_map(|topic| &mut topic.partitions);
    for (data, give) in partitions.zip(gives) {
        if give.place().is_some_and(|place| place != first) {
            data.records = Some(Bytes::new());
        }
    }
}

/// The extent of the records that leave for one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeliveryExtent {
    /// The client's next fetch offset; the requested offset if nothing leaves.
    pub(super) end: i64,
    /// Offsets without a record for the application.
    pub(super) hidden: OffsetRuns,
    /// Batches with fewer records than offsets.
    pub(super) sparse: Vec<Sparse>,
    /// The one record, if it goes by turn.
    pub(super) turn: Option<i64>,
}

impl DeliveryExtent {
    /// No record leaves: there is none below the withheld one.
    fn nothing(from: i64, first: i64) -> Self {
        let hidden = std::iter::once(from..first).collect();
        Self { end: from, hidden, sparse: Vec::new(), turn: None }
    }

    /// The offsets without a record to deliver, if nothing leaves.
    pub(super) fn passed_over(&self, from: i64) -> Option<Range<i64>> {
        let nothing = self.hidden.at(from).filter(|_| self.end == from);
        nothing.cloned()
    }

    pub(super) fn handed(self, partition: TopicPartition, from: i64) -> DeliveredRange {
        let Self { end, hidden, sparse, turn } = self;
        DeliveredRange { partition, from, end, turn, hidden, sparse }
    }
}

/// Removes withheld records from a broker's answer. `None`: no batch is left.
pub(super) fn cut(
    data: &mut PartitionData,
    give: &DeliveryDecision,
    from: i64,
) -> Result<Option<DeliveryExtent>, CutError> {
    let Some(records) = data.records.as_ref().filter(|records| !records.is_empty()) else {
        return Ok(None);
    };
    if let DeliveryDecision::Below { without, below } = give
        && let Some(whole) = whole_below(records, from, without, *below)
    {
        data.records = Some(whole);
        return cut(data, &DeliveryDecision::Open, from);
    }
    let (end, hidden, sparse) = shown(records, data, from);
    let cut = match give {
        DeliveryDecision::Without(offsets) => {
            cut::without_from(records, from, offsets, UNPACKED_BYTES_MAX)?
        }
        DeliveryDecision::Below { without, below } => {
            let limits = (without.as_slice(), *below);
            cut::below(records, from, limits, &hidden, UNPACKED_BYTES_MAX)?
        }
        DeliveryDecision::Turn { without, .. } => {
            cut::alone_seen(records, from, without, &hidden, UNPACKED_BYTES_MAX)?
        }
        DeliveryDecision::Open | DeliveryDecision::Nothing | DeliveryDecision::Refused(_) => {
            return Ok(end.map(|end| DeliveryExtent { end, hidden, sparse, turn: None }));
        }
    };
    if let Some(first) = cut.first.filter(|first| give.holds(*first)) {
        data.records = Some(Bytes::new());
        return Ok(Some(DeliveryExtent::nothing(from, first)));
    }
    let turn = cut.first.filter(|_| give.place().is_some());
    let end = (!cut.records.is_empty()).then_some(cut.end);
    data.records = Some(cut.records);
    Ok(end.map(|end| DeliveryExtent { end, hidden, sparse, turn }))
}

/// The whole batches below the bound and below the first withheld offset. `None`: none of them
/// reaches `from`.
fn whole_below(records: &Bytes, from: i64, without: &[i64], below: i64) -> Option<Bytes> {
    let cut = without.iter().copied().find(|cut| *cut >= from);
    let stop = cut.map_or(below, |cut| cut.min(below));
    let (mut rest, mut last) = (records.clone(), None);
    while let Ok(batch) = Batch::parse(&rest)
        && batch.header.last_offset() < stop
    {
        last = Some(batch.header.last_offset());
        rest = rest.slice(batch.bytes.len()..);
    }
    last.filter(|last| *last >= from)?;
    Some(records.slice(..records.len().saturating_sub(rest.len())))
}

/// The end of the last whole batch, the offsets that the application does not see, and the batches
/// with fewer records than offsets.
fn shown(
    records: &Bytes,
    data: &PartitionData,
    from: i64,
) -> (Option<i64>, OffsetRuns, Vec<Sparse>) {
    let mut hidden = Hidden::new(aborted(data));
    let (mut rest, mut end) = (records.clone(), None);
    while let Ok(batch) = Batch::parse(&rest) {
        hidden.show(&batch.header);
        end = Some(batch.header.last_offset().saturating_add(1));
        rest = rest.slice(batch.bytes.len()..);
    }
    let first = hidden.first().unwrap_or(from);
    let (mut hidden, sparse) = hidden.into_parts();
    hidden.add(from..first);
    (end, hidden, sparse)
}

/// Producer and first offset of each aborted transaction.
pub(super) fn aborted(data: &PartitionData) -> impl Iterator<Item = (i64, i64)> {
    let told = data.aborted_transactions.iter().flatten();
    told.map(|told| (told.producer_id.0, told.first_offset))
}

/// Whether the answer has news for the client, so that it leaves at once.
pub(super) fn says_something(response: &FetchResponse) -> bool {
    let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
    response.error_code != 0 || partitions.into_iter().any(has_result)
}

pub(super) fn has_records(data: &PartitionData) -> bool {
    data.records.as_ref().is_some_and(|records| !records.is_empty())
}

fn has_result(data: &PartitionData) -> bool {
    data.error_code != 0
        || has_records(data)
        || data.preferred_read_replica.0 >= 0
        || data.diverging_epoch.epoch >= 0
}

#[cfg(test)]
mod tests;
