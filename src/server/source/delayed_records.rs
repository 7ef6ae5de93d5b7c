//! Delayed records, as the admin port shows them.

use crate::admin::{DelayedView, Unavailable};
use crate::engine::DelayedRecord;
use crate::model::{EntryId, Origin};
use crate::server::source::AdminSource;
use crate::server::source::dead_letter_reads::headers;

/// Bytes of records read for one page.
const PAGE_BYTES_MAX: u64 = 8 << 20;

impl AdminSource {
    pub(super) async fn put_off(
        &self,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<DelayedView>, Unavailable> {
        let after = after.map(EntryId);
        let found = self.router.engine.delayed(after, limit, PAGE_BYTES_MAX).await?;
        Ok(found.into_iter().filter_map(view).collect())
    }

    pub(super) async fn cancel(&self, records: Vec<Origin>) -> Result<Vec<bool>, Unavailable> {
        let cancelled = self.router.engine.cancel(records).await?;
        let count = cancelled.iter().filter(|was| **was).count();
        tracing::info!(cancelled = count, "an operator cancels delayed records");
        Ok(cancelled)
    }
}

/// `None` for a record that does not wait any longer.
fn view(DelayedRecord { entry, record, bytes }: DelayedRecord) -> Option<DelayedView> {
    let (origin, due) = (entry.origin.as_ref()?, entry.due()?);
    let view = DelayedView {
        id: origin.to_string(),
        number: entry.id.0,
        topic: origin.topic.to_string(),
        partition: origin.partition,
        due_ms: due.0,
        bytes,
        ..DelayedView::default()
    };
    let record = match record {
        Ok(record) => record,
        Err(why) => return Some(DelayedView { unreadable: Some(why.to_string()), ..view }),
    };
    Some(DelayedView {
        timestamp_ms: Some(record.timestamp_ms),
        headers: headers(&record.headers),
        key: record.key.map(|key| key.to_vec()),
        value: record.value.map(|value| value.to_vec()),
        ..view
    })
}
