//! What a partition waits for may be in the cluster's log no more: retention, or who deletes
//! records, has taken it.

use kafka_protocol::messages::FetchResponse;

use crate::model::{Origin, TopicPartition};
use crate::route::fetch::conditioned::{Asking, Guard, Polling};
use crate::upstream::{Found, UpstreamError};
use crate::wire::ResponseError;

impl<G: Guard> Polling<'_, G> {
    /// A partition that begins behind what it waits for waits for it no more. A client that is told
    /// that its offset is out of range goes elsewhere, so what lies there is looked at before.
    pub(super) async fn missing(&mut self, response: &FetchResponse) -> Result<(), UpstreamError> {
        let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
        let mut looks = Vec::new();
        for (data, place) in partitions.zip(self.wanted.places(&self.request)) {
            let asked = place.and_then(|place| self.wanted.asked.get(place));
            let Some(asked) = asked else { continue };
            let Some(first) = self.guard.awaited(&asked.partition) else { continue };
            if data.error_code == 0 {
                self.guard.begins(&asked.partition, data.log_start_offset);
            } else if data.error_code == ResponseError::OffsetOutOfRange.code() {
                looks.push((asked.partition.clone(), first));
            }
        }
        for (of, offset) in looks {
            let TopicPartition { topic, partition } = of.clone();
            let origin = Origin { topic, partition, offset };
            let Asking { link, head, record_version } = &mut self.asking;
            if matches!(link.read_record(*record_version, head, &origin).await?, Found::Gone) {
                self.guard.begins(&of, offset.saturating_add(1));
            }
        }
        Ok(())
    }
}
