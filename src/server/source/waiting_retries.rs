//! Retries for the admin port: lists, and one retry with its record.

use crate::admin::{RetryRecord, RetryView, Unavailable};
use crate::engine::EngineError;
use crate::model::{EntryId, GroupId, WallMs};
use crate::retry::Entry;
use crate::server::source::AdminSource;
use crate::server::source::dead_letter_reads::headers;
use crate::server::source::retry_list::{history, retry_view};
use crate::wire::batch::RawRecord;

impl AdminSource {
    /// Retries of a group that are not final, by id.
    pub(super) async fn listed_retries(
        &self,
        group: &GroupId,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<RetryView>, Unavailable> {
        let after = after.map(EntryId);
        let found = self.router.engine.page(group, after, limit).await?;
        self.retry_views(group, &found).await
    }

    /// Retries of a group that wait, by due time and id.
    pub(super) async fn due(
        &self,
        group: &GroupId,
        after: Option<(WallMs, EntryId)>,
        limit: usize,
    ) -> Result<Vec<RetryView>, Unavailable> {
        if group.is_reserved() {
            return Ok(Vec::new());
        }
        let found = self.router.engine.due_page(group, after, limit).await?;
        self.retry_views(group, &found).await
    }

    /// A retry with its record.
    pub(super) async fn retry_record(
        &self,
        group: &GroupId,
        id: EntryId,
    ) -> Result<Option<RetryRecord>, Unavailable> {
        let found = self.router.engine.entry_record(group, id).await?;
        let Some((entry, stored)) = found.filter(|_| !group.is_reserved()) else {
            return Ok(None);
        };
        let record = RawRecord::parse(&stored).map_err(EngineError::from)?;
        let history = history(&entry);
        let views = self.retry_views(group, &[entry]).await?;
        Ok(views.into_iter().next().map(|retry| RetryRecord {
            retry,
            history,
            timestamp_ms: record.timestamp_ms,
            headers: headers(&record.headers),
            key: record.key.map(|key| key.to_vec()),
            value: record.value.map(|value| value.to_vec()),
            ..RetryRecord::default()
        }))
    }

    async fn retry_views(
        &self,
        group: &GroupId,
        entries: &[Entry],
    ) -> Result<Vec<RetryView>, Unavailable> {
        let mut blocked = self.router.engine.blocked(group).await?;
        let now = self.router.clock.now().wall;
        let view = |entry: &Entry| retry_view(entry, blocked.remove(&entry.id), now);
        Ok(entries.iter().map(view).collect())
    }
}
