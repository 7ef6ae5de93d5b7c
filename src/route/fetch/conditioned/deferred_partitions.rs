//! Batches that were cut to nothing up to the end of a partition. The broker is asked for the
//! offsets behind them. The client receives the empty batches with the next records, or at its
//! deadline. Some clients do not advance past an empty batch and would fetch it again without a
//! pause.

use std::collections::BTreeMap;

use bytes::Bytes;
use kafka_protocol::messages::FetchRequest;
use kafka_protocol::messages::fetch_request::FetchPartition;
use kafka_protocol::messages::fetch_response::PartitionData;

use crate::route::fetch::local_records::{only_skips, throws_at_skips};
use crate::route::fetch::narrow;
use crate::route::fetch::partition_data::empty;
use crate::wire::ResponseError;
use crate::wire::batch::end_of;

/// By the position of the partition in the Fetch request.
#[derive(Debug, Default)]
pub(super) struct DeferredPartitions(BTreeMap<usize, DeferredRecords>);

#[derive(Debug)]
struct DeferredRecords {
    records: Bytes,
    /// The fetch offset and epoch of the client's request.
    from: (i64, i32),
    /// The broker does not know the offset behind the batches, so nothing is kept any more.
    is_over: bool,
}

impl DeferredPartitions {
    /// Puts the batches that were cut earlier in front of `data`. If the result is only empty
    /// batches up to the end, it is kept, and the broker is asked behind it. Otherwise the client
    /// receives it.
    pub(super) fn keep(
        &mut self,
        place: usize,
        request: &mut FetchRequest,
        data: &mut PartitionData,
    ) {
        if !narrow::has_records(data) {
            return;
        }
        let kept = self.0.remove(&place);
        if let Some(over) = kept.as_ref().filter(|kept| kept.is_over) {
            let from = over.from;
            self.0.insert(place, DeferredRecords { records: Bytes::new(), from, is_over: true });
            return;
        }
        let came = data.records.take().unwrap_or_default();
        let before = kept.as_ref().map(|kept| kept.records.clone()).unwrap_or_default();
        data.records = Some(if before.is_empty() { came } else { [before, came].concat().into() });
        if !only_skips(data) {
            return;
        }
        let records = data.records.replace(Bytes::new()).unwrap_or_default();
        let (Some(end), Some(asked)) = (end_of(&records), asked_at(request, place)) else { return };
        let from = kept.map_or((asked.fetch_offset, asked.last_fetched_epoch), |kept| kept.from);
        asked.fetch_offset = end;
        // The client's epoch belongs to its own fetch offset.
        asked.last_fetched_epoch = -1;
        self.0.insert(place, DeferredRecords { records, from, is_over: false });
    }

    /// Handles `OFFSET_OUT_OF_RANGE` for an offset that the client did not request: the log was
    /// truncated. The broker is asked for the client's offset again, and its answer is relayed.
    pub(super) fn lost(
        &mut self,
        place: usize,
        request: &mut FetchRequest,
        data: &mut PartitionData,
    ) {
        if data.error_code != ResponseError::OffsetOutOfRange.code() {
            return;
        }
        let Some(kept) = self.0.get_mut(&place).filter(|kept| !kept.is_over) else { return };
        let Some(asked) = asked_at(request, place) else { return };
        (asked.fetch_offset, asked.last_fetched_epoch) = kept.from;
        (kept.records, kept.is_over) = (Bytes::new(), true);
        let index = data.partition_index;
        *data = empty(-1, -1);
        data.partition_index = index;
    }

    /// Adds the kept batches to an answer without records; returns the offset where the client
    /// continues.
    pub(super) fn told(&self, place: usize, version: i16, data: &mut PartitionData) -> Option<i64> {
        if data.error_code != 0 || narrow::has_records(data) || throws_at_skips(version) {
            return None;
        }
        let records = &self.0.get(&place)?.records;
        let end = end_of(records)?;
        data.records = Some(records.clone());
        Some(end)
    }
}

fn asked_at(request: &mut FetchRequest, place: usize) -> Option<&mut FetchPartition> {
    request.topics.iter_mut().flat_map(|topic| &mut topic.partitions).nth(place)
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::fetch_request::FetchTopic;

    use super::*;
    use crate::wire::batch::empty_batch;

    fn asked() -> FetchRequest {
        let topic = |partitions: &[i64]| {
            let of = |offset: &i64| {
                let asked = FetchPartition::default().with_fetch_offset(*offset);
                asked.with_last_fetched_epoch(4)
            };
            FetchTopic::default().with_partitions(partitions.iter().map(of).collect())
        };
        FetchRequest::default().with_topics(vec![topic(&[1, 2]), topic(&[5])])
    }

    fn positions(request: &FetchRequest) -> Vec<(i64, i32)> {
        let partitions = request.topics.iter().flat_map(|topic| &topic.partitions);
        partitions.map(|of| (of.fetch_offset, of.last_fetched_epoch)).collect()
    }

    fn data(records: Bytes, end: i64) -> PartitionData {
        let mut data = empty(0, end);
        data.records = Some(records);
        data
    }

    #[test]
    fn the_fetch_continues_behind_a_cut_log_end() {
        let (mut behind, mut request) = (DeferredPartitions::default(), asked());
        let mut end = data(empty_batch(5, 2), 8);
        behind.keep(2, &mut request, &mut end);
        assert!(!narrow::has_records(&end));
        assert_eq!(positions(&request), [(1, 4), (2, 4), (8, -1)]);
        let mut more = data(empty_batch(8, 0), 9);
        behind.keep(2, &mut request, &mut more);
        assert_eq!(positions(&request)[2], (9, -1));
        assert_eq!(behind.told(1, 11, &mut data(Bytes::new(), 2)), None);
        let mut told = data(Bytes::new(), 9);
        assert_eq!(behind.told(2, 11, &mut told), Some(9));
        let both = [empty_batch(5, 2), empty_batch(8, 0)].concat();
        assert_eq!(told.records.unwrap(), both);
        let mut refused = data(Bytes::new(), 9);
        refused.error_code = 6;
        assert_eq!(behind.told(2, 11, &mut refused), None);
        assert_eq!(behind.told(2, 4, &mut data(Bytes::new(), 9)), None, "it would throw");
    }

    #[test]
    fn records_behind_a_cut_batch_are_delivered_with_it() {
        let (mut behind, mut request) = (DeferredPartitions::default(), asked());
        behind.keep(0, &mut request, &mut data(empty_batch(1, 0), 2));
        let mut counted = empty_batch(2, 0).to_vec();
        counted[60] = 1;
        let mut news = data(counted.clone().into(), 3);
        behind.keep(0, &mut request, &mut news);
        let both = [&empty_batch(1, 0)[..], &counted].concat();
        assert_eq!(news.records.as_ref().unwrap(), &both);
        assert_eq!(behind.told(0, 11, &mut news), None);
        assert_eq!(positions(&request)[0], (2, -1));
        let mut more = data(empty_batch(1, 0), 9);
        let mut fresh = DeferredPartitions::default();
        fresh.keep(0, &mut request, &mut more);
        assert!(narrow::has_records(&more), "more lies behind it, and the client goes on at once");
    }

    #[test]
    fn a_truncated_log_behind_a_cut_batch_is_no_error() {
        let (mut behind, mut request) = (DeferredPartitions::default(), asked());
        let mut out_of_range = data(Bytes::new(), -1);
        out_of_range.error_code = ResponseError::OffsetOutOfRange.code();
        let mut own = out_of_range.clone();
        behind.lost(2, &mut request, &mut own);
        assert_eq!(own, out_of_range, "what the client asks for is out of range");
        behind.keep(2, &mut request, &mut data(empty_batch(5, 2), 8));
        assert_eq!(positions(&request)[2], (8, -1));
        behind.lost(2, &mut request, &mut out_of_range);
        assert_eq!(out_of_range.error_code, 0);
        assert_eq!(positions(&request)[2], (5, 4), "as the client asked");
        let mut again = data(empty_batch(5, 2), 8);
        behind.keep(2, &mut request, &mut again);
        assert!(narrow::has_records(&again), "given as it comes");
        assert_eq!(positions(&request)[2], (5, 4));
        assert_eq!(behind.told(2, 11, &mut data(Bytes::new(), 8)), None);
    }
}
