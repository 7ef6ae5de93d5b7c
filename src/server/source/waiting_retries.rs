//! Retries for the admin port: lists, and one retry with its record.

use crate::admin::{RetryRecord, RetryView, Selected, Unavailable};
use crate::api::{RecordStage, Selector};
use crate::engine::EngineError;
use crate::model::{EntryId, GroupId, WallMs};
use crate::retry::Entry;
use crate::server::source::AdminSource;
use crate::server::source::dead_letter_reads::headers;
use crate::server::source::retry_list::{history, retry_view};
use crate::server::source::selection::{LOOKED_AT_MAX, PIECE, facts, has_bytes};
use crate::wire::batch::RawRecord;

impl AdminSource {
    /// Retries of a group that are not final, by id, those after the id `after`.
    pub(super) async fn selected_retries(
        &self,
        group: &GroupId,
        selector: &Selector,
        after: Option<i64>,
        limit: usize,
    ) -> Result<Selected<RetryView>, Unavailable> {
        let engine = &self.router.engine;
        let mut after = after.and_then(|after| u64::try_from(after).ok()).map(EntryId);
        let mut found = Selected { items: Vec::new(), looked_at: 0, bytes: 0, next: None };
        loop {
            // Without a condition each retry is an item.
            let room = limit - found.items.len();
            let most = if selector.is_narrow() { PIECE } else { PIECE.min(room) };
            let entries = engine.page(group, after, most).await?;
            let views = self.retry_views(group, &entries).await?;
            let (is_end, now) = (entries.len() < most, self.router.clock.now().wall);
            for (entry, (view, state)) in entries.iter().zip(views) {
                after = Some(entry.id);
                found.looked_at += 1;
                let is_admitted = selector.admits(&facts(entry, state), now);
                if is_admitted && self.has_record(selector, entry).await {
                    found.items.push(view);
                }
                if found.items.len() == limit || found.looked_at >= LOOKED_AT_MAX {
                    found.next = i64::try_from(entry.id.0).ok();
                    return Ok(found);
                }
            }
            if is_end {
                return Ok(found);
            }
        }
    }

    /// Whether a selector admits the bytes of a retry. A condition on bytes that cannot be read is
    /// not met.
    async fn has_record(&self, selector: &Selector, entry: &Entry) -> bool {
        if !selector.needs_bytes() {
            return true;
        }
        let found = self.router.engine.entry_record(&entry.group, entry.id).await;
        let Ok(Some((_, stored))) = found else { return false };
        RawRecord::parse(&stored).is_ok_and(|record| has_bytes(selector, &record))
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
        let views = self.retry_views(group, &found).await?;
        Ok(views.into_iter().map(|(view, _)| view).collect())
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
        Ok(views.into_iter().next().map(|(retry, _)| RetryRecord {
            retry,
            history,
            timestamp_ms: record.timestamp_ms,
            headers: headers(&record.headers),
            key: record.key.map(|key| key.to_vec()),
            value: record.value.map(|value| value.to_vec()),
            ..RetryRecord::default()
        }))
    }

    /// The retries of these entries, with their states.
    async fn retry_views(
        &self,
        group: &GroupId,
        entries: &[Entry],
    ) -> Result<Vec<(RetryView, RecordStage)>, Unavailable> {
        let mut blocked = self.router.engine.blocked(group).await?;
        let now = self.router.clock.now().wall;
        let view = |entry: &Entry| retry_view(entry, blocked.remove(&entry.id), now);
        Ok(entries.iter().map(view).collect())
    }
}
