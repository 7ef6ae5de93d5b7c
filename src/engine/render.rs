//! Records as clients receive them: redelivered records and dead letters, with the sidecar's
//! headers.

use std::sync::Arc;

use bytes::Bytes;

use crate::journal::{Bounds, Journal, StreamId};
use crate::model::{GroupId, RetryPair, TopicName};
use crate::retry::{Disposition, Entry};
use crate::wire::batch::{RawRecord, build_batch};
use crate::wire::mark::{DeadLetterMark, HistoryItem, MarkInput, mark_headers};
use crate::wire::names::{Templates, dead_letter_stream};

/// The disposition of a delayed record that never failed.
const DELAYED: &str = "rejected";

/// Builds the records that clients receive.
#[derive(Clone, Debug)]
pub(super) struct Render {
    templates: Arc<Templates>,
}

impl Render {
    pub(super) fn new(templates: Templates) -> Self {
        Self { templates: Arc::new(templates) }
    }

    /// The retry topic of a pair.
    pub(super) fn retry_topic(&self, pair: &RetryPair) -> TopicName {
        self.templates.retry_topic(pair)
    }

    /// The headers of a delivery.
    #[expect(clippy::unused_self, reason = "one type builds everything a client receives")]
    pub(super) fn retry_headers(&self, entry: &Entry) -> Vec<(&'static str, String)> {
        mark_headers(&mark(entry, None))
    }

    /// The dead-letter topic of a group.
    pub(super) fn dead_letter_topic(&self, group: &GroupId) -> TopicName {
        self.templates.dlq_topic(group)
    }

    /// The journal's name for the stream of a group's dead letters; `broker` reads it.
    pub(super) fn dead_letter_stream(&self, group: &GroupId) -> String {
        dead_letter_stream(&self.dead_letter_topic(group))
    }

    /// The stream of a group's dead letters and its bounds; `None` if there are none.
    pub(super) fn dead_letters(
        &self,
        journal: &Journal,
        group: &GroupId,
    ) -> Option<(StreamId, Bounds)> {
        self.letters(journal, &self.dead_letter_topic(group))
    }

    /// The stream of a dead-letter topic and its bounds; `None` if it never had a dead letter.
    #[expect(clippy::unused_self, reason = "one type finds everything a client receives")]
    pub(super) fn letters(
        &self,
        journal: &Journal,
        topic: &TopicName,
    ) -> Option<(StreamId, Bounds)> {
        let stream = journal.stream_find(&dead_letter_stream(topic))?;
        Some((stream, journal.stream_bounds(stream)?))
    }

    /// The place of the dead letter journalled as entry `seq`, as `<topic>-0@<offset>`. The topic
    /// alone if the journal no longer has the offset.
    pub(super) fn dead_letter_place(&self, journal: &Journal, group: &GroupId, seq: u64) -> String {
        let topic = self.templates.dlq_topic(group);
        let stream = journal.stream_find(&self.dead_letter_stream(group));
        match stream.and_then(|stream| journal.stream_offset(stream, seq)) {
            Some(offset) => format!("{topic}-0@{offset}"),
            None => topic.to_string(),
        }
    }

    /// The batch of a dead letter, at offset 0; the journal assigns the offset.
    #[expect(clippy::unused_self, reason = "one type builds everything a client receives")]
    pub(super) fn dead_letter(&self, entry: &Entry, record: &RawRecord) -> Bytes {
        build_batch(0, record, &dead_letter_headers(entry))
    }

    /// The batch of a dead letter that somebody else wrote, at offset 0.
    #[expect(clippy::unused_self, reason = "one type builds everything a client receives")]
    pub(super) fn found_letter(&self, record: &RawRecord) -> Bytes {
        build_batch(0, record, &[])
    }
}

/// The headers of a dead letter.
pub fn dead_letter_headers(entry: &Entry) -> Vec<(&'static str, String)> {
    let word = entry.disposition.map_or(DELAYED, Disposition::as_str);
    let message = entry.reason.clone().unwrap_or_else(|| match entry.disposition {
        Some(Disposition::MaxAttempts) => {
            format!("failed {} times, the limit of retries", entry.reconsume_times)
        }
        Some(Disposition::ExplicitDlq) => "the application asked for the dead letters".to_owned(),
        _ => word.to_owned(),
    });
    let history = entry
        .history
        .iter()
        .map(|(at, why)| HistoryItem { at_ms: at.0, disposition: why.as_str().to_owned() })
        .collect();
    let dead = DeadLetterMark {
        group: entry.group.clone(),
        delivery_count: entry.reconsume_times,
        message,
        history,
    };
    mark_headers(&mark(entry, Some(dead)))
}

fn mark(entry: &Entry, dead_letter: Option<DeadLetterMark>) -> MarkInput {
    MarkInput {
        reconsume_times: entry.reconsume_times,
        max_reconsume_times: i32::try_from(entry.max_reconsume_times).unwrap_or(i32::MAX),
        origin: entry.origin.clone(),
        attempt: if dead_letter.is_some() { entry.reconsume_times } else { entry.attempt() },
        delivery: if dead_letter.is_some() { entry.handouts } else { entry.newest_delivery() },
        disposition: entry.disposition.map_or(DELAYED, Disposition::as_str).to_owned(),
        reason: entry.reason.clone(),
        due_ms: dead_letter.is_none().then_some(entry.last_due).flatten().map(|due| due.0),
        first_failed_ms: entry.first_failed.map_or(0, |at| at.0),
        last_failed_ms: entry.last_failed.map_or(0, |at| at.0),
        redrive_count: entry.redrives,
        dead_letter,
    }
}
