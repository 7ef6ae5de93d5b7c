//! A dead letter's headers, read back from its topic.

use crate::model::Origin;
use crate::wire::batch::Headers;
use crate::wire::mark::request::text;
use crate::wire::mark::{
    DELIVERY, DISPOSITION, FIRST_FAILED, HISTORY, HistoryItem, LAST_FAILED, MAX_RECONSUME_TIMES,
    ORIGIN_MESSAGE_ID, REASON, RECONSUME_TIME, REDRIVE_COUNT, RETRIES_MAX,
};

/// Most failures read from the history of one dead letter.
const HISTORY_MAX: usize = 64;

/// The headers of a dead letter, as far as they can be read: anybody may write to its topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LetterHeaders {
    pub origin: Option<Origin>,
    pub reconsume_times: u32,
    /// Number of the last delivery.
    pub delivery: Option<u32>,
    pub max_reconsume_times: u32,
    pub disposition: Option<String>,
    pub reason: Option<String>,
    pub first_failed_ms: Option<i64>,
    pub last_failed_ms: Option<i64>,
    pub redrives: u32,
    /// The latest failures, latest last.
    pub history: Vec<HistoryItem>,
}

/// Reads the headers of a dead letter; the last header of a name counts.
pub fn read_letter(headers: &Headers) -> LetterHeaders {
    let time = |name| number(headers, name).filter(|ms| *ms > 0);
    let history = text(headers, HISTORY).unwrap_or_default();
    let items = history.rsplit(';').take(HISTORY_MAX).filter_map(item);
    let mut history: Vec<HistoryItem> = items.collect();
    history.reverse();
    LetterHeaders {
        origin: text(headers, ORIGIN_MESSAGE_ID).and_then(|text| text.parse().ok()),
        reconsume_times: number(headers, RECONSUME_TIME).unwrap_or(0),
        delivery: number(headers, DELIVERY).filter(|delivery| *delivery <= RETRIES_MAX),
        max_reconsume_times: number(headers, MAX_RECONSUME_TIMES).unwrap_or(0),
        disposition: text(headers, DISPOSITION),
        reason: text(headers, REASON),
        first_failed_ms: time(FIRST_FAILED),
        last_failed_ms: time(LAST_FAILED),
        redrives: number(headers, REDRIVE_COUNT).unwrap_or(0),
        history,
    }
}

fn number<N: std::str::FromStr>(headers: &Headers, name: &str) -> Option<N> {
    text(headers, name)?.parse().ok()
}

fn item(text: &str) -> Option<HistoryItem> {
    let (at_ms, disposition) = text.split_once(':')?;
    Some(HistoryItem { at_ms: at_ms.parse().ok()?, disposition: disposition.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::mark::answer::tests::dead;
    use crate::wire::mark::{MarkInput, mark_headers};

    #[test]
    fn a_dead_letter_is_read_back_as_it_was_written() {
        let written = MarkInput { redrive_count: 2, ..dead() };
        let read = read_letter(&Headers::NONE.with(&mark_headers(&written)));
        let expected = LetterHeaders {
            origin: written.origin,
            reconsume_times: 17,
            delivery: Some(16),
            max_reconsume_times: 16,
            disposition: Some(written.disposition),
            reason: written.reason,
            first_failed_ms: Some(1_000),
            last_failed_ms: Some(2_000),
            redrives: 2,
            history: written.dead_letter.unwrap().history,
        };
        assert_eq!(read, expected);
    }

    #[test]
    fn forged_headers_of_a_dead_letter_are_bounded() {
        let long = "5:x;".repeat(10_000) + "7:y;rubbish;:;9:z";
        let headers = Headers::NONE.with(&[
            ("x-retry-history", long.as_str()),
            ("ORIGIN_MESSAGE_ID", "orders"),
            ("RECONSUME_TIME", "-4"),
            ("x-retry-first-failed-ms", "0"),
        ]);
        let read = read_letter(&headers);
        assert!(read.history.len() <= HISTORY_MAX);
        assert_eq!(read.history.last().map(|item| item.at_ms), Some(9));
        let plain = (read.origin, read.reconsume_times, read.first_failed_ms);
        assert_eq!(plain, (None, 0, None));
    }
}
