//! Retries and delayed records: lists, one with its record, and nacks of the admin port.

use crate::api::{DelayedView, RecordStage, RetryView, Selector};
use crate::engine::{DelayedRecord, EngineError};
use crate::model::{EntryId, GroupId, Origin, WallMs};
use crate::operations::records::{
    LOOKED_AT_MAX, PIECE, RecordDetail, Selected, facts, has_bytes, level,
};
use crate::operations::{Operations, Unavailable};
use crate::retry::{Disposition, Entry, NackOutcome, RetryState};
use crate::route::nacks::admin_nack::{AdminNack, PostRefusal};
use crate::wire::batch::RawRecord;

/// Bytes of records read for one page.
const PAGE_BYTES_MAX: u64 = 8 << 20;

impl Operations {
    /// Retries of a group that are not final and that a selector admits, by id, those after the id
    /// `after`.
    pub async fn retries(
        &self,
        group: &str,
        selector: &Selector,
        after: Option<i64>,
        limit: usize,
    ) -> Result<Selected<RetryView>, Unavailable> {
        let (engine, group) = (&self.router.engine, &GroupId::new(group));
        let mut after = after.and_then(|after| u64::try_from(after).ok()).map(EntryId);
        let mut found = Selected { items: Vec::new(), looked_at: 0, bytes: 0, next: None };
        loop {
            // Without a condition each retry is an item.
            let room = limit - found.items.len();
            let most = if selector.is_narrow() { PIECE } else { PIECE.min(room) };
            let entries = engine.page(group, after, most).await?;
            let views = self.retry_views(group, &entries).await?;
            let (is_end, now) = (entries.len() < most, self.router.clock.now().wall);
            for (entry, view) in entries.iter().zip(views) {
                after = Some(entry.id);
                found.looked_at += 1;
                let is_admitted = selector.admits(&facts(entry, view.state), now);
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

    /// Retries of a group that wait, by due time and id, those after `after`. At most 256.
    pub async fn waiting(
        &self,
        group: &str,
        after: Option<(i64, u64)>,
        limit: usize,
    ) -> Result<Vec<RetryView>, Unavailable> {
        let group = &GroupId::new(group);
        if group.is_reserved() {
            return Ok(Vec::new());
        }
        let after = after.map(|(due, id)| (WallMs(due), EntryId(id)));
        let found = self.router.engine.due_page(group, after, limit).await?;
        self.retry_views(group, &found).await
    }

    /// A retry that is not final, with its record.
    pub async fn retry(
        &self,
        group: &str,
        id: u64,
    ) -> Result<Option<RecordDetail<RetryView>>, Unavailable> {
        let group = &GroupId::new(group);
        let found = self.router.engine.entry_record(group, EntryId(id)).await?;
        let Some((entry, stored)) = found.filter(|_| !group.is_reserved()) else {
            return Ok(None);
        };
        let record = RawRecord::parse(&stored).map_err(EngineError::from)?;
        let history = history(&entry);
        let row = self.retry_views(group, &[entry]).await?.pop();
        Ok(row.map(|row| RecordDetail::of(row, history, record)))
    }

    /// The retries of these entries.
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

    /// Delayed records by number, those after the number `after`, with their numbers. Bounded in
    /// bytes as well.
    pub async fn delayed(
        &self,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<(u64, RecordDetail<DelayedView>)>, Unavailable> {
        let after = after.map(EntryId);
        let found = self.router.engine.delayed(after, limit, PAGE_BYTES_MAX).await?;
        Ok(found.into_iter().filter_map(delayed_view).collect())
    }

    /// Cancels these delayed records; returns those that were still waiting. Durable on return.
    pub async fn cancel_delayed(&self, records: Vec<Origin>) -> Result<Vec<bool>, Unavailable> {
        let cancelled = self.router.engine.cancel(records).await?;
        let count = cancelled.iter().filter(|was| **was).count();
        tracing::info!(cancelled = count, "an operator cancels delayed records");
        Ok(cancelled)
    }

    /// Records a nack of the admin port; durable on return.
    pub async fn nack(&self, nack: AdminNack) -> Result<Option<NackOutcome>, PostRefusal> {
        let (group, record) = (nack.group.clone(), nack.record.clone());
        let outcome = self.router.post(nack).await;
        match &outcome {
            Ok(outcome) => {
                tracing::info!(%group, %record, ?outcome, "the admin port was told of a failure");
            }
            Err(refusal) => {
                tracing::info!(%group, %record, %refusal, "a nack by the admin port is refused");
            }
        }
        outcome
    }
}

/// A retry; `refusal`: the reason why a due one is blocked.
fn retry_view(entry: &Entry, refusal: Option<String>, now: WallMs) -> RetryView {
    let state = match entry.state {
        RetryState::Waiting { due, .. } if due > now => RecordStage::Waiting,
        RetryState::Waiting { .. } if refusal.is_some() => RecordStage::Blocked,
        RetryState::Waiting { .. } => RecordStage::Due,
        RetryState::Released { .. } => RecordStage::Unread,
        RetryState::Blocked { .. } => RecordStage::Blocked,
        RetryState::Dead { .. } => RecordStage::Dead,
        RetryState::Committed { .. }
        | RetryState::Discarded { .. }
        | RetryState::Discarding { .. } => RecordStage::Discarded,
    };
    let disposition = match entry.state {
        RetryState::Blocked { disposition, .. } => Some(disposition),
        _ => entry.disposition,
    };
    RetryView {
        id: entry.id.0,
        group: entry.group.to_string(),
        origin: entry.origin.as_ref().map(ToString::to_string),
        state,
        reconsume_times: entry.reconsume_times,
        max_reconsume_times: entry.max_reconsume_times,
        level: level(entry),
        due_ms: entry.due().map(|due| due.0),
        first_failed_ms: entry.first_failed.map(|at| at.0),
        last_failed_ms: entry.last_failed.map(|at| at.0),
        cause: disposition.map(|word| word.as_str().to_owned()),
        error: entry.reason.clone(),
        refusal: refusal.filter(|_| state == RecordStage::Blocked),
        key_shape: Some(entry.key_shape().to_owned()),
        size: entry.size_class().to_owned(),
    }
}

/// Times and causes of the last failures of an entry.
pub(super) fn history(entry: &Entry) -> Vec<(i64, String)> {
    let cause = |(at, cause): &(WallMs, Disposition)| (at.0, cause.as_str().to_owned());
    entry.history.iter().map(cause).collect()
}

/// `None` for a record that does not wait any longer.
fn delayed_view(found: DelayedRecord) -> Option<(u64, RecordDetail<DelayedView>)> {
    let DelayedRecord { entry, record, bytes } = found;
    let (origin, due) = (entry.origin.as_ref()?, entry.due()?);
    let row = DelayedView {
        id: origin.to_string(),
        topic: origin.topic.to_string(),
        partition: origin.partition,
        due_ms: due.0,
        bytes,
        ..DelayedView::default()
    };
    let stored = match record {
        Ok(record) => {
            let timestamp_ms = Some(record.timestamp_ms);
            let value_bytes = record.value.as_ref().map(bytes::Bytes::len);
            let row = DelayedView { timestamp_ms, value_bytes, ..row };
            RecordDetail::of(row, Vec::new(), record)
        }
        Err(why) => RecordDetail {
            row: DelayedView { unreadable: Some(why.to_string()), ..row },
            ..RecordDetail::default()
        },
    };
    Some((entry.id.0, stored))
}
