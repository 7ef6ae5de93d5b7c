//! Keys in order: records of the cluster are looked at before any of them leaves.

use std::collections::BTreeMap;

use bytes::Bytes;
use kafka_protocol::messages::FetchResponse;
use kafka_protocol::messages::fetch_response::PartitionData;

use crate::retry::watch::Handed;
use crate::route::fetch::conditioned::{Guard, Polling};
use crate::route::fetch::narrow::{Give, aborted};
use crate::route::fetch::plan::READ_COMMITTED;
use crate::route::watching::{Batches, Lot, Passing};

impl<G: Guard> Polling<'_, G> {
    /// What has to wait behind another record of its key is not given.
    pub(super) async fn in_order(&mut self, response: &mut FetchResponse, gives: &mut [Give]) {
        let partitions = response.responses.iter_mut().flat_map(|topic| &mut topic.partitions);
        let places = self.wanted.places(&self.request);
        for ((data, give), place) in partitions.zip(gives).zip(places) {
            let asked = place.and_then(|place| self.wanted.asked.get(place));
            let Some(asked) = asked else { continue };
            let Some(records) = data.records.as_ref().filter(|read| !read.is_empty()) else {
                continue;
            };
            let undecided = self.reads_undecided();
            let batches = Batches { records, aborted: aborted(data).collect(), undecided };
            match self.guard.passing(asked, batches).await {
                Passing::Without(entries) => *give = give.clone().without(entries),
                Passing::Nothing => {
                    data.records = Some(Bytes::new());
                    self.fixed.insert(asked.partition.clone(), Give::Nothing);
                }
            }
        }
    }

    /// What leaves, to be known as long as it is in hand.
    pub(super) fn lots(&self, response: &FetchResponse, handed: &[Handed]) -> Vec<Lot> {
        let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
        let places = self.wanted.places(&self.request);
        let lot = |(data, place): (&PartitionData, Option<usize>)| {
            let asked = self.wanted.asked.get(place?)?;
            let left = handed.iter().find(|left| left.partition == asked.partition)?;
            // A slice would keep the whole answer.
            let records = Bytes::copy_from_slice(data.records.as_ref()?);
            let (partition, offsets) = (asked.partition.clone(), left.from..left.end);
            let (aborted, undecided) = (aborted(data).collect(), self.reads_undecided());
            Some(Lot { partition, offsets, records, aborted, undecided })
        };
        partitions.zip(places).filter_map(lot).collect()
    }

    /// The client asks for records of transactions that are open as well, and is not told which
    /// were aborted.
    fn reads_undecided(&self) -> bool {
        self.request.isolation_level != READ_COMMITTED
    }

    /// How often keys of what leaves had been stopped.
    pub(super) fn stops_of(&self, stops: &[u64], handed: &[Handed]) -> Vec<u64> {
        let asked = self.wanted.asked.iter().map(|ask| &ask.partition);
        let stops: BTreeMap<_, u64> = asked.zip(stops.iter().copied()).collect();
        handed.iter().map(|left| stops.get(&left.partition).copied().unwrap_or(0)).collect()
    }
}
