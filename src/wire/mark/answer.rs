//! Text headers of a redelivered or dead-lettered record.

use crate::model::{GroupId, Origin};
use crate::wire::mark::{
    DELIVERY, DISPOSITION, FIRST_FAILED, HISTORY, LAST_FAILED, MAX_RECONSUME_TIMES,
    ORIGIN_MESSAGE_ID, REASON, REASON_BYTES_MAX, RECONSUME_TIME, REDRIVE_COUNT, RETRY_TOPIC, cut,
};

/// Bound of the sidecar's headers of one record, names and values together.
pub const MARK_BYTES_MAX: usize = 4096;

/// Input of all the sidecar's headers of one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkInput {
    /// Failures so far; for a dead letter the last one included.
    pub reconsume_times: u32,
    /// The limit in force; negative = none.
    pub max_reconsume_times: i32,
    /// Origin of the record; `None` for one that began as a delayed record.
    pub origin: Option<Origin>,
    /// 1-based delivery attempt.
    pub attempt: u32,
    /// Number of this delivery; on a dead letter that of the last one, or 0.
    pub delivery: u32,
    /// Cause in one word: `rejected`, `max_attempts` or `explicit_dlq`.
    pub disposition: String,
    /// The application's reason, if it gave one.
    pub reason: Option<String>,
    /// Time at which this delivery was due, Unix ms; `None` on a dead letter.
    pub due_ms: Option<i64>,
    /// Time of the first failure, Unix ms.
    pub first_failed_ms: i64,
    /// Time of the last failure, Unix ms.
    pub last_failed_ms: i64,
    /// Number of redrives of the dead letter.
    pub redrive_count: u32,
    /// Only on dead letters.
    pub dead_letter: Option<DeadLetterMark>,
}

/// Additional fields of a dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetterMark {
    /// The group whose retries of the record are used up.
    pub group: GroupId,
    /// Deliveries in all.
    pub delivery_count: u32,
    /// The application's reason, or the cause as a sentence.
    pub message: String,
    /// Oldest first; omitted as a whole when the budget does not hold it.
    pub history: Vec<HistoryItem>,
}

/// One failure in `x-retry-history`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryItem {
    /// Time of the failure, Unix ms.
    pub at_ms: i64,
    /// Cause in one word: `rejected`, `max_attempts` or `explicit_dlq`.
    pub disposition: String,
}

/// The headers to set, in a fixed order, within [`MARK_BYTES_MAX`]. Over the budget the history is
/// dropped first, then the texts are shortened; counts and origin always stay.
pub fn mark_headers(mark: &MarkInput) -> Vec<(&'static str, String)> {
    let mut headers = required(mark);
    let texts = texts(mark);
    let mut left = MARK_BYTES_MAX.saturating_sub(headers.iter().map(bytes_of).sum());
    for (name, text) in texts {
        let room = left.saturating_sub(name.len()).min(REASON_BYTES_MAX);
        let header = (name, cut(&text, room).to_owned());
        if !header.1.is_empty() {
            left = left.saturating_sub(bytes_of(&header));
            headers.push(header);
        }
    }
    let items = mark.dead_letter.iter().flat_map(|dead| &dead.history);
    let history: Vec<String> =
        items.map(|item| format!("{}:{}", item.at_ms, item.disposition)).collect();
    let header = (HISTORY, history.join(";"));
    if !history.is_empty() && bytes_of(&header) <= left {
        headers.push(header);
    }
    headers
}

fn required(mark: &MarkInput) -> Vec<(&'static str, String)> {
    let mut headers = vec![
        (RECONSUME_TIME, mark.reconsume_times.to_string()),
        (MAX_RECONSUME_TIMES, mark.max_reconsume_times.to_string()),
    ];
    if let Some(origin) = &mark.origin {
        headers.push((RETRY_TOPIC, origin.topic.to_string()));
        headers.push((ORIGIN_MESSAGE_ID, origin.to_string()));
    }
    headers.push(("x-retry-attempt", mark.attempt.to_string()));
    headers.push((DELIVERY, mark.delivery.to_string()));
    headers.push((DISPOSITION, mark.disposition.clone()));
    if let Some(due_ms) = mark.due_ms {
        headers.push(("x-retry-due-ms", due_ms.to_string()));
    }
    headers.push((FIRST_FAILED, mark.first_failed_ms.to_string()));
    headers.push((LAST_FAILED, mark.last_failed_ms.to_string()));
    headers.push((REDRIVE_COUNT, mark.redrive_count.to_string()));
    if let Some(dead) = &mark.dead_letter {
        if let Some(origin) = &mark.origin {
            headers.push(("__dlq.errors.topic", origin.topic.to_string()));
            headers.push(("__dlq.errors.partition", origin.partition.to_string()));
            headers.push(("__dlq.errors.offset", origin.offset.to_string()));
        }
        headers.push(("__dlq.errors.group", dead.group.to_string()));
        headers.push(("__dlq.errors.delivery.count", dead.delivery_count.to_string()));
    }
    headers
}

fn texts(mark: &MarkInput) -> Vec<(&'static str, String)> {
    let reason = mark.reason.clone().map(|reason| (REASON, reason));
    let message =
        mark.dead_letter.as_ref().map(|dead| ("__dlq.errors.message", dead.message.clone()));
    reason.into_iter().chain(message).collect()
}

fn bytes_of((name, value): &(&'static str, String)) -> usize {
    name.len() + value.len()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::wire::mark::is_ours;

    pub(in crate::wire::mark) fn dead() -> MarkInput {
        MarkInput {
            reconsume_times: 17,
            max_reconsume_times: 16,
            origin: Some("orders-3@812".parse().unwrap()),
            attempt: 17,
            delivery: 16,
            disposition: "max_attempts".into(),
            reason: Some("stock is empty".into()),
            due_ms: None,
            first_failed_ms: 1_000,
            last_failed_ms: 2_000,
            redrive_count: 0,
            dead_letter: Some(DeadLetterMark {
                group: "shop".into(),
                delivery_count: 17,
                message: "max_attempts: stock is empty".into(),
                history: (0..17)
                    .map(|i| HistoryItem { at_ms: 1_000 + i, disposition: "rejected".into() })
                    .collect(),
            }),
        }
    }

    fn value<'a>(headers: &'a [(&'static str, String)], name: &str) -> Option<&'a str> {
        headers.iter().find(|(own, _)| *own == name).map(|(_, value)| value.as_str())
    }

    #[test]
    fn a_dead_letter_carries_its_history_in_reserved_headers() {
        let headers = mark_headers(&dead());
        for (name, expected) in [
            ("RECONSUME_TIME", "17"),
            ("MAX_RECONSUME_TIMES", "16"),
            ("RETRY_TOPIC", "orders"),
            ("ORIGIN_MESSAGE_ID", "orders-3@812"),
            ("x-retry-attempt", "17"),
            ("x-retry-disposition", "max_attempts"),
            ("x-retry-reason", "stock is empty"),
            ("x-retry-first-failed-ms", "1000"),
            ("x-retry-last-failed-ms", "2000"),
            ("x-retry-redrive-count", "0"),
            ("__dlq.errors.topic", "orders"),
            ("__dlq.errors.partition", "3"),
            ("__dlq.errors.offset", "812"),
            ("__dlq.errors.group", "shop"),
            ("__dlq.errors.delivery.count", "17"),
            ("__dlq.errors.message", "max_attempts: stock is empty"),
        ] {
            assert_eq!(value(&headers, name), Some(expected), "{name}");
        }
        assert!(value(&headers, HISTORY).unwrap().starts_with("1000:rejected;1001:rejected"));
        assert!(headers.iter().all(|(name, _)| is_ours(name.as_bytes())));
        assert_eq!(value(&headers, "x-retry-due-ms"), None);
    }

    #[test]
    fn over_budget_the_history_goes_first_and_the_counts_stay() {
        let mut mark = dead();
        mark.reason = Some("r".repeat(5_000));
        if let Some(dead) = &mut mark.dead_letter {
            dead.message = "m".repeat(5_000);
            dead.history.extend_from_within(..);
            dead.history.extend_from_within(..);
            dead.history.extend_from_within(..);
        }
        let headers = mark_headers(&mark);
        assert!(headers.iter().map(bytes_of).sum::<usize>() <= MARK_BYTES_MAX);
        assert_eq!(value(&headers, HISTORY), None);
        assert_eq!(value(&headers, "x-retry-reason").map(str::len), Some(1024));
        assert_eq!(value(&headers, "RECONSUME_TIME"), Some("17"));
    }

    #[test]
    fn a_redelivery_carries_its_due_time_without_dead_letter_headers() {
        let mark = MarkInput { dead_letter: None, due_ms: Some(1_500), ..dead() };
        let headers = mark_headers(&mark);
        assert_eq!(value(&headers, "x-retry-due-ms"), Some("1500"));
        assert!(headers.iter().all(|(name, _)| !name.starts_with("__dlq")));
    }
}
